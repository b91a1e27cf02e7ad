//! Rows and buffers that are refused, each by its own error, and what stands in the buffers then.

use super::*;
use pagestamp::table::{
    BlockTable, CsrTable, SlotMapping, SlotPadding, StampedEntry, StampedTable, TableRow, TokenTable,
};
use pagestamp::{HolderId, ReadError, RowError, StepError, TableError};

fn refused<M: PageMemory>(pool: &PagePool<M>, row: TableRow<'_, M>) -> RowError {
    let (mut blocks, mut lens) = ([-7; 8], [-7; 1]);
    let error = BlockTable::new(pool, &mut blocks, 8, &mut lens).unwrap().push(row).unwrap_err();
    assert_eq!(lens, [-7]);
    assert!(blocks.iter().all(|cell| *cell == -7 || *cell == 0), "{error}: {blocks:?} names a page of somebody");
    let (mut indptr, mut indices, mut last) = ([-7; 2], [-7; 8], [-7; 1]);
    let mut table = CsrTable::new(pool, &mut indptr, &mut indices, &mut last).unwrap();
    assert_eq!(table.push(row), Err(error.clone()));
    assert_eq!((table.rows(), table.pages()), (0, 0));
    assert!(indices.iter().all(|cell| *cell == -7 || *cell == 0), "{error}: {indices:?} names a page of somebody");
    let (mut entries, mut offsets, mut owners) = ([StampedEntry::default(); 8], [9; 2], [9; 1]);
    let mut table = StampedTable::new(pool, &mut entries, &mut offsets, &mut owners).unwrap();
    assert_eq!(table.push(row), Err(error.clone()));
    assert_eq!((table.rows(), table.entries()), (0, 0));
    assert_eq!((entries, owners), ([StampedEntry::default(); 8], [9]));
    let mut tokens = [-7; 32];
    assert_eq!(TokenTable::new(pool, &mut tokens, 32).unwrap().push(row), Err(error.clone()));
    let TableError::Row { row: 0, source } = error else { panic!("{error}") };
    source
}

// C5
#[test]
fn tokens_that_are_neither_written_nor_pending_under_the_step_stand_in_no_table() {
    let pool = null(32);
    let mut kv = take(&pool, 1, 4 * P);
    kv.assume_written(5).unwrap();
    let unwritten = |to_tokens, readable_tokens| RowError::Unwritten { to_tokens, readable_tokens };
    assert_eq!(refused(&pool, kv.row(6)), unwritten(6, 5));
    assert_eq!(refused(&pool, kv.row(u64::MAX)), unwritten(u64::MAX, 5));
    assert_eq!(refused(&pool, kv.row(0)), RowError::NoTokens);
    let (step, next, idle) = (pool.open_step(), pool.open_step(), pool.open_step());
    kv.export(&step, 2).unwrap();
    kv.export(&next, 3).unwrap();
    assert_eq!(refused(&pool, kv.row(6)), unwritten(6, 5), "pending, and the step is not named");
    assert_eq!(refused(&pool, kv.row(6).under(&idle)), unwritten(6, 5));
    assert_eq!(refused(&pool, kv.row(8).under(&step)), unwritten(8, 7), "the next step's tokens");
    assert_eq!(refused(&pool, kv.row(11).under(&next)), unwritten(11, 10));
    let (mut blocks, mut lens) = ([-7; 4], [-7; 1]);
    BlockTable::new(&pool, &mut blocks, 4, &mut lens).unwrap().push(kv.row(10).under(&next)).unwrap();
    let ended = step.id();
    end(&pool, step);
    assert_eq!(refused(&pool, kv.row(10).under(&next)), StepError::Over(ended).into());
    assert_eq!(cells(&kv)[..3], blocks[..3]);
    end(&pool, next);
    end(&pool, idle);
}

// C2, C4
#[test]
fn a_row_of_handles_is_checked_page_by_page() {
    let (pool, other) = (null(32), null(32));
    let kv = written(&pool, 1, 3 * P);
    let gone = written(&pool, 1, P);
    let (mine, stale) = (kv.handles().collect::<Vec<_>>(), gone.handle(0).unwrap());
    drop(gone);
    let foreign = written(&pool, 2, P);
    let elsewhere = written(&other, 1, P);
    let partial = {
        let mut kv = take(&pool, 1, P);
        kv.assume_written(3).unwrap();
        kv
    };
    let of = |who: u64, handles: &[_], tokens| refused(&pool, TableRow::of_handles(owner(who), handles, tokens));
    let page = |error: RowError| match error {
        RowError::Page { position, source } => (position, source),
        other => panic!("{other}"),
    };
    let at = |at: usize, handle| {
        let mut handles = mine.clone();
        handles[at] = handle;
        handles
    };
    assert!(matches!(page(of(1, &at(1, stale), 3 * P)), (1, ReadError::Stale { .. })));
    let expected = (2, ReadError::ForeignOwner { page: foreign.handle(0).unwrap().index(), asked_owner: owner(1) });
    assert_eq!(page(of(1, &at(2, foreign.handle(0).unwrap()), 3 * P)), expected);
    assert!(matches!(page(of(2, &mine, 3 * P)), (0, ReadError::ForeignOwner { .. })));
    assert!(matches!(page(of(1, &at(0, elsewhere.handle(0).unwrap()), 3 * P)), (0, ReadError::ForeignPool { .. })));
    let partial_page = partial.handle(0).unwrap();
    let unwritten = ReadError::Unwritten { to_tokens: 4, written_tokens: 3 };
    assert_eq!(page(of(1, &at(0, partial_page), 3 * P)), (0, unwritten.clone()), "before the last page");
    assert_eq!(page(of(1, &at(2, partial_page), 3 * P)), (2, unwritten));
    let (mut blocks, mut lens) = ([-7; 3], [-7; 1]);
    let row = at(2, partial_page);
    let row = TableRow::of_handles(owner(1), &row, 2 * P + 3);
    BlockTable::new(&pool, &mut blocks, 3, &mut lens).unwrap().push(row).unwrap();
    assert_eq!(of(1, &mine, 3 * P + 1), RowError::Handles { given: 3, needed: 4 });
    assert_eq!(of(1, &mine, P), RowError::Handles { given: 3, needed: 1 });
    assert_eq!(of(1, &[], u64::MAX), RowError::Handles { given: 0, needed: u64::MAX.div_ceil(P) });
    for bit in 0..128 {
        let forged = pagestamp::PageHandle::from_bits(mine[1].to_bits() ^ 1 << bit);
        if let Some(forged) = forged.filter(|forged| *forged != mine[0] && *forged != mine[2]) {
            page(of(1, &at(1, forged), 3 * P));
        }
    }
}

// C5, C12
#[test]
fn a_page_under_an_outside_writer_stands_in_no_table() {
    let pool = null(32);
    let mut kv = written(&pool, 1, 3 * P);
    let handles: Vec<_> = kv.handles().collect();
    let ticket = kv.pin_write(1..2, HolderId(1), None).unwrap();
    let busy = RowError::Page { position: 1, source: ReadError::Busy { page: handles[1].index() } };
    assert_eq!(refused(&pool, kv.row(2 * P)), busy);
    assert_eq!(refused(&pool, TableRow::of_handles(owner(1), &handles, 3 * P)), busy);
    let (mut blocks, mut lens) = ([-7; 8], [-7; 1]);
    BlockTable::new(&pool, &mut blocks, 8, &mut lens).unwrap().push(kv.row(P)).unwrap();
    // SAFETY: (1) nobody writes under it.
    unsafe { pool.ticket_done(ticket) }.unwrap();
}

// C2, C4
#[test]
fn rows_of_other_pools_and_of_reclaimed_owners_are_refused() {
    let (pool, other) = (null(32), null(32));
    let (here, there) = (written(&pool, 1, P), written(&other, 1, P));
    let foreign = RowError::ForeignPool { expected: pool.id(), found: other.id() };
    assert_eq!(refused(&pool, there.row(P)), foreign);
    let step = other.open_step();
    assert_eq!(refused(&pool, here.row(P + 1).under(&step)), StepError::Unknown(step.id()).into());
    let mut slots = [0_i64; 4];
    let mut table = SlotMapping::new(&pool, &mut slots).unwrap();
    let error = table.push(&here, &step).unwrap_err();
    assert_eq!(error, TableError::Row { row: 0, source: StepError::Unknown(step.id()).into() });
    end(&other, step);
    pool.reclaim(owner(1));
    assert_eq!(refused(&pool, here.row(P)), RowError::Revoked);
}

// C5, C12: what is written is not written again.
#[test]
fn only_what_a_step_writes_has_slots() {
    let pool = null(32);
    let mut kv = written(&pool, 1, P);
    kv.grow(P).unwrap();
    let step = pool.open_step();
    let mut slots = [-7_i64; 2];
    let mut table = SlotMapping::new(&pool, &mut slots).unwrap();
    let none = TableError::Row { row: 0, source: RowError::NotExported(step.id()) };
    assert_eq!(table.push(&kv, &step), Err(none.clone()));
    let mut more = take(&pool, 1, P);
    more.export(&step, 3).unwrap();
    let small = TableError::TooManyCells { row: 0, needed_cells: 3, room_cells: 2 };
    assert_eq!(table.push(&more, &step), Err(small));
    more.wrote(&step).unwrap();
    assert_eq!(table.push(&more, &step), Err(none));
    assert_eq!((table.used(), slots), (0, [-7; 2]));
    end(&pool, step);
}

#[test]
fn buffers_of_the_wrong_size_are_refused() {
    let pool = null(32);
    let (mut blocks, mut lens) = ([0; 7], [0; 2]);
    let shape = |buffer, given, expected| Some(TableError::Shape { buffer, given, expected });
    assert_eq!(BlockTable::new(&pool, &mut blocks, 4, &mut lens).err(), shape("block_table", 7, 8));
    let most = shape("block_table", 7, usize::MAX);
    assert_eq!(BlockTable::new(&pool, &mut blocks, usize::MAX, &mut lens).err(), most);
    assert_eq!(BlockTable::new(&pool, &mut blocks, 0, &mut lens).err(), Some(TableError::NoRows));
    assert_eq!(BlockTable::new(&pool, &mut [], 4, &mut []).err(), Some(TableError::NoRows));
    assert_eq!(CsrTable::new(&pool, &mut [0; 2], &mut [0; 4], &mut [0; 2]).err(), shape("kv_indptr", 2, 3));
    assert_eq!(CsrTable::new(&pool, &mut [0; 1], &mut [0; 4], &mut []).err(), Some(TableError::NoRows));
    assert_eq!(TokenTable::new(&pool, &mut [0; 7], 4).err(), shape("req_to_token", 7, 4));
    assert_eq!(SlotMapping::<_, i64>::new(&pool, &mut []).err(), Some(TableError::NoRows));
    let mut entries = [StampedEntry::default(); 2];
    assert_eq!(StampedTable::new(&pool, &mut entries, &mut [0; 2], &mut [0; 2]).err(), shape("row_offsets", 2, 3));
    assert_eq!(StampedTable::new(&pool, &mut entries, &mut [0; 1], &mut []).err(), Some(TableError::NoRows));
}

#[test]
fn rows_that_do_not_fit_are_refused_and_the_ones_before_stay() {
    let pool = null(32);
    let (short, long) = (written(&pool, 1, P), written(&pool, 1, 3 * P));
    let (mut blocks, mut lens) = ([-7; 4], [-7; 2]);
    let mut table = BlockTable::new(&pool, &mut blocks, 2, &mut lens).unwrap();
    table.push(short.row(P)).unwrap();
    let long_row = TableError::TooManyCells { row: 1, needed_cells: 3, room_cells: 2 };
    assert_eq!(table.push(long.row(3 * P)), Err(long_row));
    table.push(long.row(2 * P)).unwrap();
    assert_eq!(table.push(short.row(P)), Err(TableError::TooManyRows { row: 2, rows: 2 }));
    assert_eq!(table.rows(), 2);
    assert_eq!((lens, blocks[0]), ([4, 8], cells(&short)[0]));
    let (mut indptr, mut indices, mut last) = ([-7; 3], [-7; 3], [-7; 2]);
    let mut table = CsrTable::new(&pool, &mut indptr, &mut indices, &mut last).unwrap();
    table.push(short.row(P)).unwrap();
    let long_row = TableError::TooManyCells { row: 1, needed_cells: 3, room_cells: 2 };
    assert_eq!(table.push(long.row(3 * P)), Err(long_row));
    table.push(long.row(2 * P)).unwrap();
    assert_eq!(table.push(short.row(P)), Err(TableError::TooManyRows { row: 2, rows: 2 }));
    assert_eq!(indptr, [0, 1, 3]);
}

#[test]
fn a_pool_without_own_pages_pads_nothing() {
    let pool = without_own_pages(8);
    let mut kv = written(&pool, 1, 2 * P);
    let (mut blocks, mut lens) = ([-7; 4], [-7; 2]);
    let mut table = BlockTable::new(&pool, &mut blocks, 2, &mut lens).unwrap();
    assert_eq!(table.push(kv.row(P)), Err(TableError::NoPadding { row: 0 }));
    table.push(kv.row(2 * P)).unwrap();
    assert_eq!(table.finish(), Err(TableError::NoPadding { row: 1 }));
    assert_eq!((blocks[..2].to_vec(), &blocks[2..]), (cells(&kv), &[-7; 2][..]));
    let mut slots = [0_i64; 2];
    let table = SlotMapping::new(&pool, &mut slots).unwrap();
    assert_eq!(table.finish(SlotPadding::Sink), Err(TableError::NoPadding { row: 0 }));
    kv.slide(P).unwrap();
    let mut indices = [0; 2];
    let (mut indptr, mut last) = ([0; 2], [0; 1]);
    let slid = TableError::Row { row: 0, source: RowError::Slid { first_pages: 1 } };
    let mut table = CsrTable::new(&pool, &mut indptr, &mut indices, &mut last).unwrap();
    assert_eq!(table.push(kv.row(2 * P)), Err(slid));
}

#[test]
fn numbers_that_a_cell_cannot_hold_are_refused_before_any_row() {
    let geometry = PageGeometry::new(4096, &[Plane::per_token(1, 2)]).unwrap();
    let pages = 1 << 20;
    let pool = PagePool::new(PoolConfig::new(pages), NullMemory::new(geometry, pages).unwrap()).unwrap();
    let overflow = |largest| Some(TableError::Overflow { largest, most: i32::MAX as u64 });
    let largest = (u64::from(pages) << 12) - 1;
    assert_eq!(TokenTable::new(&pool, &mut [0; 8], 8).err(), overflow(largest));
    assert_eq!(SlotMapping::<_, i32>::new(&pool, &mut [0; 8]).err(), overflow(largest));
    assert!(SlotMapping::<_, i64>::new(&pool, &mut [0; 8]).is_ok());
    assert!(BlockTable::new(&pool, &mut [0; 8], 8, &mut [0; 1]).is_ok());
    // More tokens than `seq_lens` counts, in pages that it could name.
    let proof = pool.prove(CapacityPlan::new(1 << 31)).unwrap();
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 1 << 31), 1 << 31).unwrap();
    kv.assume_written(1 << 31).unwrap();
    let (mut blocks, mut lens) = (vec![-7; 1 << 19], [-7; 1]);
    let mut table = BlockTable::new(&pool, &mut blocks, 1 << 19, &mut lens).unwrap();
    assert_eq!(table.push(kv.row(1 << 31)).err(), overflow(1 << 31));
    table.push(kv.row((1 << 31) - 1)).unwrap();
    assert_eq!(lens, [i32::MAX]);
}
