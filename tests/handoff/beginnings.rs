//! What cannot begin gives everything back.

use pagestamp::geometry::*;
use pagestamp::*;

use crate::world::*;

// C8
#[test]
fn an_inbound_that_does_not_open_gives_the_reservation_back() {
    let world = World::new();
    let mut kv = reserve(&world.decode, owner(1), 64, 40);
    let refused = |kv: Reservation<HostMemory>, model: &ModelLayout, slice: &Slice, tokens| {
        let extents = (kv.reserved_tokens(), kv.written_tokens(), kv.pages());
        let (kv, error) =
            Inbound::open(kv, InboundPlan::new(model, slice, tokens)).expect_err("it must not open").into_parts();
        assert_eq!((kv.reserved_tokens(), kv.written_tokens(), kv.pages()), extents);
        (kv, error)
    };
    let (model, slice) = (&world.model, &world.slice);
    let error;
    (kv, error) = refused(kv, model, slice, 41);
    assert_eq!(error, OpenError::PastReserved { tokens: 41, reserved_tokens: 40 });
    let error;
    (kv, error) = refused(kv, model, slice, u64::MAX);
    assert_eq!(error, OpenError::PastReserved { tokens: u64::MAX, reserved_tokens: 40 });
    let error;
    (kv, error) = refused(kv, model, &Slice::new(0..2, 0..3).expect("a range"), 40);
    assert!(matches!(error, OpenError::Unfit(UnfitPool::Layout(LayoutError::OutsideModel { .. }))));
    for (page_tokens, other) in [(32, slice.clone()), (24, slice.clone()), (P, Slice::new(0..2, 0..1).expect("heads"))]
    {
        let error;
        (kv, error) = refused(kv, &model_of(page_tokens, "r1", HeadOrder::Nhd), &other, 40);
        assert!(matches!(error, OpenError::Unfit(UnfitPool::Geometry { .. })), "{error}");
    }
    let pin = kv.pin_write(1..2, HolderId(1), None).expect("it is alone");
    let page = kv.handle(1).expect("a page").index();
    let error;
    (kv, error) = refused(kv, model, slice, 40);
    assert_eq!(error, OpenError::Write(WriteError::Busy { page }));
    // SAFETY: (1) of `ticket_done`: there is no outside party.
    unsafe { world.decode.ticket_done(pin) }.expect("it was open");
    write(&mut kv, 1, 3);
    let error;
    (kv, error) = refused(kv, model, slice, 2);
    assert_eq!(error, OpenError::PastExpected { written_tokens: 3, tokens: 2 });
    let error;
    (kv, error) = refused(kv, model, slice, 40);
    assert_eq!(error, OpenError::Drafts { written_tokens: 3, committed_tokens: 0 });
    kv.commit(3).expect("written");
    let error;
    (kv, error) = refused(kv, model, slice, 40);
    assert_eq!(error, OpenError::PartOfPage { written_tokens: 3, page_tokens: P });
    world.decode.reclaim(owner(1));
    let (kv, error) = Inbound::open(reserve_empty(kv, &world), world.plan(1)).expect_err("revoked").into_parts();
    assert_eq!(error, OpenError::Write(WriteError::Revoked));
    drop(kv);
    assert_untouched(&world.decode);
}

/// An empty reservation of an owner who was reclaimed while it existed.
fn reserve_empty(before: Reservation<HostMemory>, world: &World) -> Reservation<HostMemory> {
    drop(before);
    let kv = reserve(&world.decode, owner(1), 16, 16);
    world.decode.reclaim(owner(1));
    kv
}

// C8
#[test]
fn an_outbound_that_is_not_sealed_gives_the_reservation_back() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 64, 40);
    write(&mut kv, 1, 40);
    kv.commit(40).expect("written");
    let other = model_of(32, "r1", HeadOrder::Nhd);
    let (kv, error) = Outbound::seal(kv, &other, &world.slice).expect_err("other pages").into_parts();
    assert!(matches!(error, SealError::Unfit(UnfitPool::Geometry { .. })));
    assert_holds(&kv, 1, 40);
    world.prefill.reclaim(owner(1));
    let (_, error) = Outbound::seal(kv, &world.model, &world.slice).expect_err("revoked").into_parts();
    assert_eq!(error, SealError::Read(ReadError::Revoked));
    assert_untouched(&world.prefill);
}

// C8
#[test]
fn memory_without_bytes_is_refused_by_both_ends() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let slice = Slice::whole(&model);
    let memory = NullMemory::new(model.geometry(&slice).expect("a good layout"), POOL_PAGES).expect("pages");
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let kv = reserve(&pool, owner(1), 16, 16);
    let (mut kv, error) = Inbound::open(kv, InboundPlan::new(&model, &slice, 16)).expect_err("no bytes").into_parts();
    assert_eq!(error, OpenError::Unfit(UnfitPool::NoBytes { memory: "null" }));
    kv.assume_written(16).expect("reserved");
    kv.commit(16).expect("written");
    let (kv, error) = Outbound::seal(kv, &model, &slice).expect_err("no bytes").into_parts();
    assert_eq!(error, SealError::Unfit(UnfitPool::NoBytes { memory: "null" }));
    assert_eq!(kv.committed_tokens(), 16);
}
