//! Planes that somebody else allocated: all about them that can be checked.
//!
//! *Owns* no byte: numbers come in, a verdict goes out. *Does not know* what the addresses are of, the host or a device.

use super::MemoryError;
use crate::geometry::PageGeometry;

/// A plane by its address: page `i` begins at `base + i * stride_bytes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutsidePlane {
    pub(super) base: u64,
    pub(super) stride_bytes: u64,
    /// from `base`; the last page needs no padding
    pub(super) len_bytes: u64,
}

/// Checks planes, and answers the bytes of a page in each.
pub(super) fn check_planes(
    geometry: &PageGeometry,
    max_pages: u32,
    planes: &[OutsidePlane],
) -> Result<Vec<u64>, MemoryError> {
    if max_pages == 0 {
        return Err(MemoryError::NoPages);
    }
    if planes.len() != geometry.planes().len() {
        return Err(MemoryError::ForeignPlanes { given: planes.len(), planes: geometry.planes().len() });
    }
    let rows = planes
        .iter()
        .zip(0_u32..)
        .map(|(outside, plane)| check_plane(geometry, max_pages, outside, plane))
        .collect::<Result<Vec<_>, _>>()?;
    for (first, a) in (0_u32..).zip(&rows) {
        for (second, b) in (0_u32..).zip(&rows).skip(first as usize + 1) {
            let apart = if a.base <= b.base { apart(a, b, max_pages) } else { apart(b, a, max_pages) };
            if !apart {
                return Err(MemoryError::ForeignOverlap { first, second });
            }
        }
    }
    Ok(rows.iter().map(|row| row.page_bytes).collect())
}

/// Pages at equal distances, all within the address space.
struct Row {
    base: u64,
    stride_bytes: u64,
    page_bytes: u64,
}

fn check_plane(
    geometry: &PageGeometry,
    max_pages: u32,
    outside: &OutsidePlane,
    plane: u32,
) -> Result<Row, MemoryError> {
    let page_bytes = geometry.page_bytes(plane as usize).unwrap_or(u64::MAX);
    let OutsidePlane { base, stride_bytes, len_bytes } = *outside;
    if stride_bytes < page_bytes {
        return Err(MemoryError::ForeignStride { plane, stride_bytes, page_bytes });
    }
    let needed_bytes = stride_bytes
        .checked_mul(u64::from(max_pages - 1))
        .and_then(|before| before.checked_add(page_bytes))
        .ok_or(MemoryError::Overflow { plane, pages: max_pages, page_bytes })?;
    if len_bytes < needed_bytes {
        return Err(MemoryError::ForeignTooShort { plane, len_bytes, needed_bytes });
    }
    let fits = isize::try_from(len_bytes).is_ok() && base.checked_add(len_bytes).is_some();
    // On a host of 32 bits addresses end earlier.
    if !fits || usize::try_from(base + len_bytes).is_err() {
        return Err(MemoryError::ForeignWraps { plane, len_bytes });
    }
    Ok(Row { base, stride_bytes, page_bytes })
}

/// Whether no page of `a` has a byte in common with a page of `b`, which begins at `a` or behind it.
fn apart(a: &Row, b: &Row, max_pages: u32) -> bool {
    let last = u64::from(max_pages) - 1;
    let begin = |row: &Row, page: u64| row.base + page * row.stride_bytes;
    let meet = |i, j| begin(a, i) < begin(b, j) + b.page_bytes && begin(b, j) < begin(a, i) + a.page_bytes;
    if begin(a, last) + a.page_bytes <= b.base {
        return true;
    }
    if max_pages == 1 {
        return !meet(0, 0);
    }
    if a.stride_bytes == b.stride_bytes {
        // page 0 of b lies between two neighbours of a, and all later pages in the same way
        let before = ((b.base - a.base) / a.stride_bytes).min(last);
        return !meet(before, 0) && (before == last || !meet(before + 1, 0));
    }
    // two sorted rows: step past whichever page ends first
    let (mut i, mut j) = (0, 0);
    while i <= last && j <= last {
        if meet(i, j) {
            return false;
        }
        if begin(a, i) < begin(b, j) {
            i += 1;
        } else {
            j += 1;
        }
    }
    true
}
