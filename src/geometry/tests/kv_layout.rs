//! Layouts of real models and the planes that follow.

use std::ops::Range;

use super::*;

fn shapes(layout: &KvLayout) -> Vec<(PlaneKind, u32, u32)> {
    let geometry = layout.geometry().expect("a valid layout");
    let roles = layout.roles().expect("a valid layout");
    assert_eq!(roles.len(), geometry.planes().len(), "one role per plane");
    roles.iter().zip(geometry.planes()).map(|(role, plane)| (role.kind(), plane.runs(), plane.run_bytes())).collect()
}

#[test]
fn smollm2_135m_in_f16_takes_the_bytes_that_it_takes() {
    let layout = KvLayout::new(16, 30, HeadCache::new(3, 64, plain(Dtype::F16)));
    let geometry = layout.geometry().expect("valid");
    assert_eq!(geometry.token_bytes() / 2, 11_520, "elements per token");
    assert_eq!(geometry.total_page_bytes(), 368_640);
    assert_eq!(geometry.planes().len(), 60);
    let f32 = KvLayout::new(16, 30, HeadCache::new(3, 64, plain(Dtype::F32)));
    assert_eq!(f32.geometry().map(|g| g.total_page_bytes()), Ok(737_280));
}

#[test]
fn llama_3_70b_in_bf16_takes_320_kib_per_token() {
    let layout = KvLayout::new(16, 80, HeadCache::new(8, 128, plain(Dtype::Bf16)));
    assert_eq!(layout.geometry().map(|g| g.token_bytes()), Ok(320 << 10));
    let fp8 = KvLayout::new(16, 80, HeadCache::new(8, 128, plain(Dtype::Fp8E4m3)));
    assert_eq!(fp8.geometry().map(|g| g.token_bytes()), Ok(160 << 10));
}

#[test]
fn deepseek_v3_in_bf16_takes_1152_bytes_per_token_and_layer() {
    let layout = KvLayout::new(64, 61, LatentCache::new(512, 64, plain(Dtype::Bf16)));
    assert_eq!(shapes(&layout), [(PlaneKind::Latent, 1, 1152); 61]);
    assert_eq!(layout.geometry().map(|g| g.token_bytes()), Ok(70_272));
}

#[test]
fn deepseek_v3_2_has_an_indexer_with_scales_beside_a_latent_of_656_bytes() {
    let fp8 = |block| ElementFormat::scaled(Dtype::Fp8E4m3, Scales::every(block, ScaleDtype::F32));
    let cache = LatentCache::new(512, 64, fp8(128)).with_rope_dtype(Dtype::Bf16).with_indexer(128, fp8(128));
    let layout = KvLayout::new(64, 1, cache.clone());
    let indexer = [(PlaneKind::Indexer, 1, 128), (PlaneKind::IndexerScale, 1, 4)];
    assert_eq!(shapes(&layout)[0], (PlaneKind::Latent, 1, 656));
    assert_eq!(shapes(&layout)[1..], indexer);
    let apart = KvLayout::new(64, 1, cache.with_packing(LatentPacking::Apart));
    let latent = [(PlaneKind::Latent, 1, 512), (PlaneKind::LatentScale, 1, 16), (PlaneKind::Rope, 1, 128)];
    assert_eq!(shapes(&apart)[..3], latent);
    assert_eq!(shapes(&apart)[3..], indexer);
}

#[test]
fn head_major_order_makes_one_run_per_head_of_the_same_page() {
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    let nhd = KvLayout::new(16, 1, cache.clone());
    let hnd = KvLayout::new(16, 1, cache.with_order(HeadOrder::Hnd));
    assert_eq!(shapes(&nhd), [(PlaneKind::K, 1, 2048), (PlaneKind::V, 1, 2048)]);
    assert_eq!(shapes(&hnd), [(PlaneKind::K, 8, 256), (PlaneKind::V, 8, 256)]);
}

#[test]
fn interleaved_k_and_v_are_twice_the_runs_in_one_plane() {
    let format = ElementFormat::scaled(Dtype::Int8, Scales::every(128, ScaleDtype::F32));
    let cache = HeadCache::new(8, 128, format).with_interleave(Interleave::Together);
    let nhd = KvLayout::new(16, 1, cache.clone());
    let hnd = KvLayout::new(16, 1, cache.with_order(HeadOrder::Hnd));
    assert_eq!(shapes(&nhd), [(PlaneKind::Kv, 2, 1024), (PlaneKind::KvScale, 2, 32)]);
    assert_eq!(shapes(&hnd), [(PlaneKind::Kv, 16, 128), (PlaneKind::KvScale, 16, 4)]);
}

#[test]
fn shared_layers_multiply_the_runs_and_keep_the_bytes() {
    let apart = KvLayout::new(16, 3, HeadCache::new(2, 64, plain(Dtype::F16))).with_layers(4..7);
    let shared = apart.clone().with_layer_planes(LayerPlanes::Shared);
    assert_eq!(shapes(&shared), [(PlaneKind::K, 3, 256), (PlaneKind::V, 3, 256)]);
    let bytes = |layout: &KvLayout| layout.geometry().map(|g| g.total_page_bytes());
    assert_eq!(bytes(&apart), bytes(&shared));
    let layers = |layout: &KvLayout| -> Vec<Range<u32>> {
        let roles = layout.roles().expect("valid");
        roles.iter().map(PlaneRole::layers).collect()
    };
    assert_eq!(layers(&apart), [4..5, 4..5, 5..6, 5..6, 6..7, 6..7]);
    assert_eq!(layers(&shared), [4..7, 4..7]);
}

#[test]
fn k_and_v_may_differ_in_dimension_and_format() {
    let cache = HeadCache::new(4, 192, plain(Dtype::Bf16)).with_value_dim(128).with_value_format(plain(Dtype::Fp8E5m2));
    let layout = KvLayout::new(16, 1, cache);
    assert_eq!(shapes(&layout), [(PlaneKind::K, 1, 1536), (PlaneKind::V, 1, 512)]);
}

#[test]
fn four_bit_formats_pack_two_elements_and_put_scales_in_planes_of_their_own() {
    let of = |format| shapes(&KvLayout::new(16, 1, HeadCache::new(8, 128, format)));
    let kinds = [PlaneKind::K, PlaneKind::V, PlaneKind::KScale, PlaneKind::VScale];
    let expect = |scale: u32| {
        let bytes = [512, 512, scale, scale];
        kinds.into_iter().zip(bytes).map(|(kind, bytes)| (kind, 1, bytes)).collect::<Vec<_>>()
    };
    assert_eq!(of(ElementFormat::mxfp4()), expect(8 * 4));
    assert_eq!(of(ElementFormat::nvfp4()), expect(8 * 8));
    let int4 = ElementFormat::scaled(Dtype::Int4, Scales::every(64, ScaleDtype::F16));
    assert_eq!(of(int4), expect(8 * 4));
}

#[test]
fn every_dtype_has_its_own_code_name_and_width() {
    for (i, a) in Dtype::ALL.iter().enumerate() {
        assert_eq!(a.code() as usize, i + 1, "the list is whole and in the order of codes");
        assert!(Dtype::ALL.iter().skip(i + 1).all(|b| a.to_string() != b.to_string()));
    }
    for (i, a) in ScaleDtype::ALL.iter().enumerate() {
        assert_eq!(a.code() as usize, i + 1);
        assert!(ScaleDtype::ALL.iter().skip(i + 1).all(|b| a.to_string() != b.to_string()));
    }
    let bits = Dtype::ALL.iter().map(|dtype| dtype.bits()).collect::<Vec<_>>();
    assert_eq!(bits, [32, 16, 16, 8, 8, 8, 8, 8, 4, 4]);
    let bytes = ScaleDtype::ALL.iter().map(|dtype| dtype.bytes()).collect::<Vec<_>>();
    assert_eq!(bytes, [4, 2, 2, 1, 1]);
}
