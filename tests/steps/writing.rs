//! Tokens that kernels write: pending until they are reported, and readable by nobody before.

use super::*;
use pagestamp::{ExportError, ExtentError, HolderId, ReadError, StepError, StepLoss, TicketError, WriteError};

/// Writes as a kernel would: past all checks, all of a page.
fn kernel(pool: &PagePool<HostMemory>, page: u32, byte: u8) {
    // SAFETY: (1) and (2) of `memory`: the test plays a kernel that was told to write the page.
    let memory = unsafe { pool.memory() };
    for plane in 0..2 {
        let place = pagestamp::memory::HostBytes::plane(memory, plane).unwrap();
        // SAFETY: the page exists, and nobody looks at it meanwhile.
        unsafe { std::ptr::write_bytes(place.page(page), byte, place.page_bytes()) };
    }
}

// C5
#[test]
fn tokens_are_readable_when_their_step_wrote_them_and_not_before() {
    let pool = host(4);
    let mut kv = take(&pool, 1, 3 * P);
    write(&mut kv, 3, 7);
    let step = pool.open_step();
    assert_eq!(kv.export(&step, 3), Ok(3..6));
    assert_eq!((kv.written_tokens(), kv.pending_tokens()), (3, 6));
    let unwritten = ReadError::Unwritten { to_tokens: 4, written_tokens: 3 };
    assert_eq!(kv.read(0..4).map(drop), Err(unwritten));
    assert_eq!(pool.read(owner(1), kv.handle(1).unwrap()).unwrap().written_tokens(), 0);
    assert_eq!(pool.open_steps()[0].exports, 1);
    assert_eq!(kv.wrote(&step), Ok(6));
    assert_eq!((kv.written_tokens(), pool.open_steps()[0].exports, pool.stats().assumed_tokens), (6, 0, 3));
    drop(kv.read(0..6).unwrap());
    kv.commit(5).unwrap();
    kv.truncate(5).unwrap();
    end(&pool, step);
}

// C5: nothing unwritten becomes readable by ending.
#[test]
fn what_is_not_reported_when_the_step_ends_counts_as_aborted() {
    let pool = host(4);
    let mut kv = take(&pool, 1, 2 * P);
    let step = pool.open_step();
    kv.export(&step, 5).unwrap();
    end(&pool, step);
    assert_eq!(kv.written_tokens(), 0);
    assert!(kv.read(0..1).is_err());
    write(&mut kv, 2, 9);
    assert_eq!(kv.written_tokens(), 2);
    assert_sound(&pool);
}

// C5, C8
#[test]
fn a_reservation_that_a_step_writes_is_changed_by_nobody_else() {
    let pool = host(8);
    let mut kv = take(&pool, 1, 3 * P);
    write(&mut kv, 3, 7);
    let step = pool.open_step();
    kv.export(&step, 2).unwrap();
    let by = (step.id(), 5);
    let as_write = |(step, to_tokens)| WriteError::Exported { step, to_tokens };
    let as_extent = |(step, to_tokens)| ExtentError::Exported { step, to_tokens };
    let before = pool.stats();
    assert_eq!(kv.write(1, &[&[0; 2], &[0; 2]]), Err(as_write(by)));
    assert_eq!(kv.writer(1).map(drop), Err(as_write(by)));
    assert_eq!(kv.own(1), Err(as_write(by)));
    assert_eq!(kv.assume_written(4), Err(as_extent(by)));
    assert_eq!(kv.truncate(1), Err(as_extent(by)));
    assert_eq!(kv.shrink(4).map(drop), Err(as_extent(by)));
    let page = kv.handle(1).unwrap().index();
    assert_eq!(kv.pin_write(1..3, HolderId(1), None), Err(TicketError::Busy { page }));
    assert_eq!((pool.stats(), kv.written_tokens(), kv.pending_tokens()), (before, 3, 5));
    // What touches none of these tokens goes on.
    kv.grow(4 * P).unwrap();
    kv.commit(3).unwrap();
    drop(kv.read(0..3).unwrap());
    let ticket = kv.pin_write(3..4, HolderId(1), None).unwrap();
    // SAFETY: (1) nobody writes under it.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    kv.wrote(&step).unwrap();
    kv.truncate(1).unwrap();
    end(&pool, step);
}

// C7, C3: an asynchronous engine launches the next step before the last one has reported.
#[test]
fn steps_that_overlap_write_one_behind_the_other_and_report_in_order() {
    let pool = host(8);
    let mut kv = take(&pool, 1, 6 * P);
    let steps: Vec<Step> = (0..5).map(|_| pool.open_step()).collect();
    assert_eq!(kv.export(&steps[0], 3), Ok(0..3));
    assert_eq!(kv.export(&steps[0], 1), Ok(3..4), "a step may write on");
    assert_eq!(kv.export(&steps[1], 2), Ok(4..6));
    assert_eq!(kv.export(&steps[2], 1), Ok(6..7));
    assert_eq!(kv.export(&steps[3], 1), Ok(7..8));
    assert_eq!(kv.export(&steps[4], 1), Err(ExportError::TooMany { most: 4 }));
    let (first, second) = (steps[0].id(), steps[1].id());
    assert_eq!(kv.wrote(&steps[1]), Err(ExportError::NotFirst { step: second, first }));
    assert_eq!(kv.wrote(&steps[4]), Err(ExportError::NotExported(steps[4].id())));
    assert_eq!(kv.wrote(&steps[0]), Ok(4));
    assert_eq!(kv.wrote(&steps[1]), Ok(6));
    assert_eq!(kv.export(&steps[4], 1), Ok(8..9));
    assert_eq!(kv.aborted(&steps[2]), Ok(6), "and with it what came behind");
    assert_eq!(kv.wrote(&steps[4]), Err(ExportError::NotExported(steps[4].id())));
    write(&mut kv, 2, 9);
    assert_eq!(kv.written_tokens(), 8);
    for step in steps {
        end(&pool, step);
    }
    assert_sound(&pool);
}

// C5
#[test]
fn a_step_that_ends_without_a_report_takes_those_behind_it_along() {
    let pool = host(8);
    let mut kv = take(&pool, 1, 3 * P);
    let (first, second) = (pool.open_step(), pool.open_step());
    kv.export(&first, 2).unwrap();
    kv.export(&second, 2).unwrap();
    let lost = first.id();
    end(&pool, first);
    assert_eq!(kv.wrote(&second), Err(StepError::Over(lost).into()));
    // Its kernel may be at work still.
    let busy = WriteError::Exported { step: second.id(), to_tokens: 4 };
    assert_eq!(kv.write(1, &[&[0; 2], &[0; 2]]), Err(busy.clone()));
    let third = pool.open_step();
    assert_eq!(kv.export(&third, 1), Err(busy.into()));
    end(&pool, second);
    assert_eq!(kv.export(&third, 1), Ok(0..1));
    assert_eq!(kv.wrote(&third), Ok(1));
    end(&pool, third);
}

// C8
#[test]
fn an_export_that_is_refused_leaves_the_reservation_unchanged() {
    let (pool, other) = (host(4), host(4));
    let mut kv = take(&pool, 1, 2 * P);
    let step = pool.open_step();
    kv.export(&step, 2).unwrap();
    assert_eq!(kv.export(&step, 0), Err(ExportError::NoTokens));
    let past = WriteError::PastReserved { to_tokens: 9, reserved_tokens: 8 };
    assert_eq!(kv.export(&step, 7), Err(past.into()));
    assert_eq!(
        kv.export(&step, u64::MAX),
        Err(WriteError::PastReserved { to_tokens: u64::MAX, reserved_tokens: 8 }.into())
    );
    let foreign = other.open_step();
    let unknown = StepError::Unknown(foreign.id());
    assert_eq!(kv.export(&foreign, 1), Err(unknown.into()));
    assert_eq!(kv.wrote(&foreign), Err(unknown.into()), "although its number is the same");
    assert_eq!(kv.aborted(&foreign), Err(unknown.into()));
    let id = step.id();
    assert_eq!((kv.written_tokens(), kv.pending_tokens(), pool.open_steps()[0].exports), (0, 2, 1));
    // SAFETY: (1) nothing was launched.
    unsafe { pool.revoke_step(id, StepLoss::Finished) }.unwrap();
    assert_eq!(kv.export(&step, 1), Err(StepError::Over(id).into()));
    assert_eq!(kv.wrote(&step), Err(StepError::Over(id).into()));
    assert_eq!(kv.written_tokens(), 0);
    pool.reclaim(owner(1));
    assert_eq!(kv.export(&step, 1), Err(WriteError::Revoked.into()));
    assert_eq!(kv.aborted(&step), Err(WriteError::Revoked.into()));
    assert_eq!(kv.wrote(&step), Err(WriteError::Revoked.into()));
}

// C8: the export is taken back when its page cannot be made ready.
#[test]
fn an_export_whose_page_is_under_a_writer_is_not_noted() {
    let pool = host(4);
    let mut kv = take(&pool, 1, 2 * P);
    let ticket = kv.pin_write(1..2, HolderId(1), None).unwrap();
    let step = pool.open_step();
    kv.export(&step, 1).unwrap();
    let busy = WriteError::Busy { page: kv.handle(1).unwrap().index() };
    assert_eq!(kv.export(&step, 5), Err(busy.clone().into()));
    assert_eq!(kv.pending_tokens(), 1, "what was exported before stays");
    let next = pool.open_step();
    assert_eq!(kv.export(&next, 5), Err(busy.into()));
    assert_eq!(kv.pending_tokens(), 1);
    // SAFETY: (1) nobody writes under it.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    assert_eq!(kv.export(&next, 5), Ok(1..6));
    drop(kv);
    end(&pool, step);
    end(&pool, next);
    assert_sound(&pool);
}

// C3: what a kernel may have written is zeroed, all of it, and the step's end is waited for.
#[test]
fn a_reservation_that_is_released_under_its_writer_leaves_only_zeros() {
    let pool = host(2);
    let mut kv = take(&pool, 1, 2 * P);
    let step = pool.open_step();
    kv.export(&step, 1).unwrap();
    let aimed_at = pages(&kv)[0];
    kv.release();
    assert!(ask(&pool, 2, P).is_err());
    kernel(&pool, aimed_at, 0xAB);
    end(&pool, step);
    let mut next = take(&pool, 2, 2 * P);
    next.assume_written(2 * P).unwrap();
    let mut seen = [1; 16];
    next.read(0..2 * P).unwrap().copy(0, &mut seen).unwrap();
    assert_eq!(seen, [0; 16]);
    next.release();
    assert_sound(&pool);
}

// C12: nobody sees a token change.
#[test]
fn an_export_of_rolled_back_tokens_takes_a_fresh_page_while_a_reader_sees_them() {
    let pool = host(4);
    let mut kv = take(&pool, 1, 2 * P);
    write(&mut kv, P, 7);
    let old = kv.handle(0).unwrap();
    let reader = pool.read(owner(1), old).unwrap();
    kv.truncate(2).unwrap();
    let (step, next) = (pool.open_step(), pool.open_step());
    kv.export(&step, 1).unwrap();
    let fresh = kv.handle(0).unwrap();
    assert_ne!(fresh.index(), old.index());
    // A reader of the tokens in front is in nobody's way, and the page that a kernel writes moves no more.
    let in_front = pool.read(owner(1), fresh).unwrap();
    kv.export(&next, 4).unwrap();
    assert_eq!(kv.handle(0), Some(fresh));
    kernel(&pool, kv.handle(1).unwrap().index(), 9);
    assert_eq!((reader.run(0, 0).unwrap(), in_front.run(0, 0).unwrap()), (&[7; 8][..], &[7; 4][..]));
    drop((reader, in_front));
    kv.release();
    end(&pool, step);
    end(&pool, next);
    pool.maintain(usize::MAX);
    assert_eq!(pool.stats().free_pages, 4);
    assert_sound(&pool);
}

// C7, C12: a page that was rolled back in place, is written by a kernel, and is read in front of that.
#[test]
fn a_page_that_a_kernel_writes_stays_where_it_is_for_the_step_behind() {
    let pool = host(4);
    let mut kv = take(&pool, 1, P);
    write(&mut kv, P, 7);
    kv.truncate(1).unwrap();
    let (step, next) = (pool.open_step(), pool.open_step());
    kv.export(&step, 1).unwrap();
    let page = kv.handle(0).unwrap();
    let reader = pool.read(owner(1), page).unwrap();
    let ticket = kv.pin_read(0..1, HolderId(1), None).unwrap();
    kv.export(&next, 2).unwrap();
    assert_eq!((kv.handle(0), pool.stats().moved_pages), (Some(page), 0), "the first kernel was told of this page");
    assert_eq!(reader.run(0, 0).unwrap(), [7; 2]);
    drop(reader);
    // SAFETY: (1) nobody reads under it.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    kv.wrote(&step).unwrap();
    kv.wrote(&next).unwrap();
    end(&pool, step);
    end(&pool, next);
    assert_sound(&pool);
}

// C2, C12: a kernel writes no page that others have.
#[test]
fn an_export_on_a_shared_or_published_page_writes_a_page_of_its_own() {
    use pagestamp::{PrefixTokens, Retention};
    let pool = host(8);
    let mut kv = take(&pool, 1, 2 * P);
    write(&mut kv, P, 7);
    kv.commit(P).unwrap();
    kv.publish(&PrefixTokens::new(&[1, 2, 3, 4]), Retention::default()).unwrap();
    kv.truncate(2).unwrap();
    let published = kv.handle(0).unwrap();
    let step = pool.open_step();
    kv.export(&step, 2).unwrap();
    assert_ne!(kv.handle(0).map(|handle| handle.index()), Some(published.index()));
    kv.wrote(&step).unwrap();
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&[1, 2, 3, 4, 5])).unwrap();
    assert_eq!(hit.tokens(), P);
    end(&pool, step);
}

// C7: a forgotten step, a claim that is asked for again.
#[test]
fn a_claim_that_is_asked_for_again_has_pending_what_it_had() {
    use pagestamp::ClaimToken;
    let pool = host(4);
    let token = ClaimToken { id: 7, expires_at_ns: 10 };
    let claim = || pool.reserve(&proof(&pool), Request::new(owner(1), 2 * P).with_claim(token), 2 * P).unwrap();
    let mut kv = claim();
    let step = pool.open_step();
    kv.export(&step, 3).unwrap();
    drop(kv);
    let mut again = claim();
    assert_eq!(again.pending_tokens(), 3);
    assert_eq!(again.wrote(&step), Ok(3));
    again.confirm_claim();
    again.release();
    end(&pool, step);
    // The record is used again, and nothing of that is left.
    let fresh = take(&pool, 1, P);
    assert_eq!(fresh.pending_tokens(), 0);
}
