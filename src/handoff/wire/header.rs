//! The first bytes of every message: what it is, and how long.

use super::code::Code;
use super::reader::MessageReader;
use super::{HEADER_BYTES, MAX_MESSAGE_BYTES, MessageKind, VERSION, WireError};

/// How every message begins.
const MAGIC: [u8; 4] = *b"pgst";

/// A header that was read: a kind that is known, and a body that the bound allows.
pub(super) struct Header {
    pub(super) kind: MessageKind,
    pub(super) body_bytes: usize,
}

impl Header {
    pub(super) fn to_bytes(kind: MessageKind, body_bytes: usize) -> Result<[u8; HEADER_BYTES], WireError> {
        let length = within_bound(body_bytes as u64)?;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = kind.code() as u8;
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        Ok(bytes)
    }

    pub(super) fn read(reader: &mut MessageReader<'_>) -> Result<Self, WireError> {
        if reader.bytes("magic")? != MAGIC {
            return Err(WireError::NotAMessage);
        }
        let version = u16::from_le_bytes(reader.bytes("version")?);
        if version != VERSION {
            return Err(WireError::UnknownVersion { version, known: VERSION });
        }
        let kind = reader.code_of_one_byte("kind")?;
        reader.zero_byte("reserved")?;
        let body_bytes = reader.u32("body length")?;
        within_bound(body_bytes.into())?;
        reader.zero("reserved")?;
        // usize is at least 32 bits wide on Linux
        Ok(Self { kind, body_bytes: body_bytes as usize })
    }
}

/// The length of a body as it is written; refused when the message would exceed the bound.
fn within_bound(body_bytes: u64) -> Result<u32, WireError> {
    let message_bytes = body_bytes.saturating_add(HEADER_BYTES as u64);
    u32::try_from(body_bytes)
        .ok()
        .filter(|_| message_bytes <= MAX_MESSAGE_BYTES as u64)
        .ok_or(WireError::TooLarge { message_bytes, max_message_bytes: MAX_MESSAGE_BYTES })
}
