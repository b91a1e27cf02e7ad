//! What it costs to digest the pages of a handoff: `cargo bench --bench handoff`, with `--features blake3` for all kinds, and
//! `-- cold` or `-- xxh3` for rows by name.
//!
//! All rivals of a table take turns in short slices within one run, and the answer is the ratio of their medians: what to
//! trust on a shared machine. Cold pages are drawn at random from a GiB, hot ones fit the second cache.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
use pagestamp::{Checksum, DigestKey, Digester, TransferId};

#[cfg(not(feature = "blake3"))]
#[path = "handoff/no_blake3.rs"]
mod bare_blake3;
#[cfg(feature = "blake3")]
#[path = "handoff/blake3.rs"]
mod bare_blake3;

/// A hash of bytes alone, as its crate gives it. For CRC-32C that is a peer's: ours is not public.
pub(crate) type Bare = fn(&[u8]) -> u128;

const SECRET: [u8; 32] = [7; 32];
const ROUNDS: usize = 101;
/// Digested in one slice of a turn; the same again before it, not counted, or each begins with the caches and the clock that
/// another left.
const SLICE_BYTES: usize = 1 << 20;
const HOT_BYTES: usize = 256 << 10;
const COLD_BYTES: usize = 1 << 30;
/// What a copy takes from one place to the other at once, where it digests on the way: it stays in the first cache.
const BOUNCE_BYTES: usize = 8 << 10;
/// As much as BLAKE3 hashes side by side, where vectors are of 64 bytes.
const LARGE_BOUNCE_BYTES: usize = 16 << 10;
/// A piece of a page that is not digested at once: of some tokens of one head, as slices of a layout cut them.
const PIECE_BYTES: usize = 2 << 10;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|want| name.contains(want.as_str()));
    println!("{:<42} {:>7} {:>7}   ratio to", "", "GB/s", "ratio");
    for (cache, arena_bytes) in [("hot", HOT_BYTES), ("cold", COLD_BYTES)] {
        let kinds = kinds();
        let tables: Vec<(usize, &Kind)> = [16 << 10, 64 << 10, 256 << 10]
            .iter()
            .flat_map(|page_bytes| kinds.iter().map(move |kind| (*page_bytes, kind)))
            .filter(|(page_bytes, kind)| wants(&kind.title(cache, *page_bytes)))
            .collect();
        if tables.is_empty() {
            continue;
        }
        let mut arena = Arena::new(arena_bytes);
        for (page_bytes, kind) in tables {
            table(&kind.title(cache, page_bytes), &mut arena, page_bytes, kind);
        }
    }
}

/// A checksum, and its hash without a head.
struct Kind {
    digester: Digester,
    bare: Bare,
}

impl Kind {
    fn title(&self, cache: &str, page_bytes: usize) -> String {
        format!("{cache} {} {} KiB", self.digester.checksum(), page_bytes >> 10)
    }
}

fn kinds() -> Vec<Kind> {
    let bare: [(Checksum, Option<Bare>); 3] = [
        (Checksum::Crc32c, Some(|bytes| u128::from(crc32c::crc32c(bytes)))),
        (Checksum::Xxh3, Some(twox_hash::XxHash3_128::oneshot)),
        (Checksum::Blake3Keyed, bare_blake3::BARE),
    ];
    let kind =
        |(checksum, bare): (Checksum, Option<Bare>)| bare.map(|bare| Kind { digester: digester(checksum), bare });
    bare.into_iter().filter_map(kind).collect()
}

fn digester(checksum: Checksum) -> Digester {
    let cache = HeadCache::new(8, 128, ElementFormat::plain(Dtype::F16));
    let model = ModelLayout::new("bench", "r1", KvLayout::new(16, 1, cache)).expect("layout");
    let transfer = TransferId::from_bits(1 << 64 | 1).expect("transfer");
    let key = checksum.needs_key().then(|| DigestKey::new(SECRET));
    Digester::new(checksum, key.as_ref(), transfer, &model, &Slice::whole(&model)).expect("digester")
}

/// Pages to digest, and as many to copy them to.
struct Arena {
    from: Vec<u8>,
    to: Vec<u8>,
    random: u64,
}

impl Arena {
    fn new(bytes: usize) -> Self {
        let from = (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 17) as u8).collect();
        Self { from, to: vec![1; bytes], random: 0x9E37_79B9_7F4A_7C15 }
    }

    /// A page drawn at random.
    fn draw(&mut self, page_bytes: usize) -> Range<usize> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let page = (self.random % (self.from.len() / page_bytes) as u64) as usize;
        page * page_bytes..(page + 1) * page_bytes
    }

    fn work(&mut self, work: &Work, pages: &[Range<usize>]) {
        for page in pages {
            work(&self.from[page.clone()], &mut self.to[page.clone()]);
        }
    }
}

/// Takes a page, and where to copy it to.
type Work<'a> = dyn Fn(&[u8], &mut [u8]) + 'a;

/// A row of a table.
struct Row<'a> {
    name: &'static str,
    work: Box<Work<'a>>,
    /// the row that it is a ratio to
    base: usize,
}

fn row<'a>(base: usize, name: &'static str, work: impl Fn(&[u8], &mut [u8]) + 'a) -> Row<'a> {
    Row { name, work: Box::new(work), base }
}

fn rows(kind: &Kind) -> Vec<Row<'_>> {
    const BARE: usize = 0;
    const COPY_THEN_HASH: usize = 4;
    let Kind { digester, bare } = kind;
    vec![
        row(BARE, "bare hash", |from, _| _ = black_box(bare(from))),
        row(BARE, "digest", |from, _| digest_in_pieces(digester, from, from.len())),
        row(BARE, "digest, pieces of 2 KiB", |from, _| digest_in_pieces(digester, from, PIECE_BYTES)),
        row(BARE, "copy", |from, to| black_box(to).copy_from_slice(from)),
        row(COPY_THEN_HASH, "copy, then bare hash", |from, to| {
            to.copy_from_slice(from);
            black_box(bare(to));
        }),
        row(COPY_THEN_HASH, "one pass, 8 KiB at once", |from, to| copy_and_digest(digester, from, to, BOUNCE_BYTES)),
        row(COPY_THEN_HASH, "one pass, 16 KiB at once", |from, to| {
            copy_and_digest(digester, from, to, LARGE_BOUNCE_BYTES);
        }),
        row(COPY_THEN_HASH, "one pass by way of a buffer of 8 KiB", |from, to| {
            let mut page = digester.page(9, 16);
            let mut bounce = [0; BOUNCE_BYTES];
            for (from, to) in from.chunks(BOUNCE_BYTES).zip(to.chunks_mut(BOUNCE_BYTES)) {
                let bounce = &mut bounce[..from.len()];
                bounce.copy_from_slice(from);
                page.update(bounce);
                to.copy_from_slice(bounce);
            }
            black_box(page.finish());
        }),
    ]
}

fn digest_in_pieces(digester: &Digester, page_bytes: &[u8], piece_bytes: usize) {
    let mut page = digester.page(9, 16);
    page_bytes.chunks(piece_bytes).for_each(|piece| page.update(piece));
    black_box(page.finish());
}

fn copy_and_digest(digester: &Digester, from: &[u8], to: &mut [u8], at_once_bytes: usize) {
    let mut page = digester.page(9, 16);
    for (from, to) in from.chunks(at_once_bytes).zip(to.chunks_mut(at_once_bytes)) {
        to.copy_from_slice(from);
        page.update(to);
    }
    black_box(page.finish());
}

fn table(title: &str, arena: &mut Arena, page_bytes: usize, kind: &Kind) {
    println!("{title}");
    let rows = rows(kind);
    let mut times = vec![Vec::with_capacity(ROUNDS); rows.len()];
    for round in 0..ROUNDS {
        for turn in 0..rows.len() {
            let at = (round + turn) % rows.len();
            let mut draw = || (0..SLICE_BYTES / page_bytes).map(|_| arena.draw(page_bytes)).collect::<Vec<_>>();
            let (warming, pages) = (draw(), draw());
            arena.work(&rows[at].work, &warming);
            let begin = Instant::now();
            arena.work(&rows[at].work, &pages);
            times[at].push(begin.elapsed().as_nanos() as f64);
        }
    }
    let rates: Vec<f64> = times.into_iter().map(|times| SLICE_BYTES as f64 / median(times)).collect();
    for (Row { name, base, .. }, rate) in rows.iter().zip(&rates) {
        println!("  {name:<40} {rate:>7.1} {:>7.2}   {}", rate / rates[*base], rows[*base].name);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
