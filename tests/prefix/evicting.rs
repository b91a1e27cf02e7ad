//! What goes first when room is needed, and what never goes.

use pagestamp::{AdmitError, HolderId, PoolConfig, PrefixEvent, PrefixTokens, Request, Retention};

use super::sharing::{hit_tokens, prompt, published};
use super::stage::{assert_sound, config, host_pool, host_pool_of, is_zero, null_pool, owner, pages, proof, take};

// C3, C7
#[test]
fn cached_pages_make_room_the_least_recently_used_first_and_from_the_end() {
    let pool = host_pool(6);
    let (old, new) = (prompt(1, 48), prompt(2, 48));
    published(&pool, 1, &old, 7).release();
    published(&pool, 2, &new, 8).release();
    assert_eq!(pool.stats().cached_pages, 6);
    assert_eq!(hit_tokens(&pool, 1, &old), 48, "used again: now it is the newer");
    let kv = take(&pool, owner(3), 32);
    assert_eq!((hit_tokens(&pool, 1, &old), hit_tokens(&pool, 2, &new)), (48, 16), "the end of a prefix goes first");
    assert!(pages(&kv).iter().all(|page| is_zero(&pool, *page)));
    assert_eq!(pool.stats().evicted_pages, 2);
    assert_sound(&pool);
    let kv2 = take(&pool, owner(3), 64);
    assert_eq!((hit_tokens(&pool, 1, &old), hit_tokens(&pool, 2, &new)), (0, 0));
    assert_sound(&pool);
    drop((kv, kv2));
    assert_sound(&pool);
}

// C7
#[test]
fn a_page_with_a_holder_never_goes() {
    let pool = null_pool(4);
    let text = prompt(1, 64);
    let kv = published(&pool, 1, &text, 0);
    let held = pool.lookup(owner(1), &PrefixTokens::new(&text[..32])).unwrap();
    kv.release();
    assert_eq!((pool.stats().cached_pages, pool.stats().live_pages), (2, 2));
    let error = pool.reserve(&proof(&pool, 48), Request::new(owner(2), 48), 48).unwrap_err();
    assert!(matches!(error, AdmitError::Full { needed_pages: 3, free_pages: 0, .. }));
    assert_eq!(held.tokens(), 32);
    assert_eq!(hit_tokens(&pool, 1, &text), 64, "nothing goes for what it cannot help");
    assert_eq!(pages(&take(&pool, owner(2), 32)).len(), 2);
    assert_eq!(hit_tokens(&pool, 1, &text), 32, "what was evicted for it is gone");
    assert_eq!(pool.evict(100).pages, 0);
    assert_sound(&pool);
}

// C7
#[test]
fn a_cached_page_under_a_ticket_is_passed_over() {
    let pool = host_pool(4);
    let text = prompt(1, 64);
    let kv = published(&pool, 1, &text, 7);
    let store = kv.pin_read(0..4, HolderId(1), None).unwrap();
    kv.release();
    assert_eq!(pool.stats().cached_pages, 4);
    assert!(pool.reserve(&proof(&pool, 16), Request::new(owner(2), 16), 16).is_err());
    assert_eq!((pool.stats().evicted_pages, hit_tokens(&pool, 1, &text)), (0, 64));
    pool.reclaim(owner(1));
    assert_eq!((pool.stats().cached_pages, pool.stats().quarantined_pages), (0, 4), "its owner leaves: found no more");
    assert_eq!(hit_tokens(&pool, 1, &text), 0);
    // SAFETY: (1): nobody reads under the ticket.
    unsafe { pool.ticket_done(store) }.unwrap();
    assert_eq!(pages(&take(&pool, owner(2), 16)).len(), 1);
    assert_sound(&pool);
}

#[test]
fn priorities_decide_before_age_and_a_page_is_never_below_what_continues_it() {
    let pool = null_pool(6);
    let (plain, system) = (prompt(1, 48), prompt(2, 48));
    let publish = |text: &[u32], committed, retention| {
        let hit = pool.lookup(owner(1), &PrefixTokens::new(text));
        let mut kv = match hit {
            Some(hit) => pool.reserve_with_prefix(&proof(&pool, 48), Request::new(owner(1), 48), hit, 48).unwrap(),
            None => take(&pool, owner(1), 48),
        };
        kv.assume_written(committed).unwrap();
        kv.commit(committed).unwrap();
        kv.publish(&PrefixTokens::new(text), retention).unwrap();
    };
    publish(&system, 32, Retention::default());
    publish(&system, 48, Retention::Cached { priority: 9 });
    publish(&plain, 48, Retention::Cached { priority: 3 });
    pool.evict(3);
    assert_eq!((hit_tokens(&pool, 1, &plain), hit_tokens(&pool, 1, &system)), (0, 48), "newer, and lower");
    pool.evict(1);
    assert_eq!(hit_tokens(&pool, 1, &system), 32);
    assert_sound(&pool);
}

#[test]
fn what_is_shared_only_while_it_is_held_goes_with_its_last_holder() {
    let pool = null_pool(6);
    let text = prompt(1, 32);
    let mut kv = take(&pool, owner(1), 32);
    kv.assume_written(32).unwrap();
    kv.commit(32).unwrap();
    kv.publish(&PrefixTokens::new(&text), Retention::WhileHeld).unwrap();
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    kv.release();
    assert_eq!(hit_tokens(&pool, 1, &text), 32);
    drop(hit);
    assert_eq!((hit_tokens(&pool, 1, &text), pool.stats().cached_pages, pool.stats().free_pages), (0, 0, 6));
    assert_sound(&pool);
    let kv = published(&pool, 1, &text, 0);
    assert_eq!((kv.retain(1..9, Retention::WhileHeld), kv.retain(2..9, Retention::default())), (1, 0));
    kv.release();
    assert_eq!(hit_tokens(&pool, 1, &text), 16, "page by page");
    assert_sound(&pool);
}

// C4
#[test]
fn an_owner_that_is_reclaimed_erased_cleared_or_suspended_leaves_nothing_to_find() {
    let text = prompt(1, 32);
    for way in 0..4 {
        let pool = host_pool(8);
        published(&pool, 1, &text, 7).release();
        published(&pool, 2, &text, 8).release();
        match way {
            0 => drop(pool.reclaim(owner(1))),
            1 => {
                let receipt = pool.erase(owner(1));
                assert_eq!((receipt.pages.len(), receipt.in_flight.len()), (2, 0));
                assert!(receipt.pages.iter().all(|(page, _)| is_zero(&pool, *page)));
                assert_eq!(receipt.bytes_zeroed, 32 * 14);
            }
            2 => drop(pool.clear()),
            _ => {
                pool.suspend().unwrap();
                pool.resume().unwrap();
            }
        }
        assert_eq!(hit_tokens(&pool, 1, &text), 0, "{way}");
        assert_eq!(hit_tokens(&pool, 2, &text), if way < 2 { 32 } else { 0 }, "{way}");
        assert_sound(&pool);
    }
}

// C1
#[test]
fn a_pool_that_shrinks_evicts_what_it_has_too_many_of() {
    let pool = host_pool(8);
    let text = prompt(1, 64);
    published(&pool, 1, &text, 7).release();
    let kv = take(&pool, owner(2), 32);
    pool.resize(4).unwrap();
    assert_eq!((pool.stats().parked_pages, pool.stats().cached_pages), (4, 2));
    assert_eq!(hit_tokens(&pool, 1, &text), 32);
    assert_sound(&pool);
    pool.resize(3).unwrap();
    assert_eq!((pool.stats().parked_pages, hit_tokens(&pool, 1, &text)), (5, 16));
    kv.release();
    assert_sound(&pool);
    pool.reclaim(owner(1));
    assert_eq!(pool.stats().free_pages, 3);
    assert!(pool.close().is_ok());
}

#[test]
fn routers_hear_what_is_stored_and_removed_and_how_much_they_missed() {
    let pool = host_pool_of(config(8).with_prefix_events(5));
    let text = prompt(1, 48);
    let kv = published(&pool, 1, &text, 7);
    let mut events = Vec::new();
    assert_eq!(pool.take_prefix_events(&mut events), 0);
    let keys: Vec<_> = events
        .iter()
        .map(|event| match event {
            PrefixEvent::Stored { key, parent, owner: whose, tokens } => {
                assert_eq!(*whose, owner(1));
                (*key, *parent, tokens.to_vec())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(keys.len(), 3);
    assert_eq!((keys[0].1, keys[1].1, keys[2].1), (None, Some(keys[0].0), Some(keys[1].0)));
    assert_eq!(keys.iter().flat_map(|(_, _, tokens)| tokens.clone()).collect::<Vec<_>>(), text);
    assert!(!format!("{events:?}").contains("100047"), "token ids are secrets");
    kv.release();
    pool.evict(1);
    events.clear();
    pool.take_prefix_events(&mut events);
    assert_eq!(events, [PrefixEvent::Removed { key: keys[2].0 }]);
    pool.clear();
    published(&pool, 1, &text, 7).release();
    pool.clear();
    events.clear();
    assert_eq!(pool.take_prefix_events(&mut events), 3, "two and three and three came, five are kept");
    assert_eq!(events.len(), 5);
    assert_eq!(PoolConfig::new(8).prefix_events(), 0, "off unless asked for");
}

// C4
#[test]
fn a_page_whose_lives_are_used_up_is_not_cached() {
    let last = pagestamp::Generation::new(3).unwrap();
    let pool = host_pool_of(config(2).with_last_generation(last));
    let text = prompt(1, 16);
    published(&pool, 1, &text, 7).release();
    assert_eq!(pool.stats().cached_pages, 1);
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    drop(hit);
    assert_eq!((pool.stats().cached_pages, pool.stats().retired_pages), (0, 1));
    assert_eq!(hit_tokens(&pool, 1, &text), 0);
    assert_sound(&pool);
}
