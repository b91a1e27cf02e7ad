//! Rounds of the kernels that work on pages: clean, stamp, copy, digest.

use crate::arena::{Arena, BYTES, Fields};
use crate::rng::Rng;
use crate::round::Round;

/// A plane, and where it lies.
#[derive(Clone, Copy)]
struct Plane {
    base: u64,
    stride: u64,
    whole: u64,
    run_bytes: u32,
    runs: u32,
}

impl Plane {
    fn encode(self) -> Vec<u8> {
        Fields::default().u64(self.base).u64(self.stride).u64(self.whole).u32(self.run_bytes).u32(self.runs).0
    }

    fn page(&self, page: u32) -> u64 {
        self.base + u64::from(page) * self.stride
    }

    fn run(&self, page: u32, run: u32, page_tokens: u32) -> u64 {
        self.page(page) + u64::from(run) * u64::from(page_tokens) * u64::from(self.run_bytes)
    }
}

/// Planes of one pool. There is a page more than the pool has: what is named past the end is memory, and must not change.
struct Pool {
    planes: Vec<Plane>,
    max_pages: u32,
    page_tokens: u32,
    address: u64,
}

#[derive(Clone)]
struct Shape {
    runs: Vec<(u32, u32)>,
    page_tokens: u32,
}

impl Shape {
    fn random(rng: &mut Rng) -> Self {
        if rng.one_in(15) {
            return Self { runs: vec![(1, 1)], page_tokens: 1 };
        }
        let planes = rng.within(1, 3);
        let runs = (0..planes).map(|_| {
            let run_bytes = match rng.within(0, 3) {
                0 => rng.u32(1, 7),
                1 => 16 * rng.u32(1, 4),
                2 => 4 * rng.u32(1, 9),
                // long enough for several chunks of a digest
                _ => rng.u32(60, 130),
            };
            (if rng.one_in(10) { 0 } else { rng.u32(1, 3) }, run_bytes)
        });
        Self { runs: runs.collect(), page_tokens: rng.u32(1, 9) }
    }
}

impl Pool {
    fn random(rng: &mut Rng, arena: &mut Arena, shape: &Shape) -> Self {
        let max_pages = rng.u32(1, 3);
        let planes: Vec<_> = shape
            .runs
            .iter()
            .map(|&(runs, run_bytes)| {
                let bytes = u64::from(runs) * u64::from(run_bytes) * u64::from(shape.page_tokens);
                let stride = bytes + if rng.one_in(2) { rng.within(0, 20) } else { 16 - bytes % 16 };
                let skew = if rng.one_in(2) { 0 } else { rng.within(0, 15) as usize };
                let base = arena.room((stride * u64::from(max_pages + 1)) as usize, 16, skew);
                let whole = if rng.one_in(2) { stride } else { bytes };
                Plane { base, stride, whole, run_bytes, runs }
            })
            .collect();
        // A plane more than is named, elsewhere, for a count that is one too large.
        let last = planes[planes.len() - 1];
        let more = Plane { base: arena.room((last.stride * u64::from(max_pages + 1)) as usize, 16, 0), ..last };
        let table: Vec<_> = planes.iter().chain([&more]).flat_map(|plane| plane.encode()).collect();
        let address = arena.place(&table);
        Self { planes, max_pages, page_tokens: shape.page_tokens, address }
    }

    fn n_planes(&self) -> u32 {
        self.planes.len() as u32
    }

    /// A page of the pool; one time in six the one past the end.
    fn page(&self, rng: &mut Rng) -> u32 {
        if rng.one_in(6) { self.max_pages } else { rng.u32(0, self.max_pages - 1) }
    }

    fn tokens(&self, rng: &mut Rng) -> u32 {
        match rng.within(0, 3) {
            0 => self.page_tokens,
            1 => self.page_tokens + 1,
            _ => rng.u32(0, self.page_tokens),
        }
    }
}

/// Threads of a block: any number will do, and few of them come to every byte.
pub fn threads(rng: &mut Rng) -> u32 {
    if rng.one_in(3) { rng.u32(1, 3) } else { rng.u32(1, 33) }
}

fn grid(rng: &mut Rng) -> ([u32; 3], u32) {
    ([rng.u32(1, 3), rng.u32(1, 3), rng.u32(1, 3)], threads(rng))
}

/// Places a list, with one item more than its count says, and the count.
fn list(arena: &mut Arena, items: &[Vec<u8>], count: usize) -> (u64, u64) {
    let bytes: Vec<_> = items.iter().flatten().copied().collect();
    (arena.place(&bytes), arena.place(&(count as u32).to_le_bytes()))
}

fn round(kernel: &'static str, rng: &mut Rng, arguments: Vec<u8>, before: Arena, after: Arena) -> Round {
    let (blocks, threads) = grid(rng);
    Round { kernel, seed: 0, blocks, threads, arguments, before, after }
}

pub fn clean(rng: &mut Rng) -> Round {
    let mut arena = Arena::new(rng, BYTES);
    let shape = Shape::random(rng);
    let pool = Pool::random(rng, &mut arena, &shape);
    let count = rng.within(0, 4) as usize;
    let pages: Vec<_> = (0..=count).map(|_| (pool.page(rng), pool.tokens(rng))).collect();
    let encoded: Vec<_> = pages.iter().map(|&(page, tokens)| Fields::default().u32(page).u32(tokens).0).collect();
    let (list, n_pages) = list(&mut arena, &encoded, count);
    let arguments = Fields::default().u64(pool.address).u64(list).u64(n_pages);
    let arguments = arguments.u32(pool.n_planes()).u32(pool.max_pages).u32(pool.page_tokens).u32(0).0;
    let mut after = arena.clone();
    for &(page, tokens) in pages.iter().take(count).filter(|(page, _)| *page < pool.max_pages) {
        for plane in &pool.planes {
            if tokens >= pool.page_tokens {
                after.write(plane.page(page), &vec![0; plane.whole as usize]);
                continue;
            }
            for run in 0..plane.runs {
                after.write(plane.run(page, run, pool.page_tokens), &vec![0; (tokens * plane.run_bytes) as usize]);
            }
        }
    }
    round("pagestamp_clean", rng, arguments, arena, after)
}

pub fn stamp(rng: &mut Rng) -> Round {
    let mut arena = Arena::new(rng, BYTES);
    let max_pages = rng.u32(1, 90);
    let stamps = arena.room((max_pages as usize + 1) * 16, 16, 0);
    // Each page once: from a random one on, in steps; the item past the count is one of them too.
    let count = rng.within(0, u64::from(max_pages)) as u32;
    let first = rng.u32(0, max_pages);
    let writes: Vec<_> = (0..=count).map(|i| ((first + i) % (max_pages + 1), rng.next() >> 24, rng.next())).collect();
    let encoded: Vec<_> = writes
        .iter()
        .map(|&(page, generation, owner)| Fields::default().u64(generation).u64(owner).u32(page).u32(0).0)
        .collect();
    let (list, n_writes) = list(&mut arena, &encoded, count as usize);
    let arguments = Fields::default().u64(stamps).u64(list).u64(n_writes).u32(max_pages).u32(0).0;
    let mut after = arena.clone();
    for &(page, generation, owner) in writes.iter().take(count as usize).filter(|(page, ..)| *page < max_pages) {
        after.write(stamps + u64::from(page) * 16, &Fields::default().u64(generation).u64(owner).0);
    }
    round("pagestamp_stamp", rng, arguments, arena, after)
}

pub fn copy(rng: &mut Rng) -> Round {
    let mut arena = Arena::new(rng, BYTES);
    let shape = Shape::random(rng);
    let from = Pool::random(rng, &mut arena, &shape);
    let to = Pool::random(rng, &mut arena, &shape);
    // No page of `to` twice, the one past the end and the item past the count among them.
    let count = rng.u32(0, to.max_pages);
    let first = rng.u32(0, to.max_pages);
    let pages: Vec<_> =
        (0..=count).map(|i| (from.page(rng), (first + i) % (to.max_pages + 1), from.tokens(rng))).collect();
    let encoded: Vec<_> =
        pages.iter().map(|&(from, to, tokens)| Fields::default().u32(from).u32(to).u32(tokens).u32(0).0).collect();
    let (list, n_pages) = list(&mut arena, &encoded, count as usize);
    let arguments = Fields::default().u64(from.address).u64(to.address).u64(list).u64(n_pages);
    let arguments = arguments.u32(from.n_planes()).u32(shape.page_tokens).u32(from.max_pages).u32(to.max_pages).0;
    let mut after = arena.clone();
    for &(source, target, tokens) in pages.iter().take(count as usize) {
        if source >= from.max_pages || target >= to.max_pages {
            continue;
        }
        for (from, to) in from.planes.iter().zip(&to.planes) {
            let bytes = (tokens.min(shape.page_tokens) * from.run_bytes) as usize;
            for run in 0..from.runs {
                let bytes = arena.read(from.run(source, run, shape.page_tokens), bytes);
                after.write(to.run(target, run, shape.page_tokens), bytes);
            }
        }
    }
    round("pagestamp_copy", rng, arguments, arena, after)
}

/// CRC-32C, a bit at a time.
fn crc32c(mut register: u32, bytes: &[u8]) -> u32 {
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = (register >> 1) ^ if register & 1 == 1 { 0x82F6_3B78 } else { 0 };
        }
    }
    register
}

pub fn digest(rng: &mut Rng) -> Round {
    let shape = Shape::random(rng);
    let count = rng.within(0, 4) as usize;
    digest_of(rng, BYTES, &shape, count)
}

/// A page in which powers of x are needed that small ones do without.
pub fn digest_large(rng: &mut Rng) -> Round {
    let shape = Shape { runs: vec![(1, 36 << 10), (2, 3 << 10)], page_tokens: 16 };
    digest_of(rng, 4 << 20, &shape, 2)
}

fn digest_of(rng: &mut Rng, arena_bytes: usize, shape: &Shape, count: usize) -> Round {
    let mut arena = Arena::new(rng, arena_bytes);
    let pool = Pool::random(rng, &mut arena, shape);
    let mut pages: Vec<_> = (0..=count).map(|_| (pool.page(rng), pool.tokens(rng), rng.next() as u32)).collect();
    // One at least that is there and full.
    pages[0].0 %= pool.max_pages;
    pages[0].1 = pool.page_tokens;
    let encoded: Vec<_> =
        pages.iter().map(|&(page, tokens, seed)| Fields::default().u32(page).u32(tokens).u32(seed).u32(0).0).collect();
    let (list, n_pages) = list(&mut arena, &encoded, count);
    let crcs = arena.room((count + 1) * 4, 4, 0);
    let arguments = Fields::default().u64(pool.address).u64(list).u64(n_pages).u64(crcs);
    let arguments = arguments.u32(pool.n_planes()).u32(pool.max_pages).u32(pool.page_tokens).u32(0).0;
    let mut after = arena.clone();
    for (i, &(page, tokens, seed)) in pages.iter().take(count).enumerate() {
        let mut register = seed;
        for plane in pool.planes.iter().filter(|_| page < pool.max_pages) {
            for run in 0..plane.runs {
                let bytes = (tokens.min(shape.page_tokens) * plane.run_bytes) as usize;
                register = crc32c(register, arena.read(plane.run(page, run, shape.page_tokens), bytes));
            }
        }
        after.write(crcs + i as u64 * 4, &(!register).to_le_bytes());
    }
    let mut round = round("pagestamp_digest", rng, arguments, arena, after);
    // The kernel has blocks in x alone. More threads than its table has entries, sometimes.
    round.blocks = [round.blocks[0], 1, 1];
    if rng.one_in(10) {
        round.threads = rng.u32(250, 520);
    }
    round
}
