//! Any of the three messages, for whoever reads a stream of them.

use std::io::{self, Read};

use super::header::Header;
use super::reader::MessageReader;
use super::{HEADER_BYTES, MessageKind, WireError};
use crate::handoff::{Offer, Receipt, Refusal};

/// Holds a message of any kind.
///
/// # Examples
///
/// ```
/// use pagestamp::{Message, Refusal, Side, TransferId};
///
/// let transfer = TransferId::from_bits(1 << 64 | 1).ok_or("no transfer")?;
/// let refusal = Refusal::new(transfer, Side::Sender, &std::fmt::Error);
/// let sent = [refusal.to_bytes()?, refusal.to_bytes()?].concat();
/// let mut pipe = sent.as_slice();
/// assert_eq!(Message::read_from(&mut pipe)?, Some(refusal.clone().into()));
/// assert_eq!(Message::read_from(&mut pipe)?, Some(refusal.into()));
/// assert_eq!(Message::read_from(&mut pipe)?, None, "the pipe ended between two messages");
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

    /// Reads the next message from a pipe; `None` when that ends before one begins.
    ///
    /// # Cost
    /// As [`from_bytes`](Self::from_bytes). Room is made as bytes arrive, not as they are announced. Two reads or more:
    /// buffer what is dear to read.
    ///
    /// # Errors
    /// - [`io::ErrorKind::UnexpectedEof`]: the pipe ended within a message; the peer is gone
    /// - [`io::ErrorKind::InvalidData`] with a [`WireError`] inside: what came is no message. Nothing tells where the next
    ///   one begins; read no more from this pipe
    /// - what the pipe itself answers
    pub fn read_from(pipe: &mut impl Read) -> io::Result<Option<Self>> {
        let invalid = |error: WireError| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut bytes = Vec::new();
        take(pipe, HEADER_BYTES, &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let header = bytes.first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        let body_bytes = Self::body_bytes(header).map_err(invalid)?;
        if take(pipe, body_bytes, &mut bytes)? < body_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::from_bytes(&bytes).map(Some).map_err(invalid)
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

/// Reads so many bytes, or as many as come, and answers their number.
fn take(pipe: &mut impl Read, bytes: usize, into: &mut Vec<u8>) -> io::Result<usize> {
    // a message is far smaller than 2^64 bytes
    pipe.by_ref().take(bytes as u64).read_to_end(into)
}

impl From<Offer> for Message {
    fn from(offer: Offer) -> Self {
        Self::Offer(offer)
    }
}

impl From<Receipt> for Message {
    fn from(receipt: Receipt) -> Self {
        Self::Receipt(receipt)
    }
}

impl From<Refusal> for Message {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TransferId;
    use crate::transfer::Side;

    /// Gives one byte at a time, and is interrupted before each.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.0.read(&mut buffer[..1])
        }
    }

    // C11
    #[test]
    fn a_pipe_that_ends_within_a_message_or_carries_none_is_told_apart_from_one_that_ended() {
        let transfer = TransferId::from_bits(1 << 64 | 1).expect("a transfer");
        let message = Message::from(Refusal::new(transfer, Side::Sender, &std::fmt::Error));
        let bytes = message.to_bytes().expect("small");
        assert_eq!(Message::read_from(&mut Slow(&bytes, false)).expect("whole"), Some(message));
        assert_eq!(Message::read_from(&mut [].as_slice()).expect("ended"), None);
        for end in 1..bytes.len() {
            let error = Message::read_from(&mut Slow(&bytes[..end], false)).expect_err("cut short");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        }
        let mut damaged = bytes.clone();
        damaged[0] ^= 1;
        let error = Message::read_from(&mut damaged.as_slice()).expect_err("no message");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.get_ref().is_some_and(|inner| inner.is::<WireError>()));
    }
}
