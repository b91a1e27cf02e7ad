//! One launch of one kernel over one arena, and what must be there afterwards.

use kvstandin::ptx::{Launch, Module, Order};
use kvstandin::space::{Fault, Region, Space};

use crate::arena::{self, Arena};
use crate::rng::Rng;
use crate::{check, pages};

#[derive(Clone)]
pub struct Round {
    pub kernel: &'static str,
    pub seed: u64,
    pub blocks: [u32; 3],
    pub threads: u32,
    pub arguments: Vec<u8>,
    pub before: Arena,
    /// By the model.
    pub after: Arena,
}

type Make = fn(&mut Rng) -> Round;

/// How many rounds, of what.
const ROUNDS: [(u64, Make); 6] = [
    (300, pages::clean),
    (50, pages::stamp),
    (800, check::check),
    (200, pages::copy),
    (200, pages::digest),
    (1, pages::digest_large),
];

/// All rounds, the same every time.
pub fn all() -> impl Iterator<Item = Round> {
    ROUNDS.into_iter().zip(0..).flat_map(|((rounds, make), kernel)| {
        (0..rounds).map(move |seed| Round { seed, ..make(&mut Rng::new(seed << 8 | kernel)) })
    })
}

/// Memory that rounds are run in, one after another.
#[derive(Default)]
pub struct Bench {
    /// As aligned as the arena is.
    memory: Vec<u128>,
}

impl Bench {
    /// What the interpreter leaves, and how many instructions it took.
    pub fn run(&mut self, round: &Round, module: &Module, order: Order, budget: u64) -> Result<(&[u8], u64), Fault> {
        let bytes = &round.before.bytes;
        self.memory.clear();
        self.memory.extend(bytes.chunks_exact(16).map(|it| u128::from_ne_bytes(it.try_into().expect("16 bytes"))));
        let mut space = Space::default();
        let host = self.memory.as_mut_ptr().cast();
        // SAFETY: (1) `self.memory` outlives `space`, and stays as it is. (2) It is the only region.
        unsafe { space.insert(Region { start: arena::base(), bytes: bytes.len() as u64, host }) };
        let launch = Launch {
            blocks: round.blocks,
            threads: [round.threads, 1, 1],
            parameters: round.arguments.clone(),
            order,
            budget,
        };
        let instructions = launch.run(module.kernel(round.kernel).expect("every kernel is there"), &space)?;
        // SAFETY: as many bytes as were put there, and nobody writes them any more.
        let left = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), bytes.len()) };
        Ok((left, instructions))
    }
}

impl Round {
    /// Compares all bytes with the model's.
    pub fn compare(&self, after: &[u8], who: &str) {
        if let Some(at) = (0..after.len()).find(|at| after[*at] != self.after.bytes[*at]) {
            assert_eq!(after.len(), self.after.bytes.len(), "all bytes of the arena");
            let (expected, before) = (self.after.bytes[at], self.before.bytes[at]);
            panic!(
                "{} of seed {}, {who}: byte {at} was {before:#04x}, must be {expected:#04x}, is {:#04x}",
                self.kernel, self.seed, after[at]
            );
        }
    }
}
