//! Instructions as they are executed: registers by number, labels by position.

use super::float::Float;

/// A kernel, ready to run.
#[derive(Debug)]
pub struct Kernel {
    pub(super) name: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) parameter_bytes: usize,
    pub(super) shared_bytes: usize,
    pub(super) registers: usize,
    pub(super) code: Vec<Instruction>,
}

impl Kernel {
    /// The name of its entry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of each parameter, in order.
    pub fn parameters(&self) -> impl Iterator<Item = usize> {
        self.parameters.iter().map(|parameter| parameter.bytes)
    }

    /// Lays the parameters out as the kernel reads them.
    ///
    /// # Safety
    ///
    /// 1. `values` points to one pointer per parameter, each to as many bytes as that parameter has.
    #[must_use]
    pub unsafe fn read_parameters(&self, values: *const *const u8) -> Vec<u8> {
        let mut block = vec![0; self.parameter_bytes];
        for (i, parameter) in self.parameters.iter().enumerate() {
            // SAFETY: (1): there is a pointer for each parameter.
            let value = unsafe { *values.add(i) };
            let to = &mut block[parameter.offset..][..parameter.bytes];
            // SAFETY: (1): it points to that many bytes; `to` is our own.
            unsafe { std::ptr::copy_nonoverlapping(value, to.as_mut_ptr(), parameter.bytes) };
        }
        block
    }
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) guard: Option<Guard>,
    pub(super) action: Action,
}

/// `@%p` or `@!%p`: the instruction is executed where the predicate is `wanted`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    pub(super) predicate: Register,
    pub(super) wanted: bool,
}

pub(super) type Register = u16;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(Register),
    /// A number, or the address of a shared variable.
    Value(u64),
    Special(Special),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
}

/// Bits that an operation works on; predicates are one bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    Bit,
    Bits16,
    Bits32,
    Bits64,
}

impl Width {
    #[inline]
    pub(super) fn cut(self, value: u64) -> u64 {
        match self {
            Width::Bit => value & 1,
            Width::Bits16 => value & 0xFFFF,
            Width::Bits32 => value & 0xFFFF_FFFF,
            Width::Bits64 => value,
        }
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Width::Bit => 1,
            Width::Bits16 => 16,
            Width::Bits32 => 32,
            Width::Bits64 => 64,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// Device and pinned memory; generic addresses are of this kind too, as no kernel makes one of shared memory.
    Global,
    Shared,
    Parameter,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Operand,
    pub(super) offset: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Two {
    Add,
    Subtract,
    Multiply,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Minimum,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum One {
    Move,
    Not,
    Negate,
}

/// Comparisons are unsigned, or of equality.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Atomic {
    Add,
    Minimum,
    Exchange,
    Xor,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// `bytes` is of one element; the access is aligned to all `count` of them.
    Load {
        space: Space,
        bytes: u8,
        count: u8,
        to: [Register; 4],
        at: Address,
    },
    Store {
        space: Space,
        bytes: u8,
        count: u8,
        from: [Operand; 4],
        at: Address,
    },
    Atomic {
        operation: Atomic,
        space: Space,
        bytes: u8,
        to: Register,
        at: Address,
        value: Operand,
    },
    One {
        operation: One,
        width: Width,
        to: Register,
        a: Operand,
    },
    Two {
        operation: Two,
        width: Width,
        to: Register,
        a: Operand,
        b: Operand,
    },
    /// 32 bits by 32 to 64.
    MultiplyWide {
        to: Register,
        a: Operand,
        b: Operand,
    },
    MultiplyAdd {
        width: Width,
        to: Register,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// As many operands as the operation takes, then zeroes.
    Float {
        operation: Float,
        to: Register,
        from: [Operand; 3],
    },
    Set {
        compare: Compare,
        width: Width,
        to: Register,
        a: Operand,
        b: Operand,
    },
    Select {
        width: Width,
        to: Register,
        a: Operand,
        b: Operand,
        predicate: Register,
    },
    Branch {
        target: usize,
    },
    Barrier,
    /// One thread at a time executes, and memory is one: every fence holds already.
    Fence,
    Return,
}
