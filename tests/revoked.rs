//! What a borrow may still do after its owner was reclaimed: nothing, whoever else was at work on its pages. And two more that a
//! last look found: pages whose cleaning failed, and the null page of memory that starts dirty.
#![expect(unsafe_code, reason = "ends tickets, and passes a memory on")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use pagestamp::*;
use std::sync::atomic::{AtomicBool, Ordering};

fn pool(pages: u32) -> PagePool<HostMemory> {
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 4)]).unwrap();
    PagePool::new(PoolConfig::new(pages), HostMemory::new(geometry, pages).unwrap()).unwrap()
}

// C12, C7: a page with an open write ticket cannot be read, reclaimed or not.
#[test]
fn a_writer_does_not_show_a_page_under_a_write_ticket_after_a_reclaim() {
    let pool = pool(8);
    let proof = pool.prove(CapacityPlan::new(64)).unwrap();
    let alice = OwnerId::new(1).unwrap();
    let mut kv = pool.reserve(&proof, Request::new(alice, 32), 32).unwrap();
    kv.write(16, &[&[7; 64]]).unwrap();
    let _ticket = kv.pin_write(0..1, HolderId(1), None).unwrap();
    let writer = kv.writer(4).unwrap();
    assert!(matches!(writer.run(0, 0, 0), Err(ReadError::Busy { .. })));
    pool.reclaim(alice);
    let after = writer.run(0, 0, 0).map(<[u8]>::len);
    assert!(after.is_err(), "a &[u8] over a page that an outside party is writing: {after:?}");
}

/// Races a reclaim against an attempt on a page under a write ticket, with an audit that holds the lock in the background.
/// `attempt` answers `Some(true)` when it reached the page, `Some(false)` when it was refused for good.
fn race_a_reclaim(attempt: impl Fn(&mut Reservation<HostMemory>) -> Option<bool>) {
    let pool = pool(4096);
    let proof = pool.prove(CapacityPlan::new(64)).unwrap();
    let alice = OwnerId::new(1).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                pool.audit().unwrap();
            }
        });
        let reached = (0..300).find(|_| {
            let mut kv = pool.reserve(&proof, Request::new(alice, 32), 32).unwrap();
            kv.write(15, &[&[7; 60]]).unwrap();
            let ticket = kv.pin_write(0..1, HolderId(1), None).unwrap();
            let reclaim = s.spawn(|| pool.reclaim(alice));
            let reached = std::iter::repeat_with(|| attempt(&mut kv)).flatten().next();
            reclaim.join().unwrap();
            // SAFETY: (1) of `ticket_done`: nobody outside ever touched the page.
            unsafe { pool.ticket_done(ticket) }.unwrap();
            drop(kv);
            pool.maintain(100);
            reached == Some(true)
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(reached, None, "a page under an open write ticket was reached, in this try");
    });
}

// C7, C12
#[test]
fn a_read_that_races_a_reclaim_does_not_get_a_page_under_a_write_ticket() {
    race_a_reclaim(|kv| match kv.read(0..15).map(drop) {
        Ok(()) => Some(true),
        Err(ReadError::Busy { .. }) => None,
        Err(_) => Some(false),
    });
}

// C7, C12
#[test]
fn a_write_that_races_a_reclaim_does_not_touch_a_page_under_a_write_ticket() {
    race_a_reclaim(|kv| match kv.write(1, &[&[7; 4]]) {
        Ok(()) => Some(true),
        Err(WriteError::Busy { .. }) => None,
        Err(_) => Some(false),
    });
}

fn held(pages: u32) -> (PagePool<HeldMemory>, pagestamp::memory::HeldControl) {
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 4)]).unwrap();
    let memory = HeldMemory::new(geometry, pages).unwrap();
    let control = memory.control();
    (PagePool::new(PoolConfig::new(pages), memory).unwrap(), control)
}

// C3, C5: bytes of Bob, who has left, shown to Alice.
#[test]
fn a_writer_does_not_show_the_last_tenants_bytes_after_a_reclaim() {
    let (pool, _control) = held(4);
    let proof = pool.prove(CapacityPlan::new(32)).unwrap();
    let (alice, bob) = (OwnerId::new(1).unwrap(), OwnerId::new(2).unwrap());
    let mut theirs = pool.reserve(&proof, Request::new(bob, 16), 16).unwrap();
    theirs.write(16, &[&[0x5e; 64]]).unwrap();
    theirs.release(); // zeroing is behind a fence that is open
    let lane = pagestamp::memory::Lane::from_raw(7);
    let mut kv = pool.reserve(&proof, Request::new(alice, 32).on_lane(lane), 16).unwrap();
    kv.grow(32).unwrap();
    kv.assume_written(16).unwrap();
    let writer = kv.writer(4).unwrap();
    assert!(matches!(writer.run(0, 0, 0), Err(ReadError::Pending { .. })));
    pool.reclaim(alice);
    let seen = writer.run(0, 0, 0);
    assert!(seen.is_err(), "Alice reads Bob's bytes: {:x?}", seen.unwrap());
}

// C3, C5, C7, C12
#[test]
fn a_read_that_races_a_reclaim_does_not_show_the_last_tenants_bytes() {
    let (mut tries, mut leaked) = (0, None);
    while tries < 300 && leaked.is_none() {
        tries += 1;
        let (pool, control) = held(2002);
        let proof = pool.prove(CapacityPlan::new(32000)).unwrap();
        let (alice, bob) = (OwnerId::new(1).unwrap(), OwnerId::new(2).unwrap());
        let mut theirs = pool.reserve(&proof, Request::new(bob, 16), 16).unwrap();
        theirs.write(16, &[&[0x5e; 64]]).unwrap();
        let rest = pool.reserve(&proof, Request::new(bob, 1999 * 16), 16).unwrap();
        theirs.release();
        let lane = pagestamp::memory::Lane::from_raw(7);
        let mut kv = pool.reserve(&proof, Request::new(alice, 16).on_lane(lane), 16).unwrap();
        kv.assume_written(16).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    pool.audit().unwrap();
                }
            });
            s.spawn(|| pool.reclaim(alice));
            loop {
                match kv.read(0..16) {
                    Ok(guard) => {
                        let mut b = [0; 64];
                        guard.copy(0, &mut b).unwrap();
                        leaked = Some(b);
                        break;
                    }
                    Err(ReadError::Pending { .. }) => {}
                    Err(_) => break,
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        drop(rest);
        control.finish_all();
    }
    assert!(leaked.is_none(), "try {tries}: Alice reads Bob's bytes: {leaked:x?}");
}

// C11
#[test]
fn a_pin_that_is_tried_again_after_the_fence_is_given() {
    let (pool, control) = held(3);
    let proof = pool.prove(CapacityPlan::new(16)).unwrap();
    let (alice, bob) = (OwnerId::new(1).unwrap(), OwnerId::new(2).unwrap());
    let mut theirs = pool.reserve(&proof, Request::new(bob, 16), 16).unwrap();
    theirs.write(16, &[&[0x5e; 64]]).unwrap();
    theirs.release();
    let lane = pagestamp::memory::Lane::from_raw(7);
    let mut kv = pool.reserve(&proof, Request::new(alice, 16).on_lane(lane), 16).unwrap();
    assert_eq!(kv.pin_read(0..1, HolderId(1), None), Err(TicketError::Pending { page: 2 }));
    control.finish_all();
    kv.assume_written(16).unwrap();
    kv.pin_read(0..1, HolderId(1), None).unwrap();
    pool.pin(alice, &[kv.handle(0).unwrap()], HolderId(2), None).unwrap();
}

// C8, C11
#[test]
fn a_pin_of_a_page_that_could_not_be_cleaned_is_not_told_to_try_again() {
    let (pool, control) = held(3);
    let proof = pool.prove(CapacityPlan::new(16)).unwrap();
    let (alice, bob) = (OwnerId::new(1).unwrap(), OwnerId::new(2).unwrap());
    let mut theirs = pool.reserve(&proof, Request::new(bob, 16), 16).unwrap();
    theirs.write(16, &[&[0x5e; 64]]).unwrap();
    theirs.release();
    let lane = pagestamp::memory::Lane::from_raw(7);
    let kv = pool.reserve(&proof, Request::new(alice, 16).on_lane(lane), 16).unwrap();
    let _ = control.fail_next();
    pool.maintain(1);
    let said = kv.pin_read(0..1, HolderId(1), None);
    assert!(!matches!(said, Err(TicketError::Busy { .. })), "no reader, no ticket, and for ever: {said:?}");
    pool.audit().unwrap();
}

mod dirty {
    use pagestamp::memory::*;
    use pagestamp::*;
    use std::ops::Range;
    #[derive(Debug)]
    struct Dirty(HeldMemory);
    // SAFETY: passed on to held memory.
    unsafe impl PageMemory for Dirty {
        const NAME: &'static str = "dirty";
        const HAS_BYTES: bool = true;
        const STARTS_DIRTY: bool = true;
        fn geometry(&self) -> &PageGeometry {
            self.0.geometry()
        }
        fn max_pages(&self) -> u32 {
            self.0.max_pages()
        }
        unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
            // SAFETY: (1) of the caller.
            unsafe { self.0.clean(batch) }
        }
        fn poll(&self, fence: Fence) -> FenceState {
            self.0.poll(fence)
        }
        fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
            self.0.order_after(fence, lane)
        }
        fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
            self.0.decommit(pages)
        }
        fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
            self.0.commit(pages)
        }
        unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
            // SAFETY: (1) of the caller.
            unsafe { self.0.write(at, src) }
        }
        unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
            // SAFETY: (1) of the caller.
            unsafe { self.0.read(at, dst) }
        }
    }
    // C3
    #[test]
    fn a_null_page_that_could_not_be_cleaned_is_not_called_clean() {
        let geometry = PageGeometry::new(16, &[Plane::per_token(1, 4)]).unwrap();
        let memory = HeldMemory::new(geometry, 4).unwrap();
        let control = memory.control();
        // what somebody left there before the pool
        // SAFETY: (1) of `PageMemory::write`: the memory is the test's own still.
        unsafe { memory.write(Span { page: 0, plane: 0, offset: 0 }, &[0x5e; 4]) }.unwrap();
        let pool = PagePool::new(PoolConfig::new(4), Dirty(memory)).unwrap();
        let _ = control.fail_next(); // the own pages
        control.finish_all();
        pool.maintain(100);
        assert_eq!(pool.null_page(), Some(0), "always zero, say its words");
        println!("{:?} {:?} poisoned {}", pool.audit(), pool.audit_bytes(0..4), pool.stats().poisoned_pages);
        assert!(pool.audit_bytes(0..4).is_err(), "page 0 holds somebody's bytes for good and no audit says so");
    }
}
