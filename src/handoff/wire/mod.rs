//! The bytes of the three messages, for peers in any language.
//!
//! *Owns* the format, version 1, and every check of form. *Does not know* what a message is for: a receipt of a
//! wrong owner is as well-formed as a right one, and is refused by [`Inbound::receive`](super::Inbound::receive).
//!
//! **Invariants** One message has one encoding, and a reader accepts that one only: what is read and written again is the
//! same bytes. No input makes a reader panic, or allocate by a length that the bytes do not bear out: a message takes a
//! small multiple of its own size, beside the planes that a model's layout is checked by (at most 4096 at once).
//!
//! **Cost** O(bytes), plus O(planes) for an offer or a receipt.
//!
//! A message is neither secret nor authentic by itself. It carries digests and ids: send it over a channel that both
//! sides trust, and log none of its bytes.
//!
//! # The format
//!
//! Numbers are unsigned and little-endian. Nothing is padded or aligned. *Offset* counts from the first byte of the message;
//! `+` counts from the first byte of the structure. These are the building blocks:
//!
//! | name | bytes | what it is |
//! |---|---|---|
//! | `u8`, `u16`, `u32`, `u64` | 1, 2, 4, 8 | a number |
//! | code | 4 | a `u32` that stands for a choice; the tables name the choices, any other number is refused |
//! | range | 8 | `u32` first, `u32` one past the last; the last is not below the first |
//! | text | 4 + n | `u32` n, then n bytes of UTF-8 without terminator |
//! | list | 4 + items | `u32` count, then that many items without gaps |
//!
//! ## Header
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `70 67 73 74`, "pgst" |
//! | 4 | 2 | version | `u16`, 1 |
//! | 6 | 1 | kind | `u8`: 1 offer, 2 receipt, 3 refusal |
//! | 7 | 1 | reserved | 0 |
//! | 8 | 4 | body length | `u32`, the bytes that follow the header; at most [`MAX_MESSAGE_BYTES`] less [`HEADER_BYTES`] |
//! | 12 | 4 | reserved | 0 |
//!
//! The body follows at 16 and ends with its last field: a body that is shorter or longer than its fields is refused.
//!
//! ## Body of an offer
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 16 | 16 | transfer | [transfer id](#transfer-id) |
//! | 32 | 8 | owner | `u64`, whose pages they are; not 0 |
//! | 40 | 8 | tokens | `u64`, expected in all |
//! | 48 | 8 | held_tokens | `u64`, those of them that the receiver holds |
//! | 56 | 4 | checksum | code: 0 none, 1 CRC-32C, 2 XXH3 in 128 bits, 3 BLAKE3 with a key |
//! | 60 | 4 | batch_pages | `u32`, most pages on their way at once; not 0, 2^32 - 1 is no limit |
//! | 64 | 16 | slice | [slice](#slice) that all writers send together |
//! | 80 | varies | model | [model](#model) |
//! | | 4 + 24 n | writers | list of: `u64` holder, [slice](#slice) |
//! | | 4 + 16 n | destinations | list of [pages](#page), in sequence order |
//!
//! ## Body of a receipt
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 16 | 16 | transfer | [transfer id](#transfer-id) |
//! | 32 | 8 | owner | `u64`, whose pages were sent; not 0 |
//! | 40 | 8 | tokens | `u64`, sealed by the sender |
//! | 48 | 8 | held_tokens | `u64`, those of them that were not sent |
//! | 56 | 8 | writer | `u64`, who sent |
//! | 64 | 4 | pages | `u32`, sealed by the sender |
//! | 68 | 4 | last_page_tokens | `u32`, tokens in the last of them |
//! | 72 | 4 | checksum | code, as in an offer |
//! | 76 | varies | model | [model](#model) |
//! | | varies | parts | list of [parts](#part) |
//!
//! ## Body of a refusal
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 16 | 16 | transfer | [transfer id](#transfer-id) |
//! | 32 | 4 | side | code, who refused: 1 sender, 2 receiver |
//! | 36 | 4 + n | reason | text of at most 1024 bytes |
//!
//! ## Transfer id
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 8 | sequence | `u64`, not 0 |
//! | +8 | 4 | pool | `u32`, not 0 |
//! | +12 | 3 | nonce | 24 bits |
//! | +15 | 1 | reserved | 0 |
//!
//! ## Page
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 4 | index | `u32`, the page's number in its pool |
//! | +4 | 4 | pool | `u32`, not 0 |
//! | +8 | 5 | generation | 40 bits |
//! | +13 | 3 | nonce | 24 bits |
//!
//! ## Slice
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 8 | layers | range, counted in the whole model; not empty |
//! | +8 | 8 | heads | range, counted in the whole model; not empty |
//!
//! ## Part
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 4 | group | `u32`, group of pages |
//! | +4 | 16 | slice | [slice](#slice) that it speaks for |
//! | +20 | 8 | pages | range of ordinals in the sequence |
//! | +28 | 8 | planes | range of the slice's planes that the digests cover |
//! | +36 | 4 + 16 n | digests | list of 16 bytes each, in sequence order: compared as they are, not as a number |
//!
//! ## Model
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 4 + n | name | text of 1 to 256 bytes |
//! | | 4 + n | revision | text of 1 to 256 bytes |
//! | | 4 | page_tokens | `u32`, 1 to 32767 |
//! | | 4 | layers | `u32`, of the whole model; not 0 |
//! | | 4 | layer_planes | code: 1 planes per layer, 2 planes that all layers share |
//! | | 4 | cache | code: 1 heads, 2 latent; says which of the next two tables follows |
//!
//! K and V per head, 44 bytes:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 4 | kv_heads | `u32`, of the whole model; not 0 |
//! | +4 | 4 | key_dim | `u32`, elements of K per head; not 0 |
//! | +8 | 4 | value_dim | `u32`, elements of V per head; not 0 |
//! | +12 | 12 | key_format | [format](#format) of K |
//! | +24 | 12 | value_format | [format](#format) of V |
//! | +36 | 4 | order | code: 1 NHD, token-major; 2 HND, head-major |
//! | +40 | 4 | interleave | code: 1 K and V apart, 2 together |
//!
//! One latent for all heads (MLA), 44 bytes:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 4 | latent_dim | `u32`, elements of the latent; not 0 |
//! | +4 | 4 | rope_dim | `u32`, elements of the rotary part; not 0 |
//! | +8 | 12 | latent_format | [format](#format) of the latent |
//! | +20 | 4 | rope_dtype | code of a number format, of the rotary part |
//! | +24 | 4 | packing | code: 1 latent, scales and rotary part together, 2 apart |
//! | +28 | 4 | indexer_dim | `u32`, elements of an indexer's key; 0: no indexer |
//! | +32 | 12 | indexer_format | [format](#format) of its keys; 12 zero bytes without an indexer |
//!
//! ## Format
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | +0 | 4 | dtype | code: 1 f32, 2 f16, 3 bf16, 4 fp8 E4M3, 5 fp8 E5M2, 6 fp8 E4M3 FNUZ, 7 fp8 E5M2 FNUZ, 8 int8, 9 fp4 E2M1, 10 int4 |
//! | +4 | 4 | block_elements | `u32`, elements that share a scale; 0: no scales in the pages |
//! | +8 | 4 | scale_dtype | code: 1 f32, 2 f16, 3 bf16, 4 E8M0, 5 E4M3; 0 without scales |
//!
//! A model whose fields are each in order and make no layout (4-bit rows that end inside a byte, scale blocks that divide no
//! row, pages or planes past the limits) is refused too: with [`WireError::Layout`], by the rules of
//! [`KvLayout::geometry`](crate::geometry::KvLayout::geometry).
//!
//! # Versions
//!
//! The version rises when a byte moves, comes, goes or changes its meaning, and when more is demanded of a message. A new
//! code does not raise it: a reader that does not know it refuses the field by name, and a sender that does not use it is
//! understood as before. Numbers are never used again for something else.
//!
//! A reader refuses every version but its own, in whole: it does not guess at fields, and nothing is negotiated. What a
//! sender may count on is that magic, version and body length keep their places and meanings in every version, so that a
//! relay finds where the next message begins. Whoever cannot read a message ends the handoff: the pages of a request are
//! never made readable by half of an answer.

mod code;
mod error;
mod header;
mod layout;
mod message;
mod offer;
mod reader;
mod receipt;
mod refusal;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{MessageKind, WireError};
pub use message::Message;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u16 = 1;

/// Bytes of the header that every message begins with.
pub const HEADER_BYTES: usize = 16;

/// Most bytes of a message, header included: 64 MiB, which is over four million pages or digests.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
