//! A refusal as bytes.

use super::reader::MessageReader;
use super::writer::MessageWriter;
use super::{MessageKind, WireError};
use crate::handoff::Refusal;

impl Refusal {
    /// Writes the refusal as the bytes that [`wire`](super) describes.
    ///
    /// # Cost
    /// O(bytes written); allocates.
    ///
    /// # Errors
    /// None today: the reason is short by [`Refusal::MAX_REASON_BYTES`]. It is a `Result` as for the other messages.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        MessageWriter::write(MessageKind::Refusal, |writer| {
            writer.bytes(&self.transfer().to_bits().to_le_bytes()).code(self.side()).text(self.reason());
            Ok(())
        })
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes), and no others.
    ///
    /// # Cost
    /// O(bytes); allocates.
    ///
    /// # Errors
    /// - [`WireError`]: the first thing that is not as [`wire`](super) says
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        MessageReader::read(bytes, MessageKind::Refusal, Self::take)
    }

    pub(super) fn take(reader: &mut MessageReader<'_>) -> Result<Self, WireError> {
        let (transfer, side) = (reader.transfer()?, reader.code("side")?);
        let reason = reader.text("reason", Self::MAX_REASON_BYTES)?;
        Ok(Self::arrived(transfer, side, reason))
    }
}
