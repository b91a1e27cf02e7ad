//! Digests of pages leave no secret in memory, and take none from the heap: also in a release build.
#![expect(unsafe_code, reason = "looks at the bytes of a value that was dropped")]

use std::alloc::System;
use std::mem::MaybeUninit;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
use pagestamp::{Checksum, DigestKey, Digester, TransferId};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SECRET: [u8; DigestKey::BYTES] = *b"zQxJvWkYzQxJvWkYzQxJvWkYzQxJvWkY";

fn digester(checksum: Checksum) -> Digester {
    let cache = HeadCache::new(1, 4, ElementFormat::plain(Dtype::F16));
    let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache)).expect("layout");
    let transfer = TransferId::from_bits(1 << 64 | 1).expect("transfer");
    let key = checksum.needs_key().then(|| DigestKey::new(SECRET));
    Digester::new(checksum, key.as_ref(), transfer, &model, &Slice::whole(&model)).expect("digester")
}

// C11
#[test]
fn a_dropped_key_leaves_no_byte_of_its_secret() {
    let mut key = MaybeUninit::new(DigestKey::new(SECRET));
    let at = key.as_mut_ptr();
    let byte = |offset: usize| {
        // SAFETY: within the value, whose bytes were all initialised; nobody else writes them.
        unsafe { at.cast::<u8>().wrapping_add(offset).read_volatile() }
    };
    let bytes = || (0..size_of::<DigestKey>()).map(byte).collect::<Vec<u8>>();
    assert_eq!(bytes(), SECRET, "the secret lies in the value itself");
    // SAFETY: initialised above, and dropped only here.
    unsafe { at.drop_in_place() };
    assert_eq!(bytes(), [0; DigestKey::BYTES]);
}

// C10
#[test]
fn digesting_a_page_allocates_nothing() {
    let bytes = [7; 4096];
    for checksum in Checksum::ALL.iter().copied().filter(|checksum| checksum.has_digests() && checksum.is_built()) {
        let digester = digester(checksum);
        let mut ordinal = 0;
        let mut digest = || {
            ordinal += 1;
            let mut page = digester.page(ordinal, 16);
            bytes.chunks(1000).for_each(|piece| page.update(piece));
            page.finish()
        };
        digest();
        // The least of some counts: the heap is the process's, and the runner of the tests allocates beside this one.
        let mut count = || {
            let region = Region::new(HEAP);
            (0..100).for_each(|_| assert!(!digest().is_zero()));
            region.change().allocations + region.change().reallocations
        };
        assert_eq!((0..5).map(|_| count()).min(), Some(0), "{checksum}");
    }
}
