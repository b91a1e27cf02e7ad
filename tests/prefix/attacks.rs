//! What a hostile reader tried on shared pages.

use pagestamp::memory::HostBytes;
use pagestamp::{
    AdmitError, ForkError, HolderId, HostMemory, PagePool, PrefixTokens, PublishError, Request, Resized, Retention,
};

use super::sharing::{hit_tokens, prompt, published};
use super::stage::{assert_sound, config, geometry, host_pool, is_all, null_pool, owner, pages, proof, take, write};

// C3
#[test]
fn memory_that_a_closed_pool_gives_back_has_nothing_of_its_cached_pages() {
    let memory = HostMemory::new(geometry(), 4).unwrap();
    let pool = PagePool::new(config(4), memory).unwrap();
    let text = prompt(1, 64);
    published(&pool, 1, &text, 7).release();
    assert_eq!(pool.stats().cached_pages, 4);
    let memory = pool.close().unwrap();
    for (plane, page) in [(0, 0), (0, 3), (1, 0), (1, 3)] {
        let place = memory.plane(plane).unwrap();
        // SAFETY: the page exists, and nobody else has the memory.
        let bytes = unsafe { std::slice::from_raw_parts(place.page(page), place.page_bytes()) };
        assert!(bytes.iter().all(|byte| *byte == 0), "plane {plane}, page {page}");
    }
}

// C8
#[test]
fn an_admission_that_eviction_cannot_help_evicts_nothing() {
    let pool = host_pool(8);
    let text = prompt(1, 48);
    published(&pool, 1, &text, 7).release();
    let held = take(&pool, owner(2), 64);
    assert_eq!((pool.stats().cached_pages, pool.stats().free_pages), (3, 1));
    let full = pool.reserve(&proof(&pool, 80), Request::new(owner(3), 80), 80);
    assert!(matches!(full, Err(AdmitError::Full { needed_pages: 5, free_pages: 1, .. })));
    assert_eq!((hit_tokens(&pool, 1, &text), pool.stats().evicted_pages), (48, 0));
    held.release();
    assert_sound(&pool);
}

// C7
#[test]
fn a_rewrite_finds_room_in_what_can_be_evicted() {
    let pool = host_pool(3);
    let text = prompt(1, 32);
    published(&pool, 2, &prompt(9, 16), 5).release();
    let mut kv = published(&pool, 1, &text, 7);
    assert_eq!((pool.stats().free_pages, pool.stats().cached_pages), (0, 1));
    let other = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    kv.truncate(20).unwrap();
    write(&mut kv, 12, 9);
    assert_eq!(hit_tokens(&pool, 2, &prompt(9, 16)), 0, "it made room");
    drop((kv, other));
    assert_sound(&pool);
}

// C2
#[test]
fn what_is_published_under_another_salt_is_not_found_under_the_first() {
    let pool = host_pool(8);
    let text = prompt(1, 48);
    let (red, blue) = (PrefixTokens::new(&text).with_salt(b"red"), PrefixTokens::new(&text).with_salt(b"blue"));
    let mut kv = take(&pool, owner(1), 48);
    write(&mut kv, 48, 7);
    kv.commit(32).unwrap();
    assert_eq!(kv.publish(&red, Retention::default()), Ok(2));
    kv.commit(48).unwrap();
    assert_eq!(kv.publish(&blue, Retention::default()), Ok(3), "one name for all of it, the last one given");
    assert!(pool.lookup(owner(1), &red).is_none());
    assert_eq!(pool.lookup(owner(1), &blue).unwrap().tokens(), 48);
    let both = blue.with_adapter(b"x");
    assert_eq!(kv.publish(&both, Retention::default()), Ok(3));
    assert!(pool.lookup(owner(1), &blue).is_none());
    drop(kv);
    assert_eq!(pool.lookup(owner(1), &both).unwrap().tokens(), 48);
    assert_sound(&pool);
}

#[test]
fn pages_behind_one_that_another_had_published_are_found_after_that_one_left() {
    let pool = host_pool(8);
    let text = prompt(1, 48);
    let first = published(&pool, 1, &text[..16], 7);
    let mut second = published(&pool, 1, &text[..32], 7);
    assert_eq!(pool.stats().published_pages, 2, "the first page is the other's");
    first.release();
    // The page of the first goes, whose priority is no higher.
    let held = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    assert_eq!(held.tokens(), 32);
    drop(held);
    pool.evict(1);
    assert_eq!(hit_tokens(&pool, 1, &text), 0);
    second.grow(48).unwrap();
    write(&mut second, 16, 7);
    second.commit(48).unwrap();
    assert_eq!(second.publish(&PrefixTokens::new(&text), Retention::default()), Ok(3));
    assert_eq!(hit_tokens(&pool, 1, &text), 48);
    assert_sound(&pool);
}

#[test]
fn who_publishes_what_another_had_published_for_a_shorter_stay_makes_it_stay() {
    let pool = null_pool(8);
    let text = prompt(1, 32);
    let publish = |kv: &mut pagestamp::Reservation<_>, tokens: u64, retention| {
        kv.assume_written(tokens).unwrap();
        kv.commit(tokens).unwrap();
        kv.publish(&PrefixTokens::new(&text), retention).unwrap()
    };
    let mut brief = take(&pool, owner(1), 32);
    assert_eq!(publish(&mut brief, 32, Retention::WhileHeld), 2);
    let mut lasting = take(&pool, owner(1), 32);
    assert_eq!(publish(&mut lasting, 32, Retention::Cached { priority: 3 }), 0);
    brief.release();
    assert_eq!((pool.stats().cached_pages, hit_tokens(&pool, 1, &text)), (2, 32));
    lasting.release();
    // And of what is cached already.
    let other = prompt(2, 32);
    published(&pool, 1, &other, 0).release();
    let mut higher = take(&pool, owner(1), 32);
    higher.assume_written(32).unwrap();
    higher.commit(32).unwrap();
    higher.publish(&PrefixTokens::new(&other), Retention::Cached { priority: 9 }).unwrap();
    higher.release();
    assert_sound(&pool);
    pool.evict(2);
    assert_eq!((hit_tokens(&pool, 1, &text), hit_tokens(&pool, 1, &other)), (0, 32), "9 stays longer than 3");
    assert_sound(&pool);
}

#[test]
fn a_higher_priority_reaches_the_pages_that_another_had_published() {
    let pool = null_pool(8);
    let text = prompt(1, 48);
    let mut first = take(&pool, owner(1), 16);
    let mut second = take(&pool, owner(1), 48);
    for (kv, tokens) in [(&mut first, 16), (&mut second, 32)] {
        kv.assume_written(tokens).unwrap();
        kv.commit(tokens).unwrap();
        kv.publish(&PrefixTokens::new(&text), Retention::default()).unwrap();
    }
    first.release();
    second.assume_written(48).unwrap();
    second.commit(48).unwrap();
    second.publish(&PrefixTokens::new(&text), Retention::Cached { priority: 9 }).unwrap();
    second.release();
    published(&pool, 1, &prompt(2, 32), 0).release();
    pool.evict(2);
    assert_eq!(hit_tokens(&pool, 1, &text), 48, "no page goes before one that continues it");
    assert_sound(&pool);
}

// C8
#[test]
fn a_long_prompt_is_published_whole_or_not_at_all() {
    let pool = null_pool(128);
    let text = prompt(1, 16 * 100);
    let mut kv = take(&pool, owner(1), 1600);
    kv.assume_written(1600).unwrap();
    kv.commit(1600).unwrap();
    let writer = kv.pin_write(99..100, HolderId(1), None).unwrap();
    let before = pool.stats();
    let refused = kv.publish(&PrefixTokens::new(&text), Retention::default());
    assert!(matches!(refused, Err(PublishError::OffLimits { .. })));
    assert_eq!(pool.stats(), before);
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { pool.ticket_done(writer) }.unwrap();
    assert_eq!(kv.publish(&PrefixTokens::new(&text), Retention::default()), Ok(100));
    assert_sound(&pool);
}

// C8
#[test]
fn a_fork_that_is_refused_hands_the_request_back() {
    let pool = host_pool(4);
    let mut kv = take(&pool, owner(1), 20);
    write(&mut kv, 20, 7);
    let plan = proof(&pool, 32);
    let Err(ForkError::ForeignOwner { request, .. }) = kv.fork(&plan, Request::new(owner(2), 32)) else { panic!() };
    assert_eq!((request.owner(), request.max_tokens()), (owner(2), 32));
    let writer = kv.pin_write(0..1, HolderId(1), None).unwrap();
    let Err(ForkError::Page { request, .. }) = kv.fork(&plan, Request::new(owner(1), 32)) else { panic!() };
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { pool.ticket_done(writer) }.unwrap();
    let beam = kv.fork(&plan, request).unwrap();
    assert!(is_all(&beam, 7));
    drop(beam);
    assert_sound(&pool);
}

// C1
#[test]
fn a_pool_that_shrinks_gets_the_cached_pages_whose_tickets_end_later() {
    let pool = host_pool(4);
    let text = prompt(1, 64);
    let kv = published(&pool, 1, &text, 7);
    let store = kv.pin_read(0..4, HolderId(1), None).unwrap();
    kv.release();
    assert_eq!(pool.resize(2), Ok(Resized::Pending { target_pages: 2, pages: 4 }));
    assert_eq!(pool.stats().cached_pages, 4, "no ticket is broken for room");
    // SAFETY: (1): nobody reads under the ticket.
    unsafe { pool.ticket_done(store) }.unwrap();
    pool.maintain(usize::MAX);
    assert_eq!((pool.stats().parked_pages, pool.stats().cached_pages), (2, 2));
    assert_eq!(hit_tokens(&pool, 1, &text), 32);
    assert_sound(&pool);
}

// C7
#[test]
fn cached_pages_under_a_ticket_go_like_others_once_it_ended() {
    let pool = host_pool(4);
    let text = prompt(1, 64);
    let kv = published(&pool, 1, &text, 7);
    let page = pages(&kv)[0];
    let store = kv.pin_read(0..1, HolderId(1), None).unwrap();
    kv.release();
    assert_eq!(pool.evict(9).pages, 3);
    assert_sound(&pool);
    assert_eq!(hit_tokens(&pool, 1, &text), 16);
    assert_eq!(pool.evict(9).pages, 0, "found and let go, still under its ticket");
    // SAFETY: (1): nobody reads under the ticket.
    unsafe { pool.ticket_done(store) }.unwrap();
    assert_sound(&pool);
    assert_eq!(pool.evict(9).pages, 1);
    assert!(super::stage::is_zero(&pool, page));
    assert_sound(&pool);
}
