//! Windows of slices, against pages whose every byte has a name.

use std::ops::Range;

use proptest::prelude::*;

use super::*;

/// What a byte of a page is: side of the cache, layer, head, token, byte of the row.
pub(crate) type Name = (PlaneKind, u32, u32, u32, u64);

/// One plane of one layer: sides that lie one after the other, each with the bytes of a head's row.
pub(crate) type Sides = Vec<(PlaneKind, u64)>;

pub(crate) const PAGE_TOKENS: u32 = 3;
pub(crate) const LAYERS: u32 = 4;

/// A cache of `heads` heads and, said once more and by hand, the planes of one of its layers.
pub(crate) fn caches(heads: u32) -> Vec<(LayerCache, HeadOrder, Vec<Sides>)> {
    use PlaneKind::{Indexer, IndexerScale, K, KScale, Latent, LatentScale, Rope, V, VScale};
    let int8 = ElementFormat::scaled(Dtype::Int8, Scales::every(2, ScaleDtype::Bf16));
    let mut caches = Vec::new();
    for order in [HeadOrder::Nhd, HeadOrder::Hnd] {
        let apart = HeadCache::new(heads, 3, plain(Dtype::F16)).with_value_dim(4).with_value_format(int8);
        caches.push((apart, order, vec![vec![(K, 6)], vec![(V, 4)], vec![(VScale, 4)]]));
        let scaled = HeadCache::new(heads, 4, int8);
        caches.push((scaled.clone(), order, vec![vec![(K, 4)], vec![(V, 4)], vec![(KScale, 4)], vec![(VScale, 4)]]));
        let together = scaled.with_interleave(Interleave::Together);
        caches.push((together, order, vec![vec![(K, 4), (V, 4)], vec![(KScale, 4), (VScale, 4)]]));
        let fp4 = HeadCache::new(heads, 6, plain(Dtype::Fp4E2m1)).with_interleave(Interleave::Together);
        caches.push((fp4, order, vec![vec![(K, 3), (V, 3)]]));
    }
    let mut caches: Vec<(LayerCache, _, _)> =
        caches.into_iter().map(|(cache, order, planes)| (cache.with_order(order).into(), order, planes)).collect();
    let latent = LatentCache::new(4, 2, int8).with_rope_dtype(Dtype::F16).with_indexer(2, int8);
    let indexer = [vec![(Indexer, 2)], vec![(IndexerScale, 2)]];
    let together = [&[vec![(Latent, 12)]], indexer.as_slice()].concat();
    caches.push((latent.clone().into(), HeadOrder::Nhd, together));
    let apart = [&[vec![(Latent, 4)], vec![(LatentScale, 4)], vec![(Rope, 4)]], indexer.as_slice()].concat();
    caches.push((latent.with_packing(LatentPacking::Apart).into(), HeadOrder::Nhd, apart));
    caches
}

/// The names of one plane's bytes in a page, in order.
fn plane_of_names(sides: &Sides, order: HeadOrder, layers: Range<u32>, heads: &Range<u32>) -> Vec<Name> {
    let mut names = Vec::new();
    for layer in layers {
        for &(side, row_bytes) in sides {
            let mut row = |head, token| names.extend((0..row_bytes).map(|byte| (side, layer, head, token, byte)));
            match order {
                HeadOrder::Nhd => (0..PAGE_TOKENS).for_each(|token| heads.clone().for_each(|head| row(head, token))),
                HeadOrder::Hnd => heads.clone().for_each(|head| (0..PAGE_TOKENS).for_each(|token| row(head, token))),
            }
        }
    }
    names
}

/// The page of a slice, plane by plane.
pub(crate) fn page_of_names(
    planes: &[Sides],
    order: HeadOrder,
    layer_planes: LayerPlanes,
    slice: &Slice,
) -> Vec<Vec<Name>> {
    let of = |layers: Range<u32>| {
        planes.iter().map(move |sides| plane_of_names(sides, order, layers.clone(), &slice.heads()))
    };
    match layer_planes {
        LayerPlanes::PerLayer => slice.layers().flat_map(|layer| of(layer..layer + 1)).collect(),
        LayerPlanes::Shared => of(slice.layers()).collect(),
    }
}

/// Each byte of the part's page as its windows find it in the whole's page.
fn seen(whole: &PageGeometry, page: &[Vec<Name>], part: &PageGeometry, windows: &[PlaneWindow]) -> Vec<Vec<Name>> {
    let plane = |(index, window): (usize, &PlaneWindow)| {
        let shape = part.planes()[index];
        assert_eq!((window.runs(), window.run_bytes()), (shape.runs(), shape.run_bytes()));
        assert_eq!(window.place(shape.runs()), None);
        let mut names = Vec::new();
        for run in 0..shape.runs() {
            let (of_run, first_byte) = window.place(run).expect("there");
            assert!(first_byte + window.run_bytes() <= whole.planes()[window.plane()].run_bytes());
            for token in 0..PAGE_TOKENS {
                let run = whole.run_offset(window.plane(), of_run, token).expect("there");
                let start = usize::try_from(run).expect("small") + first_byte as usize;
                names.extend_from_slice(&page[window.plane()][start..start + window.run_bytes() as usize]);
            }
        }
        names
    };
    windows.iter().enumerate().map(plane).collect()
}

/// Cuts a range at the places given.
fn cut(range: Range<u32>, at: &[u32]) -> Vec<Range<u32>> {
    let mut ends: Vec<_> = at.iter().map(|at| at % range.end).filter(|at| range.contains(at)).collect();
    ends.extend([range.start, range.end]);
    ends.sort_unstable();
    ends.dedup();
    ends.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

proptest! {
    // C10
    #[test]
    fn windows_show_a_part_as_it_is_and_parts_that_tile_a_slice_show_each_byte_once(
        heads in 1_u32..5,
        of_cuts in any::<(u32, u32)>(),
        layer_cuts in proptest::collection::vec(any::<u32>(), 0..3),
        head_cuts in proptest::collection::vec(any::<u32>(), 0..3),
    ) {
        for (cache, order, planes) in caches(heads) {
            for layer_planes in [LayerPlanes::PerLayer, LayerPlanes::Shared] {
                let whole = KvLayout::new(PAGE_TOKENS, LAYERS, cache.clone()).with_layer_planes(layer_planes);
                let model = ModelLayout::new("tiny", "r1", whole).expect("valid");
                // any slice of the model is the whole here, and any cut of it makes parts
                let of_layers = cut(0..LAYERS, &[of_cuts.0]).pop().expect("there");
                let of_heads = cut(0..model.kv_heads(), &[of_cuts.1]).pop().expect("there");
                let of = Slice::new(of_layers.clone(), of_heads.clone()).expect("valid");
                let geometry = model.geometry(&of).expect("valid");
                let page = page_of_names(&planes, order, layer_planes, &of);
                let mut left: Vec<Vec<Name>> = page.clone();
                for layers in cut(of_layers.clone(), &layer_cuts) {
                    for heads in cut(of_heads.clone(), &head_cuts) {
                        let part = Slice::new(layers.clone(), heads).expect("valid");
                        let windows = model.windows(&of, &part).expect("inside");
                        let shape = model.geometry(&part).expect("valid");
                        prop_assert_eq!(windows.len(), shape.planes().len());
                        let names = page_of_names(&planes, order, layer_planes, &part);
                        prop_assert_eq!(&seen(&geometry, &page, &shape, &windows), &names);
                        for (window, names) in windows.iter().zip(&names) {
                            let all = &page[window.plane()];
                            prop_assert_eq!(window.is_whole(), names == all, "{:?}", window);
                            let before = left[window.plane()].len();
                            left[window.plane()].retain(|name| !names.contains(name));
                            prop_assert_eq!(before - left[window.plane()].len(), names.len());
                        }
                    }
                }
                prop_assert!(left.iter().all(Vec::is_empty));
            }
        }
    }
}

// C10
#[test]
fn part_outside_its_slice_is_refused_by_axis() {
    let model = llama();
    let of = Slice::new(20..40, 2..6).expect("not empty");
    let cases = [
        (19..21, 2..6, SliceAxis::Layers),
        (39..41, 2..6, SliceAxis::Layers),
        (0..80, 0..8, SliceAxis::Layers),
        (20..40, 1..3, SliceAxis::Heads),
        (20..40, 5..7, SliceAxis::Heads),
        (20..40, 0..u32::MAX, SliceAxis::Heads),
    ];
    for (layers, heads, axis) in cases {
        let part = Slice::new(layers.clone(), heads.clone()).expect("not empty");
        let (asked, there) = match axis {
            SliceAxis::Layers => (layers, 20..40),
            SliceAxis::Heads => (heads, 2..6),
        };
        let refused = LayoutError::OutsideSlice {
            axis,
            start: asked.start,
            end: asked.end,
            of_start: there.start,
            of_end: there.end,
        };
        assert_eq!(model.windows(&of, &part), Err(refused.clone()));
        assert_eq!(part.check_inside(&of), Err(refused));
    }
    let outside = Slice::new(0..81, 0..8).expect("not empty");
    let refused = model.windows(&outside, &of);
    assert!(matches!(refused, Err(LayoutError::OutsideModel { axis: SliceAxis::Layers, end: 81, .. })), "{refused:?}");
    assert_eq!(of.check_inside(&of), Ok(()));
}
