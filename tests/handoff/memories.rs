//! Device-like memory, readers, memory that refuses.

use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};

use pagestamp::geometry::*;
use pagestamp::memory::{Lane, MemoryError};
use pagestamp::*;

use crate::watched::Watched;
use crate::world::*;

// C3, C7, C10
#[test]
fn a_refused_handoff_into_a_device_waits_for_its_cleaning() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let world = World::of(model.clone());
    let memory = HeldMemory::new(world.decode.geometry().clone(), POOL_PAGES).expect("a small map");
    let control = memory.control();
    let device = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let open = |lane: Option<Lane>| {
        let proof = device.prove(CapacityPlan::new(512)).expect("the pool holds the plan");
        let request = Request::new(owner(1), 512);
        let request = if let Some(lane) = lane { request.on_lane(lane) } else { request };
        Inbound::open(device.reserve(&proof, request, 512).expect("room"), world.plan(512))
    };
    let mut outbound = world.sealed(1, 512);
    let mut inbound = open(None).expect("it opens");
    let sent = send(&mut outbound, &mut inbound);
    let mut digests = digests_of(&sent);
    digests.swap(3, 4);
    let refused = accept(inbound, &with_digests(&sent, Checksum::Xxh3, digests)).expect_err("swapped");
    assert!(matches!(refused.error(), InboundError::Digest { page: 3, .. }));
    let stats = device.stats();
    assert_eq!((stats.free_pages, stats.cleaning_pages), (0, USABLE), "the device has not zeroed them yet");

    // for a lane the pages may be had before that, but no host byte may land there
    let (kv, error) = open(Some(Lane::from_raw(1))).expect_err("it is being cleaned").into_parts();
    assert!(matches!(error, OpenError::Write(WriteError::Pending { .. })));
    control.finish_all();
    let mut inbound = Inbound::open(kv, world.plan(512)).expect("it is clean");
    let sent = send(&mut outbound, &mut inbound);
    let kv = accept(inbound, &sent).expect("all fits");
    assert_holds(&kv, 1, 512);
    kv.release();
    control.finish_all();
    device.maintain(usize::MAX);
    assert_untouched(&device);
}

// C5, C10
#[test]
fn nothing_is_readable_while_it_is_being_verified() {
    let world = World::new();
    let memory = Watched::new(world.decode.geometry());
    let reads = memory.reads.clone();
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let kv = reserve(&pool, owner(1), 40, 40);
    let mut inbound = Inbound::open(kv, world.plan(40)).expect("it opens");
    let sent = send(&mut world.sealed(1, 40), &mut inbound);
    let (handles, looked) = (handles_of(&inbound), std::sync::Arc::new(AtomicU32::new(0)));
    let (watching, count) = (pool.clone(), looked.clone());
    let watch = move || {
        let guards = handles.iter().map(|handle| watching.read(owner(1), *handle).expect("its owner asks"));
        assert!(guards.into_iter().all(|guard| guard.written_tokens() == 0), "readable before it was verified");
        count.fetch_add(1, Ordering::Relaxed);
    };
    assert!(reads.0.set(Box::new(watch)).is_ok());
    let kv = accept(inbound, &sent).expect("all fits");
    assert_eq!(looked.load(Ordering::Relaxed), 3 * PLANES as u32, "every plane of every page was read back");
    assert_eq!(kv.written_tokens(), 40);
}

// C8, C10
#[test]
fn a_part_that_the_memory_refused_is_missing_and_may_be_sent_again() {
    let world = World::new();
    let memory = Watched::new(world.decode.geometry());
    memory.stores_until_refusal.store(5, Ordering::Relaxed);
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let mut outbound = world.sealed(1, 40);
    let mut inbound = Inbound::open(reserve(&pool, owner(1), 40, 40), world.plan(40)).expect("it opens");
    let offer = inbound.offer();
    let sent = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
    let refused = LandError::Write(WriteError::Memory(MemoryError::Injected));
    assert_eq!(sent, Err(OutboundError::Land(refused)));
    assert_eq!(inbound.complete_pages(), 1, "one page and one plane");
    let sent =
        outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("what landed counts once");
    assert_holds(&accept(inbound, &sent).expect("all fits"), 1, 40);
}

// C12
#[test]
fn bytes_never_land_under_a_reader_that_was_there_before() {
    let world = World::new();
    let mut kv = reserve(&world.decode, owner(1), 40, 40);
    write(&mut kv, 7, 20);
    let before = kv.handle(0).expect("a page");
    let guard = world.decode.read(owner(1), before).expect("its owner reads");
    kv.truncate(0).expect("back to nothing");
    let mut inbound = Inbound::open(kv, world.plan(40)).expect("it opens");
    assert_ne!(handles_of(&inbound)[0], before, "the page that is read was exchanged");
    let mut outbound = world.sealed(1, 40);
    let sent = send(&mut outbound, &mut inbound);
    let seen = guard.run(0, 0).expect("a run");
    assert!(seen == plane_bytes(world.decode.geometry(), 7, 0, 0..16), "what a reader sees does not change");
    drop(guard);
    assert_holds(&accept(inbound, &sent).expect("all fits"), 1, 40);
}

// C12
#[test]
fn a_reader_that_comes_while_bytes_land_does_not_move_the_pages() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer();
    let handles = handles_of(&inbound);
    let guards: Vec<_> = handles.iter().map(|handle| world.decode.read(owner(1), *handle).expect("live")).collect();
    let sent = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("it is sent");
    assert_eq!(inbound.offer(), offer, "the pages that were offered");
    let kv = accept(inbound, &sent).expect("all fits");
    assert_eq!(kv.handles().collect::<Vec<_>>(), handles);
    assert!(guards.iter().all(|guard| guard.written_tokens() == 0), "an old guard covers what it covered");
    drop(guards);
    assert_holds(&kv, 1, 40);
}

// C11
#[test]
fn no_debug_and_no_error_shows_page_contents_or_digests() {
    let world = World::new();
    let secret = b"SWORDFISH-SWORDF";
    let mut kv = reserve(&world.prefill, owner(1), 16, 16);
    let plane: Vec<u8> = secret.repeat(16);
    kv.write(16, &[&plane, &plane, &plane, &plane]).expect("reserved");
    kv.commit(16).expect("written");
    let mut outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    let mut inbound = world.open(16, 16);
    let sent = send(&mut outbound, &mut inbound);
    let digest = digests_of(&sent)[0];
    let landing = inbound.landing(Writer::ONLY).expect("it lands");
    let mut shown = format!("{landing:?} {digest:?}");
    drop(landing);
    shown += &format!("{outbound:?} {inbound:?} {:?} {sent:?}", inbound.offer());
    let lie = with_digests(&sent, Checksum::Xxh3, vec![Digest::from_bytes([7; 16])]);
    let refused = accept(inbound, &lie).expect_err("another digest");
    shown += &format!("{refused} {refused:?} {:?} {:?}", refused.source(), refused.refusal());
    let digester = digester_of(sent.transfer(), &world.model, &world.slice);
    let mut page = digester.page(0, 16);
    page.update(secret);
    shown += &format!("{page:?}");
    let as_list = |bytes: &[u8]| format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let number = u128::from_be_bytes(digest.to_bytes());
    for hidden in [
        "SWORDFISH".to_owned(),
        as_list(&secret[..8]),
        hex(&secret[..8]),
        hex(&digest.to_bytes()),
        as_list(&digest.to_bytes()),
        number.to_string(),
    ] {
        assert!(!shown.contains(&hidden), "{hidden} is shown");
    }
}

#[test]
fn both_ends_and_the_messages_may_go_to_other_threads() {
    fn is_send_sync<T: Send + Sync + 'static>() {}
    is_send_sync::<Inbound<HostMemory>>();
    is_send_sync::<Outbound<HostMemory>>();
    is_send_sync::<Offer>();
    is_send_sync::<Receipt>();
    is_send_sync::<Refusal>();
    is_send_sync::<pagestamp::NotAccepted>();
}

// C10
#[test]
fn a_token_larger_than_what_a_device_shows_at_once_is_handed_over_whole() {
    // one run of a token has 24 KiB, and the memory shows 16 KiB at once
    let cache = HeadCache::new(48, 256, ElementFormat::plain(Dtype::F16));
    let model = ModelLayout::new("wide", "r1", KvLayout::new(2, 1, cache)).expect("a good layout");
    let slice = Slice::whole(&model);
    let geometry = model.geometry(&slice).expect("a good layout");
    let watched = || PagePool::new(PoolConfig::new(POOL_PAGES), Watched::new(&geometry)).expect("a pool");
    let (prefill, decode) = (watched(), watched());
    let mut kv = reserve(&prefill, owner(1), 3, 3);
    write(&mut kv, 1, 3);
    kv.commit(3).expect("written");
    let mut outbound = Outbound::seal(kv, &model, &slice).expect("it is sealed");
    let kv = reserve(&decode, owner(1), 3, 3);
    let mut inbound = Inbound::open(kv, InboundPlan::new(&model, &slice, 3)).expect("it opens");
    let offer = inbound.offer();
    let sent = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("it is sent");
    assert_holds(&accept(inbound, &sent).expect("all fits"), 1, 3);

    let room = reserve(&decode, owner(1), 3, 3);
    let moved = outbound.into_reservation().move_into(room).expect("it moves");
    assert_holds(&moved, 1, 3);
}
