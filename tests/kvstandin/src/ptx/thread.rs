//! One thread of a launch: its registers, and what an instruction does to them and to memory.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::instruction::{
    Action, Address, Atomic, Compare, Kernel, One, Operand, Register, Space, Special, Two, Width,
};
use crate::space::{self, Fault, Region};

/// What the threads of a block have in common.
pub(super) struct Block<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) space: &'a space::Space,
    pub(super) parameters: Words,
    pub(super) shared: Words,
    pub(super) block: [u32; 3],
    pub(super) blocks: [u32; 3],
    pub(super) threads: [u32; 3],
    /// The region of the last access: most accesses follow one another.
    pub(super) last: Option<Region>,
}

/// Bytes of a block, aligned as its accesses need it.
pub(super) struct Words {
    words: Vec<u64>,
    bytes: usize,
}

impl Words {
    pub(super) fn of_bytes(bytes: usize, fill: u8) -> Self {
        Self { words: vec![u64::from_ne_bytes([fill; 8]); bytes.div_ceil(8)], bytes }
    }

    pub(super) fn from(bytes: &[u8]) -> Self {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Self { words: words.collect(), bytes: bytes.len() }
    }

    fn find(&mut self, address: u64, bytes: u64) -> Option<*mut u8> {
        let region = Region { start: 0, bytes: self.bytes as u64, host: self.words.as_mut_ptr().cast() };
        region.find(address, bytes)
    }
}

/// Where a thread came to a stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Barrier,
    End,
}

pub(super) struct Thread<'a> {
    pub(super) registers: &'a mut [u64],
    pub(super) thread: [u32; 3],
}

impl Thread<'_> {
    /// Executes from `at` to the next barrier or the end. Takes what it executes off the budget.
    pub(super) fn run(&mut self, block: &mut Block<'_>, at: &mut usize, budget: &mut u64) -> Result<Stop, Fault> {
        loop {
            *budget = budget.checked_sub(1).ok_or(Fault::Runaway)?;
            let instruction = block.kernel.code[*at];
            *at += 1;
            if let Some(guard) = instruction.guard
                && (self.registers[usize::from(guard.predicate)] != 0) != guard.wanted
            {
                continue;
            }
            match instruction.action {
                Action::Branch { target } => *at = target,
                Action::Barrier => return Ok(Stop::Barrier),
                Action::Return => return Ok(Stop::End),
                Action::Fence => {}
                action => self.act(block, action)?,
            }
        }
    }

    fn act(&mut self, block: &mut Block<'_>, action: Action) -> Result<(), Fault> {
        match action {
            Action::Load { space, bytes, count, to, at } => {
                let from = self.place(block, space, at, u64::from(bytes) * u64::from(count))?;
                for (i, register) in to.iter().take(usize::from(count)).enumerate() {
                    let value = load(from.wrapping_add(i * usize::from(bytes)), bytes);
                    self.set(*register, value);
                }
            }
            Action::Store { space, bytes, count, from, at } => {
                let to = self.place(block, space, at, u64::from(bytes) * u64::from(count))?;
                for (i, value) in from.iter().take(usize::from(count)).enumerate() {
                    store(to.wrapping_add(i * usize::from(bytes)), bytes, self.get(block, *value));
                }
            }
            Action::Atomic { operation, space, bytes, to, at, value } => {
                let place = self.place(block, space, at, u64::from(bytes))?;
                let value = self.get(block, value);
                let old = load(place, bytes);
                let new = match operation {
                    Atomic::Add => old.wrapping_add(value),
                    Atomic::Minimum => old.min(value),
                    Atomic::Exchange => value,
                    Atomic::Xor => old ^ value,
                };
                store(place, bytes, new);
                self.set(to, old);
            }
            Action::One { operation, width, to, a } => {
                let a = self.get(block, a);
                self.set(
                    to,
                    width.cut(match operation {
                        One::Move => a,
                        One::Not => !a,
                        One::Negate => a.wrapping_neg(),
                    }),
                );
            }
            Action::Two { operation, width, to, a, b } => {
                let (a, b) = (width.cut(self.get(block, a)), width.cut(self.get(block, b)));
                self.set(to, width.cut(two(operation, width, a, b)));
            }
            Action::MultiplyWide { to, a, b } => {
                let (a, b) = (Width::Bits32.cut(self.get(block, a)), Width::Bits32.cut(self.get(block, b)));
                self.set(to, a * b);
            }
            Action::MultiplyAdd { width, to, a, b, c } => {
                let (a, b, c) = (self.get(block, a), self.get(block, b), self.get(block, c));
                self.set(to, width.cut(a.wrapping_mul(b).wrapping_add(c)));
            }
            Action::Float { operation, to, from } => {
                let from = from.map(|operand| self.get(block, operand) as u32);
                self.set(to, operation.of(from).into());
            }
            Action::Set { compare, width, to, a, b } => {
                let (a, b) = (width.cut(self.get(block, a)), width.cut(self.get(block, b)));
                self.set(to, u64::from(compare.holds(a, b)));
            }
            Action::Select { width, to, a, b, predicate } => {
                let chosen = if self.registers[usize::from(predicate)] != 0 { a } else { b };
                self.set(to, width.cut(self.get(block, chosen)));
            }
            // `run` keeps these to itself.
            Action::Branch { .. } | Action::Barrier | Action::Fence | Action::Return => {}
        }
        Ok(())
    }

    #[inline]
    fn set(&mut self, register: Register, value: u64) {
        self.registers[usize::from(register)] = value;
    }

    #[inline]
    fn get(&self, block: &Block<'_>, operand: Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.registers[usize::from(register)],
            Operand::Value(value) => value,
            Operand::Special(special) => u64::from(match special {
                Special::Thread(axis) => self.thread[axis],
                Special::Threads(axis) => block.threads[axis],
                Special::Block(axis) => block.block[axis],
                Special::Blocks(axis) => block.blocks[axis],
            }),
        }
    }

    /// Where an access of `bytes` bytes goes.
    fn place(&self, block: &mut Block<'_>, space: Space, at: Address, bytes: u64) -> Result<*mut u8, Fault> {
        let address = self.get(block, at.base).wrapping_add(at.offset);
        if !address.is_multiple_of(bytes) {
            return Err(Fault::Misaligned { address });
        }
        let unmapped = Fault::Unmapped { address };
        match space {
            Space::Global => {
                if let Some(place) = block.last.and_then(|region| region.find(address, bytes)) {
                    return Ok(place);
                }
                block.last = block.space.region(address);
                block.last.and_then(|region| region.find(address, bytes)).ok_or(unmapped)
            }
            Space::Shared => block.shared.find(address, bytes).ok_or(unmapped),
            Space::Parameter => block.parameters.find(address, bytes).ok_or(unmapped),
        }
    }
}

fn two(operation: Two, width: Width, a: u64, b: u64) -> u64 {
    match operation {
        Two::Add => a.wrapping_add(b),
        Two::Subtract => a.wrapping_sub(b),
        Two::Multiply => a.wrapping_mul(b),
        Two::And => a & b,
        Two::Or => a | b,
        Two::Xor => a ^ b,
        // PTX clamps what it shifts by; all bits are gone then.
        Two::ShiftLeft => {
            if b < width.bits() {
                a << b
            } else {
                0
            }
        }
        Two::ShiftRight => {
            if b < width.bits() {
                a >> b
            } else {
                0
            }
        }
        Two::Minimum => a.min(b),
    }
}

impl Compare {
    fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Compare::Equal => a == b,
            Compare::NotEqual => a != b,
            Compare::Less => a < b,
            Compare::LessOrEqual => a <= b,
            Compare::Greater => a > b,
            Compare::GreaterOrEqual => a >= b,
        }
    }
}

/// Reads 1, 4 or 8 bytes. Atomically: the host may look at pinned memory meanwhile.
fn load(from: *const u8, bytes: u8) -> u64 {
    let from = from.cast_mut();
    match bytes {
        // SAFETY: `place` found that many bytes there, aligned to them; `Space::insert` (1) makes them valid.
        1 => u64::from(unsafe { AtomicU8::from_ptr(from) }.load(Ordering::Relaxed)),
        // SAFETY: as above.
        4 => u64::from(unsafe { AtomicU32::from_ptr(from.cast()) }.load(Ordering::Relaxed)),
        // SAFETY: as above.
        _ => unsafe { AtomicU64::from_ptr(from.cast()) }.load(Ordering::Relaxed),
    }
}

/// Writes the low 1, 4 or 8 bytes of a value.
fn store(to: *mut u8, bytes: u8, value: u64) {
    match bytes {
        // SAFETY: as in `load`.
        1 => unsafe { AtomicU8::from_ptr(to) }.store(value as u8, Ordering::Relaxed),
        // SAFETY: as in `load`.
        4 => unsafe { AtomicU32::from_ptr(to.cast()) }.store(value as u32, Ordering::Relaxed),
        // SAFETY: as in `load`.
        _ => unsafe { AtomicU64::from_ptr(to.cast()) }.store(value, Ordering::Release),
    }
}
