//! Zero pages that somebody wrote: the pool on release, and bare kernels over the same kind of memory.
#![expect(unsafe_code, reason = "bare kernels write through the addresses of a memory that the bench has alone")]

use std::time::{Duration, Instant};

use pagestamp::memory::{CleanPage, Heat, HostBytes, HostOptions, PageMemory};
use pagestamp::{
    CapacityPlan, CapacityProof, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request, Reservation,
};

/// Whether a page is in the cache when it is zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cache {
    /// Random pages of the arena, written long ago.
    Cold,
    /// Pages that were written whole just before.
    Hot,
}

/// Tokens of a page here: the pages differ in bytes per token.
const PAGE_TOKENS: u32 = 16;

/// Sizes of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) page_bytes: usize,
    pub(crate) arena_bytes: usize,
    pub(crate) cache: Cache,
}

impl Shape {
    fn pages(self) -> u32 {
        (self.arena_bytes / self.page_bytes) as u32
    }

    /// Pages that are zeroed at once: half a MiB cold, a quarter hot, at least one.
    pub(crate) fn batch(self) -> u32 {
        let bytes = if self.cache == Cache::Hot { 256 << 10 } else { 512 << 10 };
        (bytes / self.page_bytes).max(1) as u32
    }

    fn memory(self) -> HostMemory {
        let token_bytes = (self.page_bytes / PAGE_TOKENS as usize) as u32;
        let geometry = PageGeometry::new(PAGE_TOKENS, &[Plane::per_token(1, token_bytes)]).expect("geometry");
        HostMemory::with_options(geometry, self.pages(), &HostOptions::new().with_prefault()).expect("memory")
    }
}

/// A stream of numbers that look random, the same in every run.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn shuffled<T>(mut list: Vec<T>, random: &mut Random) -> Vec<T> {
    for end in (1..list.len()).rev() {
        list.swap(end, random.below(end + 1));
    }
    list
}

/// Something that zeroes batches of pages that were written before.
pub(crate) trait Zeroer {
    /// Zeroes one batch, and answers how long that took; the writing is not counted.
    fn zero_batch(&mut self) -> Duration;
}

/// The pool: pages are written through it and released; nothing tells it whether they are in the cache.
pub(crate) struct Pagestamp {
    pool: PagePool<HostMemory>,
    proof: CapacityProof,
    shape: Shape,
    bytes: Vec<u8>,
    held: Vec<Reservation<HostMemory>>,
    random: Random,
}

impl Pagestamp {
    pub(crate) fn new(shape: Shape) -> Self {
        let config = PoolConfig::new(shape.pages()).with_own_pages(pagestamp::OwnPages::None);
        let pool = PagePool::new(config, shape.memory()).expect("pool");
        let proof = pool.prove(CapacityPlan::new(Self::tokens(shape))).expect("fits");
        let bytes = vec![0xA5; shape.page_bytes * shape.batch() as usize];
        let mut zeroer = Self { pool, proof, shape, bytes, held: Vec::new(), random: Random(0x9E37_79B9_7F4A_7C15) };
        if shape.cache == Cache::Cold {
            zeroer.shuffle_free_pages();
            // All of the arena is in use; a batch is released at random, and what takes its place is written last.
            for _ in 0..shape.pages() / shape.batch() {
                let kv = zeroer.written();
                zeroer.held.push(kv);
            }
        }
        zeroer
    }

    /// Takes each page alone and gives them back in a random order, in which they are handed out from then on.
    fn shuffle_free_pages(&mut self) {
        let owner = OwnerId::new(7).expect("not zero");
        let one = || self.pool.reserve(&self.proof, Request::new(owner, 1), 1).expect("room");
        let singles: Vec<_> = (0..self.shape.pages()).map(|_| one()).collect();
        shuffled(singles, &mut self.random).into_iter().for_each(drop);
    }

    fn tokens(shape: Shape) -> u64 {
        u64::from(shape.batch()) * u64::from(PAGE_TOKENS)
    }

    fn written(&self) -> Reservation<HostMemory> {
        let (owner, tokens) = (OwnerId::new(7).expect("not zero"), Self::tokens(self.shape));
        let mut kv = self.pool.reserve(&self.proof, Request::new(owner, tokens), tokens).expect("room");
        kv.write(tokens, &[&self.bytes]).expect("written");
        kv
    }
}

impl Zeroer for Pagestamp {
    fn zero_batch(&mut self) -> Duration {
        let kv = match self.shape.cache {
            Cache::Hot => self.written(),
            Cache::Cold => {
                let at = self.random.below(self.held.len());
                self.held.swap_remove(at)
            }
        };
        let begin = Instant::now();
        kv.release();
        let took = begin.elapsed();
        if self.shape.cache == Cache::Cold {
            let kv = self.written();
            self.held.push(kv);
        }
        took
    }
}

/// What zeroes bytes without a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    WriteBytes,
    RepStosb,
    /// The memory's own stores that keep the page in the cache.
    OwnHot,
    /// The memory's own stores around the cache.
    OwnCold,
}

impl Kernel {
    pub(crate) const ALL: [Self; 4] = [Self::WriteBytes, Self::RepStosb, Self::OwnHot, Self::OwnCold];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WriteBytes => "write_bytes",
            Self::RepStosb => "rep_stosb",
            Self::OwnHot => "own_hot",
            Self::OwnCold => "own_cold",
        }
    }
}

/// Kernels over a memory of their own, with the same sizes and the same turns as the pool.
pub(crate) struct Bare<'a> {
    memory: &'a HostMemory,
    kernel: Kernel,
    shape: Shape,
    bytes: Vec<u8>,
    batch: Vec<CleanPage>,
    /// All pages, shuffled, and how far they were gone through.
    order: Vec<u32>,
    at: usize,
}

/// A memory for [`Bare`], which several kernels share.
pub(crate) fn bare_memory(shape: Shape) -> HostMemory {
    shape.memory()
}

impl<'a> Bare<'a> {
    pub(crate) fn new(memory: &'a HostMemory, kernel: Kernel, shape: Shape) -> Self {
        let bytes = vec![0xA5; shape.page_bytes];
        let order = shuffled((0..shape.pages()).collect(), &mut Random(0x2545_F491_4F6C_DD1D + kernel as u64));
        Self { memory, kernel, shape, bytes, batch: Vec::new(), order, at: 0 }
    }

    fn at(&self, page: u32) -> *mut u8 {
        self.memory.plane(0).expect("a plane").page(page)
    }

    fn write(&self) {
        for clean in &self.batch {
            // SAFETY: (1) the page is the bench's alone.
            unsafe { self.at(clean.page).copy_from_nonoverlapping(self.bytes.as_ptr(), self.bytes.len()) };
        }
    }
}

impl Zeroer for Bare<'_> {
    fn zero_batch(&mut self) -> Duration {
        let heat = if self.kernel == Kernel::OwnCold { Heat::Cold } else { Heat::Hot };
        // Hot, the same pages again and again, as a pool's last in, first out gives them; cold, the next random ones.
        let n = self.shape.batch() as usize;
        if self.at + n > self.order.len() || self.shape.cache == Cache::Hot {
            self.at = 0;
        }
        let pages = &self.order[self.at..self.at + n];
        self.batch.clear();
        self.batch.extend(pages.iter().map(|page| CleanPage { page: *page, tokens: PAGE_TOKENS, heat }));
        self.at += n;
        if self.shape.cache == Cache::Hot {
            self.write();
        }
        let begin = Instant::now();
        match self.kernel {
            Kernel::WriteBytes => {
                for clean in &self.batch {
                    // SAFETY: (1) the page is the bench's alone.
                    unsafe { std::hint::black_box(self.at(clean.page)).write_bytes(0, self.shape.page_bytes) };
                }
            }
            Kernel::RepStosb => {
                for clean in &self.batch {
                    // SAFETY: (1) the page is the bench's alone.
                    unsafe { rep_stosb(self.at(clean.page), self.shape.page_bytes) };
                }
            }
            Kernel::OwnHot | Kernel::OwnCold => {
                // SAFETY: (1) of `clean`: the pages are the bench's alone.
                let fence = unsafe { self.memory.clean(&self.batch) }.expect("pages exist");
                assert_eq!(self.memory.poll(fence), pagestamp::memory::FenceState::Done);
            }
        }
        let took = begin.elapsed();
        if self.shape.cache == Cache::Cold {
            self.write();
        }
        took
    }
}

/// Zeroes `len` bytes at `at`; without string stores, as `write_bytes`.
///
/// # Safety
///
/// 1. The bytes are the caller's alone.
unsafe fn rep_stosb(at: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: (1) of the caller.
    unsafe {
        std::arch::asm!("rep stosb", inout("rcx") len => _, inout("rdi") at => _, in("al") 0_u8, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: (1) of the caller.
    unsafe {
        at.write_bytes(0, len);
    }
}
