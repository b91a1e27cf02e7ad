//! Zeroing on release beside bare kernels, cold and hot: `cargo bench --bench zeroing`.
//!
//! `zeroing_{cold,hot}/implementation/page size`. The pool is not told whether a page is in the cache. On a shared machine
//! trust `cargo bench --bench bars -- zeroing`, whose rivals take turns.

#[expect(dead_code, reason = "the other rivals have benches of their own")]
mod rivals;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use rivals::zeroing::{Bare, Cache, Kernel, Pagestamp, Shape, Zeroer, bare_memory};

fn zeroing(criterion: &mut Criterion) {
    for (name, cache, arena_bytes) in [("zeroing_cold", Cache::Cold, 1 << 30), ("zeroing_hot", Cache::Hot, 16 << 20)] {
        let mut group = criterion.benchmark_group(name);
        for page_bytes in [16 << 10, 64 << 10, 256 << 10, 2 << 20] {
            let shape = Shape { page_bytes, arena_bytes, cache };
            let size = format!("{}KiB", page_bytes >> 10);
            group.throughput(Throughput::Bytes(page_bytes as u64 * u64::from(shape.batch())));
            let mut measure = |name: &str, zeroer: &mut dyn Zeroer| {
                group.bench_function(BenchmarkId::new(name, &size), |bencher| {
                    bencher.iter_custom(|batches| (0..batches).map(|_| zeroer.zero_batch()).sum());
                });
            };
            measure("pagestamp", &mut Pagestamp::new(shape));
            let memory = bare_memory(shape);
            for kernel in Kernel::ALL {
                measure(kernel.name(), &mut Bare::new(&memory, kernel, shape));
            }
        }
        group.finish();
    }
}

fn main() {
    let criterion = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200));
    let mut criterion = criterion.measurement_time(Duration::from_secs(1)).configure_from_args();
    zeroing(&mut criterion);
    criterion.final_summary();
}
