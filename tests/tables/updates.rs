//! Rows that stay in their buffers from step to step: only what changed is written, and nothing stale stays.

use super::*;
use pagestamp::table::{BlockTable, RowMark, TableRow, TokenTable};
use proptest::prelude::*;

fn update<M: PageMemory>(pool: &PagePool<M>, row: &mut [i32], kv: TableRow<'_, M>, mark: &mut RowMark) -> usize {
    let (pages, mut lens) = (row.len(), [0]);
    BlockTable::new(pool, row, pages, &mut lens).unwrap().update(0, kv, mark).unwrap()
}

// C5
#[test]
fn a_sequence_that_grew_writes_only_its_new_pages() {
    let pool = null(32);
    let mut kv = take(&pool, 1, 6 * P);
    let (mut row, mut mark) = ([-7; 8], RowMark::default());
    for (tokens, written) in [(5, 8), (6, 0), (8, 0), (9, 1), (17, 2), (17, 0)] {
        kv.assume_written(tokens).unwrap();
        assert_eq!(update(&pool, &mut row, kv.row(tokens), &mut mark), written, "{tokens} tokens");
    }
    assert_eq!(row[..5], cells(&kv)[..5]);
    assert_eq!(row[5..], [0; 3]);
    assert_eq!(update(&pool, &mut row, kv.row(4), &mut mark), 4, "what is not named any more is padding");
    assert_eq!(row[1..], [0; 7]);
}

// C4
#[test]
fn a_page_that_moved_is_written_anew_wherever_it_stands() {
    let pool = host(32);
    let mut kv = take(&pool, 1, 6 * P);
    kv.write(3 * P, &[&[7; 24]]).unwrap();
    let (mut row, mut mark) = ([-7; 6], RowMark::default());
    update(&pool, &mut row, kv.row(3 * P), &mut mark);
    let reader = pool.read(owner(1), kv.handle(1).unwrap()).unwrap();
    kv.truncate(5).unwrap();
    kv.write(4 * P - 5, &[&[8; 22]]).unwrap();
    drop(reader);
    assert_ne!(row[1], cells(&kv)[1]);
    assert_eq!(update(&pool, &mut row, kv.row(4 * P), &mut mark), 6);
    assert_eq!((row[..4].to_vec(), row[4..].to_vec()), (cells(&kv)[..4].to_vec(), vec![0; 2]));
}

// C4: another reservation, whose record and list were this one's.
#[test]
fn a_mark_is_of_one_reservation_and_of_no_other() {
    let (pool, other) = (null(32), null(32));
    let (mut row, mut mark) = ([-7; 4], RowMark::default());
    let kv = written(&pool, 1, 2 * P);
    update(&pool, &mut row, kv.row(2 * P), &mut mark);
    kv.release();
    let kv = written(&pool, 1, 3 * P);
    assert_eq!(update(&pool, &mut row, kv.row(3 * P), &mut mark), 4);
    let second = written(&pool, 1, 3 * P);
    assert_eq!(update(&pool, &mut row, second.row(3 * P), &mut mark), 4);
    assert_eq!(row[..3], cells(&second)[..]);
    let elsewhere = written(&other, 1, 3 * P);
    assert_eq!(update(&other, &mut row, elsewhere.row(3 * P), &mut mark), 4);
    let handles: Vec<_> = second.handles().collect();
    let of_handles = TableRow::of_handles(owner(1), &handles, 3 * P);
    assert_eq!(update(&pool, &mut row, of_handles, &mut mark), 4);
    assert_eq!(update(&pool, &mut row, of_handles, &mut mark), 4, "handles leave no mark");
}

// C8: what is refused leaves no mark behind, so that the next time the row is written whole.
#[test]
fn a_row_that_was_refused_is_written_whole_the_next_time() {
    let pool = null(32);
    let kv = written(&pool, 1, 2 * P);
    let (mut row, mut mark) = ([-7; 4], RowMark::default());
    update(&pool, &mut row, kv.row(2 * P), &mut mark);
    let stale = {
        let gone = written(&pool, 1, P);
        gone.handle(0).unwrap()
    };
    let mut lens = [0];
    let mut table = BlockTable::new(&pool, &mut row, 4, &mut lens).unwrap();
    table.update(0, TableRow::of_handles(owner(1), &[stale], P), &mut mark).unwrap_err();
    assert_eq!(mark, RowMark::default());
    assert_eq!(row, [0; 4]);
    assert_eq!(update(&pool, &mut row, kv.row(2 * P), &mut mark), 4);
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64),
    Truncate(u64),
    Shrink(u64),
    Grow(u64),
    Slide(u64),
    Fork,
    Replace(u64),
    HoldReader(u32),
    DropReader,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..9_u64).prop_map(Op::Write), 3 => (0..40_u64).prop_map(Op::Truncate),
        2 => (0..40_u64).prop_map(Op::Shrink), 3 => (0..40_u64).prop_map(Op::Grow),
        1 => (0..40_u64).prop_map(Op::Slide), 1 => Just(Op::Fork), 1 => (1..20_u64).prop_map(Op::Replace),
        2 => (0..10_u32).prop_map(Op::HoldReader), 1 => Just(Op::DropReader)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    // C4, C5
    #[test]
    fn an_updated_row_is_what_a_row_written_whole_is(ops in proptest::collection::vec(op(), 1..60)) {
        let pool = host(64);
        let proof = pool.prove(CapacityPlan::new(40)).unwrap();
        let reserve = || pool.reserve(&proof, Request::new(owner(1), 40), 20).unwrap();
        let mut kv = reserve();
        let mut forks = Vec::new();
        let mut readers = Vec::new();
        let (mut row, mut mark) = ([-7; 10], RowMark::default());
        let (mut tokens, mut token_mark) = ([-7; 40], RowMark::default());
        for op in ops {
            match op {
                Op::Write(n) => drop(kv.write(n, &[&vec![n as u8; 2 * n as usize]])),
                Op::Truncate(to) => drop(kv.truncate(to)),
                Op::Shrink(to) => drop(kv.shrink(to)),
                Op::Grow(to) => drop(kv.grow(to)),
                Op::Slide(to) => drop(kv.slide(to)),
                Op::Fork if forks.len() > 2 => forks.clear(),
                Op::Fork => forks.extend(kv.fork(&proof, Request::new(owner(1), 40))),
                Op::Replace(n) => {
                    kv = reserve();
                    kv.write(n, &[&vec![1; 2 * n as usize]]).unwrap();
                }
                Op::HoldReader(at) => readers.extend(kv.handle(at).and_then(|page| pool.read(owner(1), page).ok())),
                Op::DropReader => drop(readers.pop()),
            }
            let named = kv.written_tokens();
            if named > 0 {
                update(&pool, &mut row, kv.row(named), &mut mark);
                let (mut whole, mut lens) = ([-7; 10], [0]);
                BlockTable::new(&pool, &mut whole, 10, &mut lens).unwrap().push(kv.row(named)).unwrap();
                prop_assert_eq!(row, whole);
                TokenTable::new(&pool, &mut tokens, 40).unwrap().update(0, kv.row(named), &mut token_mark).unwrap();
                let mut whole = [-7; 40];
                TokenTable::new(&pool, &mut whole, 40).unwrap().push(kv.row(named)).unwrap();
                prop_assert_eq!(tokens, whole);
            }
        }
    }
}
