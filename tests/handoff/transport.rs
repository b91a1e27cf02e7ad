//! Bytes moved by addresses alone, as a transport does it: from the offer to segments, stores, receipts and the verdict.

use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};

use pagestamp::geometry::*;
use pagestamp::handoff::{Regions, Route, Segment, Stretch};
use pagestamp::*;

use crate::ranks::*;
use crate::world::*;

/// What a network card does with its descriptors.
fn transfer(segments: &[Segment]) {
    for segment in segments {
        let from: *const u8 = with_exposed_provenance(segment.source as usize);
        let to: *mut u8 = with_exposed_provenance_mut(segment.destination as usize);
        // SAFETY: the segments lie in the pages of the pools that `Regions::of_pool` was given, whose pools the test keeps; source pages
        // are sealed and pinned, destination pages are under a write ticket, and the two are different memories.
        unsafe { copy_nonoverlapping(from, to, segment.bytes as usize) };
    }
}

// C7, C10
#[test]
fn what_a_transport_moved_by_addresses_is_accepted_for_every_layout_and_cut() {
    for model in models() {
        let whole = Slice::whole(&model);
        let cuts = if model.kv_heads() == 1 {
            vec![vec![whole.clone()], vec![slice(0..1, 0..1), slice(1..4, 0..1)]]
        } else {
            vec![vec![whole.clone()], vec![slice(0..4, 0..1), slice(0..2, 1..4), slice(2..4, 1..4)]]
        };
        for (cut, held) in cuts.into_iter().zip([0, 4]) {
            let decode = pool_of(&model, &whole);
            let mut kv = reserve(&decode, owner(1), 15, 15);
            append(&mut kv, &model, &whole, 5, held);
            let plan = InboundPlan::new(&model, &whole, 15).with_writers(writers(&cut));
            let plan = plan.with_batch_pages(std::num::NonZeroU32::new(2).expect("not zero"));
            let mut inbound = Inbound::open(kv, plan).expect("it opens");
            let offer = inbound.offer();
            let there = Regions::of_pool(&model, whole.clone(), &decode).expect("pages of the slice");
            let mut segments = Vec::new();
            for (rank, tile) in (0..).zip(&cut) {
                let ticket = inbound.open_writer(HolderId(rank), None).expect("writers share pages");
                let mut outbound = sender(&model, tile, rank, 5, 15);
                let reader = outbound.open_reader(HolderId(77), None).expect("nobody writes");
                let sending = outbound.start(&offer).expect("it fits");
                let prefill = outbound.pool().clone();
                let here = Regions::of_pool(&model, tile.clone(), &prefill).expect("pages of the slice");
                let route = Route::new(&model, tile, here, there.clone()).expect("both are of the model");
                let pages: Vec<u32> = outbound.handles().map(|handle| handle.index()).collect();
                let destinations = sending.destination_pages();
                let all = Stretch::new(15, &pages, &destinations).with_held_tokens(held);
                for batch in sending.batches() {
                    assert!(batch.len() <= 2);
                    route.segments(&all.clone().with_pages(batch), &mut segments).expect("pages of both");
                    transfer(&segments);
                }
                let part = outbound.digest(&sending, tile.layers(), sending.all_pages()).expect("sealed");
                inbound.receive(&sending.receipt(vec![part])).expect("honest");
                for (pool, ticket) in [(&decode, ticket), (&prefill, reader)] {
                    // SAFETY: (1) of `ticket_done`: the transport is this test, and has stopped.
                    unsafe { pool.ticket_done(ticket) }.expect("it was open");
                }
            }
            assert_named(&inbound.accept().expect("all is there"), &model, &whole, 5, 15);
        }
    }
}
