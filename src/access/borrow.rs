//! Reading through a reservation: a borrow counted in its header.

use std::fmt;
use std::ops::Range;

use super::PageView;
use crate::error::ReadError;
use crate::header::NoBorrow;
use crate::lease::Core;
use crate::memory::PageMemory;
use crate::pool::Inner;

/// A counted borrow of a reservation: while it lives, a reclaim leaves the pages to it.
pub(crate) struct Borrow<'a, M: PageMemory> {
    pub(super) inner: &'a Inner<M>,
    pub(super) core: &'a Core,
}

impl<'a, M: PageMemory> Borrow<'a, M> {
    #[inline]
    pub(crate) fn new(inner: &'a Inner<M>, core: &'a Core) -> Result<Self, NoBorrow> {
        core.header.borrow()?;
        Ok(Self { inner, core })
    }

    pub(crate) const fn core(&self) -> &'a Core {
        self.core
    }
}

impl<M: PageMemory> Drop for Borrow<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.core.header.end_borrow() {
            self.inner.last_borrow_ended(self.core);
        }
    }
}

/// The written tokens of a reservation that are being read: copied by [`copy`](Self::copy), or looked at in place, where
/// the memory is the host's, by [`pages`](Self::pages) and [`PageView::run`].
///
/// Pages that a reclaim took meanwhile are not zeroed when the guard ends: [`maintain`](crate::PagePool::maintain), a
/// [`Scrubber`](crate::Scrubber), or at the latest the admission that needs them does that.
///
/// While it lives the reservation is neither released nor written nor rolled back:
///
/// ```compile_fail,E0505
/// # use pagestamp::*;
/// fn release_under_a_reader(kv: Reservation<HostMemory>) -> Result<(), ReadError> {
///     let guard = kv.read(0..1)?;
///     kv.release();
///     let mut token = [0; 8];
///     guard.copy(0, &mut token)
/// }
/// ```
///
/// ```compile_fail,E0502
/// # use pagestamp::*;
/// fn write_under_a_reader(kv: &mut Reservation<HostMemory>) -> Result<(), ReadError> {
///     let guard = kv.read(0..1)?;
///     let _ = kv.write(1, &[&[0; 8]]);
///     let mut token = [0; 8];
///     guard.copy(0, &mut token)
/// }
/// ```
///
/// ```compile_fail,E0502
/// # use pagestamp::*;
/// fn roll_back_under_a_reader(kv: &mut Reservation<HostMemory>) -> Result<(), ReadError> {
///     let guard = kv.read(0..1)?;
///     let _ = kv.truncate(0);
///     let mut token = [0; 8];
///     guard.copy(0, &mut token)
/// }
/// ```
#[must_use = "the pages are kept from reuse only while the guard lives"]
pub struct ReadGuard<'a, M: PageMemory> {
    pub(super) borrow: Borrow<'a, M>,
    pub(super) tokens: Range<u64>,
}

impl<'a, M: PageMemory> ReadGuard<'a, M> {
    /// The caller checked that `tokens` are written and that no write ticket is open on their pages.
    pub(crate) fn new(borrow: Borrow<'a, M>, tokens: Range<u64>) -> Self {
        Self { borrow, tokens }
    }

    /// Tokens that the guard covers, counted from the beginning of the request.
    #[must_use]
    pub fn tokens(&self) -> Range<u64> {
        self.tokens.clone()
    }

    /// The covered pages in order, each with the tokens of it that are covered. Slices are had page by page, by
    /// [`PageView::run`].
    pub fn pages(&self) -> impl Iterator<Item = PageView<'_, M>> {
        let Borrow { inner, core } = &self.borrow;
        let view = |(ordinal, tokens)| Some(PageView { inner, page: core.pages.get(ordinal as u32)?, tokens });
        inner.memory.geometry().split_tokens(self.tokens()).filter_map(view)
    }

    /// Copies the covered tokens of a plane. dst: `[tokens, runs, run_bytes]`, token by token.
    ///
    /// # Errors
    ///
    /// As [`PageView::copy`].
    pub fn copy(&self, plane: usize, dst: &mut [u8]) -> Result<(), ReadError> {
        let planes = self.borrow.inner.memory.geometry().planes();
        let shape = planes.get(plane).ok_or(ReadError::NoSuchPlane { plane, planes: planes.len() })?;
        let expected_bytes = shape.token_bytes().saturating_mul(self.tokens.end - self.tokens.start);
        if dst.len() as u64 != expected_bytes {
            return Err(ReadError::Length { given_bytes: dst.len() as u64, expected_bytes });
        }
        let mut rest = dst;
        for view in self.pages() {
            let bytes = (shape.token_bytes() * u64::from(view.tokens.end - view.tokens.start)) as usize;
            let (now, later) = rest.split_at_mut(bytes);
            view.copy(plane, now)?;
            rest = later;
        }
        Ok(())
    }
}

impl<M: PageMemory> fmt::Debug for ReadGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").field("tokens", &self.tokens).finish()
    }
}
