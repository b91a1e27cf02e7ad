//! Groups 5 and 6, and what of the others needs pages that are shared: publishing, looking up, forks, windows, eviction.

use std::sync::atomic::{AtomicBool, Ordering};

use pagestamp::{
    HolderId, HostMemory, PagePool, Prefix, PrefixTokens, PublishError, ReadError, Request, Reservation, Retention,
    WriteError,
};

use super::stage::{
    P, assert_sound, bytes, host_pool, is_all, is_zero, null_pool, owner, pages, proof, take, take_filled, write,
};

/// Token ids that no other prompt has.
fn prompt(seed: u32, tokens: u64) -> Vec<u32> {
    (0..tokens as u32).map(|at| seed * 10_000 + at).collect()
}

fn publish(kv: &mut Reservation<HostMemory>, text: &[u32]) -> Result<u32, PublishError> {
    kv.commit(text.len() as u64).unwrap();
    kv.publish(&PrefixTokens::new(text), Retention::default())
}

/// A published prompt whose bytes are all `byte`.
fn published(pool: &PagePool<HostMemory>, who: u64, text: &[u32], byte: u8) -> Reservation<HostMemory> {
    let mut kv = take_filled(pool, owner(who), text.len() as u64, byte);
    publish(&mut kv, text).unwrap();
    kv
}

fn hit(pool: &PagePool<HostMemory>, who: u64, text: &[u32]) -> u64 {
    pool.lookup(owner(who), &PrefixTokens::new(text)).as_ref().map_or(0, Prefix::tokens)
}

fn go_on(pool: &PagePool<HostMemory>, who: u64, text: &[u32]) -> Reservation<HostMemory> {
    let max = text.len() as u64;
    let prefix = pool.lookup(owner(who), &PrefixTokens::new(text)).unwrap();
    pool.reserve_with_prefix(&proof(pool, max), Request::new(owner(who), max), prefix, max).unwrap()
}

// B09
#[test]
fn an_export_keeps_its_pages_when_eviction_wants_them() {
    let pool = host_pool(4);
    let text = prompt(1, 2 * P);
    let kv = published(&pool, 1, &text, 0x09);
    let before = bytes(&kv);
    let export = kv.pin_read(0..2, HolderId(9), None).unwrap();
    let sent = pages(&kv);
    kv.release(); // done, and not sent yet
    let rest = take_filled(&pool, owner(2), 2 * P, 0xff);
    let full = pool.reserve(&proof(&pool, P), Request::new(owner(2), P), P);
    assert!(full.is_err(), "nothing of the export makes room");
    assert_eq!(pages(&go_on(&pool, 1, &text)), sent);
    assert_eq!(bytes(&go_on(&pool, 1, &text)), before);
    // SAFETY: (1): it has sent all.
    unsafe { pool.ticket_done(export) }.unwrap();
    let next = take(&pool, owner(2), 2 * P);
    assert_eq!(hit(&pool, 1, &text), 0);
    assert!(pages(&next).iter().all(|page| is_zero(&pool, *page)));
    drop((rest, next));
    assert_sound(&pool);
}

// B16
#[test]
fn the_source_of_a_load_is_not_evicted_under_the_copy() {
    let (host, device) = (host_pool(2), host_pool(2));
    let text = prompt(1, 2 * P);
    let kv = published(&host, 1, &text, 0x16);
    let load = kv.pin_read(0..2, HolderId(16), None).unwrap();
    kv.release();
    assert_eq!(host.evict(2).pages, 0, "both are under the copy");
    assert!(host.reserve(&proof(&host, P), Request::new(owner(2), P), P).is_err());
    let mut there = take(&device, owner(1), 2 * P);
    write(&mut there, 2 * P, 0x16);
    assert_eq!(bytes(&go_on(&host, 1, &text)), bytes(&there), "the copy has the source's bytes");
    // SAFETY: (1): the copy has ended.
    unsafe { host.ticket_done(load) }.unwrap();
    assert_eq!(host.evict(2).pages, 2);
    assert_sound(&host);
}

// B38
#[test]
fn a_page_is_found_only_when_it_is_written_and_committed() {
    let pool = host_pool(8);
    let text = prompt(1, 2 * P);
    let mut kv = take(&pool, owner(1), 2 * P);
    assert_eq!(kv.publish(&PrefixTokens::new(&text), Retention::default()), Ok(0), "nothing is written");
    kv.release();
    assert_eq!((hit(&pool, 1, &text), pool.stats().cached_pages), (0, 0));
    let mut kv = take_filled(&pool, owner(1), 2 * P, 0x38);
    assert_eq!(kv.publish(&PrefixTokens::new(&text), Retention::default()), Ok(0), "nothing is accepted");
    kv.commit(2 * P - 1).unwrap();
    assert_eq!(kv.publish(&PrefixTokens::new(&text), Retention::default()), Ok(1), "nor is the second page full");
    assert_eq!(hit(&pool, 1, &text), P);
    let ticket = kv.pin_write(1..2, HolderId(38), None).unwrap();
    kv.commit(2 * P).unwrap();
    let refused = kv.publish(&PrefixTokens::new(&text), Retention::default());
    assert!(matches!(refused, Err(PublishError::OffLimits { source: ReadError::Busy { .. }, .. })));
    assert_eq!(hit(&pool, 1, &text), P);
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    assert_sound(&pool);
}

// B43
#[test]
fn a_slot_taken_over_without_a_hit_has_nothing_of_the_conversation_before() {
    let pool = host_pool(2);
    let (first, second) = (prompt(1, 2 * P), prompt(2, 2 * P));
    published(&pool, 1, &first, 0x43).release();
    assert!(pool.lookup(owner(2), &PrefixTokens::new(&second)).is_none(), "a miss, which is not a hit of 0 tokens");
    let takeover = take(&pool, owner(2), 2 * P);
    assert_eq!(takeover.written_tokens(), 0);
    assert!(pages(&takeover).iter().all(|page| is_zero(&pool, *page)));
    assert_eq!(hit(&pool, 1, &first), 0);
    assert_sound(&pool);
}

// B45
#[test]
fn a_page_of_a_fork_with_a_window_is_counted_once_for_each_holder() {
    for first_goes_first in [true, false] {
        let pool = host_pool(16);
        let mut kv = take_filled(&pool, owner(1), 5 * P, 0x45);
        kv.slide(3 * P).unwrap();
        let mut fork = kv.fork(&proof(&pool, 6 * P), Request::new(owner(1), 6 * P)).unwrap();
        for each in [&mut kv, &mut fork] {
            each.grow(6 * P).unwrap();
            write(each, P, 0x46);
            each.slide(4 * P).unwrap();
            let mut listed = pages(each);
            listed.dedup();
            assert_eq!(listed.len(), 2);
        }
        assert_eq!(pool.stats().live_pages, 3, "one is shared, each has one of its own");
        assert_sound(&pool);
        let (one, two) = if first_goes_first { (kv, fork) } else { (fork, kv) };
        assert_eq!((one.release().kept_pages, pool.stats().live_pages), (1, 2));
        assert!(two.read(4 * P..6 * P).is_ok());
        two.release();
        assert_eq!(pool.stats().free_pages, 16);
        assert_sound(&pool);
    }
}

// B51
#[test]
fn a_lookup_that_is_not_used_holds_nothing() {
    let pool = host_pool(2);
    let text = prompt(1, 2 * P);
    published(&pool, 1, &text, 0x51).release();
    let probe = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    assert!(pool.reserve(&proof(&pool, P), Request::new(owner(2), P), P).is_err(), "held while it lives");
    drop(probe);
    assert_eq!(pages(&take(&pool, owner(2), 2 * P)).len(), 2);
    // A forgotten one holds its pages, which shows, and ends with its owner.
    published(&pool, 1, &text, 0x51).release();
    std::mem::forget(pool.lookup(owner(1), &PrefixTokens::new(&text)));
    assert_eq!((pool.stats().live_pages, pool.evict(2).pages), (2, 0));
    assert_eq!(pool.reclaim(owner(1)).pages, 2);
    assert_eq!(pool.stats().free_pages, 2);
    assert_sound(&pool);
}

// B53
#[test]
fn a_batch_that_is_evicted_leaves_what_is_read_to_the_reader() {
    let pool = host_pool(3);
    let text = prompt(1, 3 * P);
    let kv = published(&pool, 1, &text, 0x53);
    let (handle, page) = (kv.handle(0).unwrap(), pages(&kv)[0]);
    let reader = pool.read(owner(1), handle).unwrap();
    kv.release();
    let released = pool.evict(3);
    assert_eq!((released.pages, released.quarantined_pages), (3, 1), "reported");
    let taken = take(&pool, owner(2), 2 * P);
    assert!(!pages(&taken).contains(&page));
    let mut plane = vec![0; 8 * P as usize];
    reader.copy(0, &mut plane).unwrap();
    assert!(plane.iter().all(|byte| *byte == 0x53));
    drop(reader);
    assert_eq!(pages(&take(&pool, owner(2), P)), [page]);
    assert!(is_zero(&pool, page));
    assert_sound(&pool);
}

// B56
#[test]
fn a_hit_holds_every_page_of_its_path_the_last_one_too() {
    let pool = host_pool(4);
    let text = prompt(1, 3 * P);
    published(&pool, 1, &text, 0x56).release();
    let path = pool.lookup(owner(1), &PrefixTokens::new(&text[..2 * P as usize])).unwrap();
    assert_eq!(pool.evict(9).pages, 1, "only what lies behind the hit");
    assert_eq!(hit(&pool, 1, &text), 2 * P);
    assert_eq!(pool.evict(9).pages, 0);
    drop(path);
    assert_eq!(pool.evict(9).pages, 2, "exactly what was held");
    assert_sound(&pool);
}

// B58
#[test]
fn a_page_that_was_evicted_is_found_no_more_whoever_has_it() {
    for next in [1, 2] {
        let pool = host_pool(1);
        let text = prompt(1, P);
        let kv = published(&pool, 1, &text, 0x58);
        let page = pages(&kv)[0];
        kv.release();
        let mut private = take(&pool, owner(next), P);
        assert_eq!(pages(&private), [page]);
        assert!(is_zero(&pool, page));
        write(&mut private, P, 0x59);
        assert_eq!(hit(&pool, 1, &text), 0, "owner {next} has it for its own");
        assert_sound(&pool);
    }
}

// B59
#[test]
fn a_page_that_is_rewritten_is_found_by_its_new_tokens_and_the_old_ones_find_the_old_bytes() {
    for room in [1, 2] {
        let pool = host_pool(room);
        let mut old = prompt(1, P);
        let mut kv = published(&pool, 1, &old, 0x59);
        kv.truncate(P - 1).unwrap();
        write(&mut kv, 1, 0x60);
        let found = hit(&pool, 1, &old);
        if found > 0 {
            assert!(is_all(&go_on(&pool, 1, &old), 0x59), "never new bytes under old tokens");
        }
        assert_eq!(found, if room > 1 { P } else { 0 });
        let mine = bytes(&kv);
        old[P as usize - 1] = 7;
        assert_eq!(hit(&pool, 1, &old), 0, "not published yet");
        publish(&mut kv, &old).unwrap();
        kv.release();
        assert_eq!(bytes(&go_on(&pool, 1, &old)), mine);
        assert_sound(&pool);
    }
    // Tokens that are not sealed have no key at all.
    let pool = host_pool(2);
    let mut text = prompt(2, P);
    let mut kv = take_filled(&pool, owner(1), P, 0x59);
    kv.truncate(P - 1).unwrap();
    write(&mut kv, 1, 0x60);
    assert_eq!(hit(&pool, 1, &text), 0);
    text[P as usize - 1] = 7;
    publish(&mut kv, &text).unwrap();
    assert_eq!(hit(&pool, 1, &text), P);
}

// B60
#[test]
fn two_pools_with_the_same_prompts_share_nothing_and_no_key_is_known_outside() {
    // That equal hashes share nothing is proved inside, under a hasher that maps all to one value: see `pool/prefix.rs`.
    let (here, there) = (host_pool(2), host_pool(2));
    let text = prompt(1, P);
    let _kv = published(&here, 1, &text, 0x60);
    assert_eq!((hit(&here, 1, &text), hit(&there, 1, &text)), (P, 0));
    let close: Vec<Vec<u32>> = (0..P as usize)
        .map(|at| {
            let mut close = text.clone();
            close[at] ^= 1 << 31;
            close
        })
        .collect();
    assert!(close.iter().all(|close| hit(&here, 1, close) == 0), "one bit of one token, anywhere");
}

// B61
#[test]
fn tokens_whose_polynomial_hashes_are_equal_are_different_prompts() {
    let pool = host_pool(16);
    let text: Vec<u32> = (0..2 * P as u32).map(|at| 1_000 + 40 * at).collect();
    let mut twin = text.clone();
    (twin[0], twin[1]) = (text[0] + 1, text[1] - 31); // equal under base 31
    let mut swapped = text.clone();
    swapped.rotate_left(P as usize); // page 2 of the one is page 1 of the other
    let kvs: Vec<_> = [&text, &twin, &swapped]
        .into_iter()
        .zip([1, 2, 3])
        .map(|(text, byte)| published(&pool, 1, text, byte))
        .collect();
    assert_eq!(pool.stats().published_pages, 6, "no page of one is a page of another");
    for (text, byte) in [&text, &twin, &swapped].into_iter().zip([1, 2, 3]) {
        assert!(is_all(&go_on(&pool, 1, text), byte));
    }
    assert_eq!(hit(&pool, 1, &text[P as usize..]), 2 * P - P, "found as the first page of the third, not as a second");
    assert!(is_all(&go_on(&pool, 1, &text[P as usize..]), 3));
    drop(kvs);
    assert_sound(&pool);
}

// B62
#[test]
fn an_adapter_never_equals_a_salt() {
    let pool = host_pool(8);
    let text = prompt(1, P);
    let plain = PrefixTokens::new(&text);
    let mut kv = take_filled(&pool, owner(1), P, 0x62);
    kv.commit(P).unwrap();
    kv.publish(&plain.with_adapter(b"X"), Retention::default()).unwrap();
    for (who, other) in
        [(2, plain.with_salt(b"X")), (1, plain.with_salt(b"X")), (1, plain), (2, plain.with_adapter(b"X"))]
    {
        assert!(pool.lookup(owner(who), &other).is_none());
    }
    assert!(pool.lookup(owner(1), &plain.with_adapter(b"X")).is_some());
    kv.publish(&plain.with_adapter(b"ab").with_salt(b"c"), Retention::default()).unwrap();
    assert!(pool.lookup(owner(1), &plain.with_adapter(b"a").with_salt(b"bc")).is_none());
    assert!(pool.lookup(owner(1), &plain.with_adapter(b"X")).is_none(), "a page has one name, the last");
}

// B63
#[test]
fn one_tenant_does_not_see_by_a_lookup_what_another_asked() {
    let ask = |has_run: bool| {
        let pool = host_pool(8);
        let text = prompt(1, 2 * P);
        let first = has_run.then(|| published(&pool, 1, &text, 0x63));
        let before = pool.stats();
        let seen: Vec<bool> = [PrefixTokens::new(&text), PrefixTokens::new(&text).with_salt(&1u64.to_le_bytes())]
            .iter()
            .map(|asked| pool.lookup(owner(2), asked).is_some())
            .collect();
        let after = pool.stats();
        assert_eq!(before, after);
        drop(first);
        let mut second = take_filled(&pool, owner(2), 2 * P, 0x64);
        let published = publish(&mut second, &text).unwrap();
        (seen, published, hit(&pool, 2, &text))
    };
    assert_eq!(ask(true), ask(false), "whether the other ran shows nowhere");
    let pool = host_pool(8);
    let text = prompt(1, 2 * P);
    let _kv = published(&pool, 1, &text, 0x63);
    assert_eq!(hit(&pool, 1, &text), 2 * P, "and itself hits");
}

// B68
#[test]
fn a_rewind_on_shared_pages_takes_no_page_from_an_export_or_from_the_other_holder() {
    let pool = host_pool(8);
    let text = prompt(1, 2 * P);
    let mut kv = published(&pool, 1, &text, 0x68);
    let other = go_on(&pool, 1, &text);
    let export = other.pin_read(0..2, HolderId(68), None).unwrap();
    let listed = pages(&other);
    kv.truncate(P).unwrap();
    kv.shrink(P).unwrap();
    other.release();
    let next = take(&pool, owner(2), 4 * P);
    assert!(pages(&next).iter().all(|page| !listed.contains(page)));
    kv.grow(2 * P).unwrap();
    write(&mut kv, P, 0x69);
    assert!(is_all(&go_on(&pool, 1, &text), 0x68), "what the export lists is as it was");
    assert!(!listed[1..].contains(&pages(&kv)[1]));
    // SAFETY: (1): it has sent all.
    unsafe { pool.ticket_done(export) }.unwrap();
    drop((kv, next));
    assert_sound(&pool);
}

// B68
#[test]
fn drafts_that_are_rejected_across_a_page_boundary_leave_forks_and_published_pages_alone() {
    let pool = host_pool(16);
    let text = prompt(1, P);
    let mut kv = published(&pool, 1, &text, 0x68);
    kv.grow(2 * P + 1).unwrap();
    write(&mut kv, P + 1, 0x70); // drafts
    let fork = kv.fork(&proof(&pool, 2 * P + 1), Request::new(owner(1), 2 * P + 1)).unwrap();
    kv.truncate(P).unwrap();
    write(&mut kv, 1, 0x71);
    let drafts = bytes(&fork);
    assert!(drafts[8 * P as usize..8 * (2 * P + 1) as usize].iter().all(|byte| *byte == 0x70));
    let planes = [vec![1; 8], vec![1; 6]];
    let past = kv.write(2 * P, &[&planes[0], &planes[1]]);
    assert!(matches!(past, Err(WriteError::Length { .. })));
    assert_eq!(hit(&pool, 1, &text), P);
    assert_sound(&pool);
}

// B96
#[test]
fn a_lookup_that_races_an_eviction_holds_the_page_with_its_bytes_or_misses() {
    let pool = host_pool(4);
    let text = prompt(1, 2 * P);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..300 {
                if pool.reserve(&proof(&pool, 2 * P), Request::new(owner(1), 2 * P), 2 * P).is_ok_and(|mut kv| {
                    write(&mut kv, 2 * P, 0x96);
                    publish(&mut kv, &text).is_ok()
                }) {
                    pool.evict(1);
                }
                // Another takes what went and writes it.
                if let Ok(mut next) = pool.reserve(&proof(&pool, 4 * P), Request::new(owner(2), 4 * P), 4 * P) {
                    write(&mut next, 4 * P, 0xee);
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            if let Some(found) = pool.lookup(owner(1), &PrefixTokens::new(&text)) {
                let tokens = found.tokens();
                let request = Request::new(owner(1), tokens);
                if let Ok(kv) = pool.reserve_with_prefix(&proof(&pool, tokens), request, found, tokens) {
                    assert!(is_all(&kv, 0x96), "what was looked up is what is held");
                }
            }
        }
    });
    assert_sound(&pool);
}

// B100
#[test]
fn pages_that_stay_cached_are_counted_apart_from_those_that_are_held() {
    let pool = null_pool(64);
    for seed in 0..24 {
        let text = prompt(seed, P);
        let mut kv = take(&pool, owner(1), P);
        kv.assume_written(P).unwrap();
        kv.commit(P).unwrap();
        kv.publish(&PrefixTokens::new(&text), Retention::default()).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.live_pages, stats.cached_pages, stats.free_pages), (0, 24, 40));
    assert_eq!((stats.published_pages, stats.usable_pages), (24, 64), "all of it is room");
    assert_sound(&pool);
}
