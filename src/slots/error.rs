//! A refusal that gives a value back.

use std::fmt;

use crate::error::SlotError;

/// A call that was refused, with the value that it would have taken. Neither `Debug` nor `Display` shows the value.
pub struct ValueRefused<V> {
    value: V,
    error: SlotError,
}

impl<V> ValueRefused<V> {
    pub(super) const fn new(value: V, error: SlotError) -> Self {
        Self { value, error }
    }

    /// Why it was refused.
    #[must_use]
    pub const fn error(&self) -> &SlotError {
        &self.error
    }

    /// Gives back the value, unchanged.
    #[must_use]
    pub fn into_value(self) -> V {
        self.value
    }

    /// Gives back the value, and the reason.
    #[must_use]
    pub fn into_parts(self) -> (V, SlotError) {
        (self.value, self.error)
    }
}

impl<V> From<ValueRefused<V>> for SlotError {
    /// Keeps the reason and drops the value.
    fn from(refused: ValueRefused<V>) -> Self {
        refused.error
    }
}

impl<V> From<ValueRefused<V>> for crate::Error {
    /// Keeps the reason and drops the value.
    fn from(refused: ValueRefused<V>) -> Self {
        Self::Slot(refused.error)
    }
}

impl<V> fmt::Debug for ValueRefused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueRefused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<V> fmt::Display for ValueRefused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V> std::error::Error for ValueRefused<V> {}
