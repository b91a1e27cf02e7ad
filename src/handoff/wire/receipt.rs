//! A receipt as bytes.

use super::layout::{put_model, put_slice, take_model, take_slice};
use super::reader::MessageReader;
use super::writer::MessageWriter;
use super::{MessageKind, WireError};
use crate::handoff::{Digest, Receipt, SentPart};
use crate::ticket::HolderId;

/// Of a part without digests.
const PART_BYTES: usize = 40;
const DIGEST_BYTES: usize = 16;

impl Receipt {
    /// Writes the receipt as the bytes that [`wire`](super) describes.
    ///
    /// # Cost
    /// O(bytes written); allocates.
    ///
    /// # Errors
    /// - [`WireError::TooLarge`]: more than [`MAX_MESSAGE_BYTES`](super::MAX_MESSAGE_BYTES), as from 4.2 million digests on:
    ///   give the parts to several receipts
    /// - [`WireError::Backward`]: pages or planes of a part end before they start
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        MessageWriter::write(MessageKind::Receipt, |writer| {
            writer.bytes(&self.transfer().to_bits().to_le_bytes()).u64(self.owner().get());
            writer.u64(self.tokens()).u64(self.held_tokens()).u64(self.writer().0);
            writer.u32(self.pages()).u32(self.last_page_tokens()).code(self.checksum());
            put_model(writer, self.model());
            writer.list(self.parts(), PART_BYTES, put_part)
        })
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes), and no others.
    ///
    /// What it says is not looked at: that is [`Inbound::receive`](crate::handoff::Inbound::receive).
    ///
    /// # Cost
    /// O(bytes) and O(planes of the model); allocates.
    ///
    /// # Errors
    /// - [`WireError`]: the first thing that is not as [`wire`](super) says
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        MessageReader::read(bytes, MessageKind::Receipt, Self::take)
    }

    pub(super) fn take(reader: &mut MessageReader<'_>) -> Result<Self, WireError> {
        let (transfer, owner) = (reader.transfer()?, reader.owner()?);
        let (tokens, held_tokens) = (reader.u64("tokens")?, reader.u64("held_tokens")?);
        let writer = HolderId(reader.u64("writer")?);
        let (pages, last_page_tokens) = (reader.u32("pages")?, reader.u32("last_page_tokens")?);
        let checksum = reader.code("checksum")?;
        let model = take_model(reader)?;
        let parts = reader.list("parts", PART_BYTES, take_part)?;
        Ok(Receipt::new(transfer, owner, model, writer)
            .with_extent(pages, tokens, last_page_tokens)
            .with_held_tokens(held_tokens)
            .with_parts(checksum, parts))
    }
}

fn put_part(writer: &mut MessageWriter, part: &SentPart) -> Result<(), WireError> {
    put_slice(writer.u32(part.group()), part.slice());
    writer.range("parts.pages", &part.pages())?;
    writer.range("parts.planes", &part.planes())?;
    writer.list(part.digests(), DIGEST_BYTES, |writer, digest| {
        writer.bytes(&digest.to_bytes());
        Ok(())
    })
}

fn take_part(reader: &mut MessageReader<'_>) -> Result<SentPart, WireError> {
    let group = reader.u32("parts.group")?;
    let slice = take_slice(reader, "parts.slice")?;
    let (pages, planes) = (reader.range("parts.pages")?, reader.range("parts.planes")?);
    let digests =
        reader.list("parts.digests", DIGEST_BYTES, |reader| reader.bytes("parts.digests").map(Digest::from_bytes))?;
    Ok(SentPart::new(slice, pages).with_group(group).with_digests(planes, digests))
}
