//! Any of the three messages, for whoever reads a stream of them.

use super::header::Header;
use super::reader::MessageReader;
use super::{HEADER_BYTES, MessageKind, WireError};
use crate::handoff::{Offer, Receipt, Refusal};

/// Holds a message of any kind.
///
/// # Examples
///
/// A pipe is read by its headers. `take` makes room as bytes arrive, not as they are announced:
///
/// ```
/// use std::io::Read;
/// use pagestamp::handoff::wire::HEADER_BYTES;
/// use pagestamp::{Message, Refusal, Side, TransferId};
///
/// fn next(pipe: &mut impl Read) -> Result<Message, Box<dyn std::error::Error>> {
///     let mut header = [0; HEADER_BYTES];
///     pipe.read_exact(&mut header)?;
///     let mut bytes = header.to_vec();
///     pipe.take(Message::body_bytes(&header)? as u64).read_to_end(&mut bytes)?;
///     Ok(Message::from_bytes(&bytes)?)
/// }
///
/// let transfer = TransferId::from_bits(1 << 64 | 1).ok_or("no transfer")?;
/// let refusal = Refusal::new(transfer, Side::Sender, &std::fmt::Error);
/// let sent = [refusal.to_bytes()?, refusal.to_bytes()?].concat();
/// let mut pipe = sent.as_slice();
/// assert_eq!(next(&mut pipe)?, Message::Refusal(refusal.clone()));
/// assert_eq!(next(&mut pipe)?, Message::Refusal(refusal));
/// assert!(pipe.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use = "a message is for one of the two sides"]
pub enum Message {
    /// What a receiver has room for.
    Offer(Offer),
    /// What a writer sent.
    Receipt(Receipt),
    /// The end of a handoff.
    Refusal(Refusal),
}

impl Message {
    /// Reads the first bytes of a message, and returns how many bytes follow them.
    ///
    /// # Cost
    /// O(1).
    ///
    /// # Errors
    /// - [`WireError::NotAMessage`], [`WireError::UnknownVersion`], [`WireError::UnknownCode`]
    /// - [`WireError::NotZero`]: reserved bits
    /// - [`WireError::TooLarge`]: it announces more than [`MAX_MESSAGE_BYTES`](super::MAX_MESSAGE_BYTES)
    pub fn body_bytes(header: &[u8; HEADER_BYTES]) -> Result<usize, WireError> {
        Header::read(&mut MessageReader::new(header)).map(|header| header.body_bytes)
    }

    /// Reads one message of any kind.
    ///
    /// # Cost
    /// O(bytes) and O(planes of a model); allocates.
    ///
    /// # Errors
    /// - [`WireError`]: the first thing that is not as [`wire`](super) says
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let (kind, reader) = MessageReader::open(bytes)?;
        match kind {
            MessageKind::Offer => reader.close(Offer::take).map(Message::Offer),
            MessageKind::Receipt => reader.close(Receipt::take).map(Message::Receipt),
            MessageKind::Refusal => reader.close(Refusal::take).map(Message::Refusal),
        }
    }

    /// Writes the message.
    ///
    /// # Cost
    /// O(bytes written); allocates.
    ///
    /// # Errors
    /// As `to_bytes` of the message inside.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        match self {
            Message::Offer(offer) => offer.to_bytes(),
            Message::Receipt(receipt) => receipt.to_bytes(),
            Message::Refusal(refusal) => refusal.to_bytes(),
        }
    }
}
