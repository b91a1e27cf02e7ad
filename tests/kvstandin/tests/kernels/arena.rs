//! The memory of a round: random bytes, and in it what a kernel is given. What a kernel must not touch is random too, so
//! that it shows.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::rng::Rng;

/// Bytes of the arena of a round, but for those that are large.
pub const BYTES: usize = 128 << 10;

const MOST_BYTES: usize = 4 << 20;

unsafe extern "C" {
    fn mmap(address: *mut c_void, len: usize, protection: c_int, flags: c_int, file: c_int, offset: i64)
    -> *mut c_void;
}

/// The address of every arena. The plain C++ works there, the interpreter over a copy that it knows by this address.
pub fn base() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    *BASE.get_or_init(|| {
        // SAFETY: a new private mapping (read, write; private, anonymous) which nothing else uses.
        let base = unsafe { mmap(std::ptr::null_mut(), MOST_BYTES, 1 | 2, 2 | 0x20, -1, 0) };
        assert_ne!(base as isize, -1, "no memory for the arena");
        base as u64
    })
}

#[derive(Clone)]
pub struct Arena {
    pub bytes: Vec<u8>,
    next: usize,
}

impl Arena {
    pub fn new(rng: &mut Rng, bytes: usize) -> Self {
        assert!(bytes <= MOST_BYTES, "no arena is as large");
        let bytes = (0..bytes / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
        Self { bytes, next: 64 }
    }

    /// Takes room, `skew` bytes past a multiple of `align`, and a little between it and the next.
    pub fn room(&mut self, bytes: usize, align: usize, skew: usize) -> u64 {
        let at = self.next.next_multiple_of(align) + skew;
        self.next = at + bytes + 16;
        assert!(self.next <= self.bytes.len(), "a round is too large for its arena");
        base() + at as u64
    }

    /// Places bytes.
    pub fn place(&mut self, bytes: &[u8]) -> u64 {
        let at = self.room(bytes.len(), 16, 0);
        self.write(at, bytes);
        at
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let at = (at - base()) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn read(&self, at: u64, bytes: usize) -> &[u8] {
        &self.bytes[(at - base()) as usize..][..bytes]
    }
}

/// Writes the fields of a C struct one after another: `u32`s and `u64`s, each where its size puts it.
#[derive(Default)]
pub struct Fields(pub Vec<u8>);

impl Fields {
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        assert!(self.0.len().is_multiple_of(8), "a hole in a struct");
        self.0.extend(value.to_le_bytes());
        self
    }
}
