//! The reader of the example `gpu_incident`: attention by its PTX is attention as plain Rust says it, bit by bit.

use kvstandin::ptx::{Launch, Module, Order};
use kvstandin::space::{Region, Space};

use crate::arena::{self, Arena, Fields};
use crate::rng::Rng;

const PTX: &str = include_str!("../../../../examples/gpu_incident/reader.ptx");
const HEAD: usize = 8;
const PAGE_TOKENS: usize = 4;

/// One launch, and what it leaves.
struct Case {
    blocks: [u32; 3],
    arguments: Vec<u8>,
    before: Arena,
    after: Arena,
}

fn floats(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.within(0, 6000) as f32 / 1000.0 - 3.0).collect()
}

fn place(arena: &mut Arena, numbers: &[f32]) -> u64 {
    arena.place(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
}

fn case(rng: &mut Rng) -> Case {
    let (rows, queries, row_cells, pages) =
        (rng.within(1, 3) as usize, rng.within(1, 3) as usize, rng.within(1, 4) as usize, rng.within(1, 6) as usize);
    let tokens = rng.within(1, (row_cells * PAGE_TOKENS) as u64) as usize;
    let (k, v) = (floats(rng, pages * PAGE_TOKENS * HEAD), floats(rng, pages * PAGE_TOKENS * HEAD));
    let q = floats(rng, queries * HEAD);
    let table: Vec<u32> = (0..rows * row_cells).map(|_| rng.u32(0, pages as u32 - 1)).collect();
    let mut arena = Arena::new(rng, 16 << 10);
    let mut arguments = Fields::default();
    for numbers in [&k, &v, &q] {
        arguments = arguments.u64(place(&mut arena, numbers));
    }
    arguments = arguments.u64(arena.place(&table.iter().flat_map(|page| page.to_le_bytes()).collect::<Vec<_>>()));
    let output = arena.room(rows * queries * HEAD * 4, 16, 0);
    let arguments = arguments.u64(output).u32(row_cells as u32).u32(tokens as u32).0;
    let before = arena.clone();
    for row in 0..rows {
        for query in 0..queries {
            let (mut most, mut sum, mut out) = (-1e30f32, 0.0f32, [0.0f32; HEAD]);
            for token in 0..tokens {
                let page = table[row * row_cells + token / PAGE_TOKENS] as usize;
                let at = (page * PAGE_TOKENS + token % PAGE_TOKENS) * HEAD;
                let score = (0..HEAD).fold(0.0f32, |score, i| q[query * HEAD + i].mul_add(k[at + i], score));
                let larger = most.max(score);
                let power = |by: f32| (by * std::f32::consts::LOG2_E).exp2();
                let (kept, weight) = (power(most - larger), power(score - larger));
                sum = sum.mul_add(kept, weight);
                for (out, v) in out.iter_mut().zip(&v[at..]) {
                    *out = out.mul_add(kept, weight * v);
                }
                most = larger;
            }
            let bytes: Vec<u8> = out.iter().flat_map(|out| (out / sum).to_le_bytes()).collect();
            arena.write(output + ((row * queries + query) * HEAD * 4) as u64, &bytes);
        }
    }
    Case { blocks: [rows as u32, queries as u32, 1], arguments, before, after: arena }
}

/// Says whether the kernel leaves what the case says. Such a small kernel in a wrong form may also run away or out of its
/// memory.
fn holds(case: &Case, module: &Module, order: Order) -> bool {
    let chunks = case.before.bytes.chunks_exact(16);
    let mut memory: Vec<u128> = chunks.map(|it| u128::from_ne_bytes(it.try_into().expect("16 bytes"))).collect();
    let mut space = Space::default();
    let region =
        Region { start: arena::base(), bytes: case.before.bytes.len() as u64, host: memory.as_mut_ptr().cast() };
    // SAFETY: (1) `memory` outlives `space`, and stays where it is. (2) It is the only region.
    unsafe { space.insert(region) };
    let (parameters, threads) = (case.arguments.clone(), [HEAD as u32, 1, 1]);
    let launch = Launch { blocks: case.blocks, threads, parameters, order, budget: 1 << 20 };
    let kernel = module.kernel("gpu_incident_read").expect("the kernel");
    launch.run(kernel, &space).is_ok()
        && memory.iter().flat_map(|it| it.to_ne_bytes()).eq(case.after.bytes.iter().copied())
}

#[test]
fn the_reader_of_the_example_is_attention_in_any_order_of_threads() {
    let module = Module::parse(PTX).expect("the PTX of the example is known");
    let mut rng = Rng::new(7);
    for number in 0..200 {
        let case = case(&mut rng);
        for order in [Order::Forward, Order::Backward] {
            assert!(holds(&case, &module, order), "case {number}, {order:?}");
        }
    }
}

#[test]
fn an_instruction_of_the_reader_that_is_another_is_noticed() {
    let mut rng = Rng::new(8);
    let cases: Vec<Case> = (0..20).map(|_| case(&mut rng)).collect();
    let mut mutants = 0;
    for (known, other) in [
        ("sub.f32", "mul.f32"),
        ("mul.f32", "sub.f32"),
        ("max.f32", "sub.f32"),
        ("div.rn.f32", "mul.f32"),
        ("ex2.approx.f32", "mov.f32"),
        ("0fF149F2CA", "0f00000000"),
        ("0f3FB8AA3B", "0f3F800000"),
        ("shr.u32", "shl.b32"),
        ("or.b64", "and.b64"),
        ("setp.lt.u32", "setp.le.u32"),
        ("setp.ne.s32", "setp.eq.s32"),
        ("add.s32", "sub.s32"),
        ("%nctaid.y", "%nctaid.x"),
        ("%ctaid.y", "%ctaid.x"),
    ] {
        for (at, _) in PTX.match_indices(known) {
            let text = format!("{}{other}{}", &PTX[..at], &PTX[at + known.len()..]);
            let module = Module::parse(&text).expect("the mutant is known");
            let line = PTX[..at].lines().count();
            assert!(cases.iter().any(|case| !holds(case, &module, Order::Forward)), "line {line}: {other} for {known}");
            mutants += 1;
        }
    }
    assert!(mutants >= 18, "{mutants} mutants");
}
