//! The instructions that are known, each by its exact spelling.

use super::float::Float;
use super::instruction::{Atomic, Compare, One, Space, Two, Width};

/// What an instruction is, before its operands are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opcode {
    Load { space: Space, bytes: u8, count: u8 },
    Store { space: Space, bytes: u8, count: u8 },
    Atomic { operation: Atomic, space: Space, bytes: u8 },
    One { operation: One, width: Width },
    Two { operation: Two, width: Width },
    MultiplyWide,
    MultiplyAdd { width: Width },
    Float { operation: Float },
    Set { compare: Compare, width: Width },
    Select { width: Width },
    Branch,
    Barrier,
    Fence,
    Return,
}

use Width::{Bit, Bits16, Bits32, Bits64};

/// Reads an opcode; any that is not listed is `None`.
pub(super) fn read(spelling: &str) -> Option<Opcode> {
    let load = |space, bytes, count| Opcode::Load { space, bytes, count };
    let store = |space, bytes, count| Opcode::Store { space, bytes, count };
    let atomic = |operation, space, bytes| Opcode::Atomic { operation, space, bytes };
    let one = |operation, width| Opcode::One { operation, width };
    let two = |operation, width| Opcode::Two { operation, width };
    let float = |operation| Opcode::Float { operation };
    let set = |compare, width| Opcode::Set { compare, width };
    Some(match spelling {
        "ld.param.u64" => load(Space::Parameter, 8, 1),
        "ld.param.v2.u32" => load(Space::Parameter, 4, 2),
        "ld.u8" => load(Space::Global, 1, 1),
        "ld.u32" | "ld.global.u32" => load(Space::Global, 4, 1),
        "ld.global.u64" => load(Space::Global, 8, 1),
        "ld.global.v2.u32" => load(Space::Global, 4, 2),
        "ld.global.v2.u64" => load(Space::Global, 8, 2),
        "ld.v4.u32" => load(Space::Global, 4, 4),
        "ld.shared.u32" => load(Space::Shared, 4, 1),
        "st.u8" | "st.global.u8" => store(Space::Global, 1, 1),
        "st.global.u32" | "st.volatile.global.u32" => store(Space::Global, 4, 1),
        "st.global.u64" | "st.volatile.global.u64" => store(Space::Global, 8, 1),
        "st.global.v2.u32" => store(Space::Global, 4, 2),
        "st.global.v2.u64" => store(Space::Global, 8, 2),
        "st.v4.u32" => store(Space::Global, 4, 4),
        "st.shared.u32" => store(Space::Shared, 4, 1),
        "atom.global.add.u32" => atomic(Atomic::Add, Space::Global, 4),
        "atom.global.exch.b32" => atomic(Atomic::Exchange, Space::Global, 4),
        "atom.global.exch.b64" => atomic(Atomic::Exchange, Space::Global, 8),
        "atom.global.min.u64" => atomic(Atomic::Minimum, Space::Global, 8),
        "atom.shared.xor.b32" => atomic(Atomic::Xor, Space::Shared, 4),
        "mov.pred" => one(One::Move, Bit),
        "mov.u16" => one(One::Move, Bits16),
        "mov.u32" => one(One::Move, Bits32),
        "mov.u64" | "cvta.to.global.u64" => one(One::Move, Bits64),
        // To cut to 32 bits and to fill up with zeroes are one thing for registers that are always cut.
        "cvt.u32.u64" | "cvt.u64.u32" => one(One::Move, Bits32),
        "not.pred" => one(One::Not, Bit),
        "not.b32" => one(One::Not, Bits32),
        "neg.s32" => one(One::Negate, Bits32),
        "neg.s64" => one(One::Negate, Bits64),
        "add.s32" => two(Two::Add, Bits32),
        "add.s64" => two(Two::Add, Bits64),
        "sub.s32" => two(Two::Subtract, Bits32),
        "sub.s64" => two(Two::Subtract, Bits64),
        "mul.lo.s32" => two(Two::Multiply, Bits32),
        "mul.lo.s64" => two(Two::Multiply, Bits64),
        "and.pred" => two(Two::And, Bit),
        "and.b32" => two(Two::And, Bits32),
        "and.b64" => two(Two::And, Bits64),
        "or.pred" => two(Two::Or, Bit),
        "or.b64" => two(Two::Or, Bits64),
        "xor.pred" => two(Two::Xor, Bit),
        "xor.b32" => two(Two::Xor, Bits32),
        "xor.b64" => two(Two::Xor, Bits64),
        "shl.b32" => two(Two::ShiftLeft, Bits32),
        "shl.b64" => two(Two::ShiftLeft, Bits64),
        "shr.u32" => two(Two::ShiftRight, Bits32),
        "shr.u64" => two(Two::ShiftRight, Bits64),
        "min.u32" => two(Two::Minimum, Bits32),
        "min.u64" => two(Two::Minimum, Bits64),
        "mul.wide.u32" => Opcode::MultiplyWide,
        "mad.lo.s32" => Opcode::MultiplyAdd { width: Bits32 },
        "ld.global.f32" => load(Space::Global, 4, 1),
        "st.global.f32" => store(Space::Global, 4, 1),
        "mov.f32" => one(One::Move, Bits32),
        "sub.f32" => float(Float::Subtract),
        "mul.f32" => float(Float::Multiply),
        "div.rn.f32" => float(Float::Divide),
        "max.f32" => float(Float::Maximum),
        "fma.rn.f32" => float(Float::MultiplyAdd),
        "ex2.approx.f32" => float(Float::PowerOfTwo),
        "setp.eq.s32" => set(Compare::Equal, Bits32),
        "setp.eq.s64" | "setp.eq.b64" => set(Compare::Equal, Bits64),
        "setp.ne.s32" => set(Compare::NotEqual, Bits32),
        "setp.ne.s64" => set(Compare::NotEqual, Bits64),
        "setp.lt.u32" => set(Compare::Less, Bits32),
        "setp.lt.u64" => set(Compare::Less, Bits64),
        "setp.le.u32" => set(Compare::LessOrEqual, Bits32),
        "setp.le.u64" => set(Compare::LessOrEqual, Bits64),
        "setp.gt.u32" => set(Compare::Greater, Bits32),
        "setp.gt.u64" => set(Compare::Greater, Bits64),
        "setp.ge.u32" => set(Compare::GreaterOrEqual, Bits32),
        "setp.ge.u64" => set(Compare::GreaterOrEqual, Bits64),
        "selp.b32" => Opcode::Select { width: Bits32 },
        "selp.b64" => Opcode::Select { width: Bits64 },
        "bra" | "bra.uni" => Opcode::Branch,
        "bar.sync" => Opcode::Barrier,
        "membar.gl" | "membar.sys" => Opcode::Fence,
        "ret" => Opcode::Return,
        _ => return None,
    })
}
