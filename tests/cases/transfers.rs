//! Group 1: aborts, disconnects and preemptions that race a transfer in flight.

use pagestamp::geometry::HeadOrder;
use pagestamp::table::{BlockTable, RowMark};
use pagestamp::{
    AdmitError, ClaimToken, CleanMode, ExtentError, HolderId, HostMemory, Inbound, InboundError, LandError, OpenError,
    Outbound, OutboundError, PageHandle, PagePool, PageState, ReadError, Receipt, Refusal, Request, Side, TicketError,
    TicketId, TransferError, TransferId, WriteError, Writer, WriterError,
};

use crate::stage::*;
use crate::two_pools::*;

/// A name, and a way to end a receive of owner 1.
type Abort = (&'static str, fn(&PagePool<HostMemory>, Inbound<HostMemory>));

const ABORTS: [Abort; 6] = [
    ("drop", |_, inbound| drop(inbound)),
    ("reject", |_, inbound| drop(inbound.reject("the client went away"))),
    ("forget and reclaim", |pool, inbound| {
        std::mem::forget(inbound);
        pool.reclaim(owner(1));
    }),
    ("reclaim, then drop", |pool, inbound| {
        pool.reclaim(owner(1));
        drop(inbound);
    }),
    ("give up what is missing", |_, inbound| drop(inbound.accept().unwrap_err().give_up())),
    ("a wrong receipt and its verdict", |_, mut inbound| {
        let offer = inbound.offer();
        let lie = Receipt::new(offer.transfer(), owner(2), offer.model().clone(), Writer::ONLY);
        assert!(matches!(inbound.receive(&lie), Err(InboundError::Owner { .. })));
        assert!(matches!(refused(inbound), InboundError::Owner { .. }));
    }),
];

// B01, C3, C7
#[test]
fn a_write_that_lands_after_an_abort_meets_no_next_tenant() {
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        for (how, abort) in ABORTS {
            let mut pair = Pair::new(32);
            let memory = HostMemory::new(pair.decode.geometry().clone(), 32).unwrap();
            pair.decode = PagePool::new(config(32).with_clean_mode(mode), memory).unwrap();
            let mut a = pair.open(1, 16 * P);
            let offer = a.offer();
            let (aimed_at, handles) = (destinations(&offer), handles_of(&offer));
            let ticket = open_outside(&mut a, None);
            abort(&pair.decode, a);

            let stats = settle(&pair.decode);
            assert_eq!((stats.quarantined_pages, stats.live_pages, stats.free_pages), (16, 0, 16), "{how}");
            let full = pair.decode.reserve(&proof(&pair.decode, 17 * P), Request::new(owner(2), 17 * P), 17 * P);
            assert!(matches!(full, Err(AdmitError::Full { pending_pages: 16, free_pages: 16, .. })), "{how}");
            let mut b = room(&pair.decode, owner(2), 16 * P);
            assert!(pages(&b).iter().all(|page| !aimed_at.contains(page)), "{how}");
            compute(&mut b, 2, 16 * P);

            store_outside(&pair.decode, &aimed_at, 1, 16 * P); // late
            assert!(holds(&b, 2, 16 * P), "{how}");
            for handle in handles {
                assert!(is_stale(&pair.decode, owner(1), handle), "{how}");
            }
            done(&pair.decode, ticket).unwrap();
            assert_eq!(settle(&pair.decode).free_pages, 16, "{how}");
            assert!(aimed_at.iter().all(|page| is_zero(&pair.decode, *page)), "{how}");
            b.release();
            pair.assert_untouched();
        }
    }
}

// B01, C10, C12
#[test]
fn pages_under_a_writer_are_readable_by_nobody_and_written_by_nobody_else() {
    let pair = Pair::new(4);
    let mut inbound = pair.open(1, 2 * P);
    let handles = handles_of(&inbound.offer());
    let ticket = open_outside(&mut inbound, None);
    for handle in &handles {
        assert!(matches!(pair.decode.read(owner(1), *handle), Err(ReadError::Busy { .. })));
    }
    assert!(matches!(
        inbound.landing(Writer::ONLY).map(drop),
        Err(LandError::Writer(WriterError::Outside { writer: Writer::ONLY }))
    ));
    assert_eq!(
        inbound.open_writer(Writer::ONLY, None),
        Err(WriterError::Open { writer: Writer::ONLY, ticket }),
        "one ticket for each writer"
    );
    let (inbound, error) = not_yet(inbound);
    assert_eq!(error, InboundError::StillWriting { writer: Writer::ONLY, ticket });
    done(&pair.decode, ticket).unwrap();
    assert_eq!(readable(&pair.decode, 1, &handles), 0, "and after its end nothing is, before it is accepted");
    drop(inbound);
    pair.assert_untouched();
}

// B02, C4, C7
#[test]
fn a_store_queued_before_a_preemption_saves_its_own_bytes_or_nothing() {
    let pair = Pair::new(8);
    let a = pair.computed(1, 1, 4 * P);
    let handles: Vec<_> = a.handles().collect();
    let job = a.pin_read(0..4, HolderId(1), None).unwrap();
    assert_eq!(a.release().quarantined_pages, 4); // preempted
    let mut b = room(&pair.prefill, owner(2), 4 * P);
    compute(&mut b, 2, 4 * P);
    assert!(pages(&b).iter().all(|page| handles.iter().all(|handle| handle.index() != *page)));
    // The job runs now and finds the bytes that it was queued for.
    for (ordinal, handle) in (0..).zip(&handles) {
        assert_eq!(raw_page(&pair.prefill, handle.index()), page_bytes(pair.prefill.geometry(), 1, ordinal));
    }
    done(&pair.prefill, job).unwrap();
    drop(b);

    // A job that took no ticket looks by handle, and stores nothing.
    let a = pair.computed(1, 1, 4 * P);
    let handles: Vec<_> = a.handles().collect();
    drop(a);
    let _b = pair.computed(2, 2, 8 * P);
    for handle in handles {
        assert!(matches!(pair.prefill.read(owner(1), handle), Err(ReadError::Stale { .. })));
    }
}

// B04, C7
#[test]
fn receives_whose_end_is_lost_stay_counted_until_somebody_says_that_the_writer_is_gone() {
    let pair = Pair::new(8);
    let mut tickets = Vec::new();
    for _ in 0..8 {
        let mut inbound = pair.open(1, P);
        inbound.set_deadline(10, 100);
        tickets.push(open_outside(&mut inbound, Some(100)));
        assert_eq!(pair.decode.overdue_transfers(99).len(), 0);
        assert_eq!(pair.decode.overdue_transfers(100).len(), 1);
        drop(inbound);
    }
    let full = || {
        let stats = settle(&pair.decode);
        assert_eq!((stats.quarantined_pages, stats.free_pages, stats.tickets), (8, 0, 8));
        let refused = pair.decode.reserve(&proof(&pair.decode, P), Request::new(owner(2), P), P);
        assert!(matches!(refused, Err(AdmitError::Full { pending_pages: 8, .. })), "{refused:?}");
    };
    full();
    assert!(pair.decode.overdue_tickets(99).is_empty());
    assert_eq!(pair.decode.overdue_tickets(100).len(), 8, "overdue is shown");
    full(); // and frees nothing
    for ticket in tickets {
        revoke(&pair.decode, ticket).unwrap();
    }
    assert_eq!(settle(&pair.decode).free_pages, 8);
    pair.assert_untouched();
}

// B04, C7
#[test]
fn an_end_that_comes_before_the_abort_needs_no_second_one() {
    let pair = Pair::new(8);
    let mut inbound = pair.open(1, 8 * P);
    let aimed_at = destinations(&inbound.offer());
    let ticket = open_outside(&mut inbound, None);
    store_outside(&pair.decode, &aimed_at, 1, 8 * P);
    done(&pair.decode, ticket).unwrap();
    drop(inbound.reject("the client went away"));
    assert_eq!(pair.decode.stats().quarantined_pages, 0);
    pair.assert_untouched();
}

// B05, C7
#[test]
fn each_writer_of_a_receive_ends_its_own_ticket_and_no_other() {
    let pair = Pair::new(8);
    let ranks = writers(&[slice(0..2, 0..1), slice(0..2, 1..2)]);
    let mut a = Inbound::open(room(&pair.decode, owner(1), 4 * P), pair.plan(4 * P).with_writers(ranks)).unwrap();
    let aimed_at = destinations(&a.offer());
    let tickets = [0, 1].map(|rank| a.open_writer(HolderId(rank), Some(100)).unwrap());
    assert_eq!(a.open_writer(HolderId(2), None), Err(WriterError::Unknown { writer: HolderId(2) }));
    let handle = handles_of(&a.offer())[0];
    done(&pair.decode, tickets[0]).unwrap();
    assert!(matches!(pair.decode.read(owner(1), handle), Err(ReadError::Busy { .. })), "the other one writes still");
    drop(a);
    assert_eq!(done(&pair.decode, tickets[0]), Err(TicketError::AlreadyDone(tickets[0])), "an acknowledgement twice");
    let overdue = pair.decode.overdue_tickets(u64::MAX);
    assert_eq!(overdue.iter().map(|late| (late.id, late.holder)).collect::<Vec<_>>(), [(tickets[1], HolderId(1))]);
    assert_eq!(settle(&pair.decode).quarantined_pages, 4, "the deadline of the silent rank frees nothing");
    let mut b = room(&pair.decode, owner(2), 4 * P);
    compute(&mut b, 2, 4 * P);
    store_outside(&pair.decode, &aimed_at, 1, 4 * P); // the silent rank, late
    assert!(holds(&b, 2, 4 * P));
    revoke(&pair.decode, tickets[1]).unwrap();
    drop(b);
    pair.assert_untouched();
}

// B05, C7
#[test]
fn the_senders_pages_stay_while_its_card_reads_them() {
    let ends: [fn(Outbound<HostMemory>); 2] = [
        |outbound| assert_eq!(outbound.release().quarantined_pages, 2),
        |outbound| drop(outbound.reject("the receiver went away")),
    ];
    for end in ends {
        let pair = Pair::new(4);
        let mut a = pair.sealed(1, 1, 2 * P);
        let numbers: Vec<u32> = a.handles().map(|handle| handle.index()).collect();
        let card = a.open_reader(HolderId(1), Some(100)).unwrap();
        end(a);
        assert_eq!(settle(&pair.prefill).quarantined_pages, 2);
        let b = pair.computed(2, 2, 2 * P);
        assert!(numbers.iter().all(|page| !pages(&b).contains(page) && !is_zero(&pair.prefill, *page)));
        done(&pair.prefill, card).unwrap();
        drop(b);
        pair.assert_untouched();
    }
}

// B06, C7
#[test]
fn a_reader_that_ends_twice_ends_no_other_reader() {
    let pair = Pair::new(4);
    let mut a = pair.sealed(1, 1, 2 * P);
    let numbers: Vec<u32> = a.handles().map(|handle| handle.index()).collect();
    let [first, second] = [1, 2].map(|reader| a.open_reader(HolderId(reader), None).unwrap());
    assert_eq!(a.open_reader(HolderId(1), None), Ok(first), "one ticket, however often it asks");
    done(&pair.prefill, first).unwrap();
    assert_eq!(done(&pair.prefill, first), Err(TicketError::AlreadyDone(first)), "its second row");
    assert_eq!(a.open_reader(HolderId(1), None), Err(TicketError::AlreadyDone(first)));
    assert_eq!(a.readers().collect::<Vec<_>>(), [(HolderId(2), second)]);
    a.release();
    let b = pair.computed(2, 2, 2 * P);
    assert!(pages(&b).iter().all(|page| !numbers.contains(page)));
    // The second reader reads what was sealed.
    for (ordinal, page) in (0..).zip(&numbers) {
        assert_eq!(raw_page(&pair.prefill, *page), page_bytes(pair.prefill.geometry(), 1, ordinal));
    }
    done(&pair.prefill, second).unwrap();
    drop(b);
    pair.assert_untouched();
}

// B07, C6, C8
#[test]
fn a_receiver_that_refuses_gives_the_senders_pages_back_at_once() {
    let pair = Pair::new(4);
    let mut outbound = pair.sealed(1, 1, 2 * P);
    let inbound = pair.open(1, 2 * P);
    drop(outbound.start(&inbound.offer()).unwrap());
    let transfer = inbound.transfer();
    let refusal = inbound.refusal(&std::fmt::Error);
    drop(inbound.reject("bad template"));
    // Until the refusal comes the sender shows what it holds, and since when.
    outbound.set_deadline(100, 500);
    let open = pair.prefill.transfers();
    assert_eq!((open[0].side, open[0].owner, open[0].pages), (Side::Sender, owner(1), 2));
    assert_eq!((open[0].age_ns(350), open[0].serves.as_slice()), (Some(250), &[transfer][..]));
    assert_eq!(pair.prefill.overdue_transfers(500), open);

    // One of another transfer ends nothing, and hands everything back.
    let strange = Refusal::new(outbound.id(), Side::Receiver, &std::fmt::Error);
    let (outbound, error) = outbound.refused(strange).unwrap_err().into_parts();
    assert!(matches!(error, OutboundError::NotServed { .. }));
    let found = pair.prefill.transfer(refusal.transfer()).unwrap();
    assert_eq!(found.id, outbound.id());
    drop(outbound.refused(refusal.clone()).unwrap());
    assert_eq!(pair.prefill.transfer(refusal.transfer()), Err(TransferError::Unknown(transfer)), "a second time");
    pair.assert_untouched();
}

// B07, C8
#[test]
fn a_reservation_that_opens_no_receive_comes_back_with_its_pages() {
    let pair = Pair::new(4);
    let other = model_of(P, "r1", HeadOrder::Hnd);
    let plan = pagestamp::InboundPlan::new(&other, &pair.slice, P);
    let before = take(&pair.decode, owner(1), 2 * P);
    let (numbers, stats) = (pages(&before), pair.decode.stats());
    let (back, error) = Inbound::open(before, plan).unwrap_err().into_parts();
    assert!(matches!(error, OpenError::Unfit(_)));
    let (back, error) = Inbound::open(back, pair.plan(2 * P + 1)).unwrap_err().into_parts();
    assert_eq!(error, OpenError::PastReserved { tokens: 33, reserved_tokens: 32 });
    assert_eq!((pages(&back), pair.decode.stats()), (numbers, stats));
    assert!(pair.decode.transfers().is_empty());
    back.release();
    // So does one that cannot be sealed.
    let sealed = pair.computed(1, 1, 2 * P);
    let (back, _) = Outbound::seal(sealed, &other, &pair.slice).unwrap_err().into_parts();
    assert!(holds(&back, 1, 2 * P) && pair.prefill.transfers().is_empty());
    back.release();
    pair.assert_untouched();
}

// B09, C1, C7
#[test]
fn sealed_pages_stay_until_they_are_sent_and_a_send_that_cannot_run_ends_the_receive() {
    let pair = Pair::new(4);
    let mut a = pair.sealed(1, 1, 4 * P);
    let refused = pair.prefill.reserve(&proof(&pair.prefill, P), Request::new(owner(2), P), P);
    assert!(matches!(refused, Err(AdmitError::Full { free_pages: 0, pending_pages: 0, .. })), "nobody takes them");
    let mut inbound = pair.open(1, 4 * P);
    let receipt = send(&mut a, &mut inbound);
    inbound.receive(&receipt).unwrap();
    let kv = inbound.accept().unwrap();
    assert!(holds(&kv, 1, 4 * P));
    drop(kv);

    // The sender's owner is gone before the next send.
    let mut inbound = pair.open(1, 4 * P);
    pair.prefill.reclaim(owner(1));
    let offer = inbound.offer();
    let error = a.send(&offer, &mut inbound.landing(Writer::ONLY).unwrap()).unwrap_err();
    assert_eq!(error, OutboundError::Read(ReadError::Revoked));
    let refusal = Refusal::new(offer.transfer(), Side::Sender, &error);
    assert!(pair.decode.transfer(refusal.transfer()).is_ok(), "the receiver finds what the answer is about");
    drop((a.reject(error), inbound.reject(refusal)));
    pair.assert_untouched();
}

// B10, C7
#[test]
fn pages_that_a_launched_copy_still_uses_go_to_nobody_until_it_ends() {
    let pair = Pair::new(2);
    let mut a = room(&pair.decode, owner(1), P);
    let launched = a.pin_write(0..1, HolderId(1), None).unwrap();
    let aimed_at = pages(&a);
    a.release();
    let mut b = room(&pair.decode, owner(2), P);
    assert_ne!(pages(&b), aimed_at);
    compute(&mut b, 2, P);
    store_outside(&pair.decode, &aimed_at, 1, P);
    assert!(holds(&b, 2, P));
    let full = pair.decode.reserve(&proof(&pair.decode, P), Request::new(owner(3), P), P);
    assert!(matches!(full, Err(AdmitError::Full { pending_pages: 1, .. })));
    done(&pair.decode, launched).unwrap();
    let c = room(&pair.decode, owner(3), P);
    assert!(pages(&c) == aimed_at && is_zero(&pair.decode, aimed_at[0]));
    drop((b, c));
    pair.assert_untouched();
}

// B10, C7
#[test]
fn pages_and_rows_that_a_launched_step_uses_go_to_nobody_until_it_ends() {
    let pool = host_pool(2);
    let mut a = take(&pool, owner(1), P);
    write(&mut a, P - 1, 1);
    // The step was launched before the last one's result said that the request had ended.
    let step = pool.open_step();
    a.export(&step, 1).unwrap();
    let (mut row, mut len, mut mark) = ([-1; 1], [0; 1], RowMark::default());
    BlockTable::new(&pool, &mut row, 1, &mut len).unwrap().update(0, a.row(P).under(&step), &mut mark).unwrap();
    let used = pages(&a);
    a.release();
    let mut b = take(&pool, owner(2), P);
    assert_ne!(pages(&b), used);
    write(&mut b, P, 2);
    poke(&pool, used[0], 0xAB);
    assert!(is_all(&b, 2));
    let full = pool.reserve(&proof(&pool, P), Request::new(owner(3), P), P);
    assert!(matches!(full, Err(AdmitError::Full { pending_pages: 1, .. })));
    // The row is the next request's to write, and its mark takes nothing over from this one.
    let mut table = BlockTable::new(&pool, &mut row, 1, &mut len).unwrap();
    assert_eq!(table.update(0, b.row(P), &mut mark), Ok(1));
    assert_eq!(row.map(|page| page as u32).to_vec(), pages(&b));
    // SAFETY: (1) the test plays the kernels, and they have finished.
    unsafe { pool.end_step(step) }.unwrap();
    let c = take(&pool, owner(3), P);
    assert!(pages(&c) == used && is_zero(&pool, used[0]));
    drop((b, c));
    assert_sound(&pool);
}

// B11, C9
#[test]
fn one_victim_is_enough_although_every_page_waits_for_an_open_step() {
    let pool = null_pool(16);
    let mut running: Vec<_> = (1..=4).map(|who| take(&pool, owner(who), 4 * P)).collect();
    let step = pool.open_step();
    let ask = || pool.reserve(&proof(&pool, 4 * P), Request::new(owner(5), 4 * P), 4 * P);
    let mut victims = 0;
    loop {
        match ask() {
            Err(AdmitError::Full { needed_pages, free_pages, pending_pages, .. }) => {
                if free_pages + pending_pages >= needed_pages {
                    break;
                }
                running.pop().unwrap().release();
                victims += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((victims, running.len()), (1, 3));
    // SAFETY: (1) the test plays the kernels, and they have finished.
    unsafe { pool.end_step(step) }.unwrap();
    ask().unwrap().release();
    drop(running);
    assert_sound(&pool);
}

// B68, C7
#[test]
fn a_rollback_of_tokens_that_a_step_still_writes_is_refused_and_its_old_table_is_not_kept() {
    let pool = host_pool(3);
    let mut a = take_filled(&pool, owner(1), P, 1);
    a.grow(P + 1).unwrap();
    let step = pool.open_step();
    a.export(&step, 1).unwrap();
    let (mut row, mut len, mut mark) = ([-1; 2], [0; 1], RowMark::default());
    BlockTable::new(&pool, &mut row, 2, &mut len).unwrap().update(0, a.row(P + 1).under(&step), &mut mark).unwrap();
    let given_back = pages(&a)[1];
    assert!(matches!(a.truncate(P - 1), Err(ExtentError::Exported { .. })));
    assert!(matches!(a.shrink(P), Err(ExtentError::Exported { .. })));
    a.wrote(&step).unwrap();
    a.truncate(P).unwrap();
    a.shrink(P).unwrap();
    // The page is in a table that kernels still read.
    let b = take(&pool, owner(2), P);
    assert!(!pages(&b).contains(&given_back));
    // SAFETY: (1) the test plays the kernels, and they have finished.
    unsafe { pool.end_step(step) }.unwrap();
    let c = take(&pool, owner(3), P);
    assert_eq!(pages(&c), [given_back]);
    let mut whole = [-1; 1];
    BlockTable::new(&pool, &mut whole, 1, &mut len).unwrap().update(0, a.row(P), &mut mark).unwrap();
    assert_eq!(whole.map(|page| page as u32).to_vec(), pages(&a), "written anew, without the page that is another's");
    drop((a, b, c));
    assert_sound(&pool);
}

// B11, C9
#[test]
fn one_victim_is_enough_although_its_pages_come_later() {
    let pair = Pair::new(16);
    let mut receives = Vec::new();
    for who in 1..=4 {
        let mut inbound = pair.open(who, 4 * P);
        let ticket = open_outside(&mut inbound, None);
        receives.push((inbound, ticket));
    }
    let mut ended = Vec::new();
    let ask = || pair.decode.reserve(&proof(&pair.decode, 4 * P), Request::new(owner(5), 4 * P), 4 * P);
    let covered = loop {
        match ask() {
            Err(AdmitError::Full { needed_pages, free_pages, pending_pages, .. }) => {
                if free_pages + pending_pages >= needed_pages {
                    break (needed_pages, pending_pages);
                }
                let (inbound, ticket) = receives.pop().unwrap();
                drop(inbound);
                ended.push(ticket);
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((covered, ended.len()), ((4, 4), 1));
    done(&pair.decode, ended[0]).unwrap();
    let kv = ask().unwrap();
    assert_eq!(receives.len(), 3, "the others were left alone");
    for (inbound, ticket) in receives {
        drop(inbound);
        done(&pair.decode, ticket).unwrap();
    }
    drop(kv);
    pair.assert_untouched();
}

// B12, C10
#[test]
fn a_transfer_with_nothing_to_send_completes_at_once() {
    let pair = Pair::new(8);
    // No token at all: not even a receipt is waited for.
    let (mut outbound, inbound) = (pair.sealed(1, 1, 0), pair.open(1, 0));
    let sending = outbound.start(&inbound.offer()).unwrap();
    assert_eq!((sending.all_pages(), sending.batches().count()), (0..0, 0));
    assert!(holds(&inbound.accept().unwrap(), 1, 0));
    outbound.release();
    pair.assert_untouched();

    // Everything is there already: nothing travels but digests.
    let mut held = room(&pair.decode, owner(1), 2 * P);
    compute(&mut held, 1, 2 * P);
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, 2 * P), Inbound::open(held, pair.plan(2 * P)).unwrap());
    assert_eq!(outbound.start(&inbound.offer()).unwrap().pages(), 2..2);
    assert_eq!(
        inbound.open_writer(Writer::ONLY, None),
        Err(WriterError::Ticket(TicketError::Empty)),
        "nobody has to be let in"
    );
    let receipt = told(&mut outbound, &inbound.offer());
    inbound.receive(&receipt).unwrap();
    let kv = inbound.accept().unwrap();
    assert!(holds(&kv, 1, 2 * P));
    drop((kv, outbound));
    pair.assert_untouched();
}

// B12, C10
#[test]
fn a_transfer_of_less_than_a_page_carries_one_part_full_page() {
    for tokens in [1, P - 1] {
        let pair = Pair::new(2);
        let (mut outbound, mut inbound) = (pair.sealed(1, 1, tokens), pair.open(1, tokens));
        let receipt = send(&mut outbound, &mut inbound);
        assert_eq!((receipt.pages(), u64::from(receipt.last_page_tokens())), (1, tokens));
        inbound.receive(&receipt).unwrap();
        let kv = inbound.accept().unwrap();
        assert!(holds(&kv, 1, tokens));
        drop((kv, outbound));
        pair.assert_untouched();
    }
}

// B14, C7, C8
#[test]
fn an_end_that_is_late_or_comes_twice_or_is_nobodys_changes_nothing_and_is_counted() {
    let pair = Pair::new(4);
    let mut inbound = pair.open(1, P);
    let ticket = open_outside(&mut inbound, None);
    done(&pair.decode, ticket).unwrap();
    drop(inbound);
    // The record of the first is used again, for another owner's receive.
    let mut next = pair.open(2, P);
    let current = open_outside(&mut next, None);
    assert_ne!(ticket, current);
    let before = pair.decode.stats();
    let never = TicketId::from_bits(current.to_bits() + 1).unwrap();
    assert_eq!(done(&pair.decode, ticket), Err(TicketError::AlreadyDone(ticket)));
    assert_eq!(revoke(&pair.decode, ticket), Err(TicketError::AlreadyDone(ticket)));
    assert_eq!(done(&pair.decode, never), Err(TicketError::Unknown(never)));
    assert_eq!(done(&pair.prefill, current), Err(TicketError::Unknown(current)), "another pool's");
    let after = pair.decode.stats();
    assert_eq!((after.late_tickets - before.late_tickets, after.tickets), (3, 1));
    let (next, error) = not_yet(next);
    assert_eq!(error, InboundError::StillWriting { writer: Writer::ONLY, ticket: current });
    done(&pair.decode, current).unwrap();
    drop(next);
    pair.assert_untouched();
}

// B14, C8, C10
#[test]
fn a_message_about_a_handoff_that_is_over_finds_nothing_and_is_counted() {
    let pair = Pair::new(4);
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, P), pair.open(1, P));
    let transfer = inbound.transfer();
    assert_eq!(pair.decode.transfer(transfer).unwrap().side, Side::Receiver);
    let receipt = send(&mut outbound, &mut inbound);
    drop(inbound);
    assert_eq!(pair.decode.transfer(transfer), Err(TransferError::Over(transfer)));
    // Its receipt reaches the next handoff, and is not for it.
    let mut next = pair.open(1, P);
    let found = next.transfer();
    assert_ne!(transfer, found, "numbers are not used again");
    assert_eq!(next.receive(&receipt), Err(InboundError::Transfer { expected: found, found: transfer }));
    let receipt = send(&mut outbound, &mut next);
    next.receive(&receipt).unwrap();
    next.receive(&receipt).unwrap(); // a second time says nothing new
    let kv = next.accept().unwrap();
    assert!(holds(&kv, 1, P), "the stranger's receipt did no harm");
    assert_eq!(pair.decode.transfer(found), Err(TransferError::Over(found)));
    let never = TransferId::from_bits(found.to_bits() + 1).unwrap();
    assert_eq!(pair.decode.transfer(never), Err(TransferError::Unknown(never)));
    assert_eq!(pair.decode.stats().late_transfers, 3);
    drop((kv, outbound));
    pair.assert_untouched();
}

// B16, C7
#[test]
fn the_source_of_a_load_stays_until_the_copy_has_ended() {
    let pair = Pair::new(2);
    let mut host_tier = pair.sealed(1, 1, 2 * P);
    let numbers: Vec<u32> = host_tier.handles().map(|handle| handle.index()).collect();
    let copy = host_tier.open_reader(HolderId(1), None).unwrap();
    host_tier.release(); // pressure: the host tier gives up its copy
    let refused = pair.prefill.reserve(&proof(&pair.prefill, P), Request::new(owner(2), P), P);
    assert!(matches!(refused, Err(AdmitError::Full { free_pages: 0, pending_pages: 2, .. })));
    // The copy ends late, and has what was sealed.
    for (ordinal, page) in (0..).zip(&numbers) {
        assert_eq!(raw_page(&pair.prefill, *page), page_bytes(pair.prefill.geometry(), 1, ordinal));
    }
    done(&pair.prefill, copy).unwrap();
    pair.assert_untouched();
}

// B17, C12
#[test]
fn copies_that_would_meet_on_one_page_are_refused_in_every_order() {
    let pair = Pair::new(4);
    let mut x = pair.computed(1, 1, P);
    let handle = x.handle(0).unwrap();
    let page = handle.index();
    // write after read
    let offload = x.pin_read(0..1, HolderId(1), None).unwrap();
    assert_eq!(x.pin_write(0..1, HolderId(2), None), Err(TicketError::Busy { page }));
    let another = x.pin_read(0..1, HolderId(2), None).unwrap();
    done(&pair.prefill, offload).unwrap();
    assert_eq!(x.pin_write(0..1, HolderId(2), None), Err(TicketError::Busy { page }), "the second copy reads still");
    done(&pair.prefill, another).unwrap();
    // read after write
    let onboard = x.pin_write(0..1, HolderId(3), None).unwrap();
    assert_eq!(x.pin_read(0..1, HolderId(4), None), Err(TicketError::Busy { page }));
    assert!(matches!(x.read(0..1).map(drop), Err(ReadError::Busy { .. })));
    assert!(pair.prefill.pin(owner(1), &[handle], HolderId(4), None).is_err());
    // write after write, by the reservation itself
    x.truncate(0).unwrap_err();
    let (back, error) = Outbound::seal(x, &pair.model, &pair.slice).unwrap_err().into_parts();
    assert!(matches!(error, pagestamp::SealError::Read(ReadError::Busy { .. })));
    x = back;
    done(&pair.prefill, onboard).unwrap();
    assert!(holds(&x, 1, P));
    drop(x);
    pair.assert_untouched();
}

// B17, C4, C12
#[test]
fn a_rewrite_under_a_copy_takes_another_page_and_the_copy_has_the_old_bytes() {
    let pair = Pair::new(4);
    let mut x = pair.computed(1, 1, P);
    let handle = x.handle(0).unwrap();
    let offload = x.pin_read(0..1, HolderId(1), None).unwrap();
    let before = raw_page(&pair.prefill, handle.index());
    x.truncate(0).unwrap();
    compute(&mut x, 2, P);
    assert_ne!(x.handle(0).unwrap().index(), handle.index(), "the copy is told by page and generation");
    assert_eq!(state_of(&pair.prefill, owner(1), handle), PageState::Quarantined);
    assert_eq!(raw_page(&pair.prefill, handle.index()), before);
    assert!(holds(&x, 2, P));
    done(&pair.prefill, offload).unwrap();
    drop(x);
    pair.assert_untouched();
}

// B17, C12
#[test]
fn a_receive_is_not_opened_on_pages_that_an_outside_writer_is_at() {
    let pair = Pair::new(2);
    let mut kv = room(&pair.decode, owner(1), 2 * P);
    let page = kv.handle(1).unwrap().index();
    let ticket = kv.pin_write(1..2, HolderId(1), None).unwrap();
    let (back, error) = Inbound::open(kv, pair.plan(2 * P)).unwrap_err().into_parts();
    assert_eq!(error, OpenError::Write(WriteError::Busy { page }));
    done(&pair.decode, ticket).unwrap();
    drop(Inbound::open(back, pair.plan(2 * P)).unwrap());
    pair.assert_untouched();
}

// B68, C4, C7, C10
#[test]
fn a_rollback_across_a_page_boundary_takes_no_page_from_under_an_open_export() {
    let pair = Pair::new(3);
    let mut outbound = pair.sealed(1, 1, P + 1);
    let last: PageHandle<HostMemory> = outbound.handles().nth(1).unwrap();
    let card = outbound.open_reader(HolderId(1), None).unwrap();
    let inbound = pair.open(1, P + 1);
    drop(outbound.start(&inbound.offer()).unwrap());
    // A sealed reservation has no rollback: the seal has to end first, and its handoffs with it.
    let mut kv = outbound.into_reservation();
    assert!(matches!(pair.prefill.transfer(inbound.transfer()), Err(TransferError::Unknown(_))));
    kv.truncate(P).unwrap();
    assert_eq!(kv.shrink(P).unwrap().quarantined_pages, 1);
    let b = pair.computed(2, 2, P);
    assert!(!pages(&b).contains(&last.index()));
    assert!(is_stale(&pair.prefill, owner(1), last));
    // The new seal is of one page: it does not serve the offer for two.
    let mut again = Outbound::seal(kv, &pair.model, &pair.slice).unwrap();
    assert_eq!(
        again.start(&inbound.offer()),
        Err(OutboundError::Pages { expected_pages: 1, sealed_tokens: 16, found_pages: 2, found_tokens: 17 })
    );
    assert_eq!(again.handles().count(), 1);
    done(&pair.prefill, card).unwrap();
    drop((again, b, inbound));
    pair.assert_untouched();
}

// B79, C9
#[test]
fn a_sender_that_is_full_says_so_and_the_end_of_one_handoff_frees_it() {
    let pair = Pair::new(8);
    let ask = |who| pair.prefill.reserve(&proof(&pair.prefill, 4 * P), Request::new(owner(who), 4 * P), 4 * P);
    let (mut sealed, mut received) = (Vec::new(), Vec::new());
    for step in 1.. {
        assert!(step < 20, "no call waits, so bounded steps end it");
        match ask(step) {
            Ok(mut kv) => {
                compute(&mut kv, step, 4 * P);
                sealed.push((step, Outbound::seal(kv, &pair.model, &pair.slice).unwrap()));
            }
            Err(AdmitError::Full { pending_pages: 0, .. }) => {
                assert_eq!((pair.prefill.stats().outbound_transfers, pair.prefill.transfers().len()), (2, 2));
                if received.len() == 2 {
                    break;
                }
                // Decode takes a prompt in without running it.
                let (who, mut outbound) = sealed.remove(0);
                let mut inbound = pair.open(who, 4 * P);
                let receipt = send(&mut outbound, &mut inbound);
                inbound.receive(&receipt).unwrap();
                received.push((who, inbound.accept().unwrap()));
                outbound.release();
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    // Both are full. One that is cancelled lets the next in.
    assert!(matches!(
        pair.decode.reserve(&proof(&pair.decode, P), Request::new(owner(9), P), P),
        Err(AdmitError::Full { .. })
    ));
    drop(sealed.pop().unwrap().1.reject("cancelled"));
    drop(ask(9).unwrap());
    assert!(received.iter().all(|(who, kv)| holds(kv, *who, 4 * P)));
    drop((sealed, received));
    pair.assert_untouched();
}

// B83, C4, C5
#[test]
fn a_receive_whose_answer_is_lost_keeps_its_claim_and_shows_nothing_of_what_landed() {
    let pair = Pair::new(4);
    let token = ClaimToken { id: 83, expires_at_ns: 1000 };
    let claim = || {
        let request = Request::new(owner(1), 2 * P).with_claim(token);
        pair.decode.reserve(&proof(&pair.decode, 2 * P), request, 2 * P)
    };
    let mut outbound = pair.sealed(1, 1, 2 * P);
    let mut inbound = Inbound::open(claim().unwrap(), pair.plan(2 * P)).unwrap();
    let handles = handles_of(&inbound.offer());
    drop(send(&mut outbound, &mut inbound));
    let transfer = inbound.transfer();
    drop(inbound); // the answer was lost, and with it the receipt
    assert_eq!(readable(&pair.decode, 1, &handles), 0);
    assert_eq!(pair.decode.transfer(transfer), Err(TransferError::Over(transfer)), "the handoff is over");
    let again = claim().unwrap();
    assert_eq!((again.handles().collect::<Vec<_>>(), again.written_tokens()), (handles.clone(), 0));
    let mut inbound = Inbound::open(again, pair.plan(2 * P)).unwrap();
    let (back, error) = not_yet(inbound);
    assert!(matches!(error, InboundError::Untold { .. }), "what landed for the first try does not count");
    inbound = back;
    let receipt = send(&mut outbound, &mut inbound);
    inbound.receive(&receipt).unwrap();
    let mut kv = inbound.accept().unwrap();
    assert!(holds(&kv, 1, 2 * P));
    kv.confirm_claim();
    drop(kv);
    assert!(handles.iter().all(|handle| is_stale(&pair.decode, owner(1), *handle)));
    outbound.release();
    pair.assert_untouched();
}

// B83, C3, C4
#[test]
fn a_claimed_receive_that_nobody_asks_for_again_expires_zeroed() {
    let pair = Pair::new(2);
    let token = ClaimToken { id: 83, expires_at_ns: 1000 };
    let request = Request::new(owner(1), P).with_claim(token);
    let kv = pair.decode.reserve(&proof(&pair.decode, P), request, P).unwrap();
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, P), Inbound::open(kv, pair.plan(P)).unwrap());
    drop(send(&mut outbound, &mut inbound));
    drop((inbound, outbound));
    assert_eq!((pair.decode.expire_claims(999), pair.decode.expire_claims(1000)), (0, 1));
    pair.assert_untouched();
}

// B99, C1
#[test]
fn what_a_handoff_moves_is_counted_in_the_pool_where_it_is() {
    let pair = Pair::new(4);
    let sound = |held: [u64; 2], transfers: [u64; 2]| {
        for (pool, held) in [&pair.prefill, &pair.decode].into_iter().zip(held) {
            let stats = pool.stats();
            assert_eq!((stats.live_pages, stats.free_pages), (held, 4 - held));
            assert_eq!(stats.pages_issued - stats.pages_released, held);
            assert_sound(pool);
        }
        assert_eq!([pair.prefill.stats().outbound_transfers, pair.decode.stats().inbound_transfers], transfers);
        assert_eq!([pair.prefill.stats().inbound_transfers, pair.decode.stats().outbound_transfers], [0, 0]);
    };
    for round in 0..100 {
        let tokens = round % (4 * P + 1);
        let held = tokens.div_ceil(P);
        let mut outbound = pair.sealed(1, round, tokens);
        sound([held, 0], [1, 0]);
        let mut inbound = pair.open(1, tokens);
        sound([held, held], [1, 1]);
        let receipt = send(&mut outbound, &mut inbound);
        if round % 3 == 0 {
            drop(inbound);
            sound([held, 0], [1, 0]);
            drop(outbound.into_reservation());
        } else {
            inbound.receive(&receipt).unwrap();
            let kv = inbound.accept().unwrap();
            sound([held, held], [1, 0]);
            outbound.release();
            sound([0, held], [0, 0]);
            assert!(holds(&kv, round, tokens));
        }
        sound([0, 0], [0, 0]);
    }
    pair.assert_untouched();
}
