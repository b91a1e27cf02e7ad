//! Whether the pages of a pool hold a slice of a model.

use crate::geometry::{ModelLayout, PageGeometry, Slice};
use crate::handoff::UnfitPool;
use crate::memory::PageMemory;

/// Checks that pages of a pool hold a slice of a model, bytes and all.
pub(super) fn check_pool<M: PageMemory>(
    pool: &PageGeometry,
    model: &ModelLayout,
    slice: &Slice,
) -> Result<(), UnfitPool> {
    if !M::HAS_BYTES {
        return Err(UnfitPool::NoBytes { memory: M::NAME });
    }
    let layout = model.geometry(slice)?;
    if layout != *pool {
        return Err(UnfitPool::Geometry { layout, pool: pool.clone() });
    }
    Ok(())
}
