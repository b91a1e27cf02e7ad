#![expect(unsafe_code, reason = "reads pages of the test's own memory")]

use super::*;
use crate::memory::{FenceState, Lane, MemoryError};

fn held() -> HeldMemory {
    let memory = HeldMemory::new(geometry(), 6).unwrap();
    soil(&memory);
    memory
}

fn clean(memory: &HeldMemory, page: u32) -> Fence {
    clean_of(memory, &[whole(page, Heat::Hot)]).unwrap()
}

// C7
#[test]
fn pages_keep_their_bytes_until_their_fence_is_finished() {
    let memory = held();
    let fences = [2, 4].map(|page| clean(&memory, page));
    assert_eq!(memory.open_fences(), fences);
    check(&memory, |_, _, _| false);
    assert_eq!(fences.map(|fence| memory.poll(fence)), [FenceState::Pending; 2]);

    assert_eq!(memory.finish_next(), Some(fences[0]));
    check(&memory, |_, page, _| page == 2);
    assert_eq!(fences.map(|fence| memory.poll(fence)), [FenceState::Done, FenceState::Pending]);

    assert_eq!(memory.finish_all(), 1);
    check(&memory, |_, page, _| page == 2 || page == 4);
    assert_eq!(memory.finish_next(), None);
    assert_eq!(memory.open_fences(), []);
}

#[test]
fn fences_finish_out_of_order_and_once() {
    let memory = held();
    let fences = [0, 1, 2].map(|page| clean(&memory, page));
    memory.finish(fences[1]).unwrap();
    check(&memory, |_, page, _| page == 1);
    assert_eq!(memory.open_fences(), [fences[0], fences[2]]);
    let again = MemoryError::UnknownFence { fence: fences[1].raw() };
    assert_eq!(memory.finish(fences[1]), Err(again));
    assert_eq!(memory.finish(Fence::DONE), Err(MemoryError::UnknownFence { fence: 0 }));
}

#[test]
fn finishing_zeroes_what_the_clean_named_and_no_more() {
    let memory = held();
    let fence = clean_of(&memory, &[CleanPage { page: 5, tokens: 3, heat: Heat::Cold }]).unwrap();
    memory.finish(fence).unwrap();
    check(&memory, |plane, page, offset| {
        let (run_bytes, page_bytes) = [(512, 4096), (5, 120), (2, 16)][plane];
        page == 5 && offset < page_bytes && offset % (run_bytes * PAGE_TOKENS as usize) / run_bytes < 3
    });
}

// C3
#[test]
fn a_failed_fence_stays_failed_and_its_pages_dirty() {
    let memory = held();
    let fences = [0, 1].map(|page| clean(&memory, page));
    assert_eq!(memory.fail_next(), Some(fences[0]));
    assert_eq!(memory.finish_all(), 1);
    check(&memory, |_, page, _| page == 1);
    assert_eq!(memory.poll(fences[0]), FenceState::Failed);
    assert_eq!(memory.poll(fences[1]), FenceState::Done);
    let unknown = Err(MemoryError::UnknownFence { fence: fences[0].raw() });
    assert_eq!(memory.finish(fences[0]), unknown);
    assert_eq!(memory.order_after(fences[0], Lane::from_raw(1)), unknown);
    assert_eq!(memory.fail_next(), None);
}

#[test]
fn the_next_cleans_fail_when_told_and_open_no_fence() {
    let memory = held();
    memory.fail_clean_calls(2);
    assert_eq!(clean_of(&memory, &[]), Ok(Fence::DONE));
    for _ in 0..2 {
        assert_eq!(clean_of(&memory, &[whole(0, Heat::Hot)]), Err(MemoryError::Injected));
    }
    assert_eq!(memory.open_fences(), []);
    let fence = clean(&memory, 0);
    assert_eq!(memory.open_fences(), [fence]);
}

// C8
#[test]
fn a_refused_batch_opens_no_fence() {
    let memory = held();
    let error = MemoryError::NoSuchPage { page: 6, max_pages: 6 };
    assert_eq!(clean_of(&memory, &[whole(0, Heat::Hot), whole(6, Heat::Hot)]), Err(error));
    assert_eq!(memory.open_fences(), []);
    check(&memory, |_, _, _| false);
}

#[test]
fn waits_are_kept_in_order_for_open_and_done_fences_only() {
    let memory = held();
    let fences = [0, 1].map(|page| clean(&memory, page));
    assert_eq!(memory.finish_next(), Some(fences[0]));
    let lanes = [Lane::from_raw(8), Lane::from_raw(9)];
    memory.order_after(fences[1], lanes[0]).unwrap();
    memory.order_after(fences[0], lanes[1]).unwrap();
    let never = Fence::from_raw(fences[1].raw() + 1);
    assert_eq!(memory.poll(never), FenceState::Failed);
    assert_eq!(memory.order_after(never, lanes[0]), Err(MemoryError::UnknownFence { fence: never.raw() }));
    assert_eq!(memory.waits(), [(fences[1], lanes[0]), (fences[0], lanes[1])]);
}

#[test]
fn everything_but_cleaning_passes_to_host_memory() {
    let memory = HeldMemory::over(HostMemory::new(geometry(), 2).unwrap());
    // SAFETY: (1) one thread uses the memory.
    unsafe { memory.write(span(1, 0, 1), &[9; 3]) }.unwrap();
    let mut dst = [0; 5];
    // SAFETY: (1) one thread uses the memory.
    unsafe { memory.read(span(1, 0, 0), &mut dst) }.unwrap();
    assert_eq!(dst, [0, 9, 9, 9, 0]);
    memory.decommit(0..2).unwrap();
    memory.commit(0..2).unwrap();
    check(&memory, |_, _, _| true);
}
