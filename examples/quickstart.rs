//! The life of two requests in a pool, in under 60 lines: `cargo run --example quickstart`.

use std::error::Error;

use pagestamp::{
    AdmitError, CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, ReadError, Request,
};

fn main() -> Result<(), Box<dyn Error>> {
    // 16 tokens a page; K and V in planes of their own, 128 bytes a token each. 2 of the 66 pages are the pool's own.
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 128), Plane::per_token(1, 128)])?;
    let pool = PagePool::new(PoolConfig::new(66), HostMemory::new(geometry, 66)?)?;

    // The gate: the largest request that is advertised must fit the live pool, twice.
    let proof = pool.prove(CapacityPlan::new(512).with_headroom(2.0)?)?;
    println!("gate: {} of {} usable pages needed", proof.required_pages(), proof.usable_pages());
    let refusal = pool.prove(CapacityPlan::new(1_048_576)).expect_err("64 pages hold 1,024 tokens");
    println!("gate: {refusal}");

    // Alice asks for up to 100 tokens, 20 of them now. The other pages are promised: growing cannot fail.
    let (alice, bob) = (OwnerId::new(1).ok_or("zero")?, OwnerId::new(2).ok_or("zero")?);
    let mut kv = pool.reserve(&proof, Request::new(alice, 100), 20)?;
    kv.write(18, &[&[b'k'; 18 * 128], &[b'v'; 18 * 128]])?;
    kv.commit(18)?;
    kv.grow(100)?;

    // Only written tokens are read, only by their owner.
    assert_eq!(kv.read(0..18)?.pages().count(), 2);
    let unwritten = kv.read(0..19).expect_err("token 18 is not written");
    println!("read: {unwritten}");
    let page = kv.handle(1).ok_or("no page")?;
    let guard = pool.read(alice, page)?;
    assert_eq!(guard.run(0, 0)?, [b'k'; 2 * 128]);
    println!("read: {}", pool.read(bob, page).expect_err("it is Alice's page"));

    // Released: stale at once, zeroed before anyone has it. The page under the guard waits for the guard.
    let released = kv.release();
    println!("release: {} pages, {} wait for a reader", released.pages, released.quarantined_pages);
    println!("read: {}", pool.read(alice, page).expect_err("released"));
    drop(guard);
    assert!(matches!(pool.read(alice, page), Err(ReadError::Stale { .. })));

    // Too large is never admitted; too large for now gives the request back.
    let rejected = pool.admit(&proof, Request::new(bob, 513)).expect_err("513 tokens");
    println!("admit: {rejected}");
    let first = pool.admit(&proof, Request::new(bob, 512))?;
    let _second = pool.admit(&proof, Request::new(bob, 512))?;
    let Err(AdmitError::Full { request, .. }) = pool.admit(&proof, Request::new(alice, 16)) else {
        return Err("all pages are promised".into());
    };
    drop(first);
    let _third = pool.admit(&proof, request)?;

    pool.audit()?;
    println!("audit: ok");
    Ok(())
}
