//! Layouts that cannot be.

use std::ops::Range;

use super::*;

fn refusal(cache: impl Into<LayerCache>) -> LayoutError {
    let layout = KvLayout::new(16, 2, cache);
    assert_eq!(layout.roles().err(), layout.validate().err());
    layout.validate().expect_err("must be refused")
}

#[test]
fn zero_dimensions_are_refused_by_name() {
    let f16 = plain(Dtype::F16);
    let zero = |dim| LayoutError::ZeroDim { dim };
    assert_eq!(refusal(HeadCache::new(8, 0, f16)), zero(LayoutDim::Key));
    assert_eq!(refusal(HeadCache::new(8, 8, f16).with_value_dim(0)), zero(LayoutDim::Value));
    assert_eq!(refusal(LatentCache::new(0, 64, f16)), zero(LayoutDim::Latent));
    assert_eq!(refusal(LatentCache::new(512, 0, f16)), zero(LayoutDim::Rope));
    assert_eq!(refusal(LatentCache::new(512, 64, f16).with_indexer(0, f16)), zero(LayoutDim::Indexer));
}

#[test]
fn layouts_without_layers_heads_or_tokens_are_refused() {
    let cache = HeadCache::new(2, 64, plain(Dtype::F16));
    let empty = |axis, start, end| LayoutError::EmptyRange { axis, start, end };
    assert_eq!(refusal(HeadCache::new(0, 64, plain(Dtype::F16))), empty(SliceAxis::Heads, 0, 0));
    let backward = Range { start: 3, end: 1 };
    assert_eq!(refusal(cache.clone().with_heads(backward)), empty(SliceAxis::Heads, 3, 1));
    let none = KvLayout::new(16, 0, cache.clone());
    assert_eq!(none.validate(), Err(empty(SliceAxis::Layers, 0, 0)));
    let no_tokens = KvLayout::new(0, 2, cache);
    assert_eq!(no_tokens.validate(), Err(LayoutError::Geometry(GeometryError::ZeroPageTokens)));
}

#[test]
fn row_that_ends_inside_a_byte_is_refused() {
    let refused = LayoutError::PartialByte { dim: LayoutDim::Key, elements: 63, dtype: Dtype::Int4 };
    assert_eq!(refusal(HeadCache::new(8, 63, plain(Dtype::Int4))), refused);
}

#[test]
fn scale_block_must_divide_its_row() {
    let format = |block| ElementFormat::scaled(Dtype::Int8, Scales::every(block, ScaleDtype::F32));
    let refused = LayoutError::UnevenScaleBlock { dim: LayoutDim::Key, elements: 96, block_elements: 64 };
    assert_eq!(refusal(HeadCache::new(8, 96, format(64))), refused);
    assert_eq!(refusal(LatentCache::new(512, 64, format(0))), LayoutError::ZeroScaleBlock { dim: LayoutDim::Latent });
    // a block longer than the row is no multiple either
    assert!(matches!(refusal(HeadCache::new(8, 96, format(192))), LayoutError::UnevenScaleBlock { .. }));
}

#[test]
fn k_and_v_of_unequal_rows_cannot_share_a_plane() {
    let f16 = HeadCache::new(8, 192, plain(Dtype::F16)).with_interleave(Interleave::Together);
    assert_eq!(
        refusal(f16.clone().with_value_dim(128)),
        LayoutError::UnevenInterleave { key_bytes: 384, key_scale_bytes: 0, value_bytes: 256, value_scale_bytes: 0 }
    );
    // the same row bytes, but only V has scales
    let scaled = ElementFormat::scaled(Dtype::F16, Scales::every(192, ScaleDtype::F32));
    assert!(matches!(
        refusal(f16.with_value_format(scaled)),
        LayoutError::UnevenInterleave { key_scale_bytes: 0, value_scale_bytes: 4, .. }
    ));
}

#[test]
fn huge_layouts_are_refused_without_wrapping_or_allocating() {
    let max = u32::MAX;
    let f32 = plain(Dtype::F32);
    let huge_layers = KvLayout::new(16, max, HeadCache::new(1, 2, f32));
    assert!(matches!(
        huge_layers.roles(),
        Err(LayoutError::Geometry(GeometryError::TooManyPlanes { planes: 8_589_934_590, max_planes: 4096 }))
    ));
    let runs = HeadCache::new(max, 2, f32).with_order(HeadOrder::Hnd).with_interleave(Interleave::Together);
    let shared = KvLayout::new(16, max, runs.clone()).with_layer_planes(LayerPlanes::Shared);
    let expect = 2 * u128::from(max) * u128::from(max);
    assert!(matches!(shared.validate(), Err(LayoutError::TooManyRuns { runs, .. }) if runs == expect));
    let expect = 2 * u128::from(max);
    assert!(matches!(refusal(runs), LayoutError::TooManyRuns { runs, .. } if runs == expect));
    let expect = 4 * u128::from(max) * u128::from(max);
    let wide = refusal(HeadCache::new(max, max, f32));
    assert!(matches!(wide, LayoutError::RunTooLarge { run_bytes, .. } if run_bytes == expect));
    assert!(matches!(refusal(LatentCache::new(max, max, f32)), LayoutError::RunTooLarge { .. }));
}

#[test]
fn every_refusal_says_what_was_asked_and_what_to_do() {
    // C11
    let huge = KvLayout::new(1, u32::MAX, HeadCache::new(1, 8, plain(Dtype::F16)));
    let shape = page(1, &[(1, 8)]).expect("valid");
    let part = NamespacePart::Revision;
    let axis = SliceAxis::Heads;
    let dim = LayoutDim::Key;
    let said: Vec<String> = [
        page(0, &[]).map(drop).map_err(LayoutError::from),
        page(40_000, &[]).map(drop).map_err(LayoutError::from),
        page(1, &[]).map(drop).map_err(LayoutError::from),
        page(1, &[(0, 7)]).map(drop).map_err(LayoutError::from),
        page(9, &[(77, u32::MAX); 9]).map(drop).map_err(LayoutError::from),
        PageGeometry::bytes(0).map(drop).map_err(LayoutError::from),
        huge.validate(),
        shape.plane_bytes(3, 1, 8).map(drop).map_err(LayoutError::from),
        shape.plane_bytes(0, 1, 7).map(drop).map_err(LayoutError::from),
        shape.plane_bytes(0, 9, u64::MAX).map(drop).map_err(LayoutError::from),
        Err(LayoutError::ZeroDim { dim }),
        Err(LayoutError::PartialByte { dim, elements: 3, dtype: Dtype::Int4 }),
        Err(LayoutError::ZeroScaleBlock { dim }),
        Err(LayoutError::UnevenScaleBlock { dim, elements: 9, block_elements: 4 }),
        Err(LayoutError::UnevenInterleave { key_bytes: 1, key_scale_bytes: 2, value_bytes: 3, value_scale_bytes: 4 }),
        Err(LayoutError::TooManyRuns { runs: 1 << 40, max_runs: u32::MAX }),
        Err(LayoutError::RunTooLarge { run_bytes: 1 << 40, max_run_bytes: u32::MAX }),
        Err(LayoutError::EmptyRange { axis, start: 4, end: 4 }),
        Err(LayoutError::OutsideModel { axis, start: 4, end: 9, count: 8 }),
        Err(LayoutError::OutsideSlice { axis, start: 4, end: 9, of_start: 2, of_end: 8 }),
        Err(LayoutError::NotWhole { first_layer: 3, first_head: 0 }),
        Err(LayoutError::EmptyName { part }),
        Err(LayoutError::NameTooLong { part, name_bytes: 300, max_name_bytes: 256 }),
    ]
    .into_iter()
    .map(|refused| refused.expect_err("must be refused").to_string())
    .collect();
    for text in &said {
        let (asked, advice) = text.split_once(": ").expect("what was asked, then what to do");
        assert!(!asked.is_empty() && !advice.is_empty() && !text.ends_with('.'), "{text}");
        assert!(text.starts_with(|first: char| first.is_lowercase() || first.is_ascii_digit()), "{text}");
    }
    let different: std::collections::HashSet<_> = said.iter().collect();
    assert_eq!(different.len(), said.len());
    assert_eq!(
        said[3],
        "plane 0 has 0 runs of 7 bytes per token, the least is 1 run of 1 byte: leave the plane out or give its true size"
    );
}

#[test]
fn words_of_geometry_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<PageGeometry>();
    crosses::<ModelLayout>();
    crosses::<Slice>();
    crosses::<Fingerprint>();
    crosses::<GeometryError>();
    crosses::<LayoutError>();
}
