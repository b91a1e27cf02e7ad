//! Models and slices.

use std::ops::Range;

use super::*;

#[test]
fn slices_of_a_model_share_out_its_bytes() {
    let model = llama();
    let whole = model.geometry(&Slice::whole(&model)).expect("valid").token_bytes();
    let mut sum = 0;
    for stage in [0..30, 30..80] {
        for heads in [0..2, 2..4, 4..8] {
            let slice = Slice::new(stage.clone(), heads.clone()).expect("valid");
            let layout = model.kv_layout(&slice).expect("valid");
            assert_eq!((layout.layers(), layout.heads()), (stage.clone(), heads));
            sum += layout.geometry().expect("valid").token_bytes();
        }
    }
    assert_eq!(sum, whole);
    assert_eq!(model.kv_layout(&Slice::whole(&model)).as_ref(), Ok(model.whole()));
}

#[test]
fn slice_outside_its_model_is_refused() {
    // C10
    let model = llama();
    let cases = [
        (0..81, 0..8, SliceAxis::Layers, 80),
        (80..81, 0..8, SliceAxis::Layers, 80),
        (0..80, 7..9, SliceAxis::Heads, 8),
        (0..80, 0..u32::MAX, SliceAxis::Heads, 8),
    ];
    for (layers, heads, axis, count) in cases {
        let slice = Slice::new(layers.clone(), heads.clone()).expect("not empty");
        let asked = if axis == SliceAxis::Layers { layers } else { heads };
        let refused = LayoutError::OutsideModel { axis, start: asked.start, end: asked.end, count };
        assert_eq!(slice.check_within(&model), Err(refused.clone()));
        assert_eq!(model.kv_layout(&slice), Err(refused.clone()));
        assert_eq!(model.geometry(&slice), Err(refused.clone()));
        assert_eq!(model.slice_fingerprint(&slice), Err(refused));
    }
}

#[test]
fn empty_and_backward_slices_are_refused() {
    for range in [Range { start: 4, end: 4 }, Range { start: 5, end: 4 }] {
        let empty = |axis| LayoutError::EmptyRange { axis, start: range.start, end: range.end };
        assert_eq!(Slice::new(range.clone(), 0..1), Err(empty(SliceAxis::Layers)));
        assert_eq!(Slice::new(0..1, range.clone()), Err(empty(SliceAxis::Heads)));
    }
}

#[test]
fn latent_is_cut_by_layers_and_never_by_heads() {
    let cache = LatentCache::new(512, 64, plain(Dtype::Bf16));
    let model = ModelLayout::new("deepseek-v3", "r1", KvLayout::new(64, 61, cache)).expect("valid");
    assert_eq!(model.kv_heads(), 1);
    let stage = Slice::new(30..61, 0..1).expect("valid");
    let layout = model.kv_layout(&stage).expect("valid");
    assert_eq!((layout.layers(), layout.heads()), (30..61, 0..1));
    assert_eq!(layout.geometry().map(|g| g.token_bytes()), Ok(31 * 1152));
    let cut = Slice::new(30..61, 1..2).expect("not empty");
    assert!(matches!(model.kv_layout(&cut), Err(LayoutError::OutsideModel { axis: SliceAxis::Heads, count: 1, .. })));
}

#[test]
fn model_of_a_slice_is_refused() {
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    let late_layers = KvLayout::new(16, 80, cache.clone()).with_layers(40..80);
    let late_heads = KvLayout::new(16, 80, cache.with_heads(4..8));
    for (layout, first_layer, first_head) in [(late_layers, 40, 0), (late_heads, 0, 4)] {
        let refused = LayoutError::NotWhole { first_layer, first_head };
        assert_eq!(ModelLayout::new("m", "r", layout), Err(refused));
    }
}

#[test]
fn namespace_is_never_empty_and_bounded() {
    let build = |model: &str, revision: &str| ModelLayout::new(model, revision, llama().whole().clone()).map(drop);
    let long = "x".repeat(257);
    assert_eq!(build(&long[..256], &long[..256]), Ok(()));
    let empty = |part| Err(LayoutError::EmptyName { part });
    assert_eq!(build("", "r"), empty(NamespacePart::Model));
    assert_eq!(build("m", ""), empty(NamespacePart::Revision));
    let too_long = |part| Err(LayoutError::NameTooLong { part, name_bytes: 257, max_name_bytes: 256 });
    assert_eq!(build(&long, "r"), too_long(NamespacePart::Model));
    assert_eq!(build("m", &long), too_long(NamespacePart::Revision));
}

#[test]
fn model_with_an_impossible_layout_is_refused() {
    let layout = KvLayout::new(16, 80, HeadCache::new(8, 0, plain(Dtype::Bf16)));
    let refused = LayoutError::ZeroDim { dim: LayoutDim::Key };
    assert_eq!(ModelLayout::new("m", "r", layout), Err(refused));
}
