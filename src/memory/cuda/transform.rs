//! Work over whole pages where they are: digests, and copies within a device.
//!
//! *Owns* the lists that the kernels work through. *Does not know* who may: the pool asked for it.
#![expect(unsafe_code, reason = "launches kernels over pages")]

use super::kernels::{CopyArgs, CopyPage, DevicePlane, DigestArgs, DigestPage};
use super::pages::CudaMemory;
use super::staging::{STAGED_BYTES, put};
use crate::geometry::PlaneWindow;
use crate::memory::planes::check_page;
use crate::memory::{MemoryError, PageCopy, PageCrc, PageMemory};

/// The count, filled up.
const HEAD_BYTES: usize = 16;

impl CudaMemory {
    /// The planes of windows, if each shows whole runs that follow one another.
    fn planes_of(&self, windows: &[PlaneWindow]) -> Option<Vec<DevicePlane>> {
        windows.iter().map(|window| self.plane_of(window)).collect()
    }

    fn plane_of(&self, window: &PlaneWindow) -> Option<DevicePlane> {
        let whole = *self.device_planes.get(window.plane())?;
        let (first, first_byte) = window.place(0)?;
        let (last, _) = window.place(window.runs() - 1)?;
        let follow = last - first == window.runs() - 1;
        if !follow || first_byte != 0 || window.run_bytes() != whole.run_bytes || last >= whole.runs {
            return None;
        }
        let run_stride = u64::from(self.geometry().page_tokens()) * u64::from(whole.run_bytes);
        Some(DevicePlane { base: whole.base + u64::from(first) * run_stride, runs: window.runs(), ..whole })
    }

    /// As [`PageMemory::crc32c`].
    ///
    /// # Safety
    ///
    /// 1. As there.
    pub(super) unsafe fn digest(
        &self,
        windows: &[PlaneWindow],
        pages: &mut [PageCrc],
    ) -> Option<Result<(), MemoryError>> {
        let planes = self.planes_of(windows)?;
        let planes_bytes = size_of_val(planes.as_slice());
        let room = STAGED_BYTES.checked_sub(HEAD_BYTES + planes_bytes)?;
        // A page of the list, and its result.
        let most = room / (size_of::<DigestPage>() + size_of::<u32>());
        if most == 0 {
            return None;
        }
        // SAFETY: (1) of the caller.
        Some(pages.chunks_mut(most).try_for_each(|pages| unsafe { self.digest_some(&planes, pages) }))
    }

    /// # Safety
    ///
    /// 1. As [`digest`](Self::digest).
    unsafe fn digest_some(&self, planes: &[DevicePlane], pages: &mut [PageCrc]) -> Result<(), MemoryError> {
        let mut list = vec![0; HEAD_BYTES + size_of_val(planes) + size_of::<DigestPage>() * pages.len()];
        // at most STAGED_BYTES of pages
        put(&mut list, 0, &(pages.len() as u32));
        let at = planes.iter().fold(HEAD_BYTES, |at, plane| put(&mut list, at, plane));
        let first_page = at as u64;
        let mut at = at;
        for page in &*pages {
            check_page(page.page, self.max_pages())?;
            at = put(&mut list, at, &DigestPage { page: page.page, tokens: page.tokens, seed: !page.crc, reserved: 0 });
        }
        let mut crcs = vec![0; pages.len() * size_of::<u32>()];
        let launch = |there, stream| {
            let args = DigestArgs {
                planes: there + HEAD_BYTES as u64,
                pages: there + first_page,
                n_pages: there,
                crcs: there + list.len() as u64,
                n_planes: planes.len() as u32,
                max_pages: self.max_pages(),
                page_tokens: self.geometry().page_tokens(),
                reserved: 0,
            };
            // SAFETY: (1) the stream is live; the list says what `kernels.cu` asks for, and the pages are not written by (1)
            // of the caller.
            unsafe { self.stamps.kernels.digest(args, pages.len() as u32, stream) }
        };
        // SAFETY: (1) the kernel writes one word for each page behind the list.
        unsafe { self.staging.work(&list, &mut crcs, launch) }?;
        for (page, crc) in pages.iter_mut().zip(crcs.as_chunks().0) {
            page.crc = u32::from_ne_bytes(*crc);
        }
        Ok(())
    }

    /// As [`PageMemory::copy_from`], from another memory of the context.
    ///
    /// # Safety
    ///
    /// 1. As there.
    pub(super) unsafe fn gather(&self, from: &Self, pages: &[PageCopy]) -> Option<Result<(), MemoryError>> {
        if !self.is_beside(from) || self.geometry() != from.geometry() {
            return None;
        }
        let most = (STAGED_BYTES - HEAD_BYTES) / size_of::<CopyPage>();
        // SAFETY: (1) of the caller.
        Some(pages.chunks(most).try_for_each(|pages| unsafe { self.gather_some(from, pages) }))
    }

    /// # Safety
    ///
    /// 1. As [`gather`](Self::gather), and both memories are of one context and shape.
    unsafe fn gather_some(&self, from: &Self, pages: &[PageCopy]) -> Result<(), MemoryError> {
        let mut list = vec![0; HEAD_BYTES + size_of::<CopyPage>() * pages.len()];
        // at most STAGED_BYTES of pages
        put(&mut list, 0, &(pages.len() as u32));
        let mut at = HEAD_BYTES;
        for page in pages {
            check_page(page.from, from.max_pages())?;
            check_page(page.to, self.max_pages())?;
            at = put(&mut list, at, &CopyPage { from: page.from, to: page.to, tokens: page.tokens, reserved: 0 });
        }
        let launch = |there, stream| {
            let args = CopyArgs {
                from: from.queue.planes_address(),
                to: self.queue.planes_address(),
                pages: there + HEAD_BYTES as u64,
                n_pages: there,
                n_planes: self.device_planes.len() as u32,
                page_tokens: self.geometry().page_tokens(),
                from_max_pages: from.max_pages(),
                to_max_pages: self.max_pages(),
            };
            // SAFETY: (1) the stream is live; the list says what `kernels.cu` asks for, and the pages are the caller's.
            unsafe { self.stamps.kernels.copy(args, self.queue.size(pages.len() as u32), stream) }?;
            // SAFETY: (1) just launched, within `work`; of one context by (1) of the caller.
            unsafe { self.staging.hold_back(&from.staging) }
        };
        // SAFETY: (1) nothing is written behind the list.
        Ok(unsafe { self.staging.work(&list, &mut [], launch) }?)
    }
}
