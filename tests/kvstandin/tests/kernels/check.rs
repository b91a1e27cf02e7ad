//! Rounds of the check: tables that are right, and wrong in every way that a table can be.

use crate::arena::{Arena, BYTES, Fields};
use crate::pages::threads;
use crate::rng::Rng;
use crate::round::Round;

const NO_SUCH_PAGE: u32 = 1;
const STALE: u32 = 2;
const FOREIGN: u32 = 3;
const OTHER_PAGE: u32 = 4;
const BAD_OFFSETS: u32 = 5;
const NO_CELL: u32 = 6;

#[derive(Clone, Copy)]
struct Stamp {
    generation: u64,
    owner: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    generation: u64,
    page: u32,
    seen: u32,
}

/// A check, as the model knows it.
struct Case {
    stamps: Vec<Stamp>,
    max_pages: u32,
    null_page: u32,
    entries: Vec<Entry>,
    max_entries: u32,
    offsets: Vec<u32>,
    owners: Vec<u64>,
    n_rows: u32,
    round: u64,
    max_rows: u32,
    /// Attention's table, if there is one; a row has `row_cells` cells, 0 where cells stand as the entries do.
    table: Option<Vec<u32>>,
    row_cells: u32,
    flags: Vec<u8>,
    fault: FaultRecord,
}

#[derive(Clone, Copy)]
struct FaultRecord {
    numbers: [u32; 6],
    values: [u64; 5],
    round: u64,
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let max_pages = rng.u32(2, 6);
        let null_page = rng.u32(0, max_pages - 1);
        // Few generations and owners, so that wrong ones are often equal by half. One stamp more than there are pages.
        let number = |rng: &mut Rng| (rng.within(1, 2) << 33) + rng.within(1, 2);
        let stamps: Vec<_> = (0..=max_pages)
            .map(|_| Stamp { generation: number(rng), owner: if rng.one_in(8) { 0 } else { number(rng) } })
            .collect();
        let max_rows = rng.u32(1, 4);
        let n_rows = rng.u32(0, max_rows + 1);
        // As often as not all is right, but for one thing perhaps.
        let wrong_once_in = if rng.one_in(2) { 4 } else { 40 };
        let mut offsets = vec![rng.u32(0, 2)];
        let mut owners = Vec::new();
        let mut entries: Vec<Entry> = (0..offsets[0]).map(|_| entry(rng, &stamps, 0, max_pages)).collect();
        for _ in 0..=max_rows {
            // The owner of the page past the end, sometimes: its stamp would pass.
            let page = if rng.one_in(10) { max_pages } else { rng.u32(0, max_pages - 1) };
            let owner = if rng.one_in(20) { 0 } else { stamps[page as usize].owner };
            for _ in 0..if rng.one_in(4) { rng.within(20, 40) } else { rng.within(0, 4) } {
                let wrong = rng.one_in(wrong_once_in);
                // A page of the row's owner, the null page, or any, the one past the end among them.
                let page = if wrong {
                    rng.u32(0, max_pages)
                } else if rng.one_in(6) {
                    null_page
                } else {
                    page
                };
                let mut entry = entry(rng, &stamps, page, max_pages);
                if rng.one_in(wrong_once_in * 2) {
                    entry.generation = number(rng);
                }
                entries.push(entry);
            }
            owners.push(owner);
            offsets.push(entries.len() as u32);
        }
        let checked_rows = n_rows.min(max_rows) as usize;
        let max_entries = offsets[checked_rows].max(1);
        // Only the last row that counts may be broken: those behind it would overlap others.
        if checked_rows > 0 && rng.one_in(5) {
            let begin = offsets[checked_rows - 1];
            offsets[checked_rows] = if rng.one_in(2) && begin > 0 { begin - 1 } else { max_entries + 1 };
        }
        let row_cells = [0, rng.u32(1, 3), rng.u32(1, 30)][rng.within(0, 2) as usize];
        let cells = if row_cells == 0 { entries.len() + 1 } else { (row_cells * (max_rows + 1)) as usize };
        let mut table: Vec<u32> = (0..cells).map(|_| rng.u32(0, max_pages)).collect();
        for row in 0..checked_rows {
            for (j, i) in (offsets[row]..offsets[row + 1].min(entries.len() as u32)).enumerate() {
                let cell = if row_cells == 0 { i as usize } else { row * row_cells as usize + j };
                if (row_cells == 0 || j < row_cells as usize) && !rng.one_in(wrong_once_in * 2) {
                    table[cell] = entries[i as usize].page;
                }
            }
        }
        let flags = (0..=max_rows).map(|_| if rng.one_in(4) { 1 } else { 0 }).collect();
        let fault = FaultRecord {
            numbers: std::array::from_fn(|i| if i == 0 { u32::from(rng.one_in(4)) } else { rng.next() as u32 }),
            values: std::array::from_fn(|_| rng.next() >> 8),
            round: rng.next(),
        };
        let table = (!rng.one_in(3)).then_some(table);
        let round = rng.next();
        Self {
            stamps,
            max_pages,
            null_page,
            entries,
            max_entries,
            offsets,
            owners,
            n_rows,
            round,
            max_rows,
            table,
            row_cells,
            flags,
            fault,
        }
    }

    /// What the check must do to it.
    fn check(&mut self) {
        // Whatever else there is to say, and if there is nothing.
        self.fault.round = self.round;
        let mut faults = Vec::new();
        let rows = self.n_rows.min(self.max_rows);
        let cells_of = |row: u32, cells: u32| (row * cells) as usize..((row + 1) * cells) as usize;
        let mut good_cells = vec![];
        for row in 0..rows {
            let (begin, end) = (self.offsets[row as usize], self.offsets[row as usize + 1]);
            let owner = self.owners[row as usize];
            if begin > end || end > self.max_entries {
                let nothing = Entry { generation: 0, page: 0, seen: 0 };
                faults.push((begin, row, BAD_OFFSETS, nothing, Stamp { generation: 0, owner: 0 }));
                continue;
            }
            for i in begin..end {
                let entry = self.entries[i as usize];
                let (mut reason, found) = self.look(entry, owner);
                let j = i - begin;
                let has_cell = self.table.is_some() && (self.row_cells == 0 || j < self.row_cells);
                let cell = if self.row_cells == 0 { i } else { row * self.row_cells + j } as usize;
                if self.table.is_some() && !has_cell && reason == 0 {
                    reason = NO_CELL;
                }
                let seen = match &self.table {
                    Some(table) if has_cell => table[cell],
                    _ => entry.page,
                };
                if seen != entry.page && reason == 0 {
                    reason = OTHER_PAGE;
                }
                if reason != 0 {
                    self.entries[i as usize].seen = seen;
                    faults.push((i, row, reason, self.entries[i as usize], found));
                }
                match &mut self.table {
                    Some(table) if has_cell && reason != 0 => table[cell] = self.null_page,
                    _ => {}
                }
                if has_cell {
                    good_cells.push(cell);
                }
            }
        }
        if let Some(table) = &mut self.table
            && self.row_cells != 0
        {
            for cell in (0..self.max_rows).flat_map(|row| cells_of(row, self.row_cells)) {
                if !good_cells.contains(&cell) {
                    table[cell] = self.null_page;
                }
            }
        }
        for (_, row, ..) in &faults {
            self.flags[*row as usize] = 1;
        }
        let Some((i, row, reason, entry, found)) = faults.iter().min_by_key(|(i, row, ..)| (*i, *row)) else { return };
        self.fault.values[4] += faults.len() as u64;
        if self.fault.numbers[0] == 0 {
            self.fault.numbers = [1, *reason, *row, *i, entry.page, entry.seen];
            let expected = (entry.generation, self.owners[*row as usize]);
            self.fault.values[..4].copy_from_slice(&[expected.0, found.generation, expected.1, found.owner]);
        }
    }

    fn look(&self, entry: Entry, owner: u64) -> (u32, Stamp) {
        let nothing = Stamp { generation: 0, owner: 0 };
        if entry.page >= self.max_pages {
            return (NO_SUCH_PAGE, nothing);
        }
        if entry.page == self.null_page {
            return (0, nothing);
        }
        let stamp = self.stamps[entry.page as usize];
        let reason = match () {
            () if stamp.generation != entry.generation => STALE,
            () if owner == 0 || stamp.owner != owner => FOREIGN,
            () => 0,
        };
        (reason, stamp)
    }
}

fn entry(rng: &mut Rng, stamps: &[Stamp], page: u32, max_pages: u32) -> Entry {
    // Far past the end, sometimes: a product that is cut would be in the table again.
    let page = if page == max_pages && rng.one_in(3) { (1 << 28) + rng.u32(0, 1) } else { page };
    let generation = stamps.get(page as usize).map_or(1, |stamp| stamp.generation);
    Entry { generation, page, seen: rng.next() as u32 }
}

/// Where the parts of a case lie.
struct Places {
    entries: u64,
    table: u64,
    flags: u64,
    fault: u64,
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn long_words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Case {
    fn encode_entries(&self) -> Vec<u8> {
        self.entries
            .iter()
            .flat_map(|entry| Fields::default().u64(entry.generation).u32(entry.page).u32(entry.seen).0)
            .collect()
    }

    fn write(&self, arena: &mut Arena, places: &Places) {
        arena.write(places.entries, &self.encode_entries());
        if let Some(table) = &self.table {
            arena.write(places.table, &words(table));
        }
        arena.write(places.flags, &self.flags);
        arena.write(
            places.fault,
            &[words(&self.fault.numbers), long_words(&self.fault.values), long_words(&[self.fault.round])].concat(),
        );
    }
}

pub fn check(rng: &mut Rng) -> Round {
    let mut arena = Arena::new(rng, BYTES);
    let mut case = Case::random(rng);
    let stamps: Vec<_> = case.stamps.iter().flat_map(|stamp| [stamp.generation, stamp.owner]).collect();
    let stamps = arena.place(&long_words(&stamps));
    let offsets = arena.place(&words(&case.offsets));
    let owners = arena.place(&long_words(&case.owners));
    let reserved = rng.next() as u32;
    let head = arena.place(&Fields::default().u32(case.n_rows).u32(reserved).u64(case.round).0);
    let scratch = arena.place(&long_words(&[u64::MAX, 0]));
    let places = Places {
        entries: arena.place(&case.encode_entries()),
        table: case.table.as_ref().map_or(0, |table| arena.place(&words(table))),
        flags: arena.place(&case.flags),
        fault: arena.room(72, 16, 0),
    };
    case.write(&mut arena, &places);
    let before = arena.clone();
    let arguments = Fields::default().u64(stamps).u64(places.entries).u64(offsets).u64(owners).u64(head);
    let arguments = arguments.u64(places.table).u64(places.flags).u64(scratch).u64(places.fault);
    let arguments = arguments.u32(case.max_pages).u32(case.null_page).u32(case.max_rows);
    let arguments = arguments.u32(case.max_entries).u32(case.row_cells).u32(0).0;
    case.check();
    // The scratch is as it was.
    case.write(&mut arena, &places);
    Round {
        kernel: "pagestamp_check",
        seed: 0,
        blocks: [rng.u32(1, 3), rng.u32(1, 3), 1],
        threads: threads(rng),
        arguments,
        before,
        after: arena,
    }
}
