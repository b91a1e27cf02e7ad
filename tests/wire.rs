//! Messages as bytes: what is written is read back the same, and nothing else is read.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "wire/known.rs"]
mod known;
#[path = "wire/values.rs"]
mod values;

use std::path::PathBuf;
use std::{env, fs};

use pagestamp::handoff::wire::{HEADER_BYTES, MAX_MESSAGE_BYTES};
use pagestamp::{Error, Message, Offer, Receipt, Refusal, WireError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use arbitrary::message;

/// A failing case is shown in full, so that none has to be kept in a file.
fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn bytes_of(message: &Message) -> Vec<u8> {
    message.to_bytes().unwrap()
}

/// Gives bytes to every decoder. None panics, all agree, and what is taken is written again as the same bytes.
fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    let offer = Offer::from_bytes(bytes);
    let receipt = Receipt::from_bytes(bytes);
    let refusal = Refusal::from_bytes(bytes);
    let message = Message::from_bytes(bytes);
    match &message {
        Ok(Message::Offer(one)) => assert_eq!(offer.as_ref(), Ok(one)),
        Ok(Message::Receipt(one)) => assert_eq!(receipt.as_ref(), Ok(one)),
        Ok(Message::Refusal(one)) => assert_eq!(refusal.as_ref(), Ok(one)),
        Ok(other) => panic!("a kind without a test: {other:?}"),
        Err(error) => {
            assert!(offer.is_err() && receipt.is_err() && refusal.is_err());
            assert!(!error.to_string().is_empty() && !error.to_string().ends_with('.'));
        }
    }
    if let Ok(message) = &message {
        assert_eq!(message.to_bytes().as_deref(), Ok(bytes), "one message, one encoding");
    }
    let announced = bytes.first_chunk().map(Message::body_bytes);
    if message.is_ok() {
        assert_eq!(announced, Some(Ok(bytes.len() - HEADER_BYTES)));
    }
    assert!(!matches!(announced, Some(Ok(body_bytes)) if body_bytes > MAX_MESSAGE_BYTES - HEADER_BYTES));
    message
}

/// Sets the length in the header to what follows it, so that the body is looked at.
fn with_true_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let body_bytes = (bytes.len().saturating_sub(HEADER_BYTES)) as u32;
    if let Some(length) = bytes.get_mut(8..12) {
        length.copy_from_slice(&body_bytes.to_le_bytes());
    }
    bytes
}

/// One way to damage a message.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Number(Index, u32),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    Splice(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<Index>;
    // numbers that sit on an edge of some field
    let number = prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(1 << 31), 0u32..70, any::<u32>()];
    prop_oneof![
        (place(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (place(), number).prop_map(|(at, number)| Damage::Number(at, number)),
        place().prop_map(Damage::Cut),
        (place(), vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (place(), place()).prop_map(|(from, to)| Damage::Remove(from, to)),
        (place(), place()).prop_map(|(from, to)| Damage::Splice(from, to)),
    ]
}

fn damaged(mut bytes: Vec<u8>, other: &[u8], damage: &Damage) -> Vec<u8> {
    let at = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
    match damage {
        Damage::Flip(index, bit) if !bytes.is_empty() => {
            let at = index.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Damage::Number(index, number) => {
            // fields mostly stand at multiples of four
            let at = index.index(bytes.len() / 4 + 1) * 4;
            if let Some(field) = bytes.get_mut(at..at + 4) {
                field.copy_from_slice(&number.to_le_bytes());
            }
        }
        Damage::Flip(..) => {}
        Damage::Cut(index) => bytes.truncate(at(index, &bytes)),
        Damage::Insert(index, more) => {
            let at = at(index, &bytes);
            bytes.splice(at..at, more.iter().copied());
        }
        Damage::Remove(from, to) => {
            let (from, to) = (at(from, &bytes), at(to, &bytes));
            bytes.drain(from.min(to)..from.max(to));
        }
        Damage::Splice(from, to) => {
            bytes.truncate(at(from, &bytes));
            bytes.extend_from_slice(&other[at(to, other)..]);
        }
    }
    bytes
}

proptest! {
    #![proptest_config(cases())]

    // C10
    #[test]
    fn a_message_comes_back_as_it_was(message in message()) {
        let bytes = bytes_of(&message);
        let back = decode(&bytes);
        prop_assert_eq!(back.as_ref(), Ok(&message));
        if let (Ok(Message::Offer(back)), Message::Offer(sent)) = (&back, &message) {
            prop_assert_eq!(back.model().fingerprint(), sent.model().fingerprint());
            prop_assert_eq!(back.model().slice_fingerprint(back.slice()), sent.model().slice_fingerprint(sent.slice()));
        }
    }

    // C11
    #[test]
    fn arbitrary_bytes_are_refused_or_written_again_as_they_were(
        bytes in vec(any::<u8>(), 0..400), header in any::<bool>(), kind in 0u8..5,
    ) {
        let head = if header { vec![b'p', b'g', b's', b't', 1, 0, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0] } else { Vec::new() };
        let bytes = [head, bytes].concat();
        let _ = decode(&bytes);
        let _ = decode(&with_true_length(bytes));
    }

    // C11
    #[test]
    fn a_damaged_message_is_refused_or_written_again_as_it_is(
        one in message(), two in message(), damages in vec(damage(), 1..4),
    ) {
        let (mut bytes, other) = (bytes_of(&one), bytes_of(&two));
        for damage in &damages {
            bytes = damaged(bytes, &other, damage);
            let _ = decode(&bytes);
            let _ = decode(&with_true_length(bytes.clone()));
        }
    }

    // C10
    #[test]
    fn no_prefix_of_a_message_is_a_message(message in message(), ends in vec(any::<Index>(), 32)) {
        let bytes = bytes_of(&message);
        // all near both ends, where the header and the last fields are, and some between
        let near = (0..bytes.len()).filter(|end| *end < 100 || bytes.len() - end < 100);
        for end in near.chain(ends.iter().map(|end| end.index(bytes.len()))) {
            prop_assert!(decode(&bytes[..end]).is_err(), "the first {} of {} bytes", end, bytes.len());
            prop_assert!(decode(&with_true_length(bytes[..end].to_vec())).is_err(), "a header that fits {} bytes", end);
        }
    }

    // C10
    #[test]
    fn no_message_goes_on_after_its_end(message in message(), more in vec(any::<u8>(), 1..20)) {
        let bytes = [bytes_of(&message), more].concat();
        prop_assert!(decode(&bytes).is_err());
        prop_assert!(decode(&with_true_length(bytes)).is_err());
    }
}

// C10
#[test]
fn the_bytes_of_known_messages_are_those_of_version_1() {
    for known in known::messages() {
        assert_eq!(values::hex(&bytes_of(&known.message)), known.hex(), "{}", known.name);
        assert_eq!(decode(&known.bytes()), Ok(known.message), "{}", known.name);
    }
}

// C10
#[test]
fn a_caller_with_one_error_type_gets_what_is_wrong_with_the_bytes() {
    let read = |bytes: &[u8]| -> Result<Message, Error> { Ok(Message::from_bytes(bytes)?) };
    let error = read(b"GET / HTTP/1.1").unwrap_err();
    assert!(matches!(error, Error::Wire(WireError::NotAMessage)), "{error:?}");
    assert!(error.to_string().starts_with("the first 4 bytes are not \"pgst\""), "{error}");
}

/// Where readers in other languages look for messages: the folder named by the gate.
fn folder() -> PathBuf {
    let folder = env::var_os("PAGESTAMP_WIRE_SAMPLES")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("wire-samples"), PathBuf::from);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Some messages with what they say as JSON, and some damaged ones, for `tests/gates/wire.sh`. Always the same ones.
// C10
#[test]
fn samples_are_written_for_readers_in_other_languages() {
    let folder = folder();
    let mut runner = TestRunner::deterministic();
    let mut draw = |count: usize| -> Vec<Message> {
        (0..count).map(|_| message().new_tree(&mut runner).unwrap().current()).collect()
    };
    let known = known::messages().map(|known| (known.name.to_owned(), known.message));
    let drawn = draw(60).into_iter().enumerate().map(|(n, message)| (n.to_string(), message));
    let (names, messages): (Vec<String>, Vec<Message>) = known.into_iter().chain(drawn).unzip();
    for (name, message) in names.iter().zip(&messages) {
        let bytes = folder.join(format!("good_{name}.bin"));
        fs::write(&bytes, bytes_of(message)).unwrap();
        fs::write(folder.join(format!("good_{name}.json")), values::json(message).to_string()).unwrap();
        assert_eq!(decode(&fs::read(bytes).unwrap()).as_ref(), Ok(message));
    }
    let mut runner = TestRunner::deterministic();
    let random = (0..400).map(|n| {
        let (one, other) = (&messages[n % messages.len()], &messages[(n + 1) % messages.len()]);
        damaged(bytes_of(one), &bytes_of(other), &damage().new_tree(&mut runner).unwrap().current())
    });
    // Each place of the known messages in turn: too little, too much, and an overlong form of NUL where text is.
    let each = messages[..3].iter().flat_map(|known| {
        let bytes = bytes_of(known);
        (0..bytes.len() - 3).flat_map(move |at| {
            let bytes = bytes.clone();
            [0, u32::MAX, 0x80c0].map(move |number: u32| {
                let mut bytes = bytes.clone();
                bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
                bytes
            })
        })
    });
    // Whether a model can exist is a matter of geometry, which no reader has to know.
    let refused = |bytes: &Vec<u8>| !matches!(decode(bytes), Ok(_) | Err(WireError::Layout { field: "model", .. }));
    let bad: Vec<Vec<u8>> = random.map(with_true_length).chain(each).filter(refused).collect();
    assert!(bad.len() > 1000, "too few of them are of use: {}", bad.len());
    for (n, bytes) in bad.iter().enumerate() {
        fs::write(folder.join(format!("bad_{n}.bin")), bytes).unwrap();
    }
}
