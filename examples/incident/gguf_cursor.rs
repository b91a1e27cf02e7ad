//! A cursor over the bytes of a model file that refuses to step outside them.

use crate::gguf::GgufError;

/// Reads little-endian fields one after the other.
#[derive(Debug)]
pub(crate) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn truncated(&self) -> GgufError {
        GgufError::Truncated { at_byte: self.at }
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], GgufError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..len).ok_or_else(|| self.truncated())?;
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| self.truncated())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A 64-bit size; whether so much is there is checked where it is used.
    pub(crate) fn size(&mut self) -> Result<usize, GgufError> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| self.truncated())
    }

    /// A count of things that each take a byte or more: no more than the bytes that are left.
    pub(crate) fn length(&mut self) -> Result<usize, GgufError> {
        let count = self.size()?;
        if count > self.bytes.len() - self.at { Err(self.truncated()) } else { Ok(count) }
    }

    pub(crate) fn text(&mut self) -> Result<String, GgufError> {
        let len = self.length()?;
        let at_byte = self.at;
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| GgufError::NotText { at_byte })?;
        Ok(text.to_owned())
    }
}
