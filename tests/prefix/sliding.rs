//! Windows that slide.

use pagestamp::{ExtentError, HolderId, PrefixTokens, ReadError, Request, Retention, TicketError};

use super::sharing::{hit_tokens, prompt};
use super::stage::{assert_sound, host_pool, is_zero, null_pool, owner, pages, proof, take, take_filled, write};

// C4, C5
#[test]
fn a_window_that_slides_gives_back_the_pages_before_it_and_reads_none_of_them() {
    let pool = host_pool(8);
    let mut kv = take_filled(&pool, owner(1), 64, 7);
    let (all, first) = (pages(&kv), kv.handle(0).unwrap());
    let released = kv.slide(40).unwrap();
    assert_eq!((released.pages, kv.pages(), kv.first_tokens()), (2, 2, 32));
    assert_eq!(pages(&kv), all[2..]);
    assert!(is_zero(&pool, all[0]) && is_zero(&pool, all[1]));
    assert!(matches!(pool.check(owner(1), first), Err(ReadError::Stale { .. })));
    assert_eq!((kv.handle(0), kv.handle(1)), (None, None));
    assert_eq!(kv.handle(2).map(|handle| handle.index()), Some(all[2]), "ordinals stay");
    assert!(matches!(kv.read(31..40), Err(ReadError::Slid { from_tokens: 31, first_tokens: 32 })));
    assert!(kv.read(32..64).is_ok() && kv.read(0..0).is_ok());
    assert_eq!(kv.slide(40).unwrap().pages, 0, "saying it twice is saying it once");
    assert_eq!(kv.slide(8).unwrap().pages, 0, "nor does it come back");
    assert_sound(&pool);
    assert!(kv.grow(65).is_ok(), "past what was admitted: there is room");
    write(&mut kv, 1, 8);
    assert_eq!(kv.pages(), 3);
    assert_eq!(kv.shrink(65).unwrap().pages, 0);
    kv.release();
    assert_eq!(pool.stats().free_pages, 8);
    assert_sound(&pool);
}

// C8
#[test]
fn what_lies_before_the_window_is_refused_by_name() {
    let pool = host_pool(8);
    let mut kv = take_filled(&pool, owner(1), 64, 7);
    let past = kv.slide(65);
    assert_eq!(past, Err(ExtentError::PastWritten { to_tokens: 65, written_tokens: 64 }));
    kv.slide(32).unwrap();
    assert_eq!(kv.truncate(31), Err(ExtentError::Slid { to_tokens: 31, first_tokens: 32 }));
    assert_eq!(kv.pin_read(1..3, HolderId(1), None), Err(TicketError::Slid { from_pages: 1, first_pages: 2 }));
    assert!(kv.pin_read(2..4, HolderId(1), None).is_ok());
    kv.truncate(32).unwrap();
    kv.slide(32).unwrap();
    assert_eq!(kv.pages(), 2, "reserved still");
    pool.reclaim(owner(1));
    assert_eq!(kv.slide(32), Err(ExtentError::Revoked));
    assert_sound(&pool);
}

#[test]
fn pages_published_before_the_window_moved_on_are_found_and_those_behind_a_gap_are_not() {
    let pool = null_pool(16);
    let text = prompt(1, 64);
    let mut kv = take(&pool, owner(1), 64);
    kv.assume_written(32).unwrap();
    kv.commit(32).unwrap();
    kv.publish(&PrefixTokens::new(&text), Retention::default()).unwrap();
    kv.slide(32).unwrap();
    assert_eq!(pool.stats().cached_pages, 2);
    kv.assume_written(64).unwrap();
    kv.commit(64).unwrap();
    assert_eq!(kv.publish(&PrefixTokens::new(&text), Retention::default()), Ok(2));
    assert_eq!(hit_tokens(&pool, 1, &text), 64);
    let other = prompt(2, 64);
    let mut gap = take(&pool, owner(1), 64);
    gap.assume_written(64).unwrap();
    gap.slide(16).unwrap();
    gap.commit(64).unwrap();
    assert_eq!(gap.publish(&PrefixTokens::new(&other), Retention::default()), Ok(0), "its first page is nowhere");
    assert_eq!(gap.publish(&PrefixTokens::new(&other), Retention::default()), Ok(0));
    assert_eq!(hit_tokens(&pool, 1, &other), 0);
    assert_sound(&pool);
}

// C2
#[test]
fn a_fork_of_a_window_has_the_window() {
    let pool = host_pool(8);
    let mut kv = take_filled(&pool, owner(1), 56, 7);
    kv.slide(20).unwrap();
    let beam = kv.fork(&proof(&pool, 64), Request::new(owner(1), 64)).unwrap();
    assert_eq!((beam.first_tokens(), beam.written_tokens(), beam.pages()), (16, 56, 3));
    assert_eq!(pages(&beam)[..2], pages(&kv)[..2]);
    assert!(beam.read(16..56).is_ok());
    drop(kv);
    assert!(beam.read(16..56).is_ok());
    assert_sound(&pool);
    drop(beam);
    assert_eq!(pool.stats().free_pages, 8);
}
