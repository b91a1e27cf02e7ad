//! What a handoff through two pools costs beside a copy and the bare hash: `cargo bench --bench verify`, or `-- NHD` for rows
//! by name.
//!
//! Each handoff is of 128 MiB in pages that other handoffs used long before, so that the bytes come from memory and not from
//! a cache. All rivals take turns within one run; trust the ratios of their medians.

use std::hint::black_box;
use std::time::Instant;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, ModelLayout, Slice};
use pagestamp::{
    CapacityPlan, Checksum, HostMemory, Inbound, InboundPlan, Outbound, OwnerId, PagePool, PoolConfig, Request, Writer,
};

const LAYERS: u32 = 16;
const PAGE_TOKENS: u32 = 16;
/// Pages of a MiB: 32 planes of 32 KiB.
const POOL_PAGES: u32 = 640;
const PAGES: u64 = 128;
const TOKENS: u64 = PAGES * PAGE_TOKENS as u64;
const BYTES: usize = (PAGES as usize) << 20;
const ROUNDS: usize = 15;
/// Least rate of a verification, as a part of the hash's own over the same cold bytes.
const VERIFY_BAR: f64 = 0.9;

struct Row {
    name: String,
    /// name of the row that it is a ratio to, and what that ratio should be at least
    base: Option<(&'static str, Option<f64>)>,
    nanos: Vec<f64>,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|want| name.contains(want.as_str()));
    println!("{:<44} {:>7} {:>7}   ratio to", "", "GB/s", "ratio");
    for order in [HeadOrder::Nhd, HeadOrder::Hnd] {
        for checksum in [Checksum::Crc32c, Checksum::Xxh3] {
            let title = format!("{order:?} {checksum}").to_uppercase();
            if wants(&title) {
                table(&title, order, checksum);
            }
        }
    }
}

fn table(title: &str, order: HeadOrder, checksum: Checksum) {
    let cache = HeadCache::new(8, 128, ElementFormat::plain(Dtype::F16)).with_order(order);
    let model = ModelLayout::new("bench", "r1", KvLayout::new(PAGE_TOKENS, LAYERS, cache)).expect("a layout");
    let slice = Slice::whole(&model);
    let pool = || {
        let memory = HostMemory::new(model.geometry(&slice).expect("a shape"), POOL_PAGES).expect("a map");
        PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool")
    };
    let (prefill, decode) = (pool(), pool());
    let owner = OwnerId::new(1).expect("not zero");
    let plan = CapacityPlan::new(TOKENS);
    let prompt = |fill: u8| {
        let proof = prefill.prove(plan).expect("it fits");
        let mut kv = prefill.reserve(&proof, Request::new(owner, TOKENS), TOKENS).expect("room");
        let plane: Vec<u8> = (0..TOKENS as usize * 2048).map(|at| (at ^ at >> 9) as u8 ^ fill).collect();
        let planes = vec![plane.as_slice(); LAYERS as usize * 2];
        kv.write(TOKENS, &planes).expect("reserved");
        kv.commit(TOKENS).expect("written");
        Outbound::seal(kv, &model, &slice).expect("sealed")
    };
    let mut prompts: Vec<Outbound<HostMemory>> = (0..4).map(prompt).collect();
    let arena: Vec<u8> = (0..4 * BYTES).map(|at| (at ^ at >> 8 ^ at >> 17) as u8).collect();
    let mut copy = vec![1_u8; BYTES];
    let bare = |bytes: &[u8]| match checksum {
        Checksum::Crc32c => u128::from(crc32c::crc32c(bytes)),
        _ => twox_hash::XxHash3_128::oneshot(bytes),
    };
    let name = |name: &str| name.to_owned();
    let mut rows = [
        Row { name: name("bare hash"), base: None, nanos: Vec::new() },
        Row { name: name("verify (accept)"), base: Some(("bare hash", Some(VERIFY_BAR))), nanos: Vec::new() },
        Row { name: name("copy"), base: Some(("copy, then bare hash", None)), nanos: Vec::new() },
        Row { name: name("copy, then bare hash"), base: None, nanos: Vec::new() },
        Row { name: name("send (copy and digest)"), base: Some(("copy, then bare hash", None)), nanos: Vec::new() },
    ];
    for round in 0..ROUNDS {
        let cold = &arena[round % 4 * BYTES..][..BYTES];
        let pieces = || cold.chunks(32 << 10);
        rows[0].time(|| pieces().for_each(|piece| _ = black_box(bare(piece))));
        let cold = &arena[(round + 1) % 4 * BYTES..][..BYTES];
        rows[2].time(|| black_box(&mut copy).copy_from_slice(cold));
        let cold = &arena[(round + 2) % 4 * BYTES..][..BYTES];
        rows[3].time(|| {
            for (from, to) in cold.chunks(32 << 10).zip(copy.chunks_mut(32 << 10)) {
                to.copy_from_slice(from);
                black_box(bare(to));
            }
        });
        let proof = decode.prove(plan).expect("it fits");
        let room = decode.reserve(&proof, Request::new(owner, TOKENS), TOKENS).expect("room");
        let expected = InboundPlan::new(&model, &slice, TOKENS).with_checksum(checksum);
        let mut inbound = Inbound::open(room, expected).expect("it opens");
        let offer = inbound.offer();
        let receipt = rows[4].time(|| {
            let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
            prompts[round % 4].send(&offer, &mut landing).expect("it is sent")
        });
        inbound.receive(&receipt).expect("honest");
        drop(rows[1].time(|| inbound.accept().expect("all is there")));
    }
    println!("{title}");
    let rates: Vec<f64> = rows.iter().map(|row| BYTES as f64 / median(row.nanos.clone())).collect();
    for (row, rate) in rows.iter().zip(&rates) {
        let Some((base, bar)) = row.base else {
            println!("  {:<42} {rate:>7.1}", row.name);
            continue;
        };
        let at = rows.iter().position(|row| row.name == base).expect("a row");
        let ratio = rate / rates[at];
        let reached = bar.map(|bar| format!(", bar {bar}: {}", if ratio >= bar { "reached" } else { "MISSED" }));
        println!("  {:<42} {rate:>7.1} {ratio:>7.2}   {base}{}", row.name, reached.unwrap_or_default());
    }
}

impl Row {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let answer = work();
        self.nanos.push(begin.elapsed().as_nanos() as f64);
        answer
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
