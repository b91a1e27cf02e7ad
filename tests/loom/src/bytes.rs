//! The bytes of a token, as one word that loom watches: any two accesses that are not ordered end the run.

use loom::cell::UnsafeCell;

/// Zero until written.
#[derive(Debug, Default)]
pub(crate) struct Token(UnsafeCell<u64>);

// SAFETY: loom stops the run at the first access that races with another, before it touches the word.
unsafe impl Sync for Token {}

impl Token {
    pub(crate) fn get(&self) -> u64 {
        // SAFETY: `with` gives a pointer to the word that lives as long as the cell, and has just proved that no write
        // is concurrent.
        self.0.with(|word| unsafe { *word })
    }

    pub(crate) fn set(&self, value: u64) {
        // SAFETY: `with_mut` gives a pointer to the word that lives as long as the cell, and has just proved that no
        // other access is concurrent.
        self.0.with_mut(|word| unsafe { *word = value });
    }
}
