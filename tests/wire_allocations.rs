//! What a message costs in memory: a small multiple of its own size to read, whatever it claims, and nothing to refuse.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::System;

use pagestamp::geometry::{
    Dtype, ElementFormat, HeadCache, KvLayout, LayerPlanes, ModelLayout, PageGeometry, Plane, Slice,
};
use pagestamp::handoff::wire::MAX_MESSAGE_BYTES;
use pagestamp::{
    Checksum, Digest, HolderId, Message, Offer, OwnerId, Receipt, SentPart, TransferId, WireError, Writer,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated in all while a message is read, and what came of it. The least of some counts, since the heap is the
/// process's and the test's runner allocates now and then on a thread of its own.
fn allocated_by(bytes: &[u8]) -> (usize, Result<Message, WireError>) {
    let count = || {
        let region = Region::new(HEAP);
        let message = Message::from_bytes(bytes);
        (region.change().bytes_allocated, message)
    };
    (0..5).map(|_| count()).min_by_key(|(allocated, _)| *allocated).unwrap()
}

fn slice() -> Slice {
    Slice::new(0..1, 0..1).unwrap()
}

/// A model of two planes for each layer, or in all.
fn model(layers: u32, planes: LayerPlanes) -> ModelLayout {
    let cache = HeadCache::new(1, 64, ElementFormat::plain(Dtype::F16));
    ModelLayout::new("tiny", "r1", KvLayout::new(16, layers, cache).with_layer_planes(planes)).unwrap()
}

fn messages(model: ModelLayout) -> [Message; 2] {
    let (transfer, owner) = (TransferId::from_bits(1 << 64 | 1).unwrap(), OwnerId::new(1).unwrap());
    let offer = Offer::new(transfer, owner, model.clone(), slice())
        .with_writers(vec![Writer::new(HolderId(1), slice()); 50])
        .with_tokens(800, vec![1 << 32; 50]);
    let part = SentPart::new(slice(), 0..4).with_digests(0..2, vec![Digest::from_bytes([1; 16]); 4]);
    let receipt = Receipt::new(transfer, owner, model, HolderId(1)).with_parts(Checksum::Xxh3, vec![part; 20]);
    [Message::Offer(offer), Message::Receipt(receipt)]
}

// One test: the heap is the process's, and tests of one file run side by side.
// C11
#[test]
fn a_message_takes_no_more_memory_than_twice_its_bytes_whatever_it_claims() {
    let [mut claims, mut most] = [0, 0];
    for message in messages(model(1, LayerPlanes::Shared)) {
        let bytes = message.to_bytes().unwrap();
        let (honest, back) = allocated_by(&bytes);
        assert_eq!(back, Ok(message));
        assert!(honest <= 2 * bytes.len(), "{honest} bytes for a message of {}", bytes.len());
        assert!(honest >= bytes.len() / 2, "the count counts nothing: {honest} bytes");
        // every place in turn claims the most that four bytes can say, and the most that the bytes left could be
        for at in 16..bytes.len() - 4 {
            for claim in [u32::MAX, u32::MAX / 16, bytes.len() as u32 / 16] {
                let mut forged = bytes.clone();
                forged[at..at + 4].copy_from_slice(&claim.to_le_bytes());
                let (allocated, result) = allocated_by(&forged);
                claims += usize::from(matches!(result, Err(WireError::TooMany { .. })));
                most = most.max(allocated);
                assert!(allocated <= 2 * bytes.len() + 512, "{allocated} bytes for {claim} at {at}: {result:?}");
            }
        }
    }
    assert!(claims > 40, "too few of the places were counts: {claims}");
    println!("most bytes allocated: {most}");

    // What is too large is refused before room is made for it.
    let [Message::Offer(offer), _] = messages(model(1, LayerPlanes::Shared)) else { panic!("the first is an offer") };
    let offer = offer.with_tokens(0, vec![1 << 32; MAX_MESSAGE_BYTES / 16]);
    let region = Region::new(HEAP);
    assert!(matches!(offer.to_bytes(), Err(WireError::TooLarge { .. })));
    let allocated = region.change().bytes_allocated;
    assert!(allocated < 64 << 10, "{allocated} bytes for a message that is not written");

    // A layout is checked by its planes, of which there are never more than this.
    let most_planes = PageGeometry::MAX_PLANES * size_of::<Plane>();
    for message in messages(model(PageGeometry::MAX_PLANES as u32 / 2, LayerPlanes::PerLayer)) {
        let bytes = message.to_bytes().unwrap();
        let (allocated, back) = allocated_by(&bytes);
        assert_eq!(back, Ok(message));
        assert!(allocated <= 2 * bytes.len() + 3 * most_planes, "{allocated} bytes for a message of {}", bytes.len());
        println!("with the most planes: {allocated}");
    }
}
