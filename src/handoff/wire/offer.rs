//! An offer as bytes.

use super::layout::{put_model, put_slice, take_model, take_slice};
use super::reader::MessageReader;
use super::writer::MessageWriter;
use super::{MessageKind, WireError};
use crate::handle::PageHandle;
use crate::handoff::{Offer, Writer};
use crate::memory::NullMemory;
use crate::ticket::HolderId;

const WRITER_BYTES: usize = 24;
const DESTINATION_BYTES: usize = 16;

impl Offer {
    /// Writes the offer as the bytes that [`wire`](super) describes.
    ///
    /// # Cost
    /// O(bytes written); allocates.
    ///
    /// # Errors
    /// - [`WireError::TooLarge`]: more than [`MAX_MESSAGE_BYTES`](super::MAX_MESSAGE_BYTES), as from 4.2 million pages on
    /// - [`WireError::NoId`]: a destination is no handle
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        MessageWriter::write(MessageKind::Offer, |writer| {
            writer.bytes(&self.transfer().to_bits().to_le_bytes()).u64(self.owner().get());
            writer.u64(self.tokens()).u64(self.held_tokens());
            writer.code(self.checksum()).u32(self.batch_pages().get());
            put_slice(writer, self.slice());
            put_model(writer, self.model());
            writer.list(self.writers(), WRITER_BYTES, |writer, one| {
                put_slice(writer.u64(one.holder().0), one.slice());
                Ok(())
            })?;
            writer.list(self.destinations(), DESTINATION_BYTES, |writer, bits| {
                let bits = destination(*bits, writer.offset())?;
                writer.bytes(&bits.to_le_bytes());
                Ok(())
            })
        })
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes), and no others.
    ///
    /// What it says is not looked at: that is [`Outbound::check`](crate::handoff::Outbound::check).
    ///
    /// # Cost
    /// O(bytes) and O(planes of the model); allocates.
    ///
    /// # Errors
    /// - [`WireError`]: the first thing that is not as [`wire`](super) says
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        MessageReader::read(bytes, MessageKind::Offer, Self::take)
    }

    pub(super) fn take(reader: &mut MessageReader<'_>) -> Result<Self, WireError> {
        let (transfer, owner) = (reader.transfer()?, reader.owner()?);
        let (tokens, held_tokens) = (reader.u64("tokens")?, reader.u64("held_tokens")?);
        let (checksum, batch_pages) = (reader.code("checksum")?, reader.non_zero("batch_pages")?);
        let slice = take_slice(reader, "slice")?;
        let model = take_model(reader)?;
        let writers = reader.list("writers", WRITER_BYTES, |reader| {
            Ok(Writer::new(HolderId(reader.u64("writers.holder")?), take_slice(reader, "writers.slice")?))
        })?;
        let destinations = reader.list("destinations", DESTINATION_BYTES, |reader| {
            let offset = reader.offset();
            destination(u128::from_le_bytes(reader.bytes("destinations")?), offset)
        })?;
        Ok(Offer::new(transfer, owner, model, slice)
            .with_writers(writers)
            .with_tokens(tokens, destinations)
            .with_held_tokens(held_tokens)
            .with_checksum(checksum)
            .with_batch_pages(batch_pages))
    }
}

/// The bits of a handle, which are those of some page; of which memory makes no difference to them.
fn destination(bits: u128, offset: usize) -> Result<u128, WireError> {
    PageHandle::<NullMemory>::from_bits(bits).map(|_| bits).ok_or(WireError::NoId { field: "destinations", offset })
}
