//! Publishing and looking up.

use pagestamp::{
    AdmitError, HolderId, NullMemory, PageMemory, PagePool, Prefix, PrefixExtra, PrefixTokens, PublishError, ReadError,
    Request, Reservation, Retention, TicketError, WriteError,
};

use super::stage::{P, assert_sound, bytes, host_pool, is_all, null_pool, owner, pages, proof, take, write};

/// Token ids that no other prompt has from the first page on.
pub(crate) fn prompt(seed: u32, tokens: u64) -> Vec<u32> {
    (0..tokens as u32).map(|at| seed * 100_000 + at).collect()
}

/// A prompt of one owner whose every byte is `byte`, committed and published.
pub(crate) fn published<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: &[u32], byte: u8) -> Reservation<M> {
    let count = tokens.len() as u64;
    let mut kv = take(pool, owner(who), count);
    if M::HAS_BYTES {
        write(&mut kv, count, byte);
    } else {
        kv.assume_written(count).unwrap();
    }
    kv.commit(count).unwrap();
    kv.publish(&PrefixTokens::new(tokens), Retention::default()).unwrap();
    kv
}

pub(crate) fn hit_tokens<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: &[u32]) -> u64 {
    pool.lookup(owner(who), &PrefixTokens::new(tokens)).as_ref().map_or(0, Prefix::tokens)
}

fn go_on<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: &[u32], max: u64) -> Reservation<M> {
    let hit = pool.lookup(owner(who), &PrefixTokens::new(tokens)).unwrap();
    pool.reserve_with_prefix(&proof(pool, max), Request::new(owner(who), max), hit, max).unwrap()
}

// C2
#[test]
fn a_prefix_is_found_by_its_owner_while_it_is_held_and_when_it_is_cached() {
    let pool = host_pool(16);
    let text = prompt(1, 40);
    let kv = published(&pool, 1, &text, 7);
    let first = pages(&kv);
    let again = go_on(&pool, 1, &text, 48);
    assert_eq!((again.written_tokens(), again.committed_tokens(), again.pages()), (32, 32, 3));
    assert_eq!(pages(&again)[..2], first[..2], "the same pages");
    assert_eq!(bytes(&again).len(), 32 * 14);
    assert!(is_all(&again, 7));
    assert_sound(&pool);
    let released = kv.release();
    assert_eq!((released.pages, released.kept_pages), (1, 2), "two are held by the other");
    assert!(is_all(&again, 7));
    again.release();
    assert_eq!((pool.stats().cached_pages, pool.stats().live_pages), (2, 0));
    assert_sound(&pool);
    let third = go_on(&pool, 1, &text, 32);
    assert_eq!(pages(&third), first[..2]);
    assert!(is_all(&third, 7));
    assert_sound(&pool);
}

// C2
#[test]
fn a_prefix_is_never_found_by_another_owner_salt_or_adapter() {
    let pool = null_pool(16);
    let text = prompt(1, 32);
    published(&pool, 1, &text, 0).release();
    let plain = PrefixTokens::new(&text);
    assert!(pool.lookup(owner(2), &plain).is_none());
    assert!(pool.lookup(owner(1), &plain.with_salt(b"s")).is_none());
    assert!(pool.lookup(owner(1), &plain.with_adapter(b"a")).is_none());
    assert_eq!(hit_tokens(&pool, 1, &text), 32, "and is by its own");
    let mut salted = take(&pool, owner(1), 32);
    salted.assume_written(32).unwrap();
    salted.commit(32).unwrap();
    salted.publish(&plain.with_salt(b"ab").with_adapter(b"c"), Retention::default()).unwrap();
    assert!(pool.lookup(owner(1), &plain.with_salt(b"a").with_adapter(b"bc")).is_none());
    assert!(pool.lookup(owner(1), &plain.with_salt(b"c").with_adapter(b"ab")).is_none());
    assert!(pool.lookup(owner(1), &plain.with_salt(b"ab").with_adapter(b"c")).is_some());
    assert_sound(&pool);
}

#[test]
fn extras_are_part_of_the_pages_whose_tokens_they_stand_for_and_of_no_others() {
    let pool = null_pool(32);
    let text = prompt(1, 64);
    let image = |bytes| PrefixExtra { tag: "image", tokens: 20..30, bytes };
    let cat = [image(b"cat")];
    let mut kv = take(&pool, owner(1), 64);
    kv.assume_written(64).unwrap();
    kv.commit(64).unwrap();
    kv.publish(&PrefixTokens::new(&text).with_extras(&cat), Retention::default()).unwrap();
    let found = |extras: &[PrefixExtra<'_>]| {
        pool.lookup(owner(1), &PrefixTokens::new(&text).with_extras(extras)).map_or(0, |hit| hit.tokens())
    };
    assert_eq!(found(&cat), 64);
    assert_eq!(found(&[image(b"dog")]), 16, "the page in front of the image is the same");
    assert_eq!(found(&[]), 16);
    assert_eq!(found(&[PrefixExtra { tag: "audio", ..image(b"cat") }]), 16, "tags are apart");
    assert_eq!(found(&[PrefixExtra { tag: "imag", tokens: 20..30, bytes: b"ecat" }]), 16, "and lengths");
    assert_eq!(found(&[PrefixExtra { tokens: 19..30, ..image(b"cat") }]), 16, "and places");
    assert_eq!(found(&[image(b"cat"), image(b"cat")]), 16);
}

// C4
#[test]
fn handles_of_a_cached_page_stay_stale_when_somebody_finds_it_again() {
    let pool = host_pool(8);
    let text = prompt(1, 32);
    let kv = published(&pool, 1, &text, 7);
    let old = kv.handle(0).unwrap();
    assert_eq!(pool.check(owner(1), old), Ok(()));
    kv.release();
    assert!(matches!(pool.check(owner(1), old), Err(ReadError::Stale { .. })));
    let again = go_on(&pool, 1, &text, 32);
    let new = again.handle(0).unwrap();
    assert_eq!(new.index(), old.index());
    assert!(new.generation() > old.generation());
    assert!(matches!(pool.check(owner(1), old), Err(ReadError::Stale { .. })), "for ever");
    assert_eq!(pool.check(owner(1), new), Ok(()));
}

// C12
#[test]
fn who_rolls_back_into_a_published_page_writes_to_a_fresh_one_and_the_old_key_keeps_the_old_bytes() {
    let pool = host_pool(16);
    let text = prompt(1, 32);
    let mut kv = published(&pool, 1, &text, 7);
    let before = pages(&kv);
    kv.truncate(20).unwrap();
    assert_eq!(hit_tokens(&pool, 1, &text), 32, "what was published is there still");
    write(&mut kv, 12, 9);
    assert_eq!(pages(&kv)[0], before[0]);
    assert_ne!(pages(&kv)[1], before[1], "moved");
    let other = go_on(&pool, 1, &text, 32);
    assert!(is_all(&other, 7), "the old tokens name the old bytes");
    let mut changed = text.clone();
    changed[20..].fill(4);
    assert_eq!(hit_tokens(&pool, 1, &changed), 16);
    kv.commit(32).unwrap();
    assert_eq!(kv.publish(&PrefixTokens::new(&changed), Retention::default()), Ok(1));
    assert_eq!(hit_tokens(&pool, 1, &changed), 32);
    let mine = bytes(&go_on(&pool, 1, &changed, 32));
    assert_eq!(mine, bytes(&kv));
    assert_ne!(mine, bytes(&other));
    assert_sound(&pool);
}

// C12
#[test]
fn where_no_page_is_free_a_published_page_that_nobody_else_holds_is_rewritten_and_no_longer_found() {
    let pool = host_pool(2);
    let text = prompt(1, 32);
    let mut kv = published(&pool, 1, &text, 7);
    let before = pages(&kv);
    kv.truncate(20).unwrap();
    write(&mut kv, 12, 9);
    assert_eq!(pages(&kv), before, "in place: there is no other");
    assert_eq!(hit_tokens(&pool, 1, &text), 16, "the key of the page is gone");
    assert_sound(&pool);
    kv.truncate(4).unwrap();
    let reader = go_on(&pool, 1, &text, 16);
    let state = pool.stats();
    let planes = [vec![1; 8], vec![1; 6]];
    let full = kv.write(1, &[&planes[0], &planes[1]]);
    assert!(matches!(full, Err(WriteError::NoFreshPage { needed_pages: 1, free_pages: 0, .. })));
    assert_eq!(pool.stats(), state);
    assert!(is_all(&reader, 7), "somebody else holds it");
}

// C5
#[test]
fn an_outside_kernel_needs_a_page_of_its_own_before_it_writes() {
    let pool = host_pool(16);
    let text = prompt(1, 32);
    let mut kv = published(&pool, 1, &text, 7);
    kv.truncate(20).unwrap();
    let page = pages(&kv)[1];
    assert_eq!(kv.assume_written(32), Err(pagestamp::ExtentError::Shared { page }));
    assert_eq!(kv.pin_write(1..2, HolderId(1), None), Err(TicketError::Shared { page }));
    kv.own(12).unwrap();
    assert_ne!(pages(&kv)[1], page);
    kv.assume_written(32).unwrap();
    assert_sound(&pool);
    let (kv, error) = kv.into_handles().unwrap_err().into_parts();
    assert!(matches!(error, TicketError::Shared { .. }));
    assert_eq!(kv.written_tokens(), 32);
}

#[test]
fn publishing_goes_on_where_it_ended_and_says_what_is_wrong() {
    let pool = null_pool(32);
    let text = prompt(1, 100);
    let mut kv = take(&pool, owner(1), 100);
    let publish =
        |kv: &mut Reservation<NullMemory>, text: &[u32]| kv.publish(&PrefixTokens::new(text), Retention::default());
    assert_eq!(publish(&mut kv, &[]), Ok(0), "nothing is committed");
    for (written, new) in [(10, 0), (16, 1), (47, 1), (64, 2), (64, 0), (100, 2)] {
        kv.assume_written(written).unwrap();
        kv.commit(written).unwrap();
        assert_eq!(publish(&mut kv, &text), Ok(new), "{written}");
    }
    assert_eq!(hit_tokens(&pool, 1, &text), 96);
    let short = publish(&mut kv, &text[..95]);
    assert_eq!(short, Err(PublishError::TooFewTokens { given_tokens: 95, needed_tokens: 96 }));
    let mut twin = take(&pool, owner(1), 100);
    twin.assume_written(100).unwrap();
    twin.commit(100).unwrap();
    assert_eq!(publish(&mut twin, &text), Ok(0), "another has published the same");
    assert_eq!(pool.stats().published_pages, 6);
    kv.truncate(50).unwrap();
    let mut other = text.clone();
    other[0] = 1;
    assert_eq!(publish(&mut kv, &other), Err(PublishError::OtherTokens { ordinal: 0 }));
    assert_eq!(publish(&mut kv, &text), Ok(0));
    pool.reclaim(owner(1));
    assert_eq!(publish(&mut twin, &text), Err(PublishError::Revoked));
    assert_eq!(publish(&mut kv, &text), Err(PublishError::Revoked));
    assert_eq!(hit_tokens(&pool, 1, &text), 0);
    assert_sound(&pool);
}

// C8
#[test]
fn a_prefix_of_another_owner_pool_or_life_is_handed_back_with_the_request() {
    let (pool, there) = (null_pool(16), null_pool(16));
    let text = prompt(1, 32);
    let _kv = published(&pool, 1, &text, 0);
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    let before = pool.stats();
    let refused = pool.reserve_with_prefix(&proof(&pool, 48), Request::new(owner(2), 48), hit, 48).unwrap_err();
    let (hit, error) = refused.into_parts();
    assert!(matches!(error, AdmitError::PrefixUnusable { request } if request.owner() == owner(2)));
    let refused = there.reserve_with_prefix(&proof(&there, 48), Request::new(owner(1), 48), hit, 48).unwrap_err();
    let (hit, error) = refused.into_parts();
    assert!(matches!(error, AdmitError::PrefixUnusable { .. }));
    let refused = pool.reserve_with_prefix(&proof(&pool, 48), Request::new(owner(1), 31), hit, 1).unwrap_err();
    let (hit, error) = refused.into_parts();
    assert!(matches!(error, AdmitError::PastMax { asked_tokens: 32, max_tokens: 31, .. }));
    assert_eq!(pool.stats(), before);
    pool.reclaim(owner(1));
    let refused = pool.reserve_with_prefix(&proof(&pool, 48), Request::new(owner(1), 48), hit, 48).unwrap_err();
    assert!(matches!(refused.error(), AdmitError::PrefixUnusable { .. }));
    drop(refused);
    assert_eq!(pool.stats().live_pages, 0);
    assert_sound(&pool);
}

// C9
#[test]
fn a_request_with_a_prefix_needs_room_only_for_the_rest() {
    let pool = null_pool(6);
    let text = prompt(1, 64);
    let kv = published(&pool, 1, &text, 0);
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    let kv2 = pool.reserve_with_prefix(&proof(&pool, 96), Request::new(owner(1), 96), hit, 65).unwrap();
    assert_eq!((pool.stats().live_pages, pool.stats().promised_pages, pool.stats().free_pages), (5, 1, 1));
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    let full = pool.reserve_with_prefix(&proof(&pool, 96), Request::new(owner(1), 96), hit, 65).unwrap_err();
    assert!(matches!(full.error(), AdmitError::Full { needed_pages: 2, free_pages: 0, .. }));
    drop((kv, kv2, full));
    assert_eq!(pool.stats().cached_pages, 4);
    assert_sound(&pool);
}

// C11
#[test]
fn a_page_has_at_most_65534_holders_and_tickets() {
    let pool = null_pool(4);
    let text = prompt(1, 16);
    let kv = published(&pool, 1, &text, 0);
    let mut hits: Vec<_> = (1..65_534).map(|_| pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap()).collect();
    assert!(pool.lookup(owner(1), &PrefixTokens::new(&text)).is_some_and(|last| {
        hits.push(last);
        true
    }));
    assert!(pool.lookup(owner(1), &PrefixTokens::new(&text)).is_none(), "no more: a miss, not an overflow");
    let page = pages(&kv)[0];
    assert_eq!(kv.pin_read(0..1, HolderId(1), None), Err(TicketError::TooMany { page }));
    assert_sound(&pool);
    drop(kv);
    assert!(pool.lookup(owner(1), &PrefixTokens::new(&text)).is_some());
    hits.clear();
    assert_eq!((pool.stats().cached_pages, pool.stats().live_pages), (1, 0));
    assert_sound(&pool);
}

// C7
#[test]
fn a_page_whose_forgotten_readers_are_revoked_goes_to_nobody_until_each_has_ended() {
    let pool = host_pool(4);
    let text = prompt(1, 16);
    let one = published(&pool, 1, &text, 7);
    let two = go_on(&pool, 1, &text, 16);
    let three = go_on(&pool, 1, &text, 16);
    let page = pages(&one)[0];
    let (first, second) = (one.read(0..16).unwrap(), two.read(0..16).unwrap());
    pool.reclaim(owner(1));
    assert_eq!(pool.stats().quarantined_pages, 1);
    assert_sound(&pool);
    let all_sevens = |guard: &pagestamp::ReadGuard<'_, _>| {
        let mut plane = [0; 16 * 8];
        guard.copy(0, &mut plane).unwrap();
        plane.iter().all(|byte| *byte == 7)
    };
    drop(first);
    pool.maintain(usize::MAX);
    assert_eq!(pool.stats().quarantined_pages, 1, "the second still reads");
    assert!(all_sevens(&second));
    assert_sound(&pool);
    drop(second);
    pool.maintain(usize::MAX);
    assert_eq!((pool.stats().quarantined_pages, pool.stats().free_pages), (0, 4));
    assert!(super::stage::is_zero(&pool, page));
    assert!(three.is_revoked());
    assert_sound(&pool);
}

#[test]
fn nothing_is_shared_of_a_page_that_is_not_full_or_not_committed() {
    let pool = null_pool(16);
    let text = prompt(1, 40);
    let mut kv = take(&pool, owner(1), 40);
    kv.assume_written(40).unwrap();
    kv.commit(31).unwrap();
    assert_eq!(kv.publish(&PrefixTokens::new(&text), Retention::default()), Ok(1));
    assert_eq!(hit_tokens(&pool, 1, &text), 16);
    assert_eq!(hit_tokens(&pool, 1, &text[..15]), 0);
    assert_eq!(hit_tokens(&pool, 1, &[]), 0);
    assert_eq!(hit_tokens(&pool, 1, &text[1..]), 0);
    assert_eq!(P, 16);
}
