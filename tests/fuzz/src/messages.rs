//! Bytes into every decoder of handoff messages: none panics, and what is taken is written again as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagestamp::handoff::wire::HEADER_BYTES;
use pagestamp::{Message, Offer, Receipt, Refusal};

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    // Again with a length that is right, so that what was cut or added reaches the body.
    let mut bytes = bytes.to_vec();
    let body_bytes = bytes.len().saturating_sub(HEADER_BYTES) as u32;
    if let Some(length) = bytes.get_mut(8..12) {
        length.copy_from_slice(&body_bytes.to_le_bytes());
        decode(&bytes);
    }
});

fn decode(bytes: &[u8]) {
    let message = Message::from_bytes(bytes);
    assert_eq!(Offer::from_bytes(bytes).is_ok(), matches!(message, Ok(Message::Offer(_))));
    assert_eq!(Receipt::from_bytes(bytes).is_ok(), matches!(message, Ok(Message::Receipt(_))));
    assert_eq!(Refusal::from_bytes(bytes).is_ok(), matches!(message, Ok(Message::Refusal(_))));
    match message {
        Ok(message) => assert_eq!(message.to_bytes().as_deref(), Ok(bytes), "one message, one encoding"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
