//! What a transport has to copy: pairs of addresses and lengths, as few as there can be.
//!
//! *Owns* the arithmetic from pages of a sequence to bytes on both sides. *Does not know* transports, pools or handles: the
//! pages come as indices, the memory as [`Regions`].

use std::fmt;
use std::ops::Range;

use super::regions::check_shape;
use super::{Regions, SegmentError};
use crate::geometry::{ModelLayout, PlaneWindow, Slice};
use crate::transfer::Side;

/// Bytes that lie together on both sides: one copy for a transport.
///
/// A value of plain numbers: it gives no right to any byte. `Debug` shows sizes and no address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Address at the sender.
    pub source: u64,
    /// Address at the receiver.
    pub destination: u64,
    /// Bytes to copy.
    pub bytes: u64,
    /// Device of the sender's address.
    pub source_device: u32,
    /// Device of the receiver's address.
    pub destination_device: u32,
}

impl Segment {
    /// Both as one, if one follows the other on both sides.
    fn join(self, other: Self) -> Option<Self> {
        let (first, second) = if self.source < other.source { (self, other) } else { (other, self) };
        let follows =
            first.source + first.bytes == second.source && first.destination + first.bytes == second.destination;
        follows.then_some(Self { bytes: first.bytes + second.bytes, ..first })
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("bytes", &self.bytes)
            .field("source_device", &self.source_device)
            .field("destination_device", &self.destination_device)
            .finish_non_exhaustive()
    }
}

/// Says which pages of a sequence move, and where they are on both sides.
///
/// Both lists name every page of the sequence, in its order, by the page's index in its pool: at the receiver the
/// [index](crate::PageHandle::index) of each handle of the offer. Ordinals count in the sequence, whatever moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch<'a> {
    tokens: u64,
    held_tokens: u64,
    ordinals: Option<Range<u32>>,
    source_pages: &'a [u32],
    destination_pages: &'a [u32],
}

impl<'a> Stretch<'a> {
    /// Names all pages of a sequence of `tokens` tokens.
    #[must_use]
    pub const fn new(tokens: u64, source_pages: &'a [u32], destination_pages: &'a [u32]) -> Self {
        Self { tokens, held_tokens: 0, ordinals: None, source_pages, destination_pages }
    }

    /// Leaves out the first tokens, which the receiver holds already: whole pages.
    #[must_use]
    pub const fn with_held_tokens(mut self, held_tokens: u64) -> Self {
        self.held_tokens = held_tokens;
        self
    }

    /// Leaves out all pages but these. Those that are held stay left out.
    #[must_use]
    pub const fn with_pages(mut self, ordinals: Range<u32>) -> Self {
        self.ordinals = Some(ordinals);
        self
    }

    /// Checks everything and answers the ordinals that move.
    fn check(&self, route: &Route) -> Result<Range<u32>, SegmentError> {
        let Self { tokens, held_tokens, .. } = *self;
        let pages = route.source.shape().pages_for_tokens(tokens);
        let sides = [
            (Side::Sender, self.source_pages, &route.source),
            (Side::Receiver, self.destination_pages, &route.destination),
        ];
        for (side, list, _) in sides {
            if list.len() as u64 != pages {
                return Err(SegmentError::PageCount { side, given_pages: list.len() as u64, expected_pages: pages });
            }
        }
        let page_tokens = route.page_tokens;
        if held_tokens > tokens || !held_tokens.is_multiple_of(u64::from(page_tokens)) {
            return Err(SegmentError::HeldTokens { held_tokens, tokens, page_tokens });
        }
        // no pool has more pages
        let all = 0..u32::try_from(pages).unwrap_or(u32::MAX);
        let Range { start, end } = self.ordinals.clone().unwrap_or(all);
        if start > end || u64::from(end) > pages {
            return Err(SegmentError::PagesOutside { start, end, pages });
        }
        // at most `pages`
        let held_pages = (held_tokens / u64::from(page_tokens)) as u32;
        let ordinals = start.max(held_pages).min(end)..end;
        for (side, list, regions) in sides {
            for ordinal in ordinals.clone() {
                let page = list[ordinal as usize];
                if page >= regions.max_pages() {
                    return Err(SegmentError::NoSuchPage { side, ordinal, page, max_pages: regions.max_pages() });
                }
            }
        }
        Ok(ordinals)
    }
}

/// The way from one pool to another for the bytes of one writer: made once at pairing, asked for each sequence.
///
/// The writer's tile is what it sends: a part of its own slice and of the receiver's. What either side holds beside it is
/// stepped over.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
/// use pagestamp::handoff::{Region, Regions, Route, Stretch};
///
/// let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16));
/// let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache))?;
/// let all = Slice::whole(&model);
/// let regions = |key: u64, value: u64| {
///     let planes = vec![Region::new(key, 512, 512, 0), Region::new(value, 512, 512, 0)];
///     Regions::new(&model, all.clone(), 100, planes)
/// };
/// let route = Route::new(&model, &all, regions(0x10_0000, 0x20_0000)?, regions(0x70_0000, 0x80_0000)?)?;
///
/// // 40 tokens in 3 pages: two are neighbours on both sides, and of the last one 8 tokens are filled
/// let mut segments = Vec::new();
/// let bytes = route.segments(&Stretch::new(40, &[4, 5, 9], &[1, 2, 3]), &mut segments)?;
/// assert_eq!(bytes, 40 * 2 * 32);
/// let key = &segments[..2];
/// assert_eq!((key[0].source, key[0].destination, key[0].bytes), (0x10_0000 + 4 * 512, 0x70_0000 + 512, 2 * 512));
/// assert_eq!((key[1].source, key[1].destination, key[1].bytes), (0x10_0000 + 9 * 512, 0x70_0000 + 3 * 512, 8 * 32));
/// # Ok::<(), pagestamp::handoff::SegmentError>(())
/// ```
///
/// # What a transport makes of them
///
/// | here | NIXL | Mooncake |
/// |---|---|---|
/// | `source` | `addr` in the local transfer list | `source`, a pointer |
/// | `destination` | `addr` in the remote transfer list | `target_offset`: the address itself for the memory of a process, whose segment is its address space; else from the segment's start on, so give [`Region`](crate::handoff::Region)s that count from there |
/// | `bytes` | `len`, in both lists | `length` |
/// | `source_device` | `devId`, local | none: it knows the place of a registered buffer |
/// | `destination_device` | `devId`, remote | none |
/// | the receiver | the name of the remote agent | `target_id`, from opening its segment |
/// | sending | operation `NIXL_WRITE` | opcode `WRITE` |
///
/// NIXL takes two lists of equal length, so the n-th segment makes the n-th `nixlBasicDesc` of each, whether for
/// `createXferReq` or for `makeXferReq` over lists that were prepared. Mooncake takes a batch of `TransferRequest`s, one per
/// segment. No segment spans two planes, so that each lies inside what was registered for its plane.
///
/// For a reader that fetches, the same segments serve with the sides exchanged.
///
/// # When a writer has stopped
///
/// Only then may its ticket end. These prove it: *every* handle of the grant was reported as terminal, or the peer's agent
/// was destroyed, or its process is dead. These do not:
///
/// - a timeout, or deregistering the memory: what is under way lands all the same
/// - NIXL's release of a request, the nearest it has to an abort: of 4,096 pages 3,600 landed afterwards
/// - an error from Mooncake: pages of that batch were written after it was returned
///
/// And "done" proves that somebody wrote, never what: the receiver's digests do.
///
/// # Source
/// NIXL's `nixl.h` and `nixl_descriptors.h`; Mooncake's transfer engine documentation, `TransferRequest` and RAM segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    page_tokens: u32,
    source: Regions,
    destination: Regions,
    planes: Vec<PlanePair>,
}

/// One plane of the tile in both pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PlanePair {
    source: Place,
    destination: Place,
}

/// One plane of the tile in one pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    window: PlaneWindow,
    /// Bytes of a run in the pool's plane.
    run_bytes: u32,
}

impl Place {
    /// Where a run of a token of the tile begins, from the beginning of the page on.
    fn offset(&self, run: u32, token: u32, page_tokens: u32) -> Option<u64> {
        let (run, first_byte) = self.window.place(run)?;
        // inside one page, which is at most `PageGeometry::MAX_PAGE_BYTES`
        let tokens_before = u64::from(run) * u64::from(page_tokens) + u64::from(token);
        Some(tokens_before * u64::from(self.run_bytes) + u64::from(first_byte))
    }
}

impl PlanePair {
    /// How many tokens lie together in a run: all of them if the tile has all of the run on both sides, else one.
    fn tokens_together(&self, filled_tokens: u32) -> u32 {
        let run_bytes = self.source.window.run_bytes();
        let all = self.source.run_bytes == run_bytes && self.destination.run_bytes == run_bytes;
        if all { filled_tokens } else { 1 }
    }
}

impl Route {
    /// Makes the way from the sender's pool to the receiver's for one writer's tile.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// - [`SegmentError::Layout`]: the tile is not part of one of the slices
    /// - [`SegmentError::OtherShape`]: regions were made for another model
    pub fn new(model: &ModelLayout, tile: &Slice, source: Regions, destination: Regions) -> Result<Self, SegmentError> {
        let places = |regions: &Regions| {
            let windows = model.windows(regions.slice(), tile)?;
            check_shape(model.geometry(regions.slice())?, regions.shape())?;
            let run_bytes = |plane: usize| regions.shape().planes().get(plane).map_or(0, |plane| plane.run_bytes());
            let place = |window: PlaneWindow| Place { window, run_bytes: run_bytes(window.plane()) };
            Ok::<_, SegmentError>(windows.into_iter().map(place).collect::<Vec<_>>())
        };
        let pairs = places(&source)?.into_iter().zip(places(&destination)?);
        let planes = pairs.map(|(source, destination)| PlanePair { source, destination }).collect();
        Ok(Self { page_tokens: model.page_tokens(), source, destination, planes })
    }

    /// Writes what has to be copied for a stretch of a sequence, plane after plane, and answers how many bytes that is.
    ///
    /// `out` is cleared first. Filled tokens only; what neighbours in the sequence have side by side in both pools, rising
    /// or falling, is one segment. Segments of distinct pages never overlap; that a list names a page twice is not looked
    /// for.
    ///
    /// # Cost
    /// O(pages x planes) where the tile is all of both planes, times the runs where it is some of the heads, times the
    /// tokens too where heads lie inside one run (NHD). Allocates only what `out` has to grow.
    ///
    /// # Errors
    /// `out` is empty.
    ///
    /// - [`SegmentError::PageCount`]: a list is not as long as the sequence
    /// - [`SegmentError::HeldTokens`]: no whole pages, or more than the sequence
    /// - [`SegmentError::PagesOutside`]: the sequence does not have these pages
    /// - [`SegmentError::NoSuchPage`]: a list names a page that is not in the regions
    pub fn segments(&self, stretch: &Stretch<'_>, out: &mut Vec<Segment>) -> Result<u64, SegmentError> {
        out.clear();
        let ordinals = stretch.check(self)?;
        for pair in &self.planes {
            let first = out.len();
            for ordinal in ordinals.clone() {
                let before = u64::from(ordinal) * u64::from(self.page_tokens);
                // at most page_tokens, which is a u32
                let filled_tokens = (stretch.tokens - before).min(u64::from(self.page_tokens)) as u32;
                let pages = (stretch.source_pages[ordinal as usize], stretch.destination_pages[ordinal as usize]);
                self.write_page(pair, pages, filled_tokens, first, out);
            }
        }
        Ok(out.iter().map(|segment| segment.bytes).sum())
    }

    /// Writes the segments of one page in one plane, whose segments begin at `first`.
    fn write_page(
        &self,
        pair: &PlanePair,
        (source_page, destination_page): (u32, u32),
        filled_tokens: u32,
        first: usize,
        out: &mut Vec<Segment>,
    ) {
        let PlanePair { source, destination } = pair;
        let (from, to) =
            (&self.source.planes()[source.window.plane()], &self.destination.planes()[destination.window.plane()]);
        let page = Segment {
            source: from.page_address(source_page),
            destination: to.page_address(destination_page),
            bytes: from.page_bytes(),
            source_device: from.device(),
            destination_device: to.device(),
        };
        if source.window.is_whole() && destination.window.is_whole() && filled_tokens == self.page_tokens {
            return push(out, first, page);
        }
        let together = pair.tokens_together(filled_tokens);
        for run in 0..source.window.runs() {
            for token in (0..filled_tokens).step_by(together as usize) {
                let at = |place: &Place| place.offset(run, token, self.page_tokens);
                let (Some(from), Some(to)) = (at(source), at(destination)) else { continue };
                let bytes = u64::from(together) * u64::from(source.window.run_bytes());
                push(
                    out,
                    first,
                    Segment { source: page.source + from, destination: page.destination + to, bytes, ..page },
                );
            }
        }
    }
}

/// Appends a segment to those of its plane, which begin at `first`, or makes the last ones longer by it.
fn push(out: &mut Vec<Segment>, first: usize, mut segment: Segment) {
    while out.len() > first
        && let Some(joined) = out.last().and_then(|last| last.join(segment))
    {
        out.pop();
        segment = joined;
    }
    out.push(segment);
}
