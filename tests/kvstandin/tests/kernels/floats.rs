//! Each instruction on numbers with a fraction, alone, by the bits that it makes.

use kvstandin::ptx::{Launch, Module, Order};
use kvstandin::space::{Region, Space};

const NAN: u32 = 0x7FFF_FFFF;

/// Executes an instruction on `%f1`, `%f2`, `%f3`; answers `%f4`.
fn execute(instruction: &str, numbers: [u32; 3]) -> u32 {
    let text = format!(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry alone(
    .param .u64 alone_param_0
)
{{
    .reg .f32 %f<5>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [alone_param_0];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1+4];
    ld.global.f32 %f3, [%rd1+8];
    {instruction};
    st.global.f32 [%rd1+12], %f4;
    ret;
}}
"
    );
    let module = Module::parse(&text).expect("every instruction is known");
    let words = [numbers[0], numbers[1], numbers[2], 0xA5A5_A5A5].map(u32::to_le_bytes).concat();
    let mut memory = u128::from_le_bytes(words.try_into().expect("16 bytes"));
    let mut space = Space::default();
    let host = (&raw mut memory).cast();
    // SAFETY: (1) `memory` outlives `space`. (2) It is the only region.
    unsafe { space.insert(Region { start: 4096, bytes: 16, host }) };
    let parameters = 4096u64.to_le_bytes().to_vec();
    let launch = Launch { blocks: [1; 3], threads: [1; 3], parameters, order: Order::Forward, budget: 100 };
    launch.run(module.kernel("alone").expect("the kernel"), &space).expect("no access fails");
    // SAFETY: the memory is there, and nobody writes it any more; the device wrote it behind the compiler's back.
    let left = unsafe { (&raw const memory).read_volatile() };
    (left >> 96) as u32
}

#[test]
fn each_instruction_on_floats_makes_the_bits_that_ptx_says() {
    let bits = f32::to_bits;
    let (zero, minus_zero, infinity) = (bits(0.0), bits(-0.0), bits(f32::INFINITY));
    let tiny = 1; // the smallest denormal
    for (instruction, numbers, expected) in [
        ("mov.f32 %f4, %f2", [1, 2, 3], 2),
        ("mov.f32 %f4, 0f3FB8AA3B", [0; 3], 0x3FB8_AA3B),
        ("sub.f32 %f4, %f1, %f2", [bits(1.5), bits(0.25), 0], bits(1.25)),
        ("sub.f32 %f4, %f1, %f2", [tiny, tiny << 1, 0], tiny | 1 << 31),
        ("sub.f32 %f4, %f1, %f2", [infinity, infinity, 0], NAN),
        ("mul.f32 %f4, %f1, %f2", [bits(3.0), bits(-0.5), 0], bits(-1.5)),
        ("mul.f32 %f4, %f1, 0f40000000", [tiny, 0, 0], 2),
        ("div.rn.f32 %f4, %f1, %f2", [bits(1.0), bits(3.0), 0], 0x3EAA_AAAB),
        ("div.rn.f32 %f4, %f1, %f2", [zero, zero, 0], NAN),
        ("max.f32 %f4, %f1, %f2", [bits(-2.0), bits(-1.0), 0], bits(-1.0)),
        ("max.f32 %f4, %f1, %f2", [bits(3.0), bits(-1.0), 0], bits(3.0)),
        ("max.f32 %f4, %f1, %f2", [minus_zero, zero, 0], zero),
        ("max.f32 %f4, %f1, %f2", [zero, minus_zero, 0], zero),
        ("max.f32 %f4, %f1, %f2", [0x7FC0_0001, bits(-7.0), 0], bits(-7.0)),
        ("max.f32 %f4, %f1, %f2", [0x7FC0_0001, 0xFFC0_0002, 0], NAN),
        // rounded once: the square of 1 + 2^-12 has a bit that a product rounded before would lack
        (
            "fma.rn.f32 %f4, %f1, %f1, %f2",
            [0x3F80_0800, bits(-1.0), 0],
            bits(f32::powi(2.0, -11) + f32::powi(2.0, -24)),
        ),
        ("fma.rn.f32 %f4, %f1, %f2, %f3", [bits(2.0), bits(3.0), bits(4.0)], bits(10.0)),
        ("ex2.approx.f32 %f4, %f1", [bits(3.0), 0, 0], bits(8.0)),
        ("ex2.approx.f32 %f4, %f1", [minus_zero, 0, 0], bits(1.0)),
        ("ex2.approx.f32 %f4, %f1", [bits(f32::NEG_INFINITY), 0, 0], zero),
        ("ex2.approx.f32 %f4, %f1", [0xFFC0_0002, 0, 0], NAN),
    ] {
        let made = execute(instruction, numbers);
        assert_eq!(made, expected, "{instruction} of {numbers:#010x?} made {made:#010x}, not {expected:#010x}");
    }
}

#[test]
fn instructions_on_floats_with_other_operands_or_another_rounding_are_refused() {
    let text = include_str!("../../../../examples/gpu_incident/reader.ptx");
    assert!(Module::parse(text).is_ok());
    for (known, other) in [
        ("sub.f32", "sub.rz.f32"),
        ("mul.f32", "mul.ftz.f32"),
        ("div.rn.f32", "div.approx.f32"),
        ("fma.rn.f32", "fma.rz.f32"),
        ("max.f32", "max.NaN.f32"),
        ("max.f32", "ex2.approx.f32"),
        ("ex2.approx.f32", "max.f32"),
        ("0f3FB8AA3B", "0f3FB8AA3"),
        ("0f3FB8AA3B", "0f+FB8AA3B"),
        ("0f3FB8AA3B", "0d3FB8AA3B00000000"),
    ] {
        assert!(text.contains(known), "{known}");
        assert!(Module::parse(&text.replace(known, other)).is_err(), "{other} for {known} is taken");
    }
}
