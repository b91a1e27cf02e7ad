//! What the device answered.
#![expect(unsafe_code, reason = "reads what the device writes")]

use std::fmt;
use std::ptr::read_volatile;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::{Generation, OwnerId};
use crate::memory::cuda::device::Pinned;
use crate::memory::cuda::kernels::{Entry, Fault};

/// What the device found wrong with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GuardReason {
    /// The pool has no such page.
    NoSuchPage,
    /// The page was released before the table was armed: the host knew, and the device may not have known yet.
    Released,
    /// The page is in another life.
    Stale,
    /// The page is another owner's, or nobody's.
    Foreign,
    /// Attention's table names another page than the entry.
    OtherPage,
    /// A row's place in the table is none.
    BadOffsets,
    /// A row has more entries than attention's table has cells for.
    NoCell,
}

/// The first entry that the device refused: the lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GuardFault {
    /// What is wrong.
    pub reason: GuardReason,
    /// The row: the sequence whose output is to be thrown away.
    pub row: u32,
    /// The entry, counted over all rows.
    pub index: u32,
    /// The page that the entry names.
    pub page: u32,
    /// The page that attention's table named there.
    pub seen: u32,
    /// The generation that the entry names.
    pub expected_generation: Generation,
    /// The generation that the page has on the device.
    pub found_generation: Generation,
    /// Whose row it is.
    pub expected_owner: Option<OwnerId>,
    /// Whose page it is on the device; nobody's before it was handed out and after it left.
    pub found_owner: Option<OwnerId>,
    /// Entries that were refused.
    pub faults: u64,
}

/// Where the device writes: a fault, then a flag for each row.
#[derive(Debug)]
pub(super) struct Findings {
    pinned: Pinned,
    max_rows: u32,
}

impl Findings {
    pub(super) const fn bytes(max_rows: u32) -> usize {
        size_of::<Fault>() + max_rows as usize
    }

    /// `pinned` has so many bytes, all zero.
    pub(super) const fn new(pinned: Pinned, max_rows: u32) -> Self {
        Self { pinned, max_rows }
    }

    /// Where the device writes the fault. Pinned memory has one address for host and device.
    pub(super) fn fault_address(&self) -> u64 {
        self.pinned.as_ptr().expose_provenance() as u64
    }

    /// Where the device writes the flags.
    pub(super) fn flags_address(&self) -> u64 {
        self.fault_address() + size_of::<Fault>() as u64
    }

    /// Never frees the memory: the device may write it still.
    pub(super) const fn leave(&mut self) {
        self.pinned.leave();
    }

    /// The round of the table whose check was finished last.
    pub(super) fn round(&self) -> u64 {
        let round = self.pinned.as_ptr().wrapping_add(std::mem::offset_of!(Fault, round)).cast::<u64>();
        // SAFETY: within the fault and aligned as it is; the device alone writes it meanwhile, as a whole.
        let round = unsafe { AtomicU64::from_ptr(round) };
        // Acquire: what the check wrote before is seen; the kernel fences for the whole system in front of the round.
        round.load(Ordering::Acquire)
    }

    /// Forgets what was found, but for the round.
    ///
    /// No check is under way: the caller knows that the last one is finished.
    pub(super) fn forget(&mut self) {
        let round = self.round();
        let bytes = self.pinned.bytes();
        bytes.fill(0);
        bytes[std::mem::offset_of!(Fault, round)..size_of::<Fault>()].copy_from_slice(&round.to_ne_bytes());
    }

    fn fault(&self) -> Option<GuardFault> {
        // SAFETY: the bytes are a `Fault`, aligned by the driver; the check that wrote them is finished.
        let fault = unsafe { read_volatile(self.pinned.as_ptr().cast::<Fault>()) };
        (fault.state != 0).then(|| GuardFault::read(&fault))
    }

    fn is_flagged(&self, row: u32) -> bool {
        let flag = self.pinned.as_ptr().wrapping_add(size_of::<Fault>() + row as usize);
        // SAFETY: one of `max_rows` bytes behind the fault; the check that wrote them is finished.
        row < self.max_rows && unsafe { read_volatile(flag) } != 0
    }
}

impl GuardFault {
    fn read(fault: &Fault) -> Self {
        // A stamp that was never written is in no generation yet; the first says as much.
        let generation = |number| Generation::new(number).unwrap_or(Generation::FIRST);
        Self {
            reason: match fault.reason {
                2 if fault.expected_generation & Entry::STRUCK_OUT != 0 => GuardReason::Released,
                1 => GuardReason::NoSuchPage,
                2 => GuardReason::Stale,
                3 => GuardReason::Foreign,
                4 => GuardReason::OtherPage,
                6 => GuardReason::NoCell,
                _ => GuardReason::BadOffsets,
            },
            row: fault.row,
            index: fault.index,
            page: fault.page,
            seen: fault.seen,
            expected_generation: generation(fault.expected_generation & !Entry::STRUCK_OUT),
            found_generation: generation(fault.found_generation),
            expected_owner: OwnerId::new(fault.expected_owner),
            found_owner: OwnerId::new(fault.found_owner),
            faults: fault.faults,
        }
    }
}

/// What the device answered of one table, all of whose rows it looked at.
#[derive(Clone, Copy)]
pub struct GuardVerdict<'t> {
    findings: &'t Findings,
    rows: u32,
}

impl<'t> GuardVerdict<'t> {
    pub(super) const fn new(findings: &'t Findings, rows: u32) -> Self {
        Self { findings, rows }
    }

    /// Says whether every entry of every row was as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.fault().is_none() && self.flagged().next().is_none()
    }

    /// Returns the first fault.
    #[must_use]
    pub fn fault(&self) -> Option<GuardFault> {
        self.findings.fault()
    }

    /// Says whether a row's output is to be thrown away. A row that was not checked is.
    #[must_use]
    pub fn is_flagged(&self, row: u32) -> bool {
        row >= self.rows || self.findings.is_flagged(row)
    }

    /// Lists the rows whose output is to be thrown away.
    pub fn flagged(&self) -> impl Iterator<Item = u32> + use<'t> {
        let (findings, rows) = (self.findings, self.rows);
        (0..rows).filter(|row| findings.is_flagged(*row))
    }
}

impl fmt::Debug for GuardVerdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardVerdict").field("rows", &self.rows).field("fault", &self.fault()).finish_non_exhaustive()
    }
}
