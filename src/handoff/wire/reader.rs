//! Takes fields off the front of a message, each checked against what is left.

use std::num::NonZeroU32;
use std::ops::Range;

use super::code::Code;
use super::header::Header;
use super::{HEADER_BYTES, MessageKind, WireError};
use crate::geometry::LayoutError;
use crate::id::{OwnerId, TransferId};

/// Reads one message. No length that it claims is believed before that many bytes were seen.
pub(super) struct MessageReader<'a> {
    rest: &'a [u8],
    /// Bytes taken so far.
    offset: usize,
}

impl<'a> MessageReader<'a> {
    /// Begins at the first byte of a header.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, offset: 0 }
    }

    /// Begins at the body of one whole message, and says its kind.
    pub(super) fn open(bytes: &'a [u8]) -> Result<(MessageKind, Self), WireError> {
        let mut reader = Self::new(bytes);
        let Header { kind, body_bytes } = Header::read(&mut reader)?;
        let found_bytes = bytes.len().saturating_sub(HEADER_BYTES);
        if found_bytes != body_bytes {
            return Err(WireError::WrongLength { body_bytes, found_bytes });
        }
        Ok((kind, reader))
    }

    /// Reads one whole message of a kind that is known.
    pub(super) fn read<T>(
        bytes: &'a [u8],
        expected: MessageKind,
        body: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let (found, reader) = Self::open(bytes)?;
        if found != expected {
            return Err(WireError::WrongKind { expected, found });
        }
        reader.close(body)
    }

    /// Reads the body, which must be all that is left.
    pub(super) fn close<T>(mut self, body: impl FnOnce(&mut Self) -> Result<T, WireError>) -> Result<T, WireError> {
        let value = body(&mut self)?;
        if !self.rest.is_empty() {
            return Err(WireError::Trailing { offset: self.offset, trailing_bytes: self.rest.len() });
        }
        Ok(value)
    }

    /// Where the next field begins.
    pub(super) const fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn bytes<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated {
            field,
            offset: self.offset,
            needed_bytes: N,
            left_bytes: self.rest.len(),
        })?;
        (self.rest, self.offset) = (rest, self.offset + N);
        Ok(*taken)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.bytes(field).map(u64::from_le_bytes)
    }

    pub(super) fn transfer(&mut self) -> Result<TransferId, WireError> {
        let (field, offset) = ("transfer", self.offset);
        let bits = u128::from_le_bytes(self.bytes(field)?);
        TransferId::from_bits(bits).ok_or(WireError::NoId { field, offset })
    }

    pub(super) fn owner(&mut self) -> Result<OwnerId, WireError> {
        let (field, offset) = ("owner", self.offset);
        OwnerId::new(self.u64(field)?).ok_or(WireError::Zero { field, offset })
    }

    pub(super) fn non_zero(&mut self, field: &'static str) -> Result<NonZeroU32, WireError> {
        let offset = self.offset;
        NonZeroU32::new(self.u32(field)?).ok_or(WireError::Zero { field, offset })
    }

    /// Reads bits that must be zero.
    pub(super) fn zero(&mut self, field: &'static str) -> Result<(), WireError> {
        let offset = self.offset;
        match self.u32(field)? {
            0 => Ok(()),
            found => Err(WireError::NotZero { field, offset, found }),
        }
    }

    /// As [`zero`](Self::zero), for one byte.
    pub(super) fn zero_byte(&mut self, field: &'static str) -> Result<(), WireError> {
        let offset = self.offset;
        match self.bytes(field)? {
            [0] => Ok(()),
            [found] => Err(WireError::NotZero { field, offset, found: found.into() }),
        }
    }

    pub(super) fn code<T: Code>(&mut self, field: &'static str) -> Result<T, WireError> {
        let offset = self.offset;
        let code = self.u32(field)?;
        known(field, offset, code)
    }

    /// As [`code`](Self::code), for a code of one byte.
    pub(super) fn code_of_one_byte<T: Code>(&mut self, field: &'static str) -> Result<T, WireError> {
        let offset = self.offset;
        let [code] = self.bytes(field)?;
        known(field, offset, code.into())
    }

    pub(super) fn range(&mut self, field: &'static str) -> Result<Range<u32>, WireError> {
        let offset = self.offset;
        let (start, end) = (self.u32(field)?, self.u32(field)?);
        if start > end {
            return Err(WireError::Backward { field, offset, start, end });
        }
        Ok(start..end)
    }

    /// Reads text preceded by its length.
    pub(super) fn text(&mut self, field: &'static str, max_text_bytes: usize) -> Result<&'a str, WireError> {
        let offset = self.offset;
        let text_bytes = self.u32(field)?;
        let needed_bytes = text_bytes as usize;
        if needed_bytes > max_text_bytes {
            return Err(WireError::TextTooLong { field, offset, text_bytes, max_text_bytes });
        }
        let offset = self.offset;
        let (text, rest) = self.rest.split_at_checked(needed_bytes).ok_or(WireError::Truncated {
            field,
            offset,
            needed_bytes,
            left_bytes: self.rest.len(),
        })?;
        let text =
            str::from_utf8(text).map_err(|error| WireError::NotUtf8 { field, offset: offset + error.valid_up_to() })?;
        (self.rest, self.offset) = (rest, offset + needed_bytes);
        Ok(text)
    }

    /// Reads a list preceded by its count. Room is made for as many items as the bytes left can hold, never for more.
    pub(super) fn list<T>(
        &mut self,
        field: &'static str,
        item_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let offset = self.offset;
        let count = self.u32(field)?;
        let left_bytes = self.rest.len();
        if u64::from(count).saturating_mul(item_bytes as u64) > left_bytes as u64 {
            return Err(WireError::TooMany { field, offset, count, item_bytes, left_bytes });
        }
        let mut items = Vec::with_capacity(count as usize);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads fields that together make a layout, or do not.
    pub(super) fn layout<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<Result<T, LayoutError>, WireError>,
    ) -> Result<T, WireError> {
        let offset = self.offset;
        read(self)?.map_err(|error| WireError::Layout { field, offset, error })
    }
}

fn known<T: Code>(field: &'static str, offset: usize, code: u32) -> Result<T, WireError> {
    T::from_code(code).ok_or(WireError::UnknownCode {
        field,
        offset,
        code,
        least: T::ALL.first().map_or(0, |choice| choice.code()),
        most: T::ALL.last().map_or(0, |choice| choice.code()),
    })
}
