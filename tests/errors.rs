//! `Error` takes every error of the crate by `?`, and each text says what was asked, what was there, and what to do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use pagestamp::geometry::{Dtype, ElementFormat, GeometryError, HeadCache, KvLayout, LayoutError, ModelLayout, Slice};
use pagestamp::memory::MemoryError;
use pagestamp::{
    AcceptError, AdmitError, AuditError, CapacityError, CapacityPlan, CapacityProof, ClaimError, ConfigError,
    DigestError, Error, ExtentError, GrowError, HolderId, HostMemory, Inbound, InboundError, InboundPlan, LandError,
    NotAccepted, NullMemory, OpenError, Outbound, OutboundError, OwnPages, OwnerId, PageGeometry, PagePool, Plane,
    PoolConfig, ProcessError, ReadError, Refused, Rejected, ReleaseError, Request, ReserveError, ResizeError,
    SealError, SuspendError, TicketError, TransferError, UnfitPool, WireError, WriteError, WriterError,
};

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn stage() -> (PagePool<NullMemory>, CapacityProof) {
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)]).unwrap();
    let config = PoolConfig::new(4).with_own_pages(OwnPages::None);
    let pool = PagePool::new(config, NullMemory::new(geometry, 4).unwrap()).unwrap();
    let proof = pool.prove(CapacityPlan::new(64)).unwrap();
    (pool, proof)
}

fn model() -> ModelLayout {
    let cache = HeadCache::new(1, 4, ElementFormat::plain(Dtype::F16));
    ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache)).unwrap()
}

#[test]
fn one_error_type_takes_every_other() {
    fn takes<E: Into<Error>>() {}
    takes::<AdmitError>();
    takes::<AuditError>();
    takes::<CapacityError>();
    takes::<ClaimError>();
    takes::<ConfigError>();
    takes::<ExtentError>();
    takes::<pagestamp::ForkError>();
    takes::<GeometryError>();
    takes::<GrowError>();
    takes::<InboundError>();
    takes::<LandError>();
    takes::<LayoutError>();
    takes::<MemoryError>();
    takes::<NotAccepted>();
    takes::<OpenError>();
    takes::<OutboundError>();
    takes::<ProcessError>();
    takes::<pagestamp::PublishError>();
    takes::<ReadError>();
    takes::<Rejected>();
    takes::<ReleaseError>();
    takes::<ReserveError>();
    takes::<ResizeError>();
    takes::<SealError>();
    takes::<pagestamp::handoff::SegmentError>();
    takes::<pagestamp::SlotClaimError>();
    takes::<pagestamp::SlotError>();
    takes::<SuspendError>();
    takes::<TicketError>();
    takes::<UnfitPool>();
    takes::<WriteError>();
    takes::<WriterError>();
    takes::<DigestError>();
    takes::<TransferError>();
    takes::<WireError>();
    takes::<AcceptError<HostMemory>>();
    takes::<Refused<String, TicketError>>();
    takes::<pagestamp::ValueRefused<String>>();
}

/// What an engine does with one type for all: each step may end it.
fn all_the_way(tokens: u64, step: u32) -> Result<u64, Error> {
    let (pool, proof) = stage();
    let model = model();
    let slice = Slice::new(0..u32::from(step != 1), 0..1)?;
    let mut kv = pool.admit(&proof, Request::new(owner(1), 64))?.reserve(tokens)?;
    kv.grow(if step == 2 { 0 } else { tokens })?;
    kv.assume_written(tokens)?;
    kv.commit(if step == 3 { tokens + 1 } else { tokens })?;
    kv.pin_read(0..if step == 4 { 9 } else { 1 }, HolderId(1), None)?;
    if step == 5 {
        drop(Outbound::seal(kv, &model, &slice)?);
    } else if step == 6 {
        drop(Inbound::open(kv, InboundPlan::new(&model, &slice, tokens))?);
    } else if step == 7 {
        return Err(kv.reject("the client is gone").into());
    } else {
        kv.into_handles()?;
    }
    pool.resize(if step == 8 { 99 } else { 4 })?;
    Ok(tokens)
}

#[test]
fn a_function_asks_its_way_through_the_crate_with_one_error_type() {
    assert!(matches!(all_the_way(17, 0), Ok(17)));
    assert!(matches!(all_the_way(65, 0), Err(Error::Reserve(ReserveError::PastMax { asked_tokens: 65, .. }))));
    let ends: [fn(&Error) -> bool; 8] = [
        |e| matches!(e, Error::Layout(LayoutError::EmptyRange { .. })),
        |e| matches!(e, Error::Grow(GrowError::Backward { .. })),
        |e| matches!(e, Error::Extent(ExtentError::PastWritten { .. })),
        |e| matches!(e, Error::Ticket(TicketError::OutOfRange { to_pages: 9, pages: 2 })),
        |e| matches!(e, Error::Seal(SealError::Unfit(UnfitPool::NoBytes { .. }))),
        |e| matches!(e, Error::Open(OpenError::Unfit(UnfitPool::NoBytes { .. }))),
        |e| matches!(e, Error::Rejected(rejected) if rejected.max_tokens() == 64),
        |e| matches!(e, Error::Resize(ResizeError::PastMax { pages: 99, max_pages: 4 })),
    ];
    for (step, is_end) in (1..).zip(ends) {
        let error = all_the_way(17, step).unwrap_err();
        assert!(is_end(&error), "step {step}: {error:?}");
    }
}

// C8
#[test]
fn a_refusal_that_becomes_an_error_gives_its_pages_back() {
    let (pool, proof) = stage();
    let admitted = pool.admit(&proof, Request::new(owner(1), 64)).unwrap();
    assert_eq!(pool.stats().promised_pages, 4);
    let error = Error::from(admitted.reserve(65).unwrap_err());
    assert!(matches!(error, Error::Reserve(_)), "{error:?}");
    assert_eq!((pool.stats().promised_pages, pool.stats().free_pages), (0, 4));
}

#[test]
fn texts_say_what_was_asked_what_is_there_and_what_to_do() {
    let (pool, proof) = stage();
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 32), 32).unwrap();
    let handles: Vec<_> = kv.handles().collect();
    let no_plane = kv.writer(1).unwrap().plane(3, &[0; 64]).unwrap_err();
    let seen = [
        kv.write(1, &[]).unwrap_err().to_string(),
        no_plane.to_string(),
        kv.pin_read(0..9, HolderId(1), None).unwrap_err().to_string(),
        pool.release_pages(owner(2), &handles).unwrap_err().to_string(),
        pool.close().unwrap_err().to_string(),
    ];
    let expected = [
        "0 slices were given; the pool has 1 planes, and each needs one",
        "plane 3 was asked for; the pool has 1",
        "pages up to 9 were asked for; the reservation has 2",
        &format!("handle 0 cannot be used by this owner: page {} does not belong to owner 2", handles[0].index()),
        "1 clones, reservations or scrubbers still use the pool, 2 pages are live, 0 held or not zero yet, 0 tickets and 0 \
         steps open; end them",
    ];
    assert_eq!(seen, expected);
}
