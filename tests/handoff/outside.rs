//! Writers and readers from outside: tickets, late stores, readers that say twice that they have all.

use pagestamp::memory::{PageMemory, Span};
use pagestamp::*;

use crate::world::*;

/// What a network card does: it stores a page of a prompt where the offer says, whatever the pool thinks of it.
fn store_page(pool: &PagePool<HostMemory>, page: u32, seed: u64, tokens: std::ops::Range<u64>) {
    for plane in 0..PLANES {
        let bytes = plane_bytes(pool.geometry(), seed, plane, tokens.clone());
        // SAFETY: (1), (2) of `PagePool::expose`: the test stores only while a ticket of its own is open on the page.
        let memory = unsafe { pool.expose() };
        // SAFETY: (1) of `PageMemory::write`: as above; nobody reads such a page, and the test is one thread.
        unsafe { memory.write(Span { page, plane: plane as u32, offset: 0 }, &bytes) }.expect("a page");
    }
}

fn store_all(world: &World, offer: &Offer, seed: u64) {
    store_all_of(world, offer, seed, offer.tokens());
}

/// As many tokens as the card likes.
pub(crate) fn store_all_of(world: &World, offer: &Offer, seed: u64, tokens: u64) {
    for (ordinal, bits) in offer.destinations().iter().enumerate() {
        let page = PageHandle::<HostMemory>::from_bits(*bits).expect("a handle").index();
        let first = ordinal as u64 * u64::from(P);
        store_page(&world.decode, page, seed, first..tokens.min(first + u64::from(P)));
    }
}

fn end(pool: &PagePool<HostMemory>, ticket: TicketId) {
    // SAFETY: (1) of `ticket_done`: the writer is this test, and stores no more.
    unsafe { pool.ticket_done(ticket) }.expect("it was open");
}

/// The receipt of an honest sender that moves no byte itself.
fn receipt_only(outbound: &mut Outbound<HostMemory>, offer: &Offer) -> Receipt {
    let sending = outbound.start(offer).expect("it fits");
    let part = outbound.digest(&sending, sending.slice().layers(), sending.all_pages()).expect("sealed");
    sending.receipt(vec![part])
}

// C7, C10
#[test]
fn an_outside_writer_is_waited_for_whatever_its_receipt_says() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer();
    let handles = handles_of(&inbound);
    let ticket = inbound.open_writer(Writer::ONLY, Some(7)).expect("nobody reads");
    let open = WriterError::Open { writer: Writer::ONLY, ticket };
    assert_eq!(inbound.open_writer(Writer::ONLY, None), Err(open), "one ticket for each");
    inbound.receive(&receipt_only(&mut outbound, &offer)).expect("honest");
    store_all(&world, &offer, 1);
    let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { panic!("it has not stopped") };
    assert_eq!(*not_yet.error(), InboundError::StillWriting { writer: Writer::ONLY, ticket });
    for handle in &handles {
        let busy = ReadError::Busy { page: handle.index() };
        assert_eq!(world.decode.read(owner(1), *handle).expect_err("it is being written"), busy);
    }
    assert_eq!(world.decode.overdue_tickets(8).len(), 1, "visible, and no more than that");
    end(&world.decode, ticket);
    assert_holds(&not_yet.into_inbound().accept().expect("all is there"), 1, 40);
}

// C7, C10, B01
#[test]
fn a_late_store_lands_only_where_nobody_reads() {
    let world = World::new();
    for stage in 0..3 {
        let mut outbound = world.sealed(1, 40);
        let mut inbound = world.open(40, 40);
        let offer = inbound.offer();
        let pages: Vec<u32> = handles_of(&inbound).iter().map(PageHandle::index).collect();
        let ticket = inbound.open_writer(Writer::ONLY, None).expect("nobody reads");
        match stage {
            0 => drop(inbound),
            1 => drop(inbound.reject("the client went away")),
            _ => {
                let lie = receipt_only(&mut outbound, &offer).with_extent(1, 16, 16);
                let error = inbound.receive(&lie).expect_err("one page is not three");
                let refused = inbound.accept().expect_err("it is wrong, writer or not").give_up();
                assert_eq!(*refused.error(), error);
            }
        }
        assert_eq!(world.decode.stats().quarantined_pages, 3);
        // the next tenants get every other page, and keep their bytes
        let mut others = reserve(&world.decode, owner(2), 29 * 16, 29 * 16);
        write(&mut others, 9, 29 * 16);
        others.commit(29 * 16).expect("written");
        assert!(others.handles().all(|handle| !pages.contains(&handle.index())));
        store_all(&world, &offer, 1);
        assert_holds(&others, 9, 29 * 16);
        end(&world.decode, ticket);
        world.decode.maintain(usize::MAX);
        drop(others);
        assert_untouched(&world.decode);
    }
}

// C10, B18
#[test]
fn what_an_outside_writer_left_out_or_changed_is_found_by_its_digest() {
    let world = World::new();
    let mut outbound = world.sealed(1, 40);
    for harm in 0..3 {
        let mut inbound = world.open(40, 40);
        let offer = inbound.offer();
        let pages: Vec<u32> = handles_of(&inbound).iter().map(PageHandle::index).collect();
        let ticket = inbound.open_writer(Writer::ONLY, None).expect("nobody reads");
        match harm {
            0 => {}                                             // nothing was stored
            1 => store_page(&world.decode, pages[0], 1, 0..16), // one page of three
            _ => (0..3).for_each(|at| {
                // two pages exchanged
                let first = [16, 0, 32][at];
                store_page(&world.decode, pages[at], 1, first..(first + 16).min(40));
            }),
        }
        end(&world.decode, ticket);
        inbound.receive(&receipt_only(&mut outbound, &offer)).expect("the receipt is honest");
        let refused = inbound.accept().expect_err("the bytes are not there").give_up();
        let page = if harm == 1 { 1 } else { 0 };
        assert!(matches!(refused.error(), InboundError::Digest { page: found, .. } if *found == page));
        assert_untouched_after_exposure(&world.decode);
    }
}

fn assert_untouched_after_exposure(pool: &PagePool<HostMemory>) {
    pool.maintain(usize::MAX);
    assert_untouched(pool);
}

// C7
#[test]
fn writers_end_in_any_order_and_one_that_ended_may_begin_again() {
    let world = World::new();
    let halves = [
        pagestamp::geometry::Slice::new(0..1, 0..2).expect("a layer"),
        pagestamp::geometry::Slice::new(1..2, 0..2).expect("a layer"),
    ];
    let writers = (0..).zip(halves).map(|(rank, slice)| Writer::new(HolderId(rank), slice)).collect();
    let kv = reserve(&world.decode, owner(1), 40, 40);
    let mut inbound = Inbound::open(kv, world.plan(40).with_writers(writers)).expect("it opens");
    let offer = inbound.offer();
    let first = inbound.open_writer(HolderId(0), None).expect("nobody reads");
    let second = inbound.open_writer(HolderId(1), None).expect("writers share pages");
    end(&world.decode, first);
    let again = inbound.open_writer(HolderId(0), None).expect("its transport tries again");
    end(&world.decode, second);
    store_all(&world, &offer, 1);
    let inside = WriterError::Outside { writer: HolderId(0) };
    assert_eq!(inbound.landing(HolderId(0)).expect_err("it writes from outside"), LandError::Writer(inside));
    for rank in 0..2 {
        let mut outbound = world.sealed(1, 40).with_writer(HolderId(rank));
        inbound.receive(&receipt_only(&mut outbound, &offer)).expect("honest");
    }
    let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { panic!("one writes still") };
    assert_eq!(*not_yet.error(), InboundError::StillWriting { writer: HolderId(0), ticket: again });
    end(&world.decode, again);
    assert_holds(&not_yet.into_inbound().accept().expect("all is there"), 1, 40);
}

// C10
#[test]
fn a_writer_within_the_process_gets_no_ticket_besides() {
    let world = World::new();
    let mut inbound = world.open(40, 40);
    drop(inbound.landing(Writer::ONLY).expect("it lands"));
    assert_eq!(inbound.open_writer(Writer::ONLY, None), Err(WriterError::Inside { writer: Writer::ONLY }));
}

// C10
#[test]
fn bytes_that_nobody_verifies_are_accepted_only_by_that_name_on_both_sides() {
    let world = World::new();
    let kv = reserve(&world.decode, owner(1), 40, 40);
    let plan = world.plan(40).with_checksum(Checksum::BytesUnverified);
    let mut inbound = Inbound::open(kv, plan).expect("it opens");
    let offer = inbound.offer();
    let mut outbound = world.sealed(1, 40);
    assert_eq!(outbound.start(&offer), Err(OutboundError::Unverified));
    let mut outbound = outbound.with_bytes_unverified();
    let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("it is sent");
    assert!(digests_of(&receipt).is_empty());
    inbound.receive(&receipt).expect("as was agreed");
    assert_holds(&inbound.accept().expect("all is there"), 1, 40);
    // everything else is compared as ever
    let kv = reserve(&world.decode, owner(1), 40, 40);
    let mut inbound = Inbound::open(kv, world.plan(40).with_checksum(Checksum::BytesUnverified)).expect("it opens");
    let offer = inbound.offer();
    let sending = outbound.start(&offer).expect("it fits");
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    let part = outbound.copy(&sending, 0..2, 0..2, &mut landing).expect("it is sent");
    drop(landing);
    inbound.receive(&sending.receipt(vec![part])).expect("a part");
    let refused = inbound.accept().expect_err("a page is missing").give_up();
    assert_eq!(*refused.error(), InboundError::Untold { writer: Writer::ONLY, page: 2, layer: 0 });
}

// C7, B06
#[test]
fn each_reader_is_waited_for_and_one_that_says_it_twice_counts_once() {
    let world = World::new();
    let mut outbound = world.sealed(1, 40);
    let handles: Vec<_> = outbound.handles().collect();
    let one = outbound.open_reader(HolderId(1), Some(5)).expect("nobody writes");
    let two = outbound.open_reader(HolderId(2), Some(5)).expect("nobody writes");
    assert_eq!(outbound.open_reader(HolderId(1), None), Ok(one), "a reader has one ticket");
    end(&world.prefill, one);
    assert_eq!(outbound.readers().collect::<Vec<_>>(), [(HolderId(2), two)]);
    assert_eq!(outbound.open_reader(HolderId(1), None), Err(TicketError::AlreadyDone(one)));
    // SAFETY: (1) of `ticket_done`: the reader has stopped, it only says so again.
    let again = unsafe { world.prefill.ticket_done(one) };
    assert_eq!(again, Err(TicketError::AlreadyDone(one)), "the second word ends nobody's ticket");
    outbound.release();
    assert_eq!(world.prefill.stats().quarantined_pages, 3);
    let mut next = reserve(&world.prefill, owner(2), 29 * 16, 29 * 16);
    write(&mut next, 8, 29 * 16);
    for (ordinal, handle) in handles.iter().enumerate() {
        let raw = raw_page(&world.prefill, handle.index());
        let first = ordinal as u64 * u64::from(P);
        let expected = plane_bytes(world.prefill.geometry(), 1, 0, first..(first + 16).min(40));
        assert!(raw[..expected.len()] == expected[..], "reader 2 still has what was sealed");
    }
    assert_eq!(world.prefill.overdue_tickets(5).len(), 1);
    end(&world.prefill, two);
    drop(next);
    world.prefill.maintain(usize::MAX);
    assert_untouched(&world.prefill);
}

// C5, C10
#[test]
fn nobody_outside_is_let_in_to_read_what_is_not_accepted() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let handles = handles_of(&inbound);
    let refused = |at: usize| {
        let unwritten = ReadError::Unwritten { to_tokens: 1, written_tokens: 0 };
        assert_eq!(
            world.decode.pin(owner(1), &handles[at..=at], HolderId(5), None),
            Err(ReleaseError::Handle { position: 0, source: unwritten })
        );
    };
    refused(0);
    let receipt = send(&mut outbound, &mut inbound);
    (0..3).for_each(refused);
    let kv = accept(inbound, &receipt).expect("honest");
    end(&world.decode, world.decode.pin(owner(1), &handles, HolderId(5), None).expect("accepted"));
    drop(kv);
    let empty = reserve(&world.decode, owner(1), 40, 40);
    let page = empty.handle(0).expect("a page").index();
    assert_eq!(empty.pin_read(0..3, HolderId(5), None), Err(TicketError::Unwritten { page }));
}
