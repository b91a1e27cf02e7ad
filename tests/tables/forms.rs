//! What each form holds, for rows at and around the ends of pages.

use super::*;
use pagestamp::table::{
    BlockTable, CsrTable, SlotMapping, SlotPadding, StampedEntry, StampedTable, TableRow, TokenTable,
};

// C5
#[test]
fn a_block_table_names_the_pages_of_each_row_and_pads_with_the_null_page() {
    let pool = null(32);
    let batch: Vec<_> = [1, 3, 4, 5, 8, 9].iter().map(|tokens| written(&pool, 1, *tokens)).collect();
    let (mut block_table, mut seq_lens) = (vec![-7; 8 * 3], [-7; 8]);
    let mut table = BlockTable::new(&pool, &mut block_table, 3, &mut seq_lens).unwrap();
    for (row, kv) in (0..).zip(&batch) {
        assert_eq!(table.push(kv.row(kv.written_tokens())), Ok(row));
    }
    assert_eq!(table.finish(), Ok(6));
    assert_eq!(seq_lens, [1, 3, 4, 5, 8, 9, 0, 0]);
    for (row, kv) in block_table.chunks(3).zip(&batch) {
        let mut expected = cells(kv);
        expected.resize(3, 0);
        assert_eq!(row, expected);
    }
    assert_eq!(block_table[18..], [0; 6]);
}

// C5
#[test]
fn a_csr_table_says_where_each_row_begins_and_how_full_its_last_page_is() {
    let pool = null(32);
    let batch: Vec<_> = [1, 3, 4, 5, 8, 9].iter().map(|tokens| written(&pool, 1, *tokens)).collect();
    let (mut indptr, mut indices, mut last) = ([-7; 7], [-7; 12], [-7; 6]);
    let mut table = CsrTable::new(&pool, &mut indptr, &mut indices, &mut last).unwrap();
    for kv in &batch {
        table.push(kv.row(kv.written_tokens())).unwrap();
    }
    assert_eq!((table.rows(), table.pages()), (6, 10));
    assert_eq!(indptr, [0, 1, 2, 3, 5, 7, 10]);
    assert_eq!(last, [1, 3, 4, 1, 4, 1], "1 to a page's tokens, never 0");
    assert_eq!(indices[..10], batch.iter().flat_map(cells).collect::<Vec<i32>>());
    assert_eq!(indices[10..], [-7; 2], "what is not used stays");
}

// C5, C12: slots are those of pending tokens, and of no others.
#[test]
fn a_slot_mapping_names_what_a_step_writes_across_the_ends_of_pages() {
    let pool = null(32);
    let mut kv = take(&pool, 1, 5 * P);
    kv.assume_written(3).unwrap();
    let pages = cells(&kv);
    let slot = |token: i64| i64::from(pages[(token / 4) as usize]) * 4 + token % 4;
    let (step, next) = (pool.open_step(), pool.open_step());
    kv.export(&step, 6).unwrap();
    kv.export(&next, 1).unwrap();
    let mut slots = [-7_i64; 9];
    let mut table = SlotMapping::new(&pool, &mut slots).unwrap();
    assert_eq!((table.push(&kv, &step), table.push(&kv, &next), table.used()), (Ok(6), Ok(1), 7));
    assert_eq!(table.finish(SlotPadding::Sink), Ok(7));
    let expected: Vec<i64> = (3..10).map(slot).chain([4, 4]).collect();
    assert_eq!(slots[..], expected, "the sink is page 1");
    let mut narrow = [-7_i32; 9];
    let mut table = SlotMapping::new(&pool, &mut narrow).unwrap();
    table.push(&kv, &step).unwrap();
    table.finish(SlotPadding::Skip).unwrap();
    let expected: Vec<i32> = (3..9).map(|token| slot(token) as i32).chain([-1; 3]).collect();
    assert_eq!(narrow[..], expected);
    end(&pool, step);
    end(&pool, next);
}

// C5
#[test]
fn a_token_table_names_the_slot_of_each_token() {
    let pool = null(32);
    let kv = written(&pool, 1, 6);
    let mut table = [-7; 2 * 8];
    let mut rows = TokenTable::new(&pool, &mut table, 8).unwrap();
    rows.push(kv.row(6)).unwrap();
    rows.finish().unwrap();
    let pages = cells(&kv);
    let slots: Vec<i32> = (0..6).map(|token| pages[token / 4] * 4 + token as i32 % 4).collect();
    assert_eq!((&table[..6], &table[6..]), (&slots[..], &[0; 10][..]));
}

// C2, C4
#[test]
fn a_stamped_table_names_the_life_of_each_page_and_whose_it_is() {
    let pool = host(32);
    drop(written(&pool, 1, 3 * P));
    let (one, two) = (written(&pool, 1, 5), written(&pool, 2, 4));
    let (mut entries, mut offsets, mut owners) = ([StampedEntry::default(); 4], [9; 3], [9; 2]);
    let mut table = StampedTable::new(&pool, &mut entries, &mut offsets, &mut owners).unwrap();
    table.push(one.row(5)).unwrap();
    table.push(two.row(4)).unwrap();
    assert_eq!((table.rows(), table.entries()), (2, 3));
    let of = |kv: &Reservation<HostMemory>| -> Vec<(u32, u64)> {
        kv.handles().map(|handle| (handle.index(), handle.generation().get())).collect()
    };
    let named: Vec<(u32, u64)> = entries[..3].iter().map(|entry| (entry.page, entry.generation)).collect();
    assert_eq!(named, [of(&one), of(&two)].concat());
    assert!(named.iter().all(|(_, generation)| *generation > 1));
    assert_eq!((offsets, owners), ([0, 2, 3], [1, 2]));
}

// C2, C4, C5
#[test]
fn rows_of_handles_give_what_rows_of_reservations_give() {
    let pool = null(32);
    let kv = written(&pool, 1, 9);
    let handles: Vec<_> = kv.handles().collect();
    let tables = |row: TableRow<'_, NullMemory>| {
        let (mut blocks, mut lens) = ([-7; 4], [-7; 1]);
        BlockTable::new(&pool, &mut blocks, 4, &mut lens).unwrap().push(row).unwrap();
        let (mut indptr, mut indices, mut last) = ([-7; 2], [-7; 4], [-7; 1]);
        CsrTable::new(&pool, &mut indptr, &mut indices, &mut last).unwrap().push(row).unwrap();
        let mut tokens = [-7; 12];
        TokenTable::new(&pool, &mut tokens, 12).unwrap().push(row).unwrap();
        let (mut entries, mut offsets, mut owners) = ([StampedEntry::default(); 4], [9; 2], [9; 1]);
        StampedTable::new(&pool, &mut entries, &mut offsets, &mut owners).unwrap().push(row).unwrap();
        (blocks, lens, indptr, indices, last, tokens, entries, owners)
    };
    assert_eq!(tables(TableRow::of_handles(owner(1), &handles, 9)), tables(kv.row(9)));
}

// An engine that keeps its own arrays writes without telling: its pages are checked for owner and life.
// C2, C4
#[test]
fn detached_pages_stand_in_tables_until_they_are_released() {
    let pool = null(32);
    let handles = take(&pool, 1, 2 * P).into_handles().unwrap();
    let (mut blocks, mut lens) = ([-7; 2], [-7; 1]);
    let row = TableRow::of_handles(owner(1), &handles, 2 * P);
    BlockTable::new(&pool, &mut blocks, 2, &mut lens).unwrap().push(row).unwrap();
    assert_eq!(blocks.map(|page| page as u32), [handles[0].index(), handles[1].index()]);
    pool.release_pages(owner(1), &handles).unwrap();
    assert!(BlockTable::new(&pool, &mut blocks, 2, &mut lens).unwrap().push(row).is_err());
}

// C5: a window that slid shows the null page, which is zero and nobody's.
#[test]
fn pages_that_a_window_slid_past_are_the_null_page() {
    let pool = null(32);
    let mut kv = written(&pool, 1, 5 * P);
    let pages = cells(&kv);
    kv.slide(2 * P).unwrap();
    let expected = [0, 0, pages[2], pages[3], pages[4]];
    let (mut blocks, mut lens) = ([-7; 5], [-7; 1]);
    BlockTable::new(&pool, &mut blocks, 5, &mut lens).unwrap().push(kv.row(5 * P)).unwrap();
    assert_eq!(blocks, expected);
    let (mut indptr, mut indices, mut last) = ([-7; 2], [-7; 5], [-7; 1]);
    CsrTable::new(&pool, &mut indptr, &mut indices, &mut last).unwrap().push(kv.row(5 * P)).unwrap();
    assert_eq!(indices, expected);
    let (mut entries, mut offsets, mut owners) = ([StampedEntry::default(); 5], [9; 2], [9; 1]);
    StampedTable::new(&pool, &mut entries, &mut offsets, &mut owners).unwrap().push(kv.row(5 * P)).unwrap();
    assert_eq!(entries.map(|entry| entry.page as i32), expected);
    assert_eq!(entries[..2], [StampedEntry::default(); 2], "in no life");
    let mut tokens = [-7; 20];
    TokenTable::new(&pool, &mut tokens, 20).unwrap().push(kv.row(5 * P)).unwrap();
    assert_eq!((&tokens[..9], tokens[19]), (&[0, 1, 2, 3, 0, 1, 2, 3, pages[2] * 4][..], pages[4] * 4 + 3));
}
