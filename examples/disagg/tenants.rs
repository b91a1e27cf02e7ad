//! Who had decode's pages before, and who has them after; and what anybody can read of anybody else's.

use pagestamp::{CapacityPlan, ForeignMemory, OwnerId, PageHandle, PagePool, Request, Reservation};

use crate::Failure;
use crate::contiguous::Contiguous;
use crate::kv_cache::PAGE_TOKENS;
use crate::lines::note;
use crate::needles::Needles;
use crate::paged::Paged;
use crate::scene::{DECODE_PAGES, Owners, Scene};

/// The pool of decode.
pub(crate) type Pool = PagePool<ForeignMemory>;

/// A request's pages in it.
pub(crate) type Pages = Reservation<ForeignMemory>;

/// Whether tenant B's handoff was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handoff {
    Open,
    Accepted,
}

/// Looks for bytes in the wrong hands, by their content.
#[derive(Debug)]
pub(crate) struct Watch {
    owners: Owners,
    needles_a: Needles,
    needles_b: Needles,
    /// every handle that was ever seen
    handles: Vec<PageHandle<ForeignMemory>>,
    leaked: bool,
}

impl Watch {
    /// Knows what tenants A and B have that the other has not.
    pub(crate) fn new(scene: &Scene, kv_a: &Contiguous, kv_b: &Contiguous) -> Self {
        let layers = scene.model.shape().layers;
        let (a, b) = (Needles::of(kv_a, layers), Needles::of(kv_b, layers));
        let (needles_a, needles_b) = (a.without(&b), b.without(&a));
        Self { owners: scene.owners, needles_a, needles_b, handles: Vec::new(), leaked: false }
    }

    pub(crate) fn leaked(&self) -> bool {
        self.leaked
    }

    /// Keeps handles, as an engine would that forgets to forget them.
    pub(crate) fn keep(&mut self, handles: impl Iterator<Item = PageHandle<ForeignMemory>>) {
        self.handles.extend(handles);
    }

    /// Says whether bytes that `reader` can read are another tenant's.
    pub(crate) fn are_foreign(&self, reader: OwnerId, bytes: &[u8]) -> bool {
        let Owners { a, b, .. } = self.owners;
        (reader != a && self.needles_a.found_in(bytes) > 0) || (reader != b && self.needles_b.found_in(bytes) > 0)
    }

    /// Notes bytes that `reader` has read.
    pub(crate) fn has_read(&mut self, reader: OwnerId, bytes: &[u8]) {
        if self.are_foreign(reader, bytes) {
            note(format_args!("owner {reader} has read another tenant's bytes"));
            self.leaked = true;
        }
    }

    /// Reads every handle that was ever seen, as every tenant.
    pub(crate) fn look(&mut self, pool: &Pool, handoff: Handoff) -> Result<(), Failure> {
        let Owners { a, b, c } = self.owners;
        for owner in [a, b, c] {
            let mut bytes = Vec::new();
            for guard in self.handles.iter().filter_map(|handle| pool.read(owner, *handle).ok()) {
                for plane in 0..pool.geometry().planes().len() {
                    bytes.extend_from_slice(guard.run(plane, 0)?);
                }
            }
            self.has_read(owner, &bytes);
            if owner == b && handoff == Handoff::Open && !bytes.is_empty() {
                note(format_args!("owner {b} has read pages that were not accepted"));
                self.leaked = true;
            }
        }
        Ok(())
    }
}

/// Fills every page with tenant A's tokens, and releases them all: whoever has a page next has one of A's.
pub(crate) fn come_and_go(scene: &Scene, pool: &Pool, kv_a: &Contiguous, watch: &mut Watch) -> Result<(), Failure> {
    let tokens = (DECODE_PAGES / 2) as u64 * PAGE_TOKENS as u64;
    let proof = pool.prove(CapacityPlan::new(tokens))?;
    let mut all = Vec::new();
    for _ in 0..2 {
        let mut kv = pool.reserve(&proof, Request::new(scene.owners.a, tokens), tokens)?;
        kv_a.copy_to(&mut Paged::new(&mut kv, scene.model.shape()))?;
        watch.keep(kv.handles());
        all.push(kv);
    }
    watch.look(pool, Handoff::Open)?;
    let pages: u64 = all.into_iter().map(|kv| kv.release().pages).sum();
    note(format_args!("tenant A had all {pages} pages, and is gone"));
    Ok(())
}

/// Tenant C, in pages that others had before.
#[derive(Debug)]
pub(crate) struct Next {
    kv: Pages,
    /// whether every byte was zero when the pages came
    came_clean: bool,
}

impl Next {
    /// Takes all pages that are free, looks at what they bring, and fills them.
    ///
    /// # Errors
    /// What the pool says, which has room.
    pub(crate) fn take_all(owner: OwnerId, pool: &Pool, watch: &mut Watch) -> Result<Self, Failure> {
        let tokens = pool.stats().free_pages * PAGE_TOKENS as u64;
        let proof = pool.prove(CapacityPlan::new(tokens))?;
        let mut kv = pool.reserve(&proof, Request::new(owner, tokens), tokens)?;
        // C's engine swears that a kernel wrote, and none did: C sees what lies in the pages.
        kv.assume_written(tokens)?;
        let mut came_clean = true;
        for plane in 0..pool.geometry().planes().len() {
            let mut bytes = vec![0; bytes_of(pool, plane, tokens)];
            kv.read(0..tokens)?.copy(plane, &mut bytes)?;
            watch.has_read(owner, &bytes);
            came_clean &= bytes.iter().all(|byte| *byte == 0);
        }
        kv.truncate(0)?;
        let planes: Vec<Vec<u8>> =
            (0..pool.geometry().planes().len()).map(|plane| pattern(pool, plane, tokens)).collect();
        let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
        kv.write(tokens, &planes)?;
        watch.keep(kv.handles());
        note(format_args!("tenant C has {} pages, {}", kv.pages(), if came_clean { "all zero" } else { "NOT zero" }));
        Ok(Self { kv, came_clean })
    }

    /// Says whether the pages came clean, and hold what C wrote.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn is_intact(&self) -> Result<bool, Failure> {
        let (pool, tokens) = (self.kv.pool(), self.kv.written_tokens());
        let guard = self.kv.read(0..tokens)?;
        let mut intact = self.came_clean;
        for plane in 0..pool.geometry().planes().len() {
            let mut bytes = vec![0; bytes_of(pool, plane, tokens)];
            guard.copy(plane, &mut bytes)?;
            intact &= bytes == pattern(pool, plane, tokens);
        }
        Ok(intact)
    }

    pub(crate) fn release(self) {
        self.kv.release();
    }
}

fn bytes_of(pool: &Pool, plane: usize, tokens: u64) -> usize {
    pool.geometry().planes().get(plane).map_or(0, |plane| plane.token_bytes() * tokens) as usize
}

/// What C writes: other bytes in each plane and token, and none of them zero.
fn pattern(pool: &Pool, plane: usize, tokens: u64) -> Vec<u8> {
    let row = bytes_of(pool, plane, 1);
    (0..tokens as usize).flat_map(|token| std::iter::repeat_n((plane * 31 + token * 7) as u8 | 1, row)).collect()
}
