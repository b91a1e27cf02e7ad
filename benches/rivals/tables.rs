//! Write one row of 1,024 pages, in cache: from a reservation, from handles, in each form, beside a plain copy of the numbers.

use std::hint::black_box;
use std::time::Duration;

use pagestamp::table::{BlockTable, CsrTable, RowMark, StampedEntry, StampedTable, TableRow};
use pagestamp::{
    CapacityPlan, NullMemory, OwnerId, PageGeometry, PageHandle, PagePool, Plane, PoolConfig, Request, Reservation,
};

use super::{Work, repeat};

/// Pages of the row.
pub(crate) const PAGES: usize = 1024;
const PAGE_TOKENS: u64 = 16;
const TOKENS: u64 = PAGES as u64 * PAGE_TOKENS;

/// What is written, and from what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The numbers, copied: what an engine does that checks nothing.
    Copy,
    Block,
    BlockOfHandles,
    Csr,
    Stamped,
    /// A row that did not change since it was written.
    Update,
}

pub(crate) struct Row {
    pool: PagePool<NullMemory>,
    kv: Reservation<NullMemory>,
    handles: Vec<PageHandle<NullMemory>>,
    numbers: Vec<u32>,
    form: Form,
}

impl Row {
    pub(crate) fn new(form: Form) -> Self {
        let pages = PAGES as u32 + 2;
        let geometry = PageGeometry::new(PAGE_TOKENS as u32, &[Plane::per_token(1, 64)]).expect("geometry");
        let memory = NullMemory::new(geometry, pages).expect("memory");
        let pool = PagePool::new(PoolConfig::new(pages), memory).expect("pool");
        let proof = pool.prove(CapacityPlan::new(TOKENS)).expect("fits");
        let owner = OwnerId::new(7).expect("not zero");
        let take = |tokens| pool.reserve(&proof, Request::new(owner, tokens), tokens).expect("room");
        // Given back in a shuffled order, so that the row's pages are no neighbours.
        let mut singles: Vec<_> = (0..PAGES).map(|_| Some(take(PAGE_TOKENS))).collect();
        for at in 0..PAGES {
            singles[at * 389 % PAGES] = None;
        }
        let mut kv = take(TOKENS);
        kv.assume_written(TOKENS).expect("reserved");
        let handles: Vec<_> = kv.handles().collect();
        let numbers = handles.iter().map(|handle| handle.index()).collect();
        Self { pool, kv, handles, numbers, form }
    }

    fn of_handles(&self) -> TableRow<'_, NullMemory> {
        TableRow::of_handles(self.kv.owner(), &self.handles, TOKENS)
    }
}

impl Work for Row {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let (mut cells, mut lens, mut indptr) = (vec![0_i32; PAGES], [0_i32; 1], [0_i32; 2]);
        let (pool, row) = (&self.pool, self.kv.row(TOKENS));
        match self.form {
            Form::Copy => repeat(go_on, || {
                let numbers = black_box(&self.numbers);
                cells.iter_mut().zip(numbers).for_each(|(cell, page)| *cell = *page as i32);
                black_box(&mut cells);
            }),
            Form::Block | Form::BlockOfHandles => {
                let row = if self.form == Form::Block { row } else { self.of_handles() };
                repeat(go_on, || {
                    let mut table = BlockTable::new(pool, &mut cells, PAGES, &mut lens).expect("shape");
                    table.push(black_box(row)).expect("written");
                    black_box(&mut cells);
                })
            }
            Form::Csr => repeat(go_on, || {
                let mut table = CsrTable::new(pool, &mut indptr, &mut cells, &mut lens).expect("shape");
                table.push(black_box(row)).expect("written");
                black_box(&mut cells);
            }),
            Form::Stamped => {
                let (mut entries, mut offsets, mut owners) = (vec![StampedEntry::default(); PAGES], [0; 2], [0; 1]);
                repeat(go_on, || {
                    let table = StampedTable::new(pool, &mut entries, &mut offsets, &mut owners);
                    table.expect("shape").push(black_box(row)).expect("written");
                    black_box(&mut entries);
                })
            }
            Form::Update => {
                let mut mark = RowMark::default();
                repeat(go_on, || {
                    let mut table = BlockTable::new(pool, &mut cells, PAGES, &mut lens).expect("shape");
                    table.update(0, black_box(row), &mut mark).expect("written");
                    black_box(&mut cells);
                })
            }
        }
    }
}
