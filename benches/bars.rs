//! Prints each bar of this package with its ratio: `cargo bench --bench bars`, and `-- zeroing` for a part by name.
//!
//! All rivals of a bar take turns in short slices within one run, so that whatever else the machine does hits all of them,
//! and the answer is the ratio of their medians. It is what to trust on a shared machine; the criterion benches show
//! the same with times.

mod rivals;

use rivals::Work;
use rivals::exchange::{MutexSlotmap, MutexVec, Pagestamp};
use rivals::race::{Bar, ROUNDS, median, race, report};
use rivals::reading::{
    AcquireLoad, ByHandle, ByReservation, HazardFloor, MutexSlotmapGet, Pace, Pages, PinFloor, SlotmapGet,
};
use rivals::tables::{self, Form};
use rivals::zeroing::{self, Cache, Kernel, Shape, Zeroer};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|want| part.contains(want.as_str()));
    if wants("exchange") {
        exchange();
    }
    if wants("reading") {
        reading();
    }
    if wants("tables") {
        tables();
    }
    if wants("zeroing") {
        zeroing();
    }
}

fn exchange() {
    println!("admit + reserve + release, over Mutex<SlotMap>");
    for threads in [1, 2] {
        for (n, bar) in [(1, 2.0), (8, 1.25), (64, 1.0), (1024, 1.0)] {
            let bar = if threads == 1 { bar } else { 1.25 };
            let (ours, slotmap, vec) = (Pagestamp::new(n), MutexSlotmap::new(n), MutexVec::new(n));
            let times = race(&[&ours, &slotmap, &vec], threads);
            let per_page = |at: usize| times[at] / f64::from(n);
            let what = format!(
                "  n={n:<4} threads={threads}  {:>6.1} ns/page, slotmap {:.1}, vec {:.1}",
                per_page(0),
                per_page(1),
                per_page(2)
            );
            report(&what, times[0] / times[1], Bar::AtMost(bar));
        }
    }
}

fn reading() {
    println!("read with its guard, over a bare Acquire load");
    let cases = [
        (1, Pages::Shuffled, Pace::Chained),
        (1, Pages::One, Pace::Chained),
        (2, Pages::One, Pace::Chained),
        (1, Pages::Shuffled, Pace::Overlapping),
    ];
    for (threads, pages, pace) in cases {
        let bar = if pace == Pace::Chained { Bar::AtMost(3.0) } else { Bar::None };
        let works: [(&str, Box<dyn Work>, Bar); 7] = [
            ("acquire load", Box::new(AcquireLoad::new(pages, pace)), Bar::None),
            ("read by handle", Box::new(ByHandle::new(pages, pace)), bar),
            ("read by reservation", Box::new(ByReservation::new(pages, pace)), Bar::None),
            ("store, full fence, load, store", Box::new(HazardFloor::new(pages, pace)), Bar::None),
            ("pin, unpin", Box::new(PinFloor::new(pages, pace)), Bar::None),
            ("slotmap get", Box::new(SlotmapGet::new(pages, pace)), Bar::None),
            ("Mutex<SlotMap> get", Box::new(MutexSlotmapGet::new(pages, pace)), Bar::None),
        ];
        let faces: Vec<&dyn Work> = works.iter().map(|(_, work, _)| &**work).collect();
        let times = race(&faces, threads);
        let on = if matches!(pages, Pages::One) { "one page" } else { "1024 pages" };
        println!("  {on}, {threads} threads{}", if pace == Pace::Chained { "" } else { ", looks that overlap" });
        for ((name, _, bar), time) in works.iter().zip(&times) {
            report(&format!("    {name:<30} {time:>6.1} ns"), time / times[0], *bar);
        }
    }
}

fn tables() {
    println!("write a row of 1024 pages, in cache: ns per page");
    let forms = [
        ("block_table, from a reservation", Form::Block, Bar::AtMost(0.5)),
        ("block_table, from handles", Form::BlockOfHandles, Bar::AtMost(1.5)),
        ("kv_indices, from a reservation", Form::Csr, Bar::AtMost(0.5)),
        ("with generations, from a reservation", Form::Stamped, Bar::None),
        ("block_table, nothing changed", Form::Update, Bar::None),
    ];
    let rows: Vec<tables::Row> =
        [Form::Copy].into_iter().chain(forms.map(|(_, form, _)| form)).map(tables::Row::new).collect();
    let works: Vec<&dyn Work> = rows.iter().map(|row| row as &dyn Work).collect();
    let times = race(&works, 1);
    for ((name, _, bar), time) in forms.iter().zip(&times[1..]) {
        let what = format!("  {name}, {:.1} x a plain copy", time / times[0]);
        report(&what, time / tables::PAGES as f64, *bar);
    }
}

fn zeroing() {
    println!("zeroing on release, over the best kernel (rate)");
    for cache in [Cache::Cold, Cache::Hot] {
        for page_bytes in [16 << 10, 64 << 10, 256 << 10, 2 << 20] {
            let arena_bytes = if cache == Cache::Cold { 1 << 30 } else { 16 << 20 };
            let shape = Shape { page_bytes, arena_bytes, cache };
            let memory = zeroing::bare_memory(shape);
            let mut ours = zeroing::Pagestamp::new(shape);
            let mut bare = Kernel::ALL.map(|kernel| zeroing::Bare::new(&memory, kernel, shape));
            let mut racers: Vec<&mut dyn Zeroer> = vec![&mut ours];
            racers.extend(bare.iter_mut().map(|bare| bare as &mut dyn Zeroer));
            let mut times = vec![Vec::new(); racers.len()];
            for round in 0..ROUNDS {
                for turn in 0..racers.len() {
                    let at = (round + turn) % racers.len();
                    // Several in a row, or each begins with the caches that another one left.
                    times[at].extend((0..4).map(|_| racers[at].zero_batch().as_nanos() as f64));
                }
            }
            let bytes = (page_bytes * shape.batch() as usize) as f64;
            let rates: Vec<f64> = times.into_iter().map(|times| bytes / median(times)).collect();
            let best = rates[1..].iter().copied().fold(0.0, f64::max);
            let kernels: Vec<String> = Kernel::ALL
                .iter()
                .zip(&rates[1..])
                .map(|(kernel, rate)| format!("{} {rate:.1}", kernel.name()))
                .collect();
            println!("    GB/s: ours {:.1}, {}", rates[0], kernels.join(", "));
            let what = format!("  {cache:?} {:>5} KiB pages, {} at once", page_bytes >> 10, shape.batch());
            report(&what, rates[0] / best, Bar::AtLeast(0.9));
        }
    }
}
