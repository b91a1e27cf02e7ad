//! Puts fields after each other; refuses what no reader would take.

use std::ops::Range;

use super::code::Code;
use super::header::Header;
use super::{HEADER_BYTES, MAX_MESSAGE_BYTES, MessageKind, WireError};

/// Writes one message.
pub(super) struct MessageWriter {
    /// Room for the header, then the body so far.
    bytes: Vec<u8>,
}

impl MessageWriter {
    /// Writes a whole message.
    pub(super) fn write(
        kind: MessageKind,
        body: impl FnOnce(&mut Self) -> Result<(), WireError>,
    ) -> Result<Vec<u8>, WireError> {
        let mut writer = Self { bytes: vec![0; HEADER_BYTES] };
        body(&mut writer)?;
        let mut bytes = writer.bytes;
        let header = Header::to_bytes(kind, bytes.len() - HEADER_BYTES)?;
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        Ok(bytes)
    }

    /// Where the next field begins.
    pub(super) const fn offset(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(super) fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(super) fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(super) fn code(&mut self, choice: impl Code) -> &mut Self {
        self.u32(choice.code())
    }

    pub(super) fn range(&mut self, field: &'static str, range: &Range<u32>) -> Result<(), WireError> {
        let Range { start, end } = *range;
        if start > end {
            return Err(WireError::Backward { field, offset: self.offset(), start, end });
        }
        self.u32(start).u32(end);
        Ok(())
    }

    /// Writes text preceded by its length; names and reasons are short by their own limits.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.u32(text.len() as u32).bytes(text.as_bytes())
    }

    /// Writes a list preceded by its count, unless that alone takes the message past the bound.
    pub(super) fn list<T>(
        &mut self,
        items: &[T],
        item_bytes: usize,
        mut put: impl FnMut(&mut Self, &T) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let list_bytes = items.len().saturating_mul(item_bytes).saturating_add(size_of::<u32>());
        let message_bytes = self.offset().saturating_add(list_bytes);
        if message_bytes > MAX_MESSAGE_BYTES {
            return Err(WireError::TooLarge {
                message_bytes: message_bytes as u64,
                max_message_bytes: MAX_MESSAGE_BYTES,
            });
        }
        self.bytes.reserve(list_bytes);
        // far below 2^32, since the bound is and an item has bytes
        self.u32(items.len() as u32);
        items.iter().try_for_each(|item| put(self, item))
    }
}
