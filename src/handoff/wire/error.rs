//! Why bytes are no message, or a message has no bytes.

use std::fmt;

use thiserror::Error;

use crate::geometry::LayoutError;

/// Names the kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MessageKind {
    /// An [`Offer`](crate::Offer).
    Offer,
    /// A [`Receipt`](crate::Receipt).
    Receipt,
    /// A [`Refusal`](crate::Refusal).
    Refusal,
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MessageKind::Offer => "offer",
            MessageKind::Receipt => "receipt",
            MessageKind::Refusal => "refusal",
        })
    }
}

/// Says why bytes are not a message of a handoff, or why a message cannot be written.
///
/// `field` is the name in the tables of [`wire`](super), with that of the field that it is part of, as `parts.pages`. `offset`
/// is its first byte, counted from the start of the message. Numbers are shown as they were found; ids, digests, names and
/// reasons are not. Nothing is kept of what was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first bytes are not those of any message.
    #[error(
        "the first 4 bytes are not \"pgst\": this is no message, or the reader lost its place; close the connection"
    )]
    NotAMessage,
    /// The message is of a version that this build does not read.
    #[error("the message is of version {version}, this build reads version {known}: run one version on both sides")]
    UnknownVersion {
        /// The version found.
        version: u16,
        /// The version that this build reads and writes.
        known: u16,
    },
    /// The message is well-formed so far, and of another kind.
    #[error(
        "a message of kind {expected} was asked for, this is of kind {found}: read it by its kind, as Message does"
    )]
    WrongKind {
        /// The kind asked for.
        expected: MessageKind,
        /// The kind found.
        found: MessageKind,
    },
    /// The message exceeds the bound, read or written.
    #[error(
        "the message takes {message_bytes} bytes with its header, the limit is {max_message_bytes}: send fewer pages, or several receipts"
    )]
    TooLarge {
        /// Bytes of the message, header included.
        message_bytes: u64,
        /// [`MAX_MESSAGE_BYTES`](super::MAX_MESSAGE_BYTES).
        max_message_bytes: usize,
    },
    /// The bytes given are not one whole message.
    #[error("the header announces a body of {body_bytes} bytes, {found_bytes} follow: give the bytes of one message")]
    WrongLength {
        /// Bytes that the header announces.
        body_bytes: usize,
        /// Bytes that follow the header.
        found_bytes: usize,
    },
    /// A field reaches past the end.
    #[error("{field} at byte {offset} needs {needed_bytes} bytes, {left_bytes} are left: the message is cut short")]
    Truncated {
        /// The field.
        field: &'static str,
        /// Where it begins.
        offset: usize,
        /// Bytes that it needs.
        needed_bytes: usize,
        /// Bytes that are left there.
        left_bytes: usize,
    },
    /// A list claims more items than its message has bytes for.
    #[error(
        "{field} at byte {offset} claims {count} items of at least {item_bytes} bytes, {left_bytes} bytes are left: the message is cut short or forged"
    )]
    TooMany {
        /// The count.
        field: &'static str,
        /// Where it stands.
        offset: usize,
        /// Items that it claims.
        count: u32,
        /// Least bytes of one.
        item_bytes: usize,
        /// Bytes that are left after it.
        left_bytes: usize,
    },
    /// Bytes follow the last field.
    #[error("the last field ends at byte {offset}, {trailing_bytes} bytes follow: the body is longer than its fields")]
    Trailing {
        /// Where the message should end.
        offset: usize,
        /// Bytes after it.
        trailing_bytes: usize,
    },
    /// A code stands for nothing that this build knows.
    #[error(
        "{field} at byte {offset} is code {code}, this build knows {least} to {most}: the peer is newer, or the message is damaged"
    )]
    UnknownCode {
        /// The field.
        field: &'static str,
        /// Where it stands.
        offset: usize,
        /// The code found.
        code: u32,
        /// Least code that is known.
        least: u32,
        /// Greatest code that is known.
        most: u32,
    },
    /// A field is zero that never is.
    #[error("{field} at byte {offset} is 0, the least is 1: the sender left it out")]
    Zero {
        /// The field.
        field: &'static str,
        /// Where it stands.
        offset: usize,
    },
    /// A field has bits that must be zero: reserved ones, or those of something that is absent.
    #[error("{field} at byte {offset} is {found}, it must be 0 here: the peer is newer, or the message is damaged")]
    NotZero {
        /// The field.
        field: &'static str,
        /// Where it stands.
        offset: usize,
        /// What stands there.
        found: u32,
    },
    /// The bits of a transfer or of a page are those of none. They are not shown.
    #[error("{field} at byte {offset} is none: its pool or sequence is 0, or a bit that must be 0 is set")]
    NoId {
        /// The field.
        field: &'static str,
        /// Where it begins.
        offset: usize,
    },
    /// A range ends before it starts.
    #[error("{field} at byte {offset} are {start}..{end}: give a range that does not end before it starts")]
    Backward {
        /// The field.
        field: &'static str,
        /// Where it begins.
        offset: usize,
        /// First of the range.
        start: u32,
        /// One past the last.
        end: u32,
    },
    /// A text is longer than it may be.
    #[error("{field} at byte {offset} has {text_bytes} bytes, the limit is {max_text_bytes}: shorten it")]
    TextTooLong {
        /// The field.
        field: &'static str,
        /// Where its length stands.
        offset: usize,
        /// Bytes that it claims.
        text_bytes: u32,
        /// Most bytes that it may have.
        max_text_bytes: usize,
    },
    /// A text is not UTF-8.
    #[error("{field} at byte {offset} is not UTF-8: send text as UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
        /// The first byte that belongs to no character.
        offset: usize,
    },
    /// A slice or a model's layout cannot exist.
    #[error("{field} at byte {offset} cannot exist: {error}")]
    Layout {
        /// The field.
        field: &'static str,
        /// Where it begins.
        offset: usize,
        /// Why not.
        error: LayoutError,
    },
}
