//! A launch: every block, every thread, to the end.

use super::instruction::Kernel;
use super::thread::{Block, Stop, Thread, Words};
use crate::space::{Fault, Space};

/// In which order blocks and threads come on, and what they find in their registers. A right kernel does the same in
/// every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The first first.
    Forward,
    /// The last first.
    Backward,
}

impl Order {
    /// Item `i` of `count`, in this order.
    fn item(self, i: usize, count: usize) -> usize {
        match self {
            Order::Forward => i,
            Order::Backward => count - 1 - i,
        }
    }

    /// What a register holds that nobody wrote: more than any address, or less.
    fn unwritten(self) -> u64 {
        match self {
            Order::Forward => 0xA5A5_A5A5_A5A5_A5A5,
            Order::Backward => 0,
        }
    }
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Blocks in x, y, z.
    pub blocks: [u32; 3],
    /// Threads of a block in x, y, z.
    pub threads: [u32; 3],
    /// The parameters, laid out as the kernel reads them ([`Kernel::read_parameters`]).
    pub parameters: Vec<u8>,
    /// In which order.
    pub order: Order,
    /// Instructions of all threads together, after which the launch is given up.
    pub budget: u64,
}

impl Launch {
    /// Instructions that no launch of a test needs.
    pub const BUDGET: u64 = 1 << 34;

    /// Executes a kernel. Blocks run one after another, threads from barrier to barrier. Answers how many instructions that
    /// took.
    ///
    /// # Errors
    ///
    /// The first access that fails, or [`Fault::Runaway`]; what was stored before stays.
    ///
    /// # Panics
    ///
    /// If the parameters are not as many bytes as the kernel's.
    pub fn run(&self, kernel: &Kernel, space: &Space) -> Result<u64, Fault> {
        assert_eq!(self.parameters.len(), kernel.parameter_bytes, "parameters of another kernel");
        let threads = self.threads.iter().map(|&n| n as usize).product::<usize>();
        let blocks = self.blocks.iter().map(|&n| n as usize).product::<usize>();
        let mut budget = self.budget;
        let mut registers = vec![0; threads * kernel.registers];
        // Where each thread goes on, until it has ended.
        let mut places: Vec<Option<usize>> = vec![None; threads];
        let mut block = Block {
            kernel,
            space,
            parameters: Words::from(&self.parameters),
            shared: Words::of_bytes(0, 0),
            block: [0; 3],
            blocks: self.blocks,
            threads: self.threads,
            last: None,
        };
        for i in 0..blocks {
            block.block = coordinates(self.order.item(i, blocks), self.blocks);
            block.shared = Words::of_bytes(kernel.shared_bytes, 0xA5);
            // Nobody may count on what a register begins with.
            registers.fill(self.order.unwritten());
            places.fill(Some(0));
            while places.iter().any(Option::is_some) {
                for j in 0..threads {
                    let number = self.order.item(j, threads);
                    let Some(at) = &mut places[number] else { continue };
                    let mut thread = Thread {
                        registers: &mut registers[number * kernel.registers..][..kernel.registers],
                        thread: coordinates(number, self.threads),
                    };
                    if thread.run(&mut block, at, &mut budget)? == Stop::End {
                        places[number] = None;
                    }
                }
            }
        }
        Ok(self.budget - budget)
    }
}

fn coordinates(number: usize, counts: [u32; 3]) -> [u32; 3] {
    let (x, y) = (counts[0] as usize, counts[1] as usize);
    [number % x, number / x % y, number / x / y].map(|at| at as u32)
}
