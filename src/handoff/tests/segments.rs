//! Segments, copied between two byte arrays, against a copy of every byte by its name.

use std::ops::Range;

use proptest::prelude::*;

use crate::geometry::tests::window::{LAYERS, Name, PAGE_TOKENS, Sides, caches, page_of_names};
use crate::geometry::{
    Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, LayerPlanes, LayoutError, ModelLayout, Slice,
};
use crate::handoff::{Region, Regions, Route, Segment, SegmentError, Side, Stretch};
use crate::memory::HostBytes;
use crate::{HostMemory, PageMemory};

const MAX_PAGES: u32 = 7;
/// What no copy leaves where it copies, but by chance.
const UNTOUCHED: u8 = 0xEE;

/// The memory of one side: all planes in one array, each with the number of the plane as its device.
struct Memory {
    base: u64,
    regions: Regions,
    bytes: Vec<u8>,
    /// Names of the bytes of a page, plane by plane.
    names: Vec<Vec<Name>>,
}

impl Memory {
    /// Planes lie `gap_bytes` apart, and pages of each too.
    fn new(model: &ModelLayout, layout: &(HeadOrder, Vec<Sides>), slice: Slice, base: u64, gap_bytes: u64) -> Self {
        let shape = model.geometry(&slice).expect("valid");
        let (mut planes, mut end) = (Vec::new(), base);
        for plane in 0..shape.planes().len() {
            let page_bytes = shape.page_bytes(plane).expect("there");
            planes.push(Region::new(end, page_bytes + gap_bytes, page_bytes, u32::try_from(plane).expect("few")));
            end += u64::from(MAX_PAGES) * (page_bytes + gap_bytes) + gap_bytes;
        }
        let names = page_of_names(&layout.1, layout.0, model.whole().layer_planes(), &slice);
        let regions = Regions::new(model, slice, MAX_PAGES, planes).expect("sound");
        Self { base, regions, bytes: vec![UNTOUCHED; usize::try_from(end - base).expect("small")], names }
    }

    /// Where each byte of a page lies in the array, with its name.
    fn places(&self, page: u32) -> impl Iterator<Item = (usize, Name)> + '_ {
        self.regions.planes().iter().zip(&self.names).flat_map(move |(region, names)| {
            let start = region.base_address() + u64::from(page) * region.stride_bytes() - self.base;
            let start = usize::try_from(start).expect("small");
            names.iter().enumerate().map(move |(at, name)| (start + at, *name))
        })
    }
}

/// The byte that a name stands for, in a page of the sequence.
fn value((side, layer, head, token, byte): Name, ordinal: u32) -> u8 {
    let parts = [side as u64, u64::from(layer), u64::from(head), u64::from(token), byte, u64::from(ordinal)];
    let mixed = parts.iter().fold(7_u64, |mixed, part| (mixed ^ part).wrapping_mul(0x0100_0000_01b3) >> 3);
    mixed.to_le_bytes()[0]
}

/// Copies each segment, and checks what every list of segments has to keep to.
fn copy(segments: &[Segment], source: &Memory, destination: &mut Memory) -> u64 {
    let mut ranges = Vec::new();
    for segment in segments {
        let [from, to] = [(segment.source, source.base), (segment.destination, destination.base)]
            .map(|(address, base)| usize::try_from(address - base).expect("small"));
        let bytes = usize::try_from(segment.bytes).expect("small");
        destination.bytes[to..to + bytes].copy_from_slice(&source.bytes[from..from + bytes]);
        ranges.push(to..to + bytes);
        // each side's device is the number of its plane: a segment lies inside one
        let region = &destination.regions.planes()[segment.destination_device as usize];
        let end = region.base_address() + u64::from(MAX_PAGES - 1) * region.stride_bytes() + region.page_bytes();
        assert!(region.base_address() <= segment.destination && segment.destination + segment.bytes <= end);
    }
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.iter().all(|range| !range.is_empty()));
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "two segments overlap");
    for pair in segments.windows(2).filter(|pair| pair[0].destination_device == pair[1].destination_device) {
        for (first, second) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let source = first.source + first.bytes == second.source;
            let destination = first.destination + first.bytes == second.destination;
            assert!(!(source && destination), "neighbours could be one: {pair:?}");
        }
    }
    segments.iter().map(|segment| segment.bytes).sum()
}

/// A range within `range`, and one around it within `0..of`.
fn nested(of: u32, numbers: (u32, u32, u32, u32)) -> (Range<u32>, Range<u32>) {
    let start = numbers.0 % of;
    let end = start + 1 + numbers.1 % (of - start);
    (start..end, numbers.2 % (start + 1)..end + numbers.3 % (of - end + 1))
}

/// Pages in some order: shuffled, rising, falling, or rising with a jump.
fn in_order(kind: u8, shuffled: &[u32], pages: usize) -> Vec<u32> {
    let rising = 0..MAX_PAGES;
    let all: Vec<u32> = match kind % 4 {
        0 => shuffled.to_vec(),
        1 => rising.collect(),
        2 => rising.rev().collect(),
        _ => rising.cycle().skip(4).take(MAX_PAGES as usize).collect(),
    };
    all[..pages].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    // C10
    #[test]
    fn segments_copy_each_byte_of_the_tile_to_its_place_and_no_other(
        heads in 1_u32..5,
        cut in any::<([(u32, u32, u32, u32); 2], [(u32, u32); 2])>(),
        orders in (any::<(u8, u8)>(), [0, 1].map(|_| Just((0..MAX_PAGES).collect::<Vec<_>>()).prop_shuffle())),
        gaps in [0_u64..2, 0_u64..2],
        tokens in 0..=u64::from(MAX_PAGES * PAGE_TOKENS),
        held in 0_u64..3,
        ordinals in proptest::option::of(any::<(u32, u32)>()),
    ) {
        for (cache, order, planes) in caches(heads) {
            for layer_planes in [LayerPlanes::PerLayer, LayerPlanes::Shared] {
                let whole = KvLayout::new(PAGE_TOKENS, LAYERS, cache.clone()).with_layer_planes(layer_planes);
                let model = ModelLayout::new("tiny", "r1", whole).expect("valid");
                let layout = (order, planes.clone());
                // a tile, and around it a slice for each side
                let (tile_layers, source_layers) = nested(LAYERS, cut.0[0]);
                let (tile_heads, source_heads) = nested(model.kv_heads(), cut.0[1]);
                let around = |tile: &Range<u32>, of: u32, (left, right): (u32, u32)| {
                    left % (tile.start + 1)..tile.end + right % (of - tile.end + 1)
                };
                let tile = Slice::new(tile_layers.clone(), tile_heads.clone()).expect("valid");
                let at_source = Slice::new(source_layers, source_heads).expect("valid");
                let at_destination = Slice::new(
                    around(&tile_layers, LAYERS, cut.1[0]),
                    around(&tile_heads, model.kv_heads(), cut.1[1]),
                ).expect("valid");
                let mut source = Memory::new(&model, &layout, at_source, 1 << 40, gaps[0] * 3);
                let mut destination = Memory::new(&model, &layout, at_destination, 5, gaps[1] * 3);

                let pages = tokens.div_ceil(u64::from(PAGE_TOKENS)) as usize;
                let source_pages = in_order(orders.0.0, &orders.1[0], pages);
                let destination_pages = in_order(orders.0.1, &orders.1[1], pages);
                for (ordinal, page) in (0..).zip(&source_pages) {
                    let places: Vec<_> = source.places(*page).collect();
                    places.into_iter().for_each(|(at, name)| source.bytes[at] = value(name, ordinal));
                }

                let held_tokens = (held * u64::from(PAGE_TOKENS)).min(tokens / 3 * 3);
                let mut stretch = Stretch::new(tokens, &source_pages, &destination_pages).with_held_tokens(held_tokens);
                let mut moving = 0..pages as u32;
                if let Some((start, end)) = ordinals {
                    moving.start = start % (pages as u32 + 1);
                    moving.end = moving.start + end % (pages as u32 + 1 - moving.start);
                    stretch = stretch.with_pages(moving.clone());
                }
                let route = Route::new(&model, &tile, source.regions.clone(), destination.regions.clone()).expect("fits");
                let mut segments = vec![Segment { source: 1, destination: 1, bytes: 1, source_device: 1, destination_device: 1 }];
                let bytes = route.segments(&stretch, &mut segments).expect("sound");

                let (mut expected, mut expected_bytes) = (destination.bytes.clone(), 0);
                for ordinal in moving.filter(|ordinal| u64::from(ordinal * PAGE_TOKENS) >= held_tokens) {
                    for (at, name) in destination.places(destination_pages[ordinal as usize]) {
                        let (_, layer, head, token, _) = name;
                        let is_filled = u64::from(ordinal * PAGE_TOKENS + token) < tokens;
                        if tile_layers.contains(&layer) && tile_heads.contains(&head) && is_filled {
                            expected[at] = value(name, ordinal);
                            expected_bytes += 1;
                        }
                    }
                }
                let copied = copy(&segments, &source, &mut destination);
                prop_assert_eq!((bytes, copied), (expected_bytes, expected_bytes));
                prop_assert!(destination.bytes == expected);
            }
        }
    }
}

/// Two heads, four bytes a head, pages of 4 tokens.
fn small(order: HeadOrder) -> ModelLayout {
    let cache = HeadCache::new(2, 2, ElementFormat::plain(Dtype::F16)).with_order(order);
    ModelLayout::new("tiny", "r1", KvLayout::new(4, 1, cache)).expect("valid")
}

/// 10 pages of two planes, which touch; `gap_bytes` after each page.
fn regions(model: &ModelLayout, slice: &Slice, gap_bytes: u64) -> Regions {
    let page_bytes = model.geometry(slice).expect("valid").page_bytes(0).expect("there");
    let stride_bytes = page_bytes + gap_bytes;
    let plane = |plane: u64| Region::new(plane * 10 * stride_bytes, stride_bytes, page_bytes, 0);
    Regions::new(model, slice.clone(), 10, vec![plane(0), plane(1)]).expect("sound")
}

/// Bytes of the segments of K and V, for a tile of `heads` heads that both sides hold among all.
fn sizes(order: HeadOrder, heads: u32, gap_bytes: u64, source: &[u32], destination: &[u32], tokens: u64) -> Vec<u64> {
    let (model, tile) = (small(order), Slice::new(0..1, 0..heads).expect("valid"));
    let all = Slice::whole(&model);
    let route = Route::new(&model, &tile, regions(&model, &all, gap_bytes), regions(&model, &all, 0)).expect("fits");
    let mut segments = Vec::new();
    route.segments(&Stretch::new(tokens, source, destination), &mut segments).expect("sound");
    let sizes: Vec<u64> = segments.iter().map(|segment| segment.bytes).collect();
    let (key, value) = sizes.split_at(sizes.len() / 2);
    assert_eq!(key, value, "planes that touch are not joined");
    key.to_vec()
}

// C10
#[test]
fn neighbours_on_both_sides_are_one_segment_whichever_way_they_run() {
    for order in [HeadOrder::Nhd, HeadOrder::Hnd] {
        // pages of 32 bytes
        let sizes = |gap, source: &[u32], destination: &[u32]| {
            sizes(order, 2, gap, source, destination, 4 * source.len() as u64)
        };
        assert_eq!(sizes(0, &[2, 3, 4], &[5, 6, 7]), [96]);
        assert_eq!(sizes(0, &[4, 3, 2], &[7, 6, 5]), [96]);
        assert_eq!(sizes(0, &[4, 3, 2], &[5, 6, 7]), [32, 32, 32]);
        assert_eq!(sizes(0, &[2, 4, 3], &[5, 7, 6]), [96], "a page that fills the gap joins both");
        assert_eq!(sizes(0, &[2, 3, 8], &[5, 6, 7]), [64, 32]);
        assert_eq!(sizes(1, &[2, 3, 4], &[5, 6, 7]), [32, 32, 32], "a gap after each page");
        assert_eq!(sizes(0, &[0, 9], &[0, 9]), [32, 32], "the end of K touches the start of V");
    }
}

// C10
#[test]
fn part_of_the_heads_and_part_of_a_page_take_as_many_segments_as_there_are_holes() {
    // heads of a token lie together: a hole after each token
    assert_eq!(sizes(HeadOrder::Nhd, 1, 0, &[2, 3], &[5, 6], 7), [4; 7]);
    // tokens of a head lie together: a hole after each page
    assert_eq!(sizes(HeadOrder::Hnd, 1, 0, &[2, 3], &[5, 6], 7), [16, 12]);
    // both heads: the last page, of three tokens, has a hole after each head, and its first head has none before it
    assert_eq!(sizes(HeadOrder::Hnd, 2, 0, &[2, 3], &[5, 6], 7), [32 + 12, 12]);
    assert_eq!(sizes(HeadOrder::Nhd, 2, 0, &[2, 3], &[5, 6], 7), [32 + 24]);
}

// C8
#[test]
fn stretch_that_cannot_be_leaves_no_segment() {
    let model = small(HeadOrder::Nhd);
    let all = Slice::whole(&model);
    let route = Route::new(&model, &all, regions(&model, &all, 0), regions(&model, &all, 0)).expect("fits");
    let (three, two) = ([1, 2, 3].as_slice(), [1, 2].as_slice());
    let of = Stretch::new;
    let count = |side, given_pages| SegmentError::PageCount { side, given_pages, expected_pages: 3 };
    let held = |held_tokens| SegmentError::HeldTokens { held_tokens, tokens: 9, page_tokens: 4 };
    let missing = |side| SegmentError::NoSuchPage { side, ordinal: 1, page: 10, max_pages: 10 };
    let outside = |start, end| SegmentError::PagesOutside { start, end, pages: 3 };
    let cases = [
        (of(9, two, three), count(Side::Sender, 2)),
        (of(9, three, two), count(Side::Receiver, 2)),
        (of(9, three, &[]), count(Side::Receiver, 0)),
        (of(9, three, three).with_held_tokens(3), held(3)),
        (of(9, three, three).with_held_tokens(12), held(12)),
        (of(9, &[1, 10, 3], three), missing(Side::Sender)),
        (of(9, three, &[1, 10, 3]), missing(Side::Receiver)),
        (of(9, three, three).with_pages(0..4), outside(0, 4)),
        (of(9, three, three).with_pages(Range { start: 2, end: 1 }), outside(2, 1)),
    ];
    for (stretch, error) in cases {
        let mut segments =
            vec![Segment { source: 1, destination: 1, bytes: 1, source_device: 1, destination_device: 1 }];
        assert_eq!(route.segments(&stretch, &mut segments), Err(error));
        assert!(segments.is_empty());
    }
    // what does not move is not looked at
    let mut segments = Vec::new();
    let rest = of(9, &[1, 99, 3], &[1, 99, 3]).with_pages(2..3);
    assert_eq!(route.segments(&rest, &mut segments), Ok(16));
    let rest = of(9, &[99, 99, 3], &[99, 99, 3]).with_held_tokens(8);
    assert_eq!(route.segments(&rest, &mut segments), Ok(16));
}

// C10
#[test]
fn regions_that_are_not_those_of_the_slice_are_refused() {
    let model = small(HeadOrder::Nhd);
    let all = Slice::whole(&model);
    let new = |max_pages, planes: &[Region]| Regions::new(&model, all.clone(), max_pages, planes.to_vec());
    let fits = Region::new(0, 32, 32, 0);
    assert!(new(10, &[fits, fits]).is_ok());
    let refused = |region, max_pages| new(max_pages, &[fits, region]).expect_err("must be refused");
    assert_eq!(new(10, &[fits]), Err(SegmentError::RegionCount { regions: 1, planes: 2 }));
    let size = SegmentError::PageBytes { plane: 1, region_page_bytes: 33, page_bytes: 32 };
    assert_eq!(refused(Region::new(0, 64, 33, 0), 10), size);
    let stride = SegmentError::StrideTooSmall { plane: 1, stride_bytes: 31, page_bytes: 32 };
    assert_eq!(refused(Region::new(0, 31, 32, 0), 10), stride);
    let past = |stride_bytes, max_pages| SegmentError::PastAddresses { plane: 1, max_pages, stride_bytes };
    assert_eq!(refused(Region::new(0, u64::MAX, 32, 0), 2), past(u64::MAX, 2));
    assert_eq!(refused(Region::new(u64::MAX - 63, 32, 32, 0), 3), past(32, 3));
    assert!(new(2, &[fits, Region::new(u64::MAX - 64, 32, 32, 0)]).is_ok());
    let outside = Regions::new(&model, Slice::new(0..2, 0..2).expect("not empty"), 10, vec![fits, fits]);
    assert!(matches!(outside, Err(SegmentError::Layout(LayoutError::OutsideModel { .. }))));
}

// C10
#[test]
fn route_is_refused_where_a_side_has_not_all_of_the_tile_or_another_model() {
    let model = small(HeadOrder::Nhd);
    let (all, half) = (Slice::whole(&model), Slice::new(0..1, 0..1).expect("valid"));
    let outside = Route::new(&model, &all, regions(&model, &all, 0), regions(&model, &half, 0));
    assert!(matches!(outside, Err(SegmentError::Layout(LayoutError::OutsideSlice { .. }))), "{outside:?}");
    let other = small(HeadOrder::Hnd);
    let mixed = Route::new(&model, &all, regions(&model, &all, 0), regions(&other, &all, 0));
    let shapes = (model.geometry(&all).expect("valid"), other.geometry(&all).expect("valid"));
    assert_eq!(mixed, Err(SegmentError::OtherShape { expected: shapes.0.clone(), found: shapes.1.clone() }));
    // memory of the other order has pages of the same size
    let memory = HostMemory::new(shapes.1, 10).expect("small");
    assert!(matches!(Regions::of(&model, all.clone(), &memory), Err(SegmentError::OtherShape { .. })));
}

// C10
#[test]
fn regions_of_host_memory_are_where_its_planes_are() {
    let model = small(HeadOrder::Nhd);
    let all = Slice::whole(&model);
    let memory = HostMemory::new(model.geometry(&all).expect("valid"), 10).expect("small");
    let regions = Regions::of(&model, all, &memory).expect("fits");
    assert_eq!((regions.max_pages(), regions.planes().len()), (memory.max_pages(), 2));
    for (plane, region) in regions.planes().iter().enumerate() {
        let host = memory.plane(plane).expect("there");
        assert_eq!(region.base_address(), host.base().addr().get() as u64);
        assert_eq!((region.stride_bytes(), region.page_bytes()), (host.stride() as u64, host.page_bytes() as u64));
        assert_eq!(region.device(), 0);
    }
}

// C11
#[test]
fn no_address_is_printed() {
    let secret = 0x1234_5678_9abc_u64;
    let segment = Segment { source: secret, destination: secret, bytes: 7, source_device: 1, destination_device: 2 };
    let said = format!("{segment:?} {:?}", Region::new(secret, 64, 32, 3));
    assert!(said.contains("bytes: 7") && said.contains("stride_bytes: 64"), "{said}");
    assert!(!said.contains(&secret.to_string()), "{said}");
}
