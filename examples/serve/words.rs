//! Token ids for requests of which only block ids are known: equal blocks have equal ids, others have not.

/// Makes a well mixed number of two.
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Appends the token ids of one block, as far as it goes.
pub(crate) fn block(id: u64, tokens: u64, into: &mut Vec<u32>) {
    into.extend((0..tokens).map(|at| (mix(id, at) >> 40) as u32));
}

/// The token that a request answers with at this place.
pub(crate) const fn answer(request: u64, at: u64) -> u32 {
    (mix(!request, at) >> 40) as u32
}
