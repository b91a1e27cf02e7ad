//! What a device does to whole pages itself is what the host would do: digests, and copies.

use pagestamp::geometry::*;
use pagestamp::memory::cuda::{CudaMemory, Driver};
use pagestamp::*;

use crate::driver::{calls, driver, is_stand_in, turn};
use crate::life::{P, geometry, pool, read, settle, take, write};
use crate::standin::driver_path;

/// A model whose slices are some runs of its planes, and one whose slices are some bytes of each run.
fn models() -> [ModelLayout; 2] {
    [HeadOrder::Hnd, HeadOrder::Nhd].map(|order| {
        let cache = HeadCache::new(4, 8, ElementFormat::plain(Dtype::F16)).with_order(order);
        ModelLayout::new("tiny", "r1", KvLayout::new(4, 3, cache)).unwrap()
    })
}

fn pools(model: &ModelLayout, pages: u32) -> (PagePool<CudaMemory>, PagePool<HostMemory>) {
    let geometry = model.geometry(&Slice::whole(model)).unwrap();
    let memory = CudaMemory::new(driver(), 0, geometry.clone(), pages + 2).unwrap();
    let device = PagePool::new(PoolConfig::new(pages + 2), memory).unwrap();
    settle(&device);
    let host = PagePool::new(PoolConfig::new(pages + 2), HostMemory::new(geometry, pages + 2).unwrap()).unwrap();
    (device, host)
}

fn sealed<M: PageMemory>(pool: &PagePool<M>, model: &ModelLayout, tokens: u64) -> Outbound<M> {
    let mut kv = take(pool, 1, tokens);
    write(&mut kv, tokens, 3);
    kv.commit(tokens).unwrap();
    Outbound::seal(kv, model, &Slice::whole(model)).unwrap()
}

fn open<M: PageMemory>(pool: &PagePool<M>, model: &ModelLayout, tokens: u64) -> Inbound<M> {
    let plan = InboundPlan::new(model, &Slice::whole(model), tokens).with_checksum(Checksum::Crc32c);
    Inbound::open(take(pool, 1, tokens), plan).unwrap()
}

/// Bytes that came from the device to the host, in copies.
fn copies_to_host() -> u64 {
    calls("cuMemcpyDtoHAsync_v2")
}

// C10
#[test]
fn a_digest_that_the_device_computes_is_the_one_that_the_host_computes() {
    let _turn = turn();
    for (model, in_place) in models().into_iter().zip([true, false]) {
        let (device, host) = pools(&model, 8);
        let offer = open(&host, &model, 4 * 3 + 2).offer();
        let digests = |part: SentPart| part.digests().to_vec();
        let (mut there, mut here) = (sealed(&device, &model, 14), sealed(&host, &model, 14));
        let (sending_there, sending_here) = (there.start(&offer).unwrap(), here.start(&offer).unwrap());
        for (layers, pages) in [(0..3, 0..4), (1..2, 0..4), (2..3, 3..4), (0..2, 1..3)] {
            let before = copies_to_host();
            let part = there.digest(&sending_there, layers.clone(), pages.clone()).unwrap();
            let copies = copies_to_host() - before;
            assert!(!is_stand_in() || copies == 1, "{copies} copies where the digests alone should come");
            let expected = here.digest(&sending_here, layers.clone(), pages.clone()).unwrap();
            assert_eq!(digests(part), digests(expected), "layers {layers:?} of pages {pages:?}");
        }
        // heads of a rank: runs that follow one another where heads come first, bytes of each run where tokens do
        let slices = [0..1, 1..3, 3..4].map(|heads| Slice::new(0..3, heads).unwrap());
        let writers: Vec<_> =
            (0..).zip(&slices).map(|(rank, slice)| Writer::new(HolderId(rank), slice.clone())).collect();
        let plan = InboundPlan::new(&model, &Slice::whole(&model), 14).with_checksum(Checksum::Crc32c);
        let offer = Inbound::open(take(&host, 1, 14), plan.with_writers(writers)).unwrap().offer();
        for writer in (0..3).map(HolderId) {
            let mut there = sealed(&device, &model, 14).with_writer(writer);
            let mut here = sealed(&host, &model, 14).with_writer(writer);
            let (sending_there, sending_here) = (there.start(&offer).unwrap(), here.start(&offer).unwrap());
            let before = copies_to_host();
            let part = there.digest(&sending_there, 0..3, 0..4).unwrap();
            let copies = copies_to_host() - before;
            assert!(!is_stand_in() || (copies == 1) == in_place, "{copies} copies");
            assert_eq!(digests(part), digests(here.digest(&sending_here, 0..3, 0..4).unwrap()));
            drop((there, here));
            settle(&device);
        }
    }
}

// C10
#[test]
fn a_device_verifies_what_it_received_and_finds_a_byte_that_changed() {
    let _turn = turn();
    let [model, _] = models();
    let ((prefill, host), (decode, _)) = (pools(&model, 8), pools(&model, 8));
    for is_changed in [false, true] {
        let mut inbound = open(&decode, &model, 14);
        let offer = inbound.offer();
        let receipt = sealed(&prefill, &model, 14).send(&offer, &mut inbound.landing(Writer::ONLY).unwrap()).unwrap();
        inbound.receive(&receipt).unwrap();
        if is_changed {
            let last = PageHandle::<CudaMemory>::from_bits(offer.destinations()[3]).unwrap().index();
            // SAFETY: (1) of `PagePool::memory`: a byte is broken on purpose, in a page that nobody else has.
            let memory = unsafe { decode.memory() };
            let at = pagestamp::memory::Span { page: last, plane: 5, offset: 1 };
            let mut byte = [0];
            // SAFETY: (1) of `PageMemory::read`: nobody writes it.
            unsafe { memory.read(at, &mut byte) }.unwrap();
            // SAFETY: (1) of `PageMemory::write`: as above.
            unsafe { memory.write(at, &[byte[0] ^ 4]) }.unwrap();
        }
        let before = copies_to_host();
        let accepted = inbound.accept();
        let copies = copies_to_host() - before;
        assert!(!is_stand_in() || copies == 1, "{copies} copies where the digests alone should come");
        match accepted {
            Ok(kv) if !is_changed => assert_eq!(read(&kv), read(&sealed(&host, &model, 14).into_reservation())),
            Err(AcceptError::Refused(refused)) if is_changed => {
                assert!(matches!(refused.error(), InboundError::Digest { page: 3, .. }), "{}", refused.error());
            }
            other => panic!("{other:?}"),
        }
        settle(&decode);
        settle(&prefill);
    }
}

// C3, C10
#[test]
fn pages_move_within_a_device_without_a_byte_on_the_host() {
    let _turn = turn();
    for model in models() {
        let ((from, host), (to, _)) = (pools(&model, 8), pools(&model, 14));
        let mut kv = take(&from, 1, 22);
        write(&mut kv, 22, 5);
        kv.commit(7).unwrap();
        let mut same = take(&host, 1, 22);
        write(&mut same, 22, 5);
        let before = copies_to_host();
        let kv = kv.move_into(take(&to, 1, 24)).unwrap();
        let copies = copies_to_host() - before;
        assert!(!is_stand_in() || copies == 2, "{copies} copies where two lists of digests should come");
        assert_eq!((kv.written_tokens(), kv.committed_tokens()), (22, 7));
        assert_eq!(read(&kv), read(&same));
        settle(&from);
        from.audit_bytes(0..10).unwrap();
        // within one pool, too
        let mut kv = kv.move_into(take(&to, 1, 24)).unwrap();
        assert_eq!(read(&kv), read(&same));
        // what was not written was not copied, and is zero
        kv.assume_written(24).unwrap();
        let mut tail = vec![1; 2 * 4 * 8 * 2];
        kv.read(22..24).unwrap().copy(0, &mut tail).unwrap();
        assert!(tail.iter().all(|byte| *byte == 0));
    }
}

// C10
#[test]
fn pools_of_a_driver_that_was_opened_twice_move_pages_in_place() {
    let _turn = turn();
    // SAFETY: (1) the driver that is open already.
    let again = unsafe { Driver::open(driver_path()) }.unwrap();
    let memory = CudaMemory::new(&again, 0, geometry(), 4).unwrap();
    let other = PagePool::new(PoolConfig::new(4), memory).unwrap();
    settle(&other);
    let pool = pool(2);
    let mut kv = take(&pool, 1, 2 * P);
    write(&mut kv, 2 * P, 1);
    let before = (read(&kv), calls("cuMemcpyDtoHAsync_v2"));
    let kv = kv.move_into(take(&other, 1, 2 * P)).unwrap();
    let copies = calls("cuMemcpyDtoHAsync_v2") - before.1;
    assert_eq!(read(&kv), before.0);
    // two lists of digests
    assert!(!is_stand_in() || copies == 2, "{copies} copies to the host");
    drop(kv);
    settle(&other);
    settle(&pool);
}
