//! Device memory and pinned host memory.
//!
//! *Owns* the bytes. **Invariants.** A device address lies in a range that the process has reserved and cannot access. No
//! address of device memory means something else later, but for memory that was freed and came back by the same address.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard};

use crate::result::{ALREADY_REGISTERED, Code, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY};
use crate::space::{Region, Space};

/// What a fresh byte is.
pub(crate) const POISON: u8 = 0xA5;

/// What device addresses are multiples of, and no more than that.
const ALIGN_BYTES: u64 = 512;

/// Unmapped on the device too: an access past an end meets nothing.
const GAP_BYTES: u64 = 1 << 20;

const DEFAULT_CAP_BYTES: u64 = 4 << 30;

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(|| Mutex::new(Memory::new()));

/// Takes the memory: nothing else executes meanwhile.
pub(crate) fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) struct Memory {
    pub(crate) space: Space,
    /// By address, the bytes that were asked for and the bytes behind them.
    live: BTreeMap<u64, Block>,
    /// The last that was freed is last.
    freed: Vec<Block>,
    pinned: BTreeMap<u64, Pinned>,
    reserved: std::ops::Range<u64>,
    next: u64,
    used_bytes: u64,
    cap_bytes: u64,
}

#[derive(Clone, Copy)]
struct Block {
    address: u64,
    bytes: u64,
    host: *mut u8,
}

struct Pinned {
    /// Of memory that was allocated here.
    layout: Option<Layout>,
}

// SAFETY: the pointers are to memory of the process's heap, which any thread may use; the mutex lets one at a time.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        let reserved = reserve();
        Self {
            space: Space::default(),
            live: BTreeMap::new(),
            freed: Vec::new(),
            pinned: BTreeMap::new(),
            next: reserved.start,
            reserved,
            used_bytes: 0,
            cap_bytes: DEFAULT_CAP_BYTES,
        }
    }

    /// Whether an address is one of device memory, allocated or not.
    pub(crate) fn is_device(&self, address: u64) -> bool {
        self.reserved.contains(&address)
    }

    pub(crate) fn set_cap(&mut self, bytes: u64) {
        self.cap_bytes = bytes;
    }

    /// Free bytes and all bytes.
    pub(crate) fn info(&self) -> (u64, u64) {
        (self.cap_bytes.saturating_sub(self.used_bytes), self.cap_bytes)
    }

    /// Allocations of device memory, and of pinned memory, that were not freed.
    pub(crate) fn live(&self) -> (u64, u64) {
        (self.live.len() as u64, self.pinned.len() as u64)
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, Code> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let rounded = bytes.checked_next_multiple_of(ALIGN_BYTES).ok_or(OUT_OF_MEMORY)?;
        if rounded > self.cap_bytes.saturating_sub(self.used_bytes) {
            return Err(OUT_OF_MEMORY);
        }
        let block = match self.freed.iter().rposition(|block| block.bytes == rounded) {
            Some(last) => self.freed.remove(last),
            None => self.fresh(rounded)?,
        };
        self.used_bytes += rounded;
        self.live.insert(block.address, block);
        // SAFETY: (1) the block has at least as many bytes, and is freed only in `reset`, after it was removed. (2) `fresh` gives
        // every block addresses of its own.
        unsafe { self.space.insert(Region { start: block.address, bytes, host: block.host }) };
        Ok(block.address)
    }

    fn fresh(&mut self, bytes: u64) -> Result<Block, Code> {
        let address = self.next;
        let next = address.checked_add(bytes).and_then(|end| end.checked_add(GAP_BYTES)).ok_or(OUT_OF_MEMORY)?;
        if next > self.reserved.end {
            return Err(OUT_OF_MEMORY);
        }
        let host = poisoned(layout(bytes)?)?;
        self.next = next.next_multiple_of(ALIGN_BYTES);
        Ok(Block { address, bytes, host })
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), Code> {
        let block = self.live.remove(&address).ok_or(INVALID_VALUE)?;
        self.space.remove(address);
        self.used_bytes -= block.bytes;
        self.freed.push(block);
        Ok(())
    }

    pub(crate) fn allocate_host(&mut self, bytes: u64) -> Result<u64, Code> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let layout = layout(bytes)?;
        let host = poisoned(layout)?;
        self.pinned.insert(host as u64, Pinned { layout: Some(layout) });
        // SAFETY: (1) just allocated, and freed only after it was removed. (2) The allocator gave it to nobody else.
        unsafe { self.space.insert(Region { start: host as u64, bytes, host }) };
        Ok(host as u64)
    }

    pub(crate) fn free_host(&mut self, address: u64) -> Result<(), Code> {
        let Some(Pinned { layout: Some(layout) }) = self.pinned.get(&address) else { return Err(INVALID_VALUE) };
        let layout = *layout;
        self.pinned.remove(&address);
        self.space.remove(address);
        // SAFETY: `allocate_host` allocated it with this layout, and no region leads to it any more.
        unsafe { dealloc(address as *mut u8, layout) };
        Ok(())
    }

    /// Maps memory of the caller's.
    ///
    /// # Safety
    ///
    /// 1. The memory is valid for reads and writes until it is unregistered.
    pub(crate) unsafe fn register(&mut self, address: u64, bytes: u64) -> Result<(), Code> {
        let end = address.checked_add(bytes).ok_or(INVALID_VALUE)?;
        if address == 0 || bytes == 0 || self.is_device(address) {
            return Err(INVALID_VALUE);
        }
        let starts_within = self.pinned.range(address..end).next().is_some();
        if starts_within || self.space.region(address).is_some() {
            return Err(ALREADY_REGISTERED);
        }
        self.pinned.insert(address, Pinned { layout: None });
        // SAFETY: (1) of the caller. (2) Just looked.
        unsafe { self.space.insert(Region { start: address, bytes, host: address as *mut u8 }) };
        Ok(())
    }

    pub(crate) fn unregister(&mut self, address: u64) -> Result<(), Code> {
        if !matches!(self.pinned.get(&address), Some(Pinned { layout: None })) {
            return Err(NOT_REGISTERED);
        }
        self.pinned.remove(&address);
        self.space.remove(address);
        Ok(())
    }

    /// Whether host memory is pinned, all of it.
    pub(crate) fn is_pinned(&self, address: u64, bytes: u64) -> bool {
        !self.is_device(address) && self.space.find(address, bytes).is_ok()
    }

    /// Frees everything, and starts as a new process does, but for the addresses that were used.
    pub(crate) fn reset(&mut self) {
        for block in std::mem::take(&mut self.live).into_values().chain(std::mem::take(&mut self.freed)) {
            self.space.remove(block.address);
            if let Ok(layout) = layout(block.bytes) {
                // SAFETY: `fresh` allocated it with this layout; the region is gone.
                unsafe { dealloc(block.host, layout) };
            }
        }
        for (address, pinned) in std::mem::take(&mut self.pinned) {
            self.space.remove(address);
            if let Some(layout) = pinned.layout {
                // SAFETY: `allocate_host` allocated it with this layout; the region is gone.
                unsafe { dealloc(address as *mut u8, layout) };
            }
        }
        self.used_bytes = 0;
        self.cap_bytes = DEFAULT_CAP_BYTES;
    }
}

fn layout(bytes: u64) -> Result<Layout, Code> {
    let bytes = usize::try_from(bytes).map_err(|_| OUT_OF_MEMORY)?;
    Layout::from_size_align(bytes, ALIGN_BYTES as usize).map_err(|_| OUT_OF_MEMORY)
}

fn poisoned(layout: Layout) -> Result<*mut u8, Code> {
    // SAFETY: no layout of no bytes comes here.
    let host = unsafe { alloc(layout) };
    if host.is_null() {
        return Err(OUT_OF_MEMORY);
    }
    // SAFETY: just allocated.
    unsafe { host.write_bytes(POISON, layout.size()) };
    Ok(host)
}

unsafe extern "C" {
    fn mmap(address: *mut c_void, len: usize, protection: c_int, flags: c_int, file: c_int, offset: i64)
    -> *mut c_void;
}

/// Reserves addresses that nobody can access.
fn reserve() -> std::ops::Range<u64> {
    const PROT_NONE: c_int = 0;
    const PRIVATE_ANONYMOUS_NORESERVE: c_int = 0x02 | 0x20 | 0x4000;
    for bytes in [1usize << 40, 1 << 36, 1 << 33] {
        // SAFETY: a new mapping somewhere, which nothing else uses.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, PROT_NONE, PRIVATE_ANONYMOUS_NORESERVE, -1, 0) };
        if start as isize != -1 {
            return start as u64..start as u64 + bytes as u64;
        }
    }
    panic!("no addresses are left to stand for device memory");
}
