//! Taking, giving back and reading pages, beside what others do for it: `cargo bench --bench pool`.
//!
//! `operation/implementation/parameter`. On a shared machine trust `cargo bench --bench bars`, whose rivals take turns.
//! kvbm-logical brings 105 packages; so it is not measured here.

#[expect(dead_code, reason = "zeroing has a bench of its own")]
mod rivals;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use rivals::exchange::{MutexSlotmap, MutexVec, Pagestamp};
use rivals::reading::{AcquireLoad, ByHandle, ByReservation, MutexSlotmapGet, Pace, Pages, SlotmapGet};
use rivals::{Work, run_on};

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

/// Measures the time of one operation on one of `threads` threads that all do the same.
fn measure(group: &mut Group<'_>, id: BenchmarkId, work: &dyn Work, threads: u32) {
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|operations| {
            let enough = if threads == 1 { operations } else { operations.max(1 << 14) };
            // Threads that did not run side by side say nothing; criterion is not told of them.
            let run = (0..100).find_map(|_| run_on(work, threads, enough));
            let (took, count) = run.expect("a machine that runs the threads at once");
            Duration::from_secs_f64(took.as_secs_f64() * operations as f64 / count as f64)
        });
    });
}

fn admit_reserve_release(criterion: &mut Criterion) {
    for (name, threads) in [("admit_reserve_release", 1), ("admit_reserve_release_contended", 2)] {
        let mut group = criterion.benchmark_group(name);
        for n in [1, 8, 64, 1024] {
            group.throughput(Throughput::Elements(n.into()));
            measure(&mut group, BenchmarkId::new("pagestamp", n), &Pagestamp::new(n), threads);
            measure(&mut group, BenchmarkId::new("mutex_slotmap", n), &MutexSlotmap::new(n), threads);
            measure(&mut group, BenchmarkId::new("mutex_vec", n), &MutexVec::new(n), threads);
        }
        group.finish();
    }
}

fn read(criterion: &mut Criterion) {
    for (place, pages, threads) in [("1024_pages", Pages::Shuffled, 1), ("one_page_2_threads", Pages::One, 2)] {
        let pace = Pace::Chained;
        let mut group = criterion.benchmark_group("read_by_handle");
        measure(&mut group, BenchmarkId::new("pagestamp", place), &ByHandle::new(pages, pace), threads);
        measure(&mut group, BenchmarkId::new("acquire_load", place), &AcquireLoad::new(pages, pace), threads);
        measure(&mut group, BenchmarkId::new("slotmap_get", place), &SlotmapGet::new(pages, pace), threads);
        measure(&mut group, BenchmarkId::new("mutex_slotmap_get", place), &MutexSlotmapGet::new(pages, pace), threads);
        group.finish();
        let mut group = criterion.benchmark_group("read_by_reservation");
        measure(&mut group, BenchmarkId::new("pagestamp", place), &ByReservation::new(pages, pace), threads);
        group.finish();
    }
}

fn main() {
    let criterion = Criterion::default().sample_size(30).warm_up_time(Duration::from_millis(300));
    let mut criterion = criterion.measurement_time(Duration::from_secs(1)).configure_from_args();
    admit_reserve_release(&mut criterion);
    read(&mut criterion);
    criterion.final_summary();
}
