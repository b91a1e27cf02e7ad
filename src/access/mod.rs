//! The one place outside `memory/` that turns a checked handle, or a held reservation, into bytes.
//!
//! **Owns** the check of handles, the guards that keep what was checked true, and every call into the memory that touches
//! bytes. **Does not know** how pages are admitted or released.
//!
//! Why a slice given out here stays valid and unchanged while its guard lives:
//!
//! 1. *The page stays this life's.* By handle: the hazard was announced before the stamp was looked at, so a release
//!    quarantines the page until the guard ends. By reservation: the borrow is counted in the header, so a reclaim
//!    leaves the pages to the last borrower; the reservation itself is borrowed.
//! 2. *The bytes do not change.* A slice covers written tokens only. Appends go past them. Rewriting tokens that a reader
//!    may have seen first looks for readers and moves to a fresh page. A write ticket is refused while a reader is there,
//!    and hides the page from readers while it is open.
//! 3. *The bytes are there.* The written extent is stored with Release after them and loaded with Acquire here.

mod borrow;
mod handle;
mod in_place;
mod raw;
mod steps;
mod view;
mod write;

pub(crate) use borrow::Borrow;
pub use borrow::ReadGuard;
pub use handle::PageGuard;
pub(crate) use in_place::OrdinalCrc;
pub use view::PageView;
pub(crate) use write::WriteBorrow;
