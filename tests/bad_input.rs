//! What a caller can get wrong: each is a typed error that tells what was asked and what was there, and changes nothing.
#![expect(unsafe_code, reason = "implements a memory that panics, and looks at bytes past all checks")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use pagestamp::geometry::GeometryError;
use pagestamp::memory::{
    CleanPage, Fence, FenceState, HostBytes, HostOptions, HostPlane, Lane, MemoryError, PageMemory, Span,
};
use pagestamp::{
    AdmitError, CapacityError, CapacityPlan, CapacityProof, ClaimError, ClaimToken, ConfigError, ExtentError,
    Generation, GrowError, HeldMemory, HolderId, HostMemory, Limit, NullMemory, OwnPages, OwnerId, PageGeometry,
    PageHandle, PagePool, PageState, Plane, PoolConfig, PoolStats, ReadError, RejectReason, ReleaseError, Request,
    Reservation, ReserveError, ResizeError, Resized, SuspendError, TicketError, WriteError,
};

const P: u64 = 16;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, 8), Plane::per_token(2, 3)]).unwrap()
}

/// A pool of 8 pages, 2 of them its own; owner 1 has 3 pages of which 20 tokens are written and 10 committed, and is
/// promised one more; owner 2 has one page, full.
struct Stage {
    pool: PagePool<HostMemory>,
    proof: CapacityProof,
    mine: Reservation<HostMemory>,
    theirs: Reservation<HostMemory>,
}

impl Stage {
    fn new() -> Self {
        let pool = PagePool::new(PoolConfig::new(8), HostMemory::new(geometry(), 10).unwrap()).unwrap();
        let proof = pool.prove(CapacityPlan::new(4 * P)).unwrap();
        let mut mine = pool.reserve(&proof, Request::new(owner(1), 4 * P), 3 * P).unwrap();
        mine.write(20, &[&[1; 160], &[1; 120]]).unwrap();
        mine.commit(10).unwrap();
        let mut theirs = pool.reserve(&proof, Request::new(owner(2), P), P).unwrap();
        theirs.write(P, &[&[2; 128], &[2; 96]]).unwrap();
        Self { pool, proof, mine, theirs }
    }

    fn handle(&self) -> PageHandle<HostMemory> {
        self.mine.handle(0).unwrap()
    }

    /// Calls `wrong`, and finds all as it was: counts, generations, extents, bytes, the audit.
    fn unchanged<T>(&mut self, wrong: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.seen();
        let answer = wrong(self);
        let after = self.seen();
        assert!(before == after, "{:?}\nbecame\n{:?}", before.0, after.0);
        self.pool.audit().unwrap();
        self.pool.audit_bytes(0..u32::MAX).unwrap();
        answer
    }

    fn seen(&self) -> (PoolStats, Vec<u128>, [u64; 8], Vec<u8>) {
        let handles = self.mine.handles().chain(self.theirs.handles()).map(|h| h.to_bits()).collect();
        let of =
            |kv: &Reservation<_>| [kv.max_tokens(), kv.reserved_tokens(), kv.written_tokens(), kv.committed_tokens()];
        let extents = [of(&self.mine), of(&self.theirs)].concat().try_into().unwrap();
        (without_events(self.pool.stats()), handles, extents, all_bytes(&self.pool))
    }
}

/// Refusals are counted; that is no change of the pool.
fn without_events(mut stats: PoolStats) -> PoolStats {
    (stats.full, stats.rejected, stats.late_tickets, stats.refused_reads) = (0, 0, 0, 0);
    stats
}

fn all_bytes<M: HostBytes>(pool: &PagePool<M>) -> Vec<u8> {
    // SAFETY: (1) and (2): only read, while nobody writes, and kept in the test.
    let memory = unsafe { pool.memory() };
    let mut bytes = Vec::new();
    for plane in 0..pool.geometry().planes().len() {
        let place = memory.plane(plane).unwrap();
        for page in 0..memory.max_pages() {
            // SAFETY: the page exists, and lives as long as the pool.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(place.page(page), place.page_bytes()) });
        }
    }
    bytes
}

// C9
#[test]
fn a_pool_without_a_page_to_reserve_is_not_made() {
    for (own, pages, own_pages) in
        [(OwnPages::NullAndSink, 0, 2), (OwnPages::NullAndSink, 2, 2), (OwnPages::None, 0, 0)]
    {
        let config = PoolConfig::new(pages).with_own_pages(own);
        let wrong = config.validate().unwrap_err();
        assert!(
            matches!(wrong, ConfigError::NoPages { pages: p, own_pages: o } if (p, o) == (pages, own_pages)),
            "{wrong:?}"
        );
        assert!(PagePool::new(config, NullMemory::new(geometry(), 4).unwrap()).is_err());
    }
    for pages in [5, u32::MAX] {
        let wrong = PagePool::new(PoolConfig::new(pages), NullMemory::new(geometry(), 4).unwrap()).unwrap_err();
        assert!(matches!(wrong, ConfigError::MoreThanMemory { pages: p, max_pages: 4 } if p == pages), "{wrong:?}");
    }
    for last in [0, 1] {
        let last = Generation::new(last).unwrap();
        let wrong = PoolConfig::new(4).with_last_generation(last).validate().unwrap_err();
        assert!(matches!(wrong, ConfigError::NoGenerations { last_generation } if last_generation == last));
    }
}

#[test]
fn page_sizes_of_nothing_or_past_all_limits_are_refused() {
    let one = Plane::per_token(1, 1);
    let new = |tokens, planes: &[Plane]| PageGeometry::new(tokens, planes).unwrap_err();
    assert_eq!(new(0, &[one]), GeometryError::ZeroPageTokens);
    for page_tokens in [32_768, u32::MAX] {
        assert_eq!(new(page_tokens, &[one]), GeometryError::TooManyPageTokens { page_tokens, max_page_tokens: 32_767 });
    }
    assert_eq!(new(1, &[]), GeometryError::ZeroPlanes);
    assert_eq!(new(1, &[one, Plane::per_token(0, 9)]), GeometryError::EmptyPlane { plane: 1, runs: 0, run_bytes: 9 });
    let max = u128::from(u32::MAX);
    let huge = new(32_767, &[Plane::per_token(u32::MAX, u32::MAX); 4096]);
    let page_bytes = max * max * 4096 * 32_767;
    assert_eq!(huge, GeometryError::PageTooLarge { page_bytes, max_page_bytes: 1 << 40 });
    assert_eq!(PageGeometry::bytes(0), Err(GeometryError::ZeroPageBytes));
    assert!(
        matches!(PageGeometry::bytes(u64::MAX), Err(GeometryError::PageTooLarge { page_bytes, .. }) if page_bytes == u128::from(u64::MAX))
    );
}

#[test]
fn memory_that_cannot_be_mapped_is_an_error() {
    assert!(matches!(HostMemory::new(geometry(), 0), Err(MemoryError::NoPages)));
    assert!(matches!(NullMemory::new(geometry(), 0), Err(MemoryError::NoPages)));
    let tib = PageGeometry::new(256, &[Plane::per_token(1, u32::MAX)]).unwrap();
    let wrong = HostMemory::new(tib.clone(), u32::MAX).unwrap_err();
    assert!(
        matches!(wrong, MemoryError::Overflow { plane: 0, pages: u32::MAX, page_bytes } if page_bytes == 256 * u64::from(u32::MAX))
    );
    // In range for an address, and more than any machine has room for.
    let wrong = HostMemory::new(tib, 1 << 20).unwrap_err();
    assert!(matches!(wrong, MemoryError::Map { .. }), "{wrong:?}");
    let odd = HostMemory::with_options(geometry(), 1, &HostOptions::new().with_stride_align(65)).unwrap_err();
    assert!(matches!(odd, MemoryError::StrideAlign { align_bytes: 65, multiple_of_bytes: 64 }), "{odd:?}");
}

// C9
#[test]
fn headroom_that_is_no_number_from_one_on_is_refused() {
    for headroom in
        [0.999_999, 0.0, -0.0, -1.0, f64::MIN_POSITIVE, 1000.001, f64::INFINITY, f64::NEG_INFINITY, f64::MAX]
    {
        assert_eq!(CapacityPlan::new(1).with_headroom(headroom), Err(CapacityError::BadHeadroom { headroom }));
    }
    let wrong = CapacityPlan::new(1).with_headroom(f64::NAN).unwrap_err();
    assert!(matches!(wrong, CapacityError::BadHeadroom { headroom } if headroom.is_nan()));
}

// C9
#[test]
fn plans_of_nothing_or_of_everything_are_not_proved() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        assert_eq!(s.pool.prove(CapacityPlan::new(0)), Err(CapacityError::ZeroTokens));
        for (tokens, headroom) in [(6 * P + 1, 1.0), (6 * P, 1.000_001), (u64::MAX, 1.0), (u64::MAX, 1000.0)] {
            let plan = CapacityPlan::new(tokens).with_headroom(headroom).unwrap();
            let wrong = s.pool.prove(plan).unwrap_err();
            let CapacityError::PoolTooSmall {
                max_request_tokens,
                required_pages,
                usable_pages: 6,
                pool_tokens: 96,
                ..
            } = wrong
            else {
                panic!("{wrong:?}")
            };
            assert!(max_request_tokens == tokens && required_pages > 6);
        }
    });
}

// C8, C9
#[test]
fn a_wrong_request_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        let refused = s.pool.admit(&s.proof, Request::new(owner(1), 0)).unwrap_err();
        let AdmitError::Rejected(rejected) = refused else { panic!("{refused:?}") };
        assert!(matches!(rejected.reason(), RejectReason::ZeroTokens));
        for tokens in [4 * P + 1, u64::MAX] {
            let AdmitError::Rejected(rejected) = s.pool.admit(&s.proof, Request::new(owner(1), tokens)).unwrap_err() else { panic!() };
            assert!(matches!(rejected.reason(), RejectReason::NeverFits { asked_tokens, max_request_tokens: 64, usable_pages: 6, .. } if *asked_tokens == tokens));
            assert_eq!((rejected.owner(), rejected.max_tokens()), (owner(1), tokens));
        }
        for tokens in [P + 1, u64::MAX] {
            let refused = s.pool.reserve(&s.proof, Request::new(owner(1), P), tokens).unwrap_err();
            let AdmitError::PastMax { request, asked_tokens, max_tokens: 16 } = refused else { panic!("{refused:?}") };
            assert_eq!((asked_tokens, request), (tokens, Request::new(owner(1), P)));
        }
        let refused = s.pool.reserve(&s.proof, Request::new(owner(1), 2 * P), 1).unwrap_err();
        let AdmitError::Full { request, needed_pages: 2, free_pages: 1, promised_pages: 1, pending_pages: 0, limit: Limit::Pool } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(request, Request::new(owner(1), 2 * P), "the request comes back");
        let twin = Stage::new();
        let refused = s.pool.admit(&twin.proof, Request::new(owner(1), P)).unwrap_err();
        assert!(matches!(refused, AdmitError::ForeignProof { proof_pool, pool, .. } if proof_pool == twin.pool.id() && pool == s.pool.id()));
    });
}

// C8
#[test]
fn an_admission_asked_for_too_much_comes_back_whole() {
    let mut stage = Stage::new();
    let admitted = stage.pool.admit(&stage.proof, Request::new(owner(3), P)).unwrap();
    let admitted = stage.unchanged(|_| {
        [P + 1, u64::MAX].into_iter().fold(admitted, |admitted, tokens| {
            let (back, error) = admitted.reserve(tokens).unwrap_err().into_parts();
            assert!(matches!(error, ReserveError::PastMax { asked_tokens, max_tokens: 16 } if asked_tokens == tokens));
            back
        })
    });
    assert_eq!(admitted.reserve(P).unwrap().pages(), 1);
}

// C5, C8
#[test]
fn a_wrong_write_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        let (one, two) = ([9u8; 29 * 8], [9u8; 29 * 6]);
        let past = s.mine.write(29, &[&one, &two]).unwrap_err();
        assert!(matches!(past, WriteError::PastReserved { to_tokens: 49, reserved_tokens: 48 }), "{past:?}");
        for tokens in [29, u64::MAX - 20, u64::MAX] {
            let past = s.mine.writer(tokens).unwrap_err();
            assert!(matches!(past, WriteError::PastReserved { to_tokens, reserved_tokens: 48 } if to_tokens == 20u64.saturating_add(tokens)));
        }
        for planes in [&[][..], &[&one[..8]], &[&one[..8], &two[..6], &one[..8]]] {
            let wrong = s.mine.write(1, planes).unwrap_err();
            assert!(matches!(wrong, WriteError::PlaneCount { given, planes: 2 } if given == planes.len()), "{wrong:?}");
        }
        for (tokens, first, second, plane) in [(1, 7, 6, 0), (1, 9, 6, 0), (1, 8, 5, 1), (2, 16, 6, 1), (0, 0, 1, 1), (u64::MAX, 8, 6, 0)] {
            let wrong = s.mine.write(tokens, &[&one[..first], &two[..second]]).unwrap_err();
            assert!(
                matches!(wrong, WriteError::Length { plane: p, tokens: t, given_bytes, expected_bytes }
                    if (p, t) == (plane, tokens) && given_bytes == [first, second][plane] as u64
                        && expected_bytes == tokens.saturating_mul([8, 6][plane])),
                "{wrong:?}"
            );
        }
        assert!(s.mine.write(0, &[&[], &[]]).is_ok(), "nothing is something that can be written");
    });
}

// C5, C8
#[test]
fn a_wrong_plane_leaves_the_writer_as_it_was() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        let mut writer = s.mine.writer(1).unwrap();
        for plane in [2, usize::MAX] {
            let wrong = writer.plane(plane, &[0; 8]).unwrap_err();
            assert!(matches!(wrong, WriteError::NoSuchPlane { plane: p, planes: 2 } if p == plane));
        }
        let wrong = writer.plane(1, &[0; 8]).unwrap_err();
        assert!(matches!(wrong, WriteError::Length { plane: 1, tokens: 1, given_bytes: 8, expected_bytes: 6 }));
        assert_eq!((writer.missing_planes(), writer.tokens()), (2, 20..21));
        assert!(matches!(writer.run(5, 0, 0), Err(ReadError::NoSuchPlane { plane: 5, planes: 2 })));
        assert!(matches!(writer.run(0, 0, 1), Err(ReadError::NoSuchRun { plane: 0, run: 1, runs: 1 })));
        for ordinal in [2, 3, u32::MAX] {
            assert!(matches!(writer.run(0, ordinal, 0), Err(ReadError::Unwritten { to_tokens, written_tokens: 20 }) if to_tokens == u64::from(ordinal) * 16 + 1));
        }
    });
}

// C5, C8
#[test]
fn a_wrong_extent_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        let kv = &mut s.mine;
        for to_tokens in [49, u64::MAX] {
            assert_eq!(kv.assume_written(to_tokens), Err(ExtentError::PastReserved { to_tokens, reserved_tokens: 48 }));
            assert_eq!(kv.shrink(to_tokens), Err(ExtentError::PastReserved { to_tokens, reserved_tokens: 48 }));
        }
        for to_tokens in [0, 19] {
            assert_eq!(kv.assume_written(to_tokens), Err(ExtentError::Backward { to_tokens, now_tokens: 20 }));
            assert_eq!(kv.shrink(to_tokens), Err(ExtentError::PastWritten { to_tokens, written_tokens: 20 }));
        }
        for to_tokens in [21, u64::MAX] {
            assert_eq!(kv.commit(to_tokens), Err(ExtentError::PastWritten { to_tokens, written_tokens: 20 }));
            assert_eq!(kv.truncate(to_tokens), Err(ExtentError::Upward { to_tokens, written_tokens: 20 }));
        }
        for to_tokens in [0, 9] {
            assert_eq!(kv.commit(to_tokens), Err(ExtentError::Backward { to_tokens, now_tokens: 10 }));
        }
        // Said twice is said once.
        kv.assume_written(20).unwrap();
        kv.commit(10).unwrap();
        kv.truncate(20).unwrap();
        kv.grow(48).unwrap();
    });
}

// C8, C9
#[test]
fn a_wrong_growth_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        for to_tokens in [0, 47] {
            assert!(matches!(s.mine.grow(to_tokens), Err(GrowError::Backward { to_tokens: t, reserved_tokens: 48 }) if t == to_tokens));
        }
        for to_tokens in [6 * P + 1, u64::MAX] {
            let refused = s.mine.grow(to_tokens).unwrap_err();
            assert!(matches!(refused, GrowError::NeverFits { needed_pages, usable_pages: 6, limit: Limit::Pool } if needed_pages == to_tokens.div_ceil(16)), "{refused:?}");
        }
        let refused = s.mine.grow(6 * P).unwrap_err();
        assert!(matches!(refused, GrowError::Full { max_tokens: 64, needed_pages: 2, free_pages: 1, pending_pages: 0, limit: Limit::Pool }), "{refused:?}");
    });
}

// C5, C8
#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what a caller can get wrong")]
fn a_wrong_read_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        for tokens in [0..21, 20..21, 0..u64::MAX, u64::MAX..u64::MAX] {
            let wrong = s.mine.read(tokens.clone()).unwrap_err();
            assert_eq!(wrong, ReadError::Unwritten { to_tokens: tokens.end, written_tokens: 20 });
        }
        assert_eq!(s.mine.read(7..6).unwrap_err(), ReadError::Backward { from_tokens: 7, to_tokens: 6 });
        assert_eq!(s.mine.read(u64::MAX..0).unwrap_err(), ReadError::Backward { from_tokens: u64::MAX, to_tokens: 0 });
        for empty in [0..0, 5..5, 20..20] {
            let guard = s.mine.read(empty).unwrap();
            assert_eq!((guard.pages().count(), guard.copy(0, &mut [])), (0, Ok(())));
        }
        let guard = s.mine.read(3..19).unwrap();
        let mut buffer = [0x5A; 129];
        for len in [0, 127, 129] {
            assert_eq!(
                guard.copy(0, &mut buffer[..len]),
                Err(ReadError::Length { given_bytes: len as u64, expected_bytes: 128 })
            );
        }
        assert_eq!(guard.copy(2, &mut buffer), Err(ReadError::NoSuchPlane { plane: 2, planes: 2 }));
        assert!(buffer.iter().all(|b| *b == 0x5A), "the buffer is unchanged");
        let page = s.pool.read(owner(1), s.handle()).unwrap();
        assert_eq!(page.run(2, 0), Err(ReadError::NoSuchPlane { plane: 2, planes: 2 }));
        assert_eq!(page.run(usize::MAX, 0), Err(ReadError::NoSuchPlane { plane: usize::MAX, planes: 2 }));
        for run in [2, u32::MAX] {
            assert_eq!(page.run(1, run), Err(ReadError::NoSuchRun { plane: 1, run, runs: 2 }));
        }
        assert_eq!(page.copy(0, &mut buffer[..8]), Err(ReadError::Length { given_bytes: 8, expected_bytes: 128 }));
    });
}

/// The handle with one field replaced: index, pool, generation, nonce.
fn forge(handle: PageHandle<HostMemory>, low: u32, bits: u32, value: u128) -> PageHandle<HostMemory> {
    let mask = ((1u128 << bits) - 1) << low;
    PageHandle::from_bits(handle.to_bits() & !mask | value << low & mask).unwrap()
}

// C4, C8
#[test]
fn a_handle_with_any_one_field_wrong_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        let good = s.handle();
        let (pool, bits) = (s.pool.id(), good.to_bits());
        let field = |low: u32, width: u32| bits >> low & ((1 << width) - 1);
        let mut wrong = Vec::new();
        for page in [10, 11, u32::MAX] {
            wrong.push((forge(good, 0, 32, page.into()), ReadError::OutOfRange { page, pages: 10 }));
        }
        for handle_pool in [field(32, 32) ^ 1, field(32, 32) ^ 0x8000_0000] {
            let forged = forge(good, 32, 32, handle_pool);
            wrong.push((forged, ReadError::ForeignPool { handle_pool: forged.pool(), pool }));
        }
        for nonce in [field(104, 24) ^ 1, field(104, 24) ^ 0x80_0000] {
            wrong.push((forge(good, 104, 24, nonce), ReadError::ForeignPool { handle_pool: pool, pool }));
        }
        for life in [0, 2, (1 << 40) - 1] {
            let stale = ReadError::Stale {
                page: good.index(),
                handle_generation: Generation::new(life).unwrap(),
                generation: Generation::FIRST,
                state: PageState::Live,
            };
            wrong.push((forge(good, 64, 40, life.into()), stale));
        }
        // Pages that are in another state: the pool's own, a free one, a parked one.
        for (page, state) in
            [(0, PageState::Reserved), (1, PageState::Reserved), (7, PageState::Free), (9, PageState::Parked)]
        {
            let stale =
                ReadError::Stale { page, handle_generation: Generation::FIRST, generation: Generation::FIRST, state };
            wrong.push((forge(good, 0, 32, page.into()), stale));
        }
        let theirs = s.theirs.handle(0).unwrap();
        wrong.push((
            forge(good, 0, 32, theirs.index().into()),
            ReadError::ForeignOwner { page: theirs.index(), asked_owner: owner(1) },
        ));
        for (handle, expected) in wrong {
            assert_eq!(s.pool.read(owner(1), handle).unwrap_err(), expected);
            assert_eq!(s.pool.check(owner(1), handle), Err(expected.clone()));
            let in_list = Err(ReleaseError::Handle { position: 0, source: expected });
            assert_eq!(s.pool.release_pages(owner(1), &[handle]).map(drop), in_list);
            assert_eq!(s.pool.pin(owner(1), &[handle], HolderId(1), None).map(drop), in_list);
        }
        assert!(s.pool.check(owner(1), good).is_ok());
        assert_eq!(
            s.pool.check(owner(9), good),
            Err(ReadError::ForeignOwner { page: good.index(), asked_owner: owner(9) })
        );
    });
}

// C8
#[test]
fn the_same_page_twice_in_one_call_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        let (one, two) = (s.handle(), s.mine.handle(1).unwrap());
        let twice = ReleaseError::Twice { position: 2, page: one.index() };
        assert_eq!(s.pool.release_pages(owner(1), &[one, two, one]), Err(twice.clone()));
        assert_eq!(s.pool.pin(owner(1), &[one, two, one], HolderId(1), None).map(drop), Err(twice));
        assert_eq!(s.pool.release_pages(owner(1), &[two]), Err(ReleaseError::Held { position: 0, page: two.index() }));
        assert_eq!(s.pool.release_pages(owner(1), &[]).unwrap().pages, 0);
    });
}

// C8
#[test]
fn an_owner_that_holds_nothing_is_answered_and_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        for nobody in [owner(3), owner(u64::MAX)] {
            assert_eq!(s.pool.reclaim(nobody), Default::default());
            let receipt = s.pool.erase(nobody);
            assert_eq!(
                (receipt.owner, receipt.pages, receipt.bytes_zeroed, receipt.in_flight),
                (nobody, vec![], 0, vec![])
            );
        }
    });
}

// C7, C8
#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what a caller can get wrong")]
fn a_wrong_ticket_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        for empty in [0..0, 3..3, 2..1, u32::MAX..0] {
            assert_eq!(s.mine.pin_read(empty.clone(), HolderId(1), None), Err(TicketError::Empty));
            assert_eq!(s.mine.pin_write(empty, HolderId(1), None), Err(TicketError::Empty));
        }
        for past in [0..4, 3..4, 0..u32::MAX] {
            let wrong = TicketError::OutOfRange { to_pages: past.end.into(), pages: 3 };
            assert_eq!(s.mine.pin_read(past.clone(), HolderId(1), None), Err(wrong.clone()));
            assert_eq!(s.mine.pin_write(past, HolderId(1), None), Err(wrong));
        }
        let reader = s.pool.read(owner(1), s.mine.handle(1).unwrap()).unwrap();
        let page = s.mine.handle(1).unwrap().index();
        assert_eq!(s.mine.pin_write(0..3, HolderId(1), None), Err(TicketError::Busy { page }));
        drop(reader);
        let twin = Stage::new();
        let foreign = twin.mine.pin_read(0..1, HolderId(1), None).unwrap();
        // SAFETY: (1): nobody uses the ticket.
        assert_eq!(unsafe { s.pool.ticket_done(foreign) }, Err(TicketError::Unknown(foreign)));
    });
}

// C7, C8
#[test]
fn busy_pages_refuse_and_leave_pool_unchanged() {
    let mut stage = Stage::new();
    let ticket = stage.mine.pin_write(1..2, HolderId(1), None).unwrap();
    stage.unchanged(|s| {
        let (handle, page) = (s.mine.handle(1).unwrap(), s.mine.handle(1).unwrap().index());
        let busy = ReadError::Busy { page };
        assert_eq!(s.mine.read(0..20).unwrap_err(), busy);
        assert!(s.mine.read(0..16).is_ok(), "the page before has no ticket");
        assert_eq!(s.pool.read(owner(1), handle).unwrap_err(), busy);
        let in_list = ReleaseError::Handle { position: 0, source: busy };
        assert_eq!(s.pool.pin(owner(1), &[handle], HolderId(2), None), Err(in_list));
        assert_eq!(s.mine.pin_read(0..3, HolderId(2), None), Err(TicketError::Busy { page }));
        assert!(matches!(s.mine.write(1, &[&[0; 8], &[0; 6]]), Err(WriteError::Busy { page: p }) if p == page));
        assert!(matches!(s.mine.writer(1), Err(WriteError::Busy { page: p }) if p == page));
        assert_eq!(s.mine.assume_written(21), Err(ExtentError::Busy { page }));
        assert_eq!(s.mine.truncate(17), Err(ExtentError::Busy { page }));
        assert!(matches!(s.pool.suspend(), Err(SuspendError::Busy { promised_pages: 0, tickets: 1, steps: 0 })));
    });
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { stage.pool.ticket_done(ticket) }.unwrap();
    assert!(stage.mine.read(0..20).is_ok());
}

// C7, C8
#[test]
fn a_reservation_with_an_open_write_ticket_comes_back_whole_from_into_handles() {
    let Stage { pool, mut mine, .. } = Stage::new();
    mine.pin_write(2..3, HolderId(1), None).unwrap();
    let page = mine.handle(2).unwrap().index();
    let before = pool.stats();
    let (mine, error) = mine.into_handles().unwrap_err().into_parts();
    assert_eq!((error, pool.stats()), (TicketError::Busy { page }, before));
    assert_eq!((mine.written_tokens(), mine.pages()), (20, 3));
}

// C7
#[test]
fn ticket_65535_of_a_page_is_refused() {
    let mut stage = Stage::new();
    let handle = stage.handle();
    let page = handle.index();
    let tickets: Vec<_> = (0..65_534).map(|n| stage.mine.pin_read(0..1, HolderId(n), None).unwrap()).collect();
    stage.unchanged(|s| {
        assert_eq!(s.mine.pin_read(0..1, HolderId(0), None), Err(TicketError::TooMany { page }));
        assert!(s.pool.pin(owner(1), &[handle], HolderId(0), None).is_err());
    });
    for ticket in tickets {
        // SAFETY: (1): nobody reads under the ticket.
        unsafe { stage.pool.ticket_done(ticket) }.unwrap();
    }
    assert_eq!(stage.pool.stats().tickets, 0);
}

// C8
#[test]
fn a_wrong_resize_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    stage.unchanged(|s| {
        for pages in [11, u32::MAX] {
            assert_eq!(s.pool.resize(pages), Err(ResizeError::PastMax { pages, max_pages: 10 }));
        }
        for pages in [0, 1, 2] {
            assert_eq!(s.pool.resize(pages), Err(ResizeError::NoPages { pages, own_pages: 2 }));
        }
        assert_eq!(s.pool.resume(), Err(SuspendError::NotSuspended));
    });
}

// C1, C9
#[test]
fn a_resize_below_what_is_live_or_promised_is_pending_and_no_page_moves() {
    let mut stage = Stage::new();
    let handles: Vec<_> = stage.mine.handles().collect();
    assert_eq!(stage.pool.resize(3).unwrap(), Resized::Pending { target_pages: 3, pages: 7 });
    assert_eq!(stage.mine.handles().collect::<Vec<_>>(), handles);
    stage.mine.grow(4 * P).unwrap();
    stage.pool.audit().unwrap();
    drop((stage.mine, stage.theirs));
    stage.pool.maintain(0);
    assert_eq!((stage.pool.stats().parked_pages, stage.pool.stats().free_pages), (7, 1));
    stage.pool.audit().unwrap();
}

// C8, C9
#[test]
fn a_suspended_pool_refuses_by_name() {
    let Stage { pool, proof, mut mine, .. } = Stage::new();
    let admitted = pool.admit(&proof, Request::new(owner(3), P)).unwrap();
    assert_eq!(pool.suspend(), Err(SuspendError::Busy { promised_pages: 1, tickets: 0, steps: 0 }));
    drop(admitted);
    pool.suspend().unwrap();
    let AdmitError::Suspended { request } = pool.admit(&proof, Request::new(owner(3), P)).unwrap_err() else {
        panic!()
    };
    assert_eq!(request, Request::new(owner(3), P));
    assert_eq!(pool.resize(4), Err(ResizeError::Suspended));
    // The reservation that was revoked says so, whatever is asked of it.
    assert!(matches!(mine.grow(64), Err(GrowError::Revoked)));
    assert!(matches!(mine.write(1, &[&[0; 8], &[0; 6]]), Err(WriteError::Revoked)));
    assert!(matches!(mine.writer(1), Err(WriteError::Revoked)));
    assert_eq!(mine.assume_written(21), Err(ExtentError::Revoked));
    assert_eq!(mine.commit(11), Err(ExtentError::Revoked));
    assert_eq!(mine.truncate(1), Err(ExtentError::Revoked));
    assert_eq!(mine.shrink(20), Err(ExtentError::Revoked));
    assert_eq!(mine.read(0..1).unwrap_err(), ReadError::Revoked);
    assert_eq!(mine.pin_read(0..1, HolderId(1), None), Err(TicketError::Revoked));
    assert_eq!(mine.pin_write(0..1, HolderId(1), None), Err(TicketError::Revoked));
    assert_eq!((mine.handle(0), mine.handles().count()), (None, 0));
    let (mine, error) = mine.into_handles().unwrap_err().into_parts();
    assert_eq!(error, TicketError::Revoked);
    assert!(mine.release().was_revoked);
    pool.resume().unwrap();
    assert_eq!(pool.resume(), Err(SuspendError::NotSuspended));
    pool.audit().unwrap();
}

// C8
#[test]
fn an_admission_of_a_reclaimed_owner_says_so_and_keeps_nothing() {
    let Stage { pool, proof, .. } = Stage::new();
    let admitted = pool.admit(&proof, Request::new(owner(3), P)).unwrap();
    assert_eq!(pool.reclaim(owner(3)).revoked, 1);
    let (admitted, error) = admitted.reserve(P).unwrap_err().into_parts();
    assert!(matches!(error, ReserveError::Revoked));
    drop(admitted);
    assert_eq!((pool.stats().promised_pages, pool.stats().reservations), (0, 0));
    pool.audit().unwrap();
}

// C2, C8
#[test]
fn a_claim_that_is_misused_leaves_pool_unchanged() {
    let mut stage = Stage::new();
    let token = ClaimToken { id: u128::MAX, expires_at_ns: 0 };
    let ask = |s: &Stage, who: u64, max: u64, now: u64| {
        s.pool.reserve(&s.proof, Request::new(owner(who), max).with_claim(token), now).map_err(Box::new)
    };
    let misuse = |s: &Stage, who: u64, max: u64, now: u64| match *ask(s, who, max, now).unwrap_err() {
        AdmitError::Claim { request, source } => {
            assert_eq!(request, Request::new(owner(who), max).with_claim(token), "the request comes back");
            source
        }
        other => panic!("{other:?}"),
    };
    let first = ask(&stage, 3, P, 5).unwrap();
    stage.unchanged(|s| {
        assert_eq!(misuse(s, 3, P, 5), ClaimError::InUse);
        assert_eq!(misuse(s, 4, P, 5), ClaimError::ForeignOwner);
        assert_eq!(misuse(s, 3, P, 6), ClaimError::Different { max_tokens: 16, tokens: 5 });
        assert_eq!(misuse(s, 3, P - 1, 5), ClaimError::Different { max_tokens: 16, tokens: 5 });
        assert_eq!(s.pool.expire_claims(u64::MAX), 0);
    });
    drop(first);
    stage.unchanged(|s| {
        assert_eq!(misuse(s, 4, P, 5), ClaimError::ForeignOwner);
        assert_eq!(misuse(s, 3, P, 6), ClaimError::Different { max_tokens: 16, tokens: 5 });
    });
    stage.pool.reclaim(owner(3));
    assert_eq!(misuse(&stage, 3, P, 5), ClaimError::Ended);
    assert_eq!(stage.pool.expire_claims(u64::MAX), 0);
    stage.pool.audit().unwrap();
}

/// Host memory that panics in its next calls of `clean`: user code that fails.
#[derive(Debug)]
struct Panicking {
    host: HostMemory,
    panics: AtomicU32,
}

// SAFETY: (1) to (7): all is passed on to host memory; a panic comes before anything was done.
unsafe impl PageMemory for Panicking {
    const NAME: &'static str = "panicking";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.host.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.host.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        let left = self.panics.load(Ordering::Relaxed);
        if left > 0 {
            self.panics.store(left - 1, Ordering::Relaxed);
            panic!("planted");
        }
        // SAFETY: (1) of the caller.
        unsafe { self.host.clean(batch) }
    }

    fn poll(&self, fence: Fence) -> FenceState {
        self.host.poll(fence)
    }

    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        self.host.order_after(fence, lane)
    }

    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.host.decommit(pages)
    }

    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.host.commit(pages)
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.host.write(at, src) }
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.host.read(at, dst) }
    }
}

// SAFETY: (1) to (3): those of host memory.
unsafe impl HostBytes for Panicking {
    fn plane(&self, plane: usize) -> Option<HostPlane> {
        self.host.plane(plane)
    }
}

// C1, C3, C11
#[test]
fn a_memory_that_panics_loses_no_page_and_leaks_no_byte() {
    type Leave = fn(&PagePool<Panicking>, Vec<Reservation<Panicking>>);
    let ways: [(&str, Leave); 4] = [
        ("release", |_, all| drop(all.into_iter().map(Reservation::release).collect::<Vec<_>>())),
        ("clear", |pool, _all| assert_eq!(pool.clear().pages, 0)),
        ("reclaim", |pool, _all| assert_eq!(pool.reclaim(owner(1)).pages, 0)),
        ("erase", |pool, _all| assert_eq!(pool.erase(owner(1)).pages, [])),
    ];
    for (name, leave) in ways {
        let memory = Panicking { host: HostMemory::new(geometry(), 5).unwrap(), panics: AtomicU32::new(0) };
        let pool = PagePool::new(PoolConfig::new(5), memory).unwrap();
        let proof = pool.prove(CapacityPlan::new(P)).unwrap();
        let all: Vec<_> = (0..3)
            .map(|_| {
                let mut kv = pool.reserve(&proof, Request::new(owner(1), P), P).unwrap();
                kv.write(P, &[&[0xAA; 128], &[0xAA; 96]]).unwrap();
                kv
            })
            .collect();
        // SAFETY: (1) and (2): nothing of the memory's is called.
        unsafe { pool.memory() }.panics.store(1, Ordering::Relaxed);
        assert!(
            catch_unwind(AssertUnwindSafe(|| leave(&pool, all))).is_err(),
            "{name}: the panic is the caller's to see"
        );
        pool.audit().unwrap();
        pool.maintain(usize::MAX);
        let stats = pool.stats();
        assert_eq!((stats.free_pages, stats.cleaning_pages, stats.live_pages), (3, 0, 0), "{name}");
        assert_eq!(stats.clean_errors, 1);
        pool.audit().unwrap();
        pool.audit_bytes(0..5).unwrap();
    }
}

// C8
#[test]
fn a_ticket_for_no_page_is_refused_by_handles_too() {
    let s = Stage::new();
    let before = s.pool.stats();
    assert_eq!(s.pool.pin(owner(1), &[], HolderId(1), None), Err(ReleaseError::Empty));
    assert_eq!(s.pool.stats(), before);
}

// C8, C9
#[test]
fn a_claim_that_asks_for_a_promise_only_is_refused_and_not_ignored() {
    let s = Stage::new();
    let before = s.pool.stats();
    let request = Request::new(owner(1), P).with_claim(ClaimToken { id: 7, expires_at_ns: 1 });
    let Err(AdmitError::Claim { request, source: ClaimError::NeedsReserve }) = s.pool.admit(&s.proof, request) else {
        panic!("the claim was ignored");
    };
    assert_eq!(s.pool.stats(), before);
    drop(s.pool.reserve(&s.proof, request, P).unwrap());
}

/// Owner 1 left its bytes in the one page of a pool, and owner 2 has it on a lane before they are zeroed: the cleaning
/// fails, once or twice.
fn cleaning_fails_for_a_lane(fails_again: bool) {
    let memory = HeldMemory::new(geometry(), 1).unwrap();
    let control = memory.control();
    let pool = PagePool::new(PoolConfig::new(1).with_own_pages(OwnPages::None), memory).unwrap();
    let proof = pool.prove(CapacityPlan::new(P)).unwrap();
    let mut kv = pool.reserve(&proof, Request::new(owner(1), P), P).unwrap();
    kv.write(P, &[&[0xA5; 128], &[0xA5; 96]]).unwrap();
    kv.release();

    let request = Request::new(owner(2), P).on_lane(Lane::from_raw(7));
    let mut kv = pool.reserve(&proof, request, P).unwrap();
    let handle = kv.handle(0).unwrap();
    kv.assume_written(4).unwrap();
    let mut answers = || {
        let by_handle = pool.check(owner(2), handle).unwrap_err();
        let reads = [by_handle, kv.read(0..4).map(drop).unwrap_err()];
        (reads, kv.write(1, &[&[2; 8], &[2; 6]]).unwrap_err(), kv.writer(1).map(drop).unwrap_err())
    };
    for _ in 0..2 {
        let pending = ReadError::Pending { page: 0 };
        let write = WriteError::Pending { page: 0 };
        assert_eq!(answers(), ([pending.clone(), pending], write.clone(), write), "the fence is open");
        pool.maintain(9);
    }
    assert!(control.fail_next().is_some());
    for _ in 0..2 {
        let failed = ReadError::CleaningFailed { page: 0 };
        let write = WriteError::CleaningFailed { page: 0 };
        assert_eq!(answers(), ([failed.clone(), failed], write.clone(), write), "waiting helps no more");
        pool.maintain(9);
    }
    pool.audit().unwrap();

    kv.release();
    assert_eq!(pool.stats().live_pages, 0);
    pool.maintain(9);
    if fails_again {
        assert!(control.fail_next().is_some(), "the release cleans the page anew");
        pool.maintain(9);
        let stats = pool.stats();
        assert_eq!((stats.retired_pages, stats.poisoned_pages, stats.free_pages), (1, 1, 0));
        assert!(pool.reserve(&proof, Request::new(owner(3), P), P).is_err(), "nobody has it again");
    } else {
        assert_eq!(control.finish_all(), 1, "the release cleans the page anew");
        let mut kv = pool.reserve(&proof, Request::new(owner(3), P), P).unwrap();
        kv.assume_written(P).unwrap();
        let guard = kv.read(0..P).unwrap();
        let (mut one, mut two) = ([1; 128], [1; 96]);
        guard.copy(0, &mut one).unwrap();
        guard.copy(1, &mut two).unwrap();
        assert_eq!((one, two), ([0; 128], [0; 96]), "another tenant's bytes");
    }
    pool.audit().unwrap();
    pool.audit_bytes(0..u32::MAX).unwrap();
}

// C3, C11
#[test]
fn a_page_whose_cleaning_failed_says_so_and_is_zero_for_its_next_owner() {
    cleaning_fails_for_a_lane(false);
}

// C1, C3
#[test]
fn a_page_whose_cleaning_failed_twice_is_nobodys_again() {
    cleaning_fails_for_a_lane(true);
}
