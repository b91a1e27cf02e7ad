//! White-box tests of shapes, layouts, slices and fingerprints.

use std::ops::Range;

use proptest::prelude::*;

use super::fingerprint::{Domain, Encoder};
use super::*;

fn page(page_tokens: u32, planes: &[(u32, u32)]) -> Result<PageGeometry, GeometryError> {
    let planes: Vec<_> = planes
        .iter()
        .map(|&(runs, bytes)| Plane::per_token(runs, bytes))
        .collect();
    PageGeometry::new(page_tokens, &planes)
}

fn plain(dtype: Dtype) -> ElementFormat {
    ElementFormat::plain(dtype)
}

fn shapes(layout: &KvLayout) -> Vec<(PlaneKind, u32, u32)> {
    let geometry = layout.geometry().expect("a valid layout");
    let roles = layout.roles().expect("a valid layout");
    assert_eq!(roles.len(), geometry.planes().len(), "one role per plane");
    roles
        .iter()
        .zip(geometry.planes())
        .map(|(role, plane)| (role.kind(), plane.runs(), plane.run_bytes()))
        .collect()
}

// ---- pages and planes

#[test]
fn page_without_tokens_is_refused() {
    assert_eq!(page(0, &[(1, 8)]), Err(GeometryError::ZeroPageTokens));
}

#[test]
fn page_tokens_end_at_fifteen_bits() {
    assert!(page(32_767, &[(1, 8)]).is_ok());
    for page_tokens in [32_768, u32::MAX] {
        let refused = GeometryError::TooManyPageTokens {
            page_tokens,
            max_page_tokens: 32_767,
        };
        assert_eq!(page(page_tokens, &[(1, 8)]), Err(refused));
    }
}

#[test]
fn page_without_planes_is_refused() {
    assert_eq!(page(16, &[]), Err(GeometryError::ZeroPlanes));
}

#[test]
fn planes_end_at_their_limit() {
    assert!(page(1, &[(1, 1); 4096]).is_ok());
    let refused = GeometryError::TooManyPlanes {
        planes: 4097,
        max_planes: 4096,
    };
    assert_eq!(page(1, &[(1, 1); 4097]), Err(refused));
}

#[test]
fn empty_plane_is_refused_and_named() {
    for (runs, run_bytes) in [(0, 8), (8, 0), (0, 0)] {
        let refused = GeometryError::EmptyPlane {
            plane: 1,
            runs,
            run_bytes,
        };
        assert_eq!(page(16, &[(1, 8), (runs, run_bytes), (0, 0)]), Err(refused));
    }
}

#[test]
fn page_ends_at_one_tebibyte_over_all_planes() {
    let half = (1 << 15, 1 << 24);
    assert_eq!(
        page(1, &[half, half]).map(|p| p.total_page_bytes()),
        Ok(1 << 40)
    );
    let refused = |page_bytes| {
        Err(GeometryError::PageTooLarge {
            page_bytes,
            max_page_bytes: 1 << 40,
        })
    };
    assert_eq!(page(1, &[half, half, (1, 1)]), refused((1 << 40) + 1));
    assert_eq!(page(2, &[half, half]), refused(1 << 41));
}

#[test]
fn page_bytes_that_overflow_64_bits_are_refused_with_the_true_number() {
    let all = (u32::MAX, u32::MAX);
    let page_bytes = 4096 * 32_767 * u128::from(u32::MAX) * u128::from(u32::MAX);
    assert!(page_bytes > u128::from(u64::MAX));
    let refused = GeometryError::PageTooLarge {
        page_bytes,
        max_page_bytes: 1 << 40,
    };
    assert_eq!(page(32_767, &[all; 4096]), Err(refused));
    // token bytes of 2^64 exactly would be 0 if they wrapped
    let wraps = [(1 << 31, 1 << 31); 4];
    assert!(
        matches!(page(1, &wraps), Err(GeometryError::PageTooLarge { page_bytes, .. }) if page_bytes == 1 << 64)
    );
}

#[test]
fn opaque_unit_is_one_token_in_one_run() {
    let unit = PageGeometry::bytes(4096).expect("valid");
    assert_eq!((unit.page_tokens(), unit.planes().len()), (1, 1));
    assert_eq!(unit.page_bytes(0), Some(4096));
    assert_eq!(unit.pages_for_tokens(3), 3);
}

#[test]
fn opaque_unit_of_zero_or_huge_bytes_is_refused() {
    assert_eq!(PageGeometry::bytes(0), Err(GeometryError::ZeroPageBytes));
    assert!(PageGeometry::bytes(u64::from(u32::MAX)).is_ok());
    for page_bytes in [1 << 32, u64::MAX] {
        let refused = GeometryError::PageTooLarge {
            page_bytes: u128::from(page_bytes),
            max_page_bytes: u64::from(u32::MAX),
        };
        assert_eq!(PageGeometry::bytes(page_bytes), Err(refused));
    }
}

#[test]
fn sizes_of_unequal_planes_add_up() {
    let shape = page(16, &[(1, 2048), (8, 4), (2, 3)]).expect("valid");
    let each: Vec<_> = (0..4).map(|plane| shape.page_bytes(plane)).collect();
    assert_eq!(each, [Some(16 * 2048), Some(16 * 32), Some(16 * 6), None]);
    assert_eq!(shape.token_bytes(), 2048 + 32 + 6);
    assert_eq!(shape.total_page_bytes(), 16 * (2048 + 32 + 6));
}

#[test]
fn pages_for_tokens_rounds_up_and_never_wraps() {
    let shape = page(16, &[(1, 1)]).expect("valid");
    let asked = [0, 1, 16, 17, u64::MAX];
    let pages = asked.map(|tokens| shape.pages_for_tokens(tokens));
    assert_eq!(pages, [0, 1, 1, 2, 1 << 60]);
}

#[test]
fn last_page_of_a_strided_plane_takes_its_own_bytes_only() {
    let shape = page(4, &[(1, 8)]).expect("valid");
    let spans = [(0, 100), (1, 100), (3, 100), (3, 32)]
        .map(|(pages, stride)| shape.plane_bytes(0, pages, stride));
    assert_eq!(spans, [Ok(0), Ok(32), Ok(232), Ok(96)]);
}

#[test]
fn stride_below_a_page_is_refused_even_for_no_pages() {
    let shape = page(4, &[(1, 8)]).expect("valid");
    for pages in [0, 1, 7] {
        let refused = GeometryError::StrideTooSmall {
            plane: 0,
            stride_bytes: 31,
            page_bytes: 32,
        };
        assert_eq!(shape.plane_bytes(0, pages, 31), Err(refused));
    }
}

#[test]
fn plane_that_is_not_there_has_no_size() {
    let shape = page(4, &[(1, 8), (1, 8)]).expect("valid");
    let refused = GeometryError::NoSuchPlane {
        plane: 2,
        planes: 2,
    };
    assert_eq!(shape.plane_bytes(2, 1, 32), Err(refused));
    assert_eq!(shape.page_bytes(usize::MAX), None);
}

#[test]
fn plane_bytes_end_where_an_address_range_does() {
    let shape = page(1, &[(1, 1)]).expect("valid");
    let max = i64::MAX as u64;
    assert_eq!(shape.plane_bytes(0, 2, max - 1), Ok(max));
    for (pages, stride_bytes) in [(2, max), (u32::MAX, u64::MAX), (u32::MAX, 1 << 62)] {
        let plane_bytes = u128::from(pages - 1) * u128::from(stride_bytes) + 1;
        let refused = GeometryError::PlaneTooLarge {
            plane: 0,
            pages,
            stride_bytes,
            plane_bytes,
            max_plane_bytes: max,
        };
        assert_eq!(shape.plane_bytes(0, pages, stride_bytes), Err(refused));
    }
}

#[test]
fn run_offsets_exist_only_for_runs_and_tokens_of_the_page() {
    // HND, 2 heads of 8 bytes, 4 tokens
    let shape = page(4, &[(2, 8)]).expect("valid");
    assert_eq!(shape.run_offset(0, 0, 3), Some(24));
    assert_eq!(shape.run_offset(0, 1, 0), Some(32));
    assert_eq!(shape.run_offset(0, 1, 3), Some(56));
    for (plane, run, token) in [(1, 0, 0), (0, 2, 0), (0, 0, 4), (0, u32::MAX, u32::MAX)] {
        assert_eq!(shape.run_offset(plane, run, token), None);
    }
}

#[test]
fn clone_shares_the_planes() {
    let shape = page(4, &[(2, 8)]).expect("valid");
    let clone = shape.clone();
    assert!(std::ptr::eq(shape.planes(), clone.planes()));
    assert_eq!(shape, clone);
}

#[test]
fn shapes_differ_in_any_of_their_fields_and_in_the_order_of_planes() {
    // C10: the same bytes per page each time
    let all = [
        page(4, &[(2, 8), (1, 16)]),
        page(4, &[(1, 16), (2, 8)]),
        page(4, &[(1, 16), (1, 16)]),
        page(4, &[(1, 32)]),
        page(4, &[(32, 1)]),
        page(8, &[(1, 16)]),
        page(2, &[(1, 64)]),
    ]
    .map(|shape| shape.expect("valid"));
    for (i, a) in all.iter().enumerate() {
        assert_eq!(a.total_page_bytes(), 128);
        for b in all.iter().skip(i + 1) {
            assert_ne!(a, b);
            assert_ne!(a.fingerprint(), b.fingerprint());
        }
    }
}

proptest! {
    #[test]
    fn runs_tile_each_plane_without_gap_or_overlap(
        page_tokens in 1_u32..9,
        planes in proptest::collection::vec((1_u32..5, 1_u32..7), 1..4),
    ) {
        let shape = page(page_tokens, &planes).expect("valid");
        for (index, plane) in shape.planes().iter().enumerate() {
            let bytes = shape.page_bytes(index).expect("there");
            let mut used = vec![0_u8; usize::try_from(bytes).expect("small")];
            for run in 0..plane.runs() {
                for token in 0..page_tokens {
                    let start = usize::try_from(shape.run_offset(index, run, token).expect("there")).expect("small");
                    for byte in &mut used[start..start + plane.run_bytes() as usize] {
                        *byte += 1;
                    }
                }
            }
            prop_assert!(used.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn no_question_panics_and_no_run_leaves_its_page(
        page_tokens in any::<u32>(),
        planes in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..4),
        plane in 0_usize..5,
        numbers in any::<(u32, u32, u32, u64)>(),
    ) {
        let (pages, run, token, stride) = numbers;
        // half of the inputs are cut down, so that valid shapes occur
        let planes: Vec<_> = planes.iter().map(|&(r, b)| if pages % 2 == 0 { (r % 99, b % 9999) } else { (r, b) }).collect();
        let page_tokens = if run % 2 == 0 { page_tokens % 40_000 } else { page_tokens };
        if let Ok(shape) = page(page_tokens, &planes) {
            prop_assert!(shape.total_page_bytes() <= PageGeometry::MAX_PAGE_BYTES);
            prop_assert_eq!(shape.total_page_bytes(), shape.token_bytes() * u64::from(page_tokens));
            let _ = shape.plane_bytes(plane, pages, stride);
            let _ = shape.run_offset(plane, run, token);
            if let (Some(plane_shape), Some(bytes)) = (shape.planes().get(plane), shape.page_bytes(plane)) {
                let last = shape.run_offset(plane, plane_shape.runs() - 1, page_tokens - 1);
                prop_assert_eq!(last.map(|at| at + u64::from(plane_shape.run_bytes())), Some(bytes));
            }
        }
    }
}

// ---- layouts of real models

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
    let cache = LatentCache::new(512, 64, fp8(128))
        .with_rope_dtype(Dtype::Bf16)
        .with_indexer(128, fp8(128));
    let layout = KvLayout::new(64, 1, cache.clone());
    let indexer = [
        (PlaneKind::Indexer, 1, 128),
        (PlaneKind::IndexerScale, 1, 4),
    ];
    assert_eq!(shapes(&layout)[0], (PlaneKind::Latent, 1, 656));
    assert_eq!(shapes(&layout)[1..], indexer);
    let apart = KvLayout::new(64, 1, cache.with_packing(LatentPacking::Apart));
    let latent = [
        (PlaneKind::Latent, 1, 512),
        (PlaneKind::LatentScale, 1, 16),
        (PlaneKind::Rope, 1, 128),
    ];
    assert_eq!(shapes(&apart)[..3], latent);
    assert_eq!(shapes(&apart)[3..], indexer);
}

#[test]
fn head_major_order_makes_one_run_per_head_of_the_same_page() {
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    let nhd = KvLayout::new(16, 1, cache.clone());
    let hnd = KvLayout::new(16, 1, cache.with_order(HeadOrder::Hnd));
    assert_eq!(
        shapes(&nhd),
        [(PlaneKind::K, 1, 2048), (PlaneKind::V, 1, 2048)]
    );
    assert_eq!(
        shapes(&hnd),
        [(PlaneKind::K, 8, 256), (PlaneKind::V, 8, 256)]
    );
}

#[test]
fn interleaved_k_and_v_are_twice_the_runs_in_one_plane() {
    let format = ElementFormat::scaled(Dtype::Int8, Scales::every(128, ScaleDtype::F32));
    let cache = HeadCache::new(8, 128, format).with_interleave(Interleave::Together);
    let nhd = KvLayout::new(16, 1, cache.clone());
    let hnd = KvLayout::new(16, 1, cache.with_order(HeadOrder::Hnd));
    assert_eq!(
        shapes(&nhd),
        [(PlaneKind::Kv, 2, 1024), (PlaneKind::KvScale, 2, 32)]
    );
    assert_eq!(
        shapes(&hnd),
        [(PlaneKind::Kv, 16, 128), (PlaneKind::KvScale, 16, 4)]
    );
}

#[test]
fn shared_layers_multiply_the_runs_and_keep_the_bytes() {
    let apart = KvLayout::new(16, 3, HeadCache::new(2, 64, plain(Dtype::F16))).with_layers(4..7);
    let shared = apart.clone().with_layer_planes(LayerPlanes::Shared);
    assert_eq!(
        shapes(&shared),
        [(PlaneKind::K, 3, 256), (PlaneKind::V, 3, 256)]
    );
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
    let cache = HeadCache::new(4, 192, plain(Dtype::Bf16))
        .with_value_dim(128)
        .with_value_format(plain(Dtype::Fp8E5m2));
    let layout = KvLayout::new(16, 1, cache);
    assert_eq!(
        shapes(&layout),
        [(PlaneKind::K, 1, 1536), (PlaneKind::V, 1, 512)]
    );
}

#[test]
fn four_bit_formats_pack_two_elements_and_put_scales_in_planes_of_their_own() {
    let of = |format| shapes(&KvLayout::new(16, 1, HeadCache::new(8, 128, format)));
    let kinds = [
        PlaneKind::K,
        PlaneKind::V,
        PlaneKind::KScale,
        PlaneKind::VScale,
    ];
    let expect = |scale: u32| {
        let bytes = [512, 512, scale, scale];
        kinds
            .into_iter()
            .zip(bytes)
            .map(|(kind, bytes)| (kind, 1, bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(ElementFormat::mxfp4()), expect(8 * 4));
    assert_eq!(of(ElementFormat::nvfp4()), expect(8 * 8));
    let int4 = ElementFormat::scaled(Dtype::Int4, Scales::every(64, ScaleDtype::F16));
    assert_eq!(of(int4), expect(8 * 4));
}

#[test]
fn every_dtype_has_its_own_code_name_and_width() {
    for (i, a) in Dtype::ALL.iter().enumerate() {
        assert_eq!(
            a.code() as usize,
            i + 1,
            "the list is whole and in the order of codes"
        );
        assert!(
            Dtype::ALL
                .iter()
                .skip(i + 1)
                .all(|b| a.to_string() != b.to_string())
        );
    }
    for (i, a) in ScaleDtype::ALL.iter().enumerate() {
        assert_eq!(a.code() as usize, i + 1);
        assert!(
            ScaleDtype::ALL
                .iter()
                .skip(i + 1)
                .all(|b| a.to_string() != b.to_string())
        );
    }
    let bits = Dtype::ALL
        .iter()
        .map(|dtype| dtype.bits())
        .collect::<Vec<_>>();
    assert_eq!(bits, [32, 16, 16, 8, 8, 8, 8, 8, 4, 4]);
    let bytes = ScaleDtype::ALL
        .iter()
        .map(|dtype| dtype.bytes())
        .collect::<Vec<_>>();
    assert_eq!(bytes, [4, 2, 2, 1, 1]);
}

// ---- layouts that cannot be

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
    assert_eq!(
        refusal(HeadCache::new(8, 8, f16).with_value_dim(0)),
        zero(LayoutDim::Value)
    );
    assert_eq!(
        refusal(LatentCache::new(0, 64, f16)),
        zero(LayoutDim::Latent)
    );
    assert_eq!(
        refusal(LatentCache::new(512, 0, f16)),
        zero(LayoutDim::Rope)
    );
    assert_eq!(
        refusal(LatentCache::new(512, 64, f16).with_indexer(0, f16)),
        zero(LayoutDim::Indexer)
    );
}

#[test]
fn layouts_without_layers_heads_or_tokens_are_refused() {
    let cache = HeadCache::new(2, 64, plain(Dtype::F16));
    let empty = |axis, start, end| LayoutError::EmptyRange { axis, start, end };
    assert_eq!(
        refusal(HeadCache::new(0, 64, plain(Dtype::F16))),
        empty(SliceAxis::Heads, 0, 0)
    );
    let backward = Range { start: 3, end: 1 };
    assert_eq!(
        refusal(cache.clone().with_heads(backward)),
        empty(SliceAxis::Heads, 3, 1)
    );
    let none = KvLayout::new(16, 0, cache.clone());
    assert_eq!(none.validate(), Err(empty(SliceAxis::Layers, 0, 0)));
    let no_tokens = KvLayout::new(0, 2, cache);
    assert_eq!(
        no_tokens.validate(),
        Err(LayoutError::Geometry(GeometryError::ZeroPageTokens))
    );
}

#[test]
fn row_that_ends_inside_a_byte_is_refused() {
    let refused = LayoutError::PartialByte {
        dim: LayoutDim::Key,
        elements: 63,
        dtype: Dtype::Int4,
    };
    assert_eq!(refusal(HeadCache::new(8, 63, plain(Dtype::Int4))), refused);
}

#[test]
fn scale_block_must_divide_its_row() {
    let format = |block| ElementFormat::scaled(Dtype::Int8, Scales::every(block, ScaleDtype::F32));
    let refused = LayoutError::UnevenScaleBlock {
        dim: LayoutDim::Key,
        elements: 96,
        block_elements: 64,
    };
    assert_eq!(refusal(HeadCache::new(8, 96, format(64))), refused);
    assert_eq!(
        refusal(LatentCache::new(512, 64, format(0))),
        LayoutError::ZeroScaleBlock {
            dim: LayoutDim::Latent
        }
    );
    // a block longer than the row is no multiple either
    assert!(matches!(
        refusal(HeadCache::new(8, 96, format(192))),
        LayoutError::UnevenScaleBlock { .. }
    ));
}

#[test]
fn k_and_v_of_unequal_rows_cannot_share_a_plane() {
    let f16 = HeadCache::new(8, 192, plain(Dtype::F16)).with_interleave(Interleave::Together);
    assert_eq!(
        refusal(f16.clone().with_value_dim(128)),
        LayoutError::UnevenInterleave {
            key_bytes: 384,
            key_scale_bytes: 0,
            value_bytes: 256,
            value_scale_bytes: 0,
        }
    );
    // the same row bytes, but only V has scales
    let scaled = ElementFormat::scaled(Dtype::F16, Scales::every(192, ScaleDtype::F32));
    assert!(matches!(
        refusal(f16.with_value_format(scaled)),
        LayoutError::UnevenInterleave {
            key_scale_bytes: 0,
            value_scale_bytes: 4,
            ..
        }
    ));
}

#[test]
fn huge_layouts_are_refused_without_wrapping_or_allocating() {
    let max = u32::MAX;
    let f32 = plain(Dtype::F32);
    let huge_layers = KvLayout::new(16, max, HeadCache::new(1, 2, f32));
    assert!(matches!(
        huge_layers.roles(),
        Err(LayoutError::Geometry(GeometryError::TooManyPlanes {
            planes: 8_589_934_590,
            max_planes: 4096
        }))
    ));
    let runs = HeadCache::new(max, 2, f32)
        .with_order(HeadOrder::Hnd)
        .with_interleave(Interleave::Together);
    let shared = KvLayout::new(16, max, runs.clone()).with_layer_planes(LayerPlanes::Shared);
    let expect = 2 * u128::from(max) * u128::from(max);
    assert!(
        matches!(shared.validate(), Err(LayoutError::TooManyRuns { runs, .. }) if runs == expect)
    );
    let expect = 2 * u128::from(max);
    assert!(matches!(refusal(runs), LayoutError::TooManyRuns { runs, .. } if runs == expect));
    let expect = 4 * u128::from(max) * u128::from(max);
    let wide = refusal(HeadCache::new(max, max, f32));
    assert!(matches!(wide, LayoutError::RunTooLarge { run_bytes, .. } if run_bytes == expect));
    assert!(matches!(
        refusal(LatentCache::new(max, max, f32)),
        LayoutError::RunTooLarge { .. }
    ));
}

// ---- models and slices

fn llama() -> ModelLayout {
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    ModelLayout::new("llama-3-70b", "r1", KvLayout::new(16, 80, cache)).expect("valid")
}

#[test]
fn slices_of_a_model_share_out_its_bytes() {
    let model = llama();
    let whole = model
        .geometry(&Slice::whole(&model))
        .expect("valid")
        .token_bytes();
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
    assert_eq!(
        model.kv_layout(&Slice::whole(&model)).as_ref(),
        Ok(model.whole())
    );
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
        let asked = if axis == SliceAxis::Layers {
            layers
        } else {
            heads
        };
        let refused = LayoutError::OutsideModel {
            axis,
            start: asked.start,
            end: asked.end,
            count,
        };
        assert_eq!(slice.check_within(&model), Err(refused.clone()));
        assert_eq!(model.kv_layout(&slice), Err(refused.clone()));
        assert_eq!(model.geometry(&slice), Err(refused.clone()));
        assert_eq!(model.slice_fingerprint(&slice), Err(refused));
    }
}

#[test]
fn empty_and_backward_slices_are_refused() {
    for range in [Range { start: 4, end: 4 }, Range { start: 5, end: 4 }] {
        let empty = |axis| LayoutError::EmptyRange {
            axis,
            start: range.start,
            end: range.end,
        };
        assert_eq!(
            Slice::new(range.clone(), 0..1),
            Err(empty(SliceAxis::Layers))
        );
        assert_eq!(
            Slice::new(0..1, range.clone()),
            Err(empty(SliceAxis::Heads))
        );
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
    assert!(matches!(
        model.kv_layout(&cut),
        Err(LayoutError::OutsideModel {
            axis: SliceAxis::Heads,
            count: 1,
            ..
        })
    ));
}

#[test]
fn model_of_a_slice_is_refused() {
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    let late_layers = KvLayout::new(16, 80, cache.clone()).with_layers(40..80);
    let late_heads = KvLayout::new(16, 80, cache.with_heads(4..8));
    for (layout, first_layer, first_head) in [(late_layers, 40, 0), (late_heads, 0, 4)] {
        let refused = LayoutError::NotWhole {
            first_layer,
            first_head,
        };
        assert_eq!(ModelLayout::new("m", "r", layout), Err(refused));
    }
}

#[test]
fn namespace_is_never_empty_and_bounded() {
    let build = |model: &str, revision: &str| {
        ModelLayout::new(model, revision, llama().whole().clone()).map(drop)
    };
    let long = "x".repeat(257);
    assert_eq!(build(&long[..256], &long[..256]), Ok(()));
    let empty = |part| Err(LayoutError::EmptyName { part });
    assert_eq!(build("", "r"), empty(NamespacePart::Model));
    assert_eq!(build("m", ""), empty(NamespacePart::Revision));
    let too_long = |part| {
        Err(LayoutError::NameTooLong {
            part,
            name_bytes: 257,
            max_name_bytes: 256,
        })
    };
    assert_eq!(build(&long, "r"), too_long(NamespacePart::Model));
    assert_eq!(build("m", &long), too_long(NamespacePart::Revision));
}

#[test]
fn model_with_an_impossible_layout_is_refused() {
    let layout = KvLayout::new(16, 80, HeadCache::new(8, 0, plain(Dtype::Bf16)));
    let refused = LayoutError::ZeroDim {
        dim: LayoutDim::Key,
    };
    assert_eq!(ModelLayout::new("m", "r", layout), Err(refused));
}

// ---- equal sizes, other meaning

#[test]
fn equal_page_bytes_in_another_head_order_are_another_layout() {
    // C10, B27
    let cache = HeadCache::new(4, 64, plain(Dtype::F16));
    let token_major = KvLayout::new(16, 2, cache.clone());
    let head_major = KvLayout::new(16, 2, cache.with_order(HeadOrder::Hnd));
    let bytes = |layout: &KvLayout| layout.geometry().map(|g| g.total_page_bytes());
    assert_eq!(bytes(&token_major), bytes(&head_major));
    assert_ne!(token_major, head_major);
    assert_ne!(token_major.fingerprint(), head_major.fingerprint());
}

#[test]
fn equal_layout_with_other_heads_is_another_slice() {
    // C10, B27
    let model = llama();
    let low = Slice::new(0..80, 0..2).expect("valid");
    let high = Slice::new(0..80, 2..4).expect("valid");
    assert_eq!(
        model.geometry(&low),
        model.geometry(&high),
        "the sizes cannot tell them apart"
    );
    assert_ne!(low, high);
    assert_ne!(low.fingerprint(), high.fingerprint());
    assert_ne!(
        model.slice_fingerprint(&low),
        model.slice_fingerprint(&high)
    );
    assert_ne!(model.kv_layout(&low), model.kv_layout(&high));
    let prints =
        [&low, &high].map(|slice| model.kv_layout(slice).map(|layout| layout.fingerprint()));
    assert_ne!(prints[0], prints[1]);
}

#[test]
fn other_page_tokens_are_another_layout() {
    // C10, B26
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    let prints = [16, 24, 32].map(|page_tokens| {
        let layout = KvLayout::new(page_tokens, 80, cache.clone());
        ModelLayout::new("m", "r", layout)
            .expect("valid")
            .fingerprint()
    });
    assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2]);
}

#[test]
fn formats_of_equal_width_are_different_layouts() {
    // C10
    let print = |dtype| KvLayout::new(16, 2, HeadCache::new(4, 64, plain(dtype))).fingerprint();
    for (i, &a) in Dtype::ALL.iter().enumerate() {
        assert!(
            Dtype::ALL.iter().skip(i + 1).all(|&b| print(a) != print(b)),
            "{a}"
        );
    }
}

#[test]
fn names_cannot_shift_between_model_and_revision() {
    let print = |model, revision| {
        ModelLayout::new(model, revision, llama().whole().clone()).map(|m| m.fingerprint())
    };
    assert_ne!(print("ab", "c"), print("a", "bc"));
}

#[test]
fn kinds_of_fingerprint_never_share_an_encoding() {
    let encode = |domain| Encoder::new(domain).u32(7).finish();
    let all = [
        Domain::PageGeometry,
        Domain::KvLayout,
        Domain::ModelLayout,
        Domain::Slice,
        Domain::ModelSlice,
    ];
    let prints: std::collections::HashSet<_> = all.into_iter().map(encode).collect();
    assert_eq!(prints.len(), all.len());
}
