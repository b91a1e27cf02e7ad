#![expect(unsafe_code, reason = "reads and writes pages of the test's own memory")]

use super::*;
use crate::memory::{FenceState, HostOptions, Lane, MemoryError};

const PAGES: u32 = 6;

fn host() -> HostMemory {
    HostMemory::new(geometry(), PAGES).unwrap()
}

fn write(memory: &HostMemory, at: Span, src: &[u8]) -> Result<(), MemoryError> {
    // SAFETY: (1) one thread uses the memory.
    unsafe { memory.write(at, src) }
}

fn read(memory: &HostMemory, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
    // SAFETY: (1) one thread uses the memory.
    unsafe { memory.read(at, dst) }
}

// C3
#[test]
fn fresh_pages_are_zero() {
    check(&host(), |_, _, _| true);
}

#[test]
fn pages_begin_a_stride_apart_at_cache_lines() {
    let memory = host();
    for (plane, page_bytes) in [4096, 120, 16].into_iter().enumerate() {
        let host = memory.plane(plane).unwrap();
        assert_eq!(host.page_bytes(), page_bytes);
        assert_eq!(host.stride(), page_bytes.next_multiple_of(64));
        assert_eq!(host.base().addr().get() % 4096, 0);
        assert_eq!(host.page(5).addr(), host.base().addr().get() + 5 * host.stride());
    }
    assert_eq!(memory.plane(3), None);
    assert_eq!(memory.mapped_bytes(), u64::from(PAGES) * (4096 + 128 + 64));
}

#[test]
fn its_debug_is_a_line_however_many_planes_there_are() {
    let memory = HostMemory::new(PageGeometry::new(16, &[Plane::per_token(1, 64); 64]).unwrap(), 2).unwrap();
    assert_eq!(format!("{memory:?}"), "HostMemory { pages: 2, planes: 64, mapped_bytes: 131072, .. }");
}

#[test]
fn a_plane_that_takes_a_huge_page_begins_at_one() {
    let memory = HostMemory::new(PageGeometry::new(1, &[Plane::per_token(1, 1 << 20)]).unwrap(), 2).unwrap();
    assert_eq!(memory.plane(0).unwrap().base().addr().get() % (2 << 20), 0);
}

#[test]
fn strides_follow_the_alignment_asked_for_each_plane() {
    let options = HostOptions::new().with_stride_aligns(&[64, 192, 4096]);
    let memory = HostMemory::with_options(geometry(), PAGES, &options).unwrap();
    let strides = [0, 1, 2].map(|plane| memory.plane(plane).unwrap().stride());
    assert_eq!(strides, [4096, 192, 4096]);
}

#[test]
fn what_is_written_is_read_back_and_nothing_else_changed() {
    let memory = host();
    soil(&memory);
    write(&memory, span(2, 1, 17), &[0; 40]).unwrap();
    let mut dst = [1; 42];
    read(&memory, span(2, 1, 16), &mut dst).unwrap();
    assert_eq!(dst[0], DIRT);
    assert_eq!(dst[1..41], [0; 40]);
    assert_eq!(dst[41], DIRT);
    check(&memory, |plane, page, offset| plane == 1 && page == 2 && (17..57).contains(&offset));
}

// C3
#[test]
fn clean_zeroes_whole_pages_with_their_padding_and_no_other() {
    for heat in [Heat::Hot, Heat::Cold] {
        let memory = host();
        soil(&memory);
        let fence = clean_of(&memory, &[whole(4, heat), whole(1, heat), whole(4, heat)]).unwrap();
        assert_eq!(memory.poll(fence), FenceState::Done);
        check(&memory, |_, page, _| page == 4 || page == 1);
    }
}

// C3
#[test]
fn clean_of_a_prefix_zeroes_that_prefix_of_every_run_and_leaves_the_rest() {
    for heat in [Heat::Hot, Heat::Cold] {
        for tokens in 0..PAGE_TOKENS {
            let memory = host();
            soil(&memory);
            let fence = clean_of(&memory, &[CleanPage { page: 3, tokens, heat }]).unwrap();
            assert_eq!(fence, Fence::DONE);
            check(&memory, |plane, page, offset| {
                let (run_bytes, page_bytes) = [(512, 4096), (5, 120), (2, 16)][plane];
                let token = offset % (run_bytes * PAGE_TOKENS as usize) / run_bytes;
                page == 3 && offset < page_bytes && token < tokens as usize
            });
        }
    }
}

// C8
#[test]
fn refused_batch_leaves_every_byte_unchanged() {
    let memory = host();
    soil(&memory);
    let good = whole(0, Heat::Hot);
    assert_eq!(
        clean_of(&memory, &[good, whole(PAGES, Heat::Hot)]),
        Err(MemoryError::NoSuchPage { page: 6, max_pages: 6 })
    );
    assert_eq!(
        clean_of(&memory, &[good, CleanPage { page: 1, tokens: 9, heat: Heat::Hot }]),
        Err(MemoryError::TooManyTokens { page: 1, tokens: 9, page_tokens: 8 })
    );
    check(&memory, |_, _, _| false);
}

// C8
#[test]
fn refused_read_and_write_name_what_was_there_and_change_nothing() {
    let memory = host();
    soil(&memory);
    let out = |page, plane, offset_bytes, len_bytes, page_bytes| MemoryError::OutOfRange {
        page,
        plane,
        offset_bytes,
        len_bytes,
        page_bytes,
    };
    let cases = [
        (span(6, 0, 0), 1, MemoryError::NoSuchPage { page: 6, max_pages: 6 }),
        (span(u32::MAX, 0, 0), 1, MemoryError::NoSuchPage { page: u32::MAX, max_pages: 6 }),
        (span(0, 3, 0), 1, MemoryError::NoSuchPlane { plane: 3, planes: 3 }),
        (span(0, 1, 120), 1, out(0, 1, 120, 1, 120)),
        (span(0, 1, 100), 21, out(0, 1, 100, 21, 120)),
        (span(0, 1, 121), 0, out(0, 1, 121, 0, 120)),
        (span(5, 1, u64::MAX), 2, out(5, 1, u64::MAX, 2, 120)),
    ];
    for (at, len, error) in cases {
        let mut dst = vec![7; len];
        assert_eq!(read(&memory, at, &mut dst), Err(error));
        assert_eq!(dst, vec![7; len]);
        assert_eq!(write(&memory, at, &dst), Err(error));
    }
    check(&memory, |_, _, _| false);
    read(&memory, span(0, 1, 120), &mut []).unwrap();
    write(&memory, span(0, 1, 0), &[0; 120]).unwrap();
}

#[test]
fn sizes_that_cannot_be_are_refused_by_name() {
    assert_eq!(HostMemory::new(geometry(), 0).unwrap_err(), MemoryError::NoPages);
    let wide = PageGeometry::new(1, &[Plane::per_token(256, 1 << 31)]).unwrap();
    // past 2^64 bytes, and past what a pointer offset can express
    for pages in [u32::MAX, 1 << 24] {
        assert_eq!(
            HostMemory::new(wide.clone(), pages).unwrap_err(),
            MemoryError::Overflow { plane: 0, pages, page_bytes: 1 << 39 }
        );
    }
    // fits into numbers, not into the machine
    let error = HostMemory::new(wide, 1 << 18).unwrap_err();
    assert!(matches!(error, MemoryError::Map { bytes, os: libc::ENOMEM } if bytes > 1 << 57), "{error}");
}

#[test]
fn stride_alignments_that_cannot_be_are_refused_by_name() {
    for align_bytes in [0, 32, 96] {
        let options = HostOptions::new().with_stride_align(align_bytes);
        assert_eq!(
            HostMemory::with_options(geometry(), PAGES, &options).unwrap_err(),
            MemoryError::StrideAlign { align_bytes, multiple_of_bytes: 64 }
        );
    }
    let options = HostOptions::new().with_stride_aligns(&[64, 64]);
    assert_eq!(
        HostMemory::with_options(geometry(), PAGES, &options).unwrap_err(),
        MemoryError::StrideAligns { given: 2, planes: 3 }
    );
    let options = HostOptions::new().with_stride_align(usize::MAX - 63);
    assert_eq!(
        HostMemory::with_options(geometry(), PAGES, &options).unwrap_err(),
        MemoryError::Overflow { plane: 0, pages: PAGES, page_bytes: 4096 }
    );
}

#[test]
fn a_fence_that_was_never_given_out_is_not_done() {
    let memory = host();
    assert_eq!(memory.poll(Fence::from_raw(1)), FenceState::Failed);
    assert_eq!(memory.order_after(Fence::from_raw(1), Lane::HOST), Err(MemoryError::UnknownFence { fence: 1 }));
    memory.order_after(Fence::DONE, Lane::from_raw(5)).unwrap();
    assert_eq!(clean_of(&memory, &[]), Ok(Fence::DONE));
}

// C3
#[test]
fn decommitted_pages_are_zero_up_to_their_edges_and_neighbours_keep_their_bytes() {
    // pages of a third of a system page: edges inside system pages
    let geometry = PageGeometry::new(1, &[Plane::per_token(1, 1344), Plane::per_token(1, 64)]).unwrap();
    for options in [HostOptions::new(), HostOptions::new().with_regular_pages(), HostOptions::new().with_lock()] {
        for range in [3..29, 1..2, 0..32, 3..6, 7..7] {
            let memory = HostMemory::with_options(geometry.clone(), 32, &options).unwrap();
            soil(&memory);
            memory.decommit(range.clone()).unwrap();
            check(&memory, |_, page, _| range.contains(&page));
            memory.commit(range.clone()).unwrap();
            check(&memory, |_, page, _| range.contains(&page));
            soil(&memory);
            check(&memory, |_, _, _| false);
        }
    }
}

// C8
#[test]
fn refused_ranges_leave_every_byte_unchanged() {
    let memory = host();
    soil(&memory);
    #[expect(clippy::reversed_empty_ranges, reason = "the input under test")]
    let backward = 4..2;
    for (range, error) in [
        (5..7, MemoryError::NoSuchPage { page: 6, max_pages: 6 }),
        (9..9, MemoryError::NoSuchPage { page: 8, max_pages: 6 }),
        (backward, MemoryError::BackwardRange { start_page: 4, end_page: 2 }),
    ] {
        assert_eq!(memory.decommit(range.clone()), Err(error));
        assert_eq!(memory.commit(range), Err(error));
    }
    check(&memory, |_, _, _| false);
}

// C3
#[test]
fn pages_that_two_threads_clean_at_once_end_up_zero() {
    let memory = host();
    soil(&memory);
    std::thread::scope(|scope| {
        for heat in [Heat::Hot, Heat::Cold] {
            let memory = &memory;
            scope.spawn(move || {
                for _ in 0..100 {
                    let batch = [0, 1, 2, 3, 4, 5].map(|page| whole(page, heat));
                    assert_eq!(clean_of(memory, &batch), Ok(Fence::DONE));
                }
            });
        }
    });
    check(&memory, |_, _, _| true);
}
