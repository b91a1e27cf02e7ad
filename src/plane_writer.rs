//! Writing plane by plane, as a model computes its layers.
//!
//! *Owns* which planes of some tokens are there already. *Does not know* how bytes are reached
//! ([`access`](crate::access)). The tokens count as written in the one step that stores the last plane.

use std::fmt;
use std::ops::Range;

use crate::access::WriteBorrow;
use crate::error::{ReadError, WriteError};
use crate::memory::{HostBytes, PageMemory};

/// Refuses a slice that is not as long as its tokens.
pub(crate) fn check_length(plane: usize, tokens: u64, src: &[u8], token_bytes: u64) -> Result<(), WriteError> {
    let (given_bytes, expected_bytes) = (src.len() as u64, tokens.saturating_mul(token_bytes));
    if given_bytes == expected_bytes {
        return Ok(());
    }
    Err(WriteError::Length { plane, tokens, given_bytes, expected_bytes })
}

/// Some tokens that are being written plane by plane.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 4), Plane::per_token(1, 4)])?; // K and V of one layer
/// let pool = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry, 6)?)?;
/// let owner = OwnerId::new(7).ok_or("zero")?;
/// let mut kv = pool.reserve(&pool.prove(CapacityPlan::new(64))?, Request::new(owner, 16), 16)?;
///
/// let mut writer = kv.writer(2)?;
/// writer.plane(0, &[1; 8])?;
/// assert_eq!(writer.run(0, 0, 0)?, [1; 8]); // attention of the layer has it already
/// assert_eq!(writer.missing_planes(), 1); // for everybody else nothing is written
/// writer.plane(1, &[2; 8])?;
/// drop(writer);
/// assert_eq!(kv.written_tokens(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// While it lives nobody reads through the reservation:
///
/// ```compile_fail,E0502
/// # use pagestamp::*;
/// fn read_under_a_writer(kv: &mut Reservation<HostMemory>) -> Result<(), WriteError> {
///     let mut writer = kv.writer(1)?;
///     let _ = kv.read(0..1);
///     writer.plane(0, &[0; 8])
/// }
/// ```
#[must_use = "the tokens count as written once every plane was given"]
pub struct PlaneWriter<'a, M: PageMemory> {
    right: WriteBorrow<'a, M>,
    written: &'a mut u64,
    stored: Vec<bool>,
    missing: usize,
}

impl<'a, M: PageMemory> PlaneWriter<'a, M> {
    pub(crate) fn new(right: WriteBorrow<'a, M>, written: &'a mut u64, planes: usize) -> Self {
        Self { right, written, stored: vec![false; planes], missing: planes }
    }

    /// Tokens of the request that are being written.
    #[must_use]
    pub fn tokens(&self) -> Range<u64> {
        self.right.tokens()
    }

    /// Planes that are still missing.
    #[must_use]
    pub const fn missing_planes(&self) -> usize {
        self.missing
    }

    /// Writes one plane of all the tokens; with the last plane they count as written. src: `[tokens, runs, run_bytes]`.
    ///
    /// # Errors
    ///
    /// The plane counts as missing still.
    ///
    /// - [`WriteError::NoSuchPlane`], [`WriteError::PlaneTwice`], [`WriteError::Length`].
    /// - [`WriteError::Memory`]: the memory refused.
    pub fn plane(&mut self, plane: usize, src: &[u8]) -> Result<(), WriteError> {
        let planes = self.stored.len();
        match self.stored.get(plane) {
            None => return Err(WriteError::NoSuchPlane { plane, planes }),
            Some(true) => return Err(WriteError::PlaneTwice { plane }),
            Some(false) => {}
        }
        let tokens = self.right.tokens();
        check_length(plane, tokens.end - tokens.start, src, self.right.token_bytes(plane))?;
        self.right.store(plane, src)?;
        self.stored[plane] = true;
        self.missing -= 1;
        if self.missing == 0 {
            self.right.publish();
            *self.written = tokens.end;
        }
        Ok(())
    }
}

impl<M: HostBytes> PlaneWriter<'_, M> {
    /// Reads one run of the page with this ordinal: its written tokens, and of a plane already given the new ones too.
    /// This is what attention of a layer needs before the layers above it are computed.
    ///
    /// # Errors
    ///
    /// - [`ReadError::Unwritten`]: nothing of that page is there yet.
    /// - [`ReadError::Busy`], [`ReadError::Pending`], [`ReadError::CleaningFailed`]: somebody else is at work on the page.
    /// - [`ReadError::Revoked`]: the owner was reclaimed.
    /// - [`ReadError::NoSuchPlane`], [`ReadError::NoSuchRun`].
    pub fn run(&self, plane: usize, ordinal: u32, run: u32) -> Result<&[u8], ReadError> {
        let stored = self.stored.get(plane).copied().unwrap_or(false);
        self.right.run(plane, stored, ordinal, run)
    }
}

impl<M: PageMemory> fmt::Debug for PlaneWriter<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaneWriter").field("tokens", &self.right.tokens()).field("missing", &self.missing).finish()
    }
}
