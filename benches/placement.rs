//! What placement does to a transfer: `cargo bench --bench placement`.
//!
//! Two pools are churned by random requests, each by its own seed, and kept at a load. Then 512 pages are reserved in each,
//! and counted is how many segments a transport is given for one plane of them. Counts repeat exactly; times do not.
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::time::Instant;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, ModelLayout, Slice};
use pagestamp::handoff::{Region, Regions, Route, Segment, Stretch};
use pagestamp::{
    CapacityPlan, CapacityProof, NullMemory, OwnPages, OwnerId, PagePool, Placement, PoolConfig, Request, Reservation,
};

const POOL_PAGES: u32 = 16_384;
const PAGE_TOKENS: u64 = 16;
/// Pages of the request whose segments are counted.
const SENT_PAGES: u64 = 512;
/// Pages that a request may grow by, one at a time.
const GROWTH_PAGES: u64 = 16;
const WARM_UP_STEPS: u32 = 20_000;
const STEPS_BETWEEN: u32 = 300;
const SAMPLES: usize = 51;

/// Llama-3-8B in bf16 on one rank: 32 layers, 8 KV heads.
fn model(order: HeadOrder) -> ModelLayout {
    let cache = HeadCache::new(8, 128, ElementFormat::plain(Dtype::Bf16)).with_order(order);
    ModelLayout::new("llama-3-8b", "r1", KvLayout::new(PAGE_TOKENS as u32, 32, cache)).unwrap()
}

/// A pool under load.
struct Churned {
    pool: PagePool<NullMemory>,
    proof: CapacityProof,
    live: Vec<Reservation<NullMemory>>,
    load_pages: u64,
    random: u64,
}

impl Churned {
    fn new(placement: Placement, load_percent: u64, seed: u64) -> Self {
        let model = model(HeadOrder::Nhd);
        let geometry = model.geometry(&Slice::whole(&model)).unwrap();
        let config = PoolConfig::new(POOL_PAGES).with_own_pages(OwnPages::None).with_placement(placement);
        let pool = PagePool::new(config, NullMemory::new(geometry, POOL_PAGES).unwrap()).unwrap();
        let proof = pool.prove(CapacityPlan::new((SENT_PAGES + GROWTH_PAGES) * PAGE_TOKENS)).unwrap();
        let load_pages = u64::from(POOL_PAGES) * load_percent / 100;
        let mut churned = Self { pool, proof, live: Vec::new(), load_pages, random: seed };
        churned.churn(WARM_UP_STEPS);
        churned
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn reserve(&self, pages: u64, growth_pages: u64) -> Reservation<NullMemory> {
        let (tokens, max_tokens) = (pages * PAGE_TOKENS, (pages + growth_pages) * PAGE_TOKENS);
        self.pool.reserve(&self.proof, Request::new(OwnerId::new(1).unwrap(), max_tokens), tokens).unwrap()
    }

    /// Requests of 8 to 512 pages come and go, and those that are here grow.
    fn churn(&mut self, steps: u32) {
        for _ in 0..steps {
            let stats = self.pool.stats();
            if stats.live_pages + stats.promised_pages > self.load_pages {
                let at = self.random(self.live.len() as u64) as usize;
                self.live.swap_remove(at).release();
            } else {
                let least = 8 << self.random(6);
                let pages = least + self.random(least + 1);
                let kv = self.reserve(pages, GROWTH_PAGES);
                self.live.push(kv);
            }
            if !self.live.is_empty() {
                let at = self.random(self.live.len() as u64) as usize;
                let kv = &mut self.live[at];
                let tokens = (kv.reserved_tokens() + PAGE_TOKENS).min(kv.max_tokens());
                kv.grow(tokens).unwrap();
            }
        }
    }

    fn sent(&self) -> Vec<u32> {
        self.reserve(SENT_PAGES, 0).handles().map(|handle| handle.index()).collect()
    }

    /// Nanoseconds per page to reserve and release `pages` pages.
    fn exchange_ns(&self, pages: u64) -> f64 {
        let times = (0..SAMPLES).map(|_| {
            let rounds = 20_000 / pages;
            let begin = Instant::now();
            for _ in 0..rounds {
                black_box(self.reserve(pages, 0).release());
            }
            begin.elapsed().as_nanos() as f64 / (rounds * pages) as f64
        });
        median(times.collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn route(order: HeadOrder, tile_heads: u32) -> (Route, usize) {
    let model = model(order);
    let (all, tile) = (Slice::whole(&model), Slice::new(0..32, 0..tile_heads).unwrap());
    let planes = model.geometry(&all).unwrap().planes().len();
    let regions = || {
        let page_bytes = model.geometry(&all).unwrap().page_bytes(0).unwrap();
        let plane = |plane| Region::new(plane << 40, page_bytes, page_bytes, 0);
        Regions::new(&model, all.clone(), POOL_PAGES, (1..=planes as u64).map(plane).collect()).unwrap()
    };
    (Route::new(&model, &tile, regions(), regions()).unwrap(), planes)
}

fn main() {
    let (hot, contiguous) = (Placement::HotFirst, Placement::Contiguous);
    let ends = [
        ("HotFirst to HotFirst", hot, hot),
        ("HotFirst to Contiguous", hot, contiguous),
        ("Contiguous to HotFirst", contiguous, hot),
        ("Contiguous to Contiguous", contiguous, contiguous),
    ];
    let tiles = [("all heads, NHD", HeadOrder::Nhd, 8), ("4 of 8 heads, HND", HeadOrder::Hnd, 4)];
    println!("segments per plane of {SENT_PAGES} pages, pools of {POOL_PAGES} pages: median (least to most), KiB each");
    for load_percent in [50, 75, 90] {
        for (name, sender, receiver) in ends {
            let mut source = Churned::new(sender, load_percent, 0x9E37_79B9_7F4A_7C15);
            let mut destination = Churned::new(receiver, load_percent, 0xD1B5_4A32_D192_ED03);
            let pages: Vec<_> = (0..SAMPLES)
                .map(|_| {
                    source.churn(STEPS_BETWEEN);
                    destination.churn(STEPS_BETWEEN);
                    (source.sent(), destination.sent())
                })
                .collect();
            for (tile, order, heads) in tiles {
                let (route, planes) = route(order, heads);
                let (mut counts, mut times, mut bytes, mut out) = (Vec::new(), Vec::new(), 0, Vec::<Segment>::new());
                for (from, to) in &pages {
                    let stretch = Stretch::new(SENT_PAGES * PAGE_TOKENS, from, to);
                    let begin = Instant::now();
                    bytes = route.segments(&stretch, black_box(&mut out)).unwrap();
                    times.push(begin.elapsed().as_nanos() as f64 / (SENT_PAGES * planes as u64) as f64);
                    counts.push(out.len() as f64 / planes as f64);
                }
                let (least, most) = counts.iter().fold((f64::MAX, 0f64), |(l, m), c| (l.min(*c), m.max(*c)));
                let count = median(counts);
                let each_kib = bytes as f64 / planes as f64 / count / 1024.0;
                println!(
                    "  load {load_percent} %  {name:<24}  {tile:<17}  {count:>5} ({least} to {most})  {each_kib:>7.0} KiB each  {:>5.1} ns per page and plane to write",
                    median(times)
                );
            }
        }
    }
    println!("reserve and release in a churned pool at 75 %, ns per page");
    for (name, placement) in [("HotFirst", hot), ("Contiguous", contiguous)] {
        let churned = Churned::new(placement, 75, 0x9E37_79B9_7F4A_7C15);
        let times = [1, 8, 64, 512].map(|pages| format!("n={pages} {:.1}", churned.exchange_ns(pages)));
        println!("  {name:<12}{}", times.join(", "));
    }
}
