//! What addresses of a device mean: which exist, and where their bytes really are.
//!
//! *Owns* the map. *Does not know* who asked for the memory or how long it lives.
//!
//! Device memory and pinned host memory stand in one map, as on a device with one address space for both. An address of
//! device memory is never one of the host: what lies behind it is reached through this map alone.

use std::collections::BTreeMap;

/// Why an access or a launch fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No memory there, or its end within the access.
    Unmapped {
        /// The address of the access.
        address: u64,
    },
    /// The address is no multiple of the access's size.
    Misaligned {
        /// The address of the access.
        address: u64,
    },
    /// A launch used up its budget of instructions: it would not have ended.
    Runaway,
}

/// Memory that a device can address.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The first address, for the device.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where the bytes are.
    pub host: *mut u8,
}

/// The address space of a device.
#[derive(Debug, Default)]
pub struct Space {
    regions: BTreeMap<u64, Region>,
}

// SAFETY: the pointers are numbers here; whoever follows one is bound by `Space::insert`.
unsafe impl Send for Space {}

impl Space {
    /// Maps a region.
    ///
    /// # Safety
    ///
    /// 1. `host` is valid for reads and writes of `bytes` bytes until the region is removed, and aligned to 16.
    /// 2. The region overlaps none that is mapped.
    pub unsafe fn insert(&mut self, region: Region) {
        self.regions.insert(region.start, region);
    }

    /// Unmaps the region that starts there.
    pub fn remove(&mut self, start: u64) -> Option<Region> {
        self.regions.remove(&start)
    }

    /// The region that an address lies in.
    #[must_use]
    pub fn region(&self, address: u64) -> Option<Region> {
        let (_, &region) = self.regions.range(..=address).next_back()?;
        (address - region.start < region.bytes).then_some(region)
    }

    /// Where `bytes` bytes at an address are. They lie in one region, or nowhere.
    ///
    /// # Errors
    ///
    /// [`Fault::Unmapped`].
    pub fn find(&self, address: u64, bytes: u64) -> Result<*mut u8, Fault> {
        self.region(address).and_then(|region| region.find(address, bytes)).ok_or(Fault::Unmapped { address })
    }
}

impl Region {
    /// Where `bytes` bytes at an address are, if they are all of this region.
    #[must_use]
    pub fn find(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        let offset = address.checked_sub(self.start)?;
        (offset <= self.bytes && bytes <= self.bytes - offset).then(|| self.host.wrapping_add(offset as usize))
    }
}
