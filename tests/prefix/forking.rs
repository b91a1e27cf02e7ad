//! Beams and parallel samples.

use pagestamp::{AdmitError, CapacityPlan, ForkError, HolderId, Request, TicketError};

use super::sharing::{prompt, published};
use super::stage::{assert_sound, bytes, host_pool, is_all, is_zero, owner, pages, proof, take, take_filled, write};

// C2, C12
#[test]
fn what_one_of_two_forks_writes_the_other_never_sees() {
    let pool = host_pool(16);
    let mut kv = take_filled(&pool, owner(1), 20, 7);
    let plan = proof(&pool, 64);
    let mut beam = kv.fork(&plan, Request::new(owner(1), 64)).unwrap();
    assert_eq!((beam.written_tokens(), beam.pages()), (20, 2));
    assert_eq!(pages(&beam)[0], pages(&kv)[0], "the full page is shared");
    assert_ne!(pages(&beam)[1], pages(&kv)[1], "the partial one is copied");
    assert_eq!(bytes(&beam), bytes(&kv));
    kv.grow(40).unwrap();
    beam.grow(40).unwrap();
    write(&mut beam, 20, 8);
    write(&mut kv, 20, 9);
    assert!(bytes(&kv)[..20 * 8].iter().all(|byte| *byte == 7));
    assert!(bytes(&kv)[20 * 8..40 * 8].iter().all(|byte| *byte == 9));
    assert!(bytes(&beam)[20 * 8..40 * 8].iter().all(|byte| *byte == 8));
    assert_sound(&pool);
    beam.truncate(4).unwrap();
    write(&mut beam, 1, 5);
    assert_ne!(pages(&beam)[0], pages(&kv)[0], "the shared page is rewritten on a fresh one");
    assert!(bytes(&kv)[..16 * 8].iter().all(|byte| *byte == 7));
    assert_sound(&pool);
    kv.release();
    beam.release();
    assert_eq!(pool.stats().free_pages, 16);
    assert!((0..16).all(|page| is_zero(&pool, page)));
    assert_sound(&pool);
}

// C12
#[test]
fn the_last_of_several_forks_rewrites_its_pages_where_they_are() {
    let pool = host_pool(8);
    let mut kv = take_filled(&pool, owner(1), 32, 7);
    let plan = proof(&pool, 32);
    let beams: Vec<_> = (0..3).map(|_| kv.fork(&plan, Request::new(owner(1), 32)).unwrap()).collect();
    assert_eq!((pool.stats().live_pages, pool.stats().promised_pages), (2, 0));
    let before = pages(&kv);
    kv.truncate(20).unwrap();
    drop(beams);
    let handle = kv.handle(1).unwrap();
    assert_eq!(pool.read(owner(1), handle).unwrap().written_tokens(), 16, "as written as ever");
    write(&mut kv, 4, 8);
    assert_eq!(pages(&kv), before);
    assert_eq!(pool.read(owner(1), handle).unwrap().written_tokens(), 8);
    assert_sound(&pool);
}

// C12
#[test]
fn a_reader_of_what_others_let_go_of_keeps_its_bytes_when_the_last_holder_rewrites() {
    let pool = host_pool(8);
    let mut kv = take_filled(&pool, owner(1), 32, 7);
    let beam = kv.fork(&proof(&pool, 32), Request::new(owner(1), 32)).unwrap();
    let handle = kv.handle(1).unwrap();
    kv.truncate(20).unwrap();
    let reader = pool.read(owner(1), handle).unwrap();
    drop(beam);
    write(&mut kv, 12, 9);
    let mut plane = [0; 16 * 8];
    reader.copy(0, &mut plane).unwrap();
    assert!(plane.iter().all(|byte| *byte == 7));
    assert_ne!(kv.handle(1).unwrap().index(), handle.index());
    drop(reader);
    assert_sound(&pool);
}

// C8
#[test]
fn a_fork_that_is_refused_changes_nothing() {
    let pool = host_pool(4);
    let mut kv = take_filled(&pool, owner(1), 20, 7);
    let plan = proof(&pool, 64);
    let before = pool.stats();
    let foreign = kv.fork(&plan, Request::new(owner(2), 64)).unwrap_err();
    assert!(
        matches!(foreign, ForkError::ForeignOwner { owner: mine, request } if mine == owner(1) && request.owner() == owner(2))
    );
    let short = kv.fork(&plan, Request::new(owner(1), 19)).unwrap_err();
    assert!(matches!(short, ForkError::Admit(AdmitError::PastMax { asked_tokens: 20, max_tokens: 19, .. })));
    let full = kv.fork(&plan, Request::new(owner(1), 64)).unwrap_err();
    assert!(matches!(full, ForkError::Admit(AdmitError::Full { needed_pages: 3, free_pages: 2, .. })));
    let mut expected = before;
    expected.full += 1;
    assert_eq!(pool.stats(), expected);
    let page = pages(&kv)[0];
    let writer = kv.pin_write(0..1, HolderId(1), None).unwrap();
    let busy = kv.fork(&plan, Request::new(owner(1), 32)).unwrap_err();
    assert!(matches!(busy, ForkError::Page { source: TicketError::Busy { page: at }, .. } if at == page));
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { pool.ticket_done(writer) }.unwrap();
    let there = host_pool(8);
    let foreign = there.prove(CapacityPlan::new(32)).unwrap();
    let foreign = kv.fork(&foreign, Request::new(owner(1), 32)).unwrap_err();
    assert!(matches!(foreign, ForkError::Admit(AdmitError::ForeignProof { .. })));
    assert!(is_all(&kv, 7));
    pool.reclaim(owner(1));
    assert!(matches!(
        kv.fork(&plan, Request::new(owner(1), 32)),
        Err(ForkError::Page { source: TicketError::Revoked, .. })
    ));
    assert_sound(&pool);
}

#[test]
fn forks_of_a_published_prompt_publish_what_they_add() {
    let pool = host_pool(16);
    let text = prompt(1, 32);
    let kv = published(&pool, 1, &text, 7);
    let mut beam = kv.fork(&proof(&pool, 64), Request::new(owner(1), 64)).unwrap();
    beam.grow(64).unwrap();
    write(&mut beam, 32, 8);
    beam.commit(64).unwrap();
    let longer = prompt(1, 64);
    let new = beam.publish(&pagestamp::PrefixTokens::new(&longer), pagestamp::Retention::default());
    assert_eq!(new, Ok(2));
    drop((kv, beam));
    assert_eq!(super::sharing::hit_tokens(&pool, 1, &longer), 64);
    assert_sound(&pool);
    let empty = take(&pool, owner(2), 16);
    let copy = empty.fork(&proof(&pool, 16), Request::new(owner(2), 16)).unwrap();
    assert_eq!((copy.written_tokens(), copy.pages()), (0, 0));
}
