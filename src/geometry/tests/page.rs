//! Pages and planes.

use proptest::prelude::*;

use super::*;

#[test]
fn page_without_tokens_is_refused() {
    assert_eq!(page(0, &[(1, 8)]), Err(GeometryError::ZeroPageTokens));
}

#[test]
fn page_tokens_end_at_fifteen_bits() {
    assert!(page(32_767, &[(1, 8)]).is_ok());
    for page_tokens in [32_768, u32::MAX] {
        let refused = GeometryError::TooManyPageTokens { page_tokens, max_page_tokens: 32_767 };
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
    let refused = GeometryError::TooManyPlanes { planes: 4097, max_planes: 4096 };
    assert_eq!(page(1, &[(1, 1); 4097]), Err(refused));
}

#[test]
fn empty_plane_is_refused_and_named() {
    for (runs, run_bytes) in [(0, 8), (8, 0), (0, 0)] {
        let refused = GeometryError::EmptyPlane { plane: 1, runs, run_bytes };
        assert_eq!(page(16, &[(1, 8), (runs, run_bytes), (0, 0)]), Err(refused));
    }
}

#[test]
fn page_ends_at_one_tebibyte_over_all_planes() {
    let half = (1 << 15, 1 << 24);
    assert_eq!(page(1, &[half, half]).map(|p| p.total_page_bytes()), Ok(1 << 40));
    let refused = |page_bytes| Err(GeometryError::PageTooLarge { page_bytes, max_page_bytes: 1 << 40 });
    assert_eq!(page(1, &[half, half, (1, 1)]), refused((1 << 40) + 1));
    assert_eq!(page(2, &[half, half]), refused(1 << 41));
}

#[test]
fn page_bytes_that_overflow_64_bits_are_refused_with_the_true_number() {
    let all = (u32::MAX, u32::MAX);
    let page_bytes = 4096 * 32_767 * u128::from(u32::MAX) * u128::from(u32::MAX);
    assert!(page_bytes > u128::from(u64::MAX));
    let refused = GeometryError::PageTooLarge { page_bytes, max_page_bytes: 1 << 40 };
    assert_eq!(page(32_767, &[all; 4096]), Err(refused));
    // token bytes of 2^64 exactly would be 0 if they wrapped
    let wraps = [(1 << 31, 1 << 31); 4];
    assert!(matches!(page(1, &wraps), Err(GeometryError::PageTooLarge { page_bytes, .. }) if page_bytes == 1 << 64));
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
        let refused =
            GeometryError::PageTooLarge { page_bytes: u128::from(page_bytes), max_page_bytes: u64::from(u32::MAX) };
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
fn full_pages_hold_their_tokens_and_never_wrap() {
    let shape = page(32_767, &[(1, 1)]).expect("valid");
    let tokens = [0, 1, 2, u32::MAX].map(|pages| shape.tokens_in_pages(pages));
    assert_eq!(tokens, [0, 32_767, 65_534, 32_767 * u64::from(u32::MAX)]);
}

#[test]
fn token_of_a_sequence_lies_in_one_page() {
    let shape = page(16, &[(1, 1)]).expect("valid");
    let places = [0, 15, 16, 40, u64::MAX].map(|token| shape.locate_token(token));
    assert_eq!(places, [(0, 0), (0, 15), (1, 0), (2, 8), ((1 << 60) - 1, 15)]);
}

#[test]
fn last_page_of_a_strided_plane_takes_its_own_bytes_only() {
    let shape = page(4, &[(1, 8)]).expect("valid");
    let spans = [(0, 100), (1, 100), (3, 100), (3, 32)].map(|(pages, stride)| shape.plane_bytes(0, pages, stride));
    assert_eq!(spans, [Ok(0), Ok(32), Ok(232), Ok(96)]);
}

#[test]
fn stride_below_a_page_is_refused_even_for_no_pages() {
    let shape = page(4, &[(1, 8)]).expect("valid");
    for pages in [0, 1, 7] {
        let refused = GeometryError::StrideTooSmall { plane: 0, stride_bytes: 31, page_bytes: 32 };
        assert_eq!(shape.plane_bytes(0, pages, 31), Err(refused));
    }
}

#[test]
fn plane_that_is_not_there_has_no_size() {
    let shape = page(4, &[(1, 8), (1, 8)]).expect("valid");
    let refused = GeometryError::NoSuchPlane { plane: 2, planes: 2 };
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
        let refused = GeometryError::PlaneTooLarge { plane: 0, pages, stride_bytes, plane_bytes, max_plane_bytes: max };
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

#[test]
fn pieces_of_a_range_of_tokens_are_whole_ordered_and_within_their_pages() {
    let shape = page(16, &[(1, 8)]).expect("valid");
    for (start, end) in
        [(0, 0), (5, 5), (9, 3), (0, 1), (0, 16), (15, 17), (16, 48), (3, 100), (u64::MAX - 20, u64::MAX)]
    {
        let mut at = start;
        for (ordinal, tokens) in shape.split_tokens(start..end) {
            assert_eq!(ordinal * 16 + u64::from(tokens.start), at, "{start}..{end}");
            assert!(tokens.start < tokens.end && tokens.end <= 16, "{start}..{end}: {tokens:?}");
            at = ordinal * 16 + u64::from(tokens.end);
        }
        assert_eq!(at, end.max(start), "{start}..{end}");
    }
}
