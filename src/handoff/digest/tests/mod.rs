//! Digests, seen from inside: each kind is computed again from its parts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "blake3")]
mod blake3;
#[cfg(not(feature = "blake3"))]
mod no_blake3;

use proptest::prelude::*;
use twox_hash::XxHash3_128;

use super::{Checksum, Digest, DigestError, DigestKey, Digester};
use crate::geometry::Fingerprint;
use crate::id::TransferId;
use crate::memory::Crc32c;

const TRANSFER: u128 = 7 << 88 | 5 << 64 | 3;
const MEANING: [u8; 16] = *b"meaning of bytes";
const SECRET: [u8; 32] = *b"zQxJvWkYzQxJvWkYzQxJvWkYzQxJvWkY";

fn transfer(bits: u128) -> TransferId {
    TransferId::from_bits(bits).unwrap()
}

fn key_for(checksum: Checksum) -> Option<DigestKey> {
    checksum.needs_key().then(|| DigestKey::new(SECRET))
}

fn over(checksum: Checksum, transfer_bits: u128, meaning: [u8; 16]) -> Digester {
    let (transfer, meaning) = (transfer(transfer_bits), Fingerprint::from_bytes(meaning));
    Digester::over(checksum, key_for(checksum).as_ref(), transfer, meaning).unwrap()
}

fn digester(checksum: Checksum) -> Digester {
    over(checksum, TRANSFER, MEANING)
}

fn digest(digester: &Digester, ordinal: u32, tokens: u32, bytes: &[u8]) -> Digest {
    let mut page = digester.page(ordinal, tokens);
    page.update(bytes);
    page.finish()
}

/// The kinds that this build computes.
fn built() -> impl Iterator<Item = Checksum> {
    Checksum::ALL.iter().copied().filter(|checksum| checksum.has_digests() && checksum.is_built())
}

/// The head of page 9 with 16 tokens, written out.
fn head(name: &[u8]) -> Vec<u8> {
    let mut head = b"pagestamp.page-digest\0\0\0\0\0\0\0\x01\0\0\0".to_vec();
    head.extend_from_slice(name);
    head.resize(48, 0);
    head.extend_from_slice(&TRANSFER.to_le_bytes());
    head.extend_from_slice(&MEANING);
    head.resize(120, 0);
    head.extend_from_slice(&[9, 0, 0, 0, 16, 0, 0, 0]);
    head
}

fn value(digest: Digest) -> u128 {
    u128::from_be_bytes(digest.to_bytes())
}

// C10
#[test]
fn crc32c_digests_are_the_crc_of_head_and_bytes_below_a_tag() {
    let mut crc = Crc32c::new();
    crc.update(&[head(b"crc32c"), b"bytes".to_vec()].concat());
    let expected = u128::from_be_bytes(*b"pages.crc32c\0\0\0\0") | u128::from(crc.finish());
    assert_eq!(value(digest(&digester(Checksum::Crc32c), 9, 16, b"bytes")), expected);
    assert_eq!(expected, 0x7061_6765_732E_6372_6333_3263_4016_36CC, "as in every release of this version");
}

// C10
#[test]
fn xxh3_digests_are_the_hash_of_head_and_bytes() {
    assert_eq!(XxHash3_128::oneshot(b""), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F, "XXH3's own vector");
    let expected = XxHash3_128::oneshot(&[head(b"xxh3-128"), b"bytes".to_vec()].concat());
    assert_eq!(value(digest(&digester(Checksum::Xxh3), 9, 16, b"bytes")), expected);
    assert_eq!(expected, 0xA81F_0107_9CB6_7A86_4A00_DBC4_C8C5_5752, "as in every release of this version");
}

// C10
#[test]
fn every_field_of_the_head_and_every_bit_changes_the_digest() {
    let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
    for checksum in built() {
        let base = digester(checksum);
        let mut seen = vec![digest(&base, 9, 16, &bytes)];
        let mut differs = |what: &str, digest: Digest| {
            assert!(!seen.contains(&digest), "{checksum}: {what}");
            seen.push(digest);
        };
        differs("transfer", digest(&over(checksum, TRANSFER + 1, MEANING), 9, 16, &bytes));
        differs("pool of the transfer", digest(&over(checksum, TRANSFER + (1 << 64), MEANING), 9, 16, &bytes));
        differs("nonce of the transfer", digest(&over(checksum, TRANSFER + (1 << 96), MEANING), 9, 16, &bytes));
        differs("meaning", digest(&over(checksum, TRANSFER, *b"meaning of bytez"), 9, 16, &bytes));
        differs("ordinal", digest(&base, 10, 16, &bytes));
        differs("high part of the ordinal", digest(&base, 9 + (1 << 24), 16, &bytes));
        differs("fill", digest(&base, 9, 15, &bytes));
        differs("ordinal and fill, exchanged", digest(&base, 16, 9, &bytes));
        differs("a byte less", digest(&base, 9, 16, &bytes[1..]));
        differs("a zero more", digest(&base, 9, 16, &[&bytes[..], &[0]].concat()));
        differs("no bytes", digest(&base, 9, 16, &[]));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            differs("a bit", digest(&base, 9, 16, &flipped));
        }
    }
}

// C10
#[test]
fn the_same_page_under_two_kinds_never_agrees() {
    let pages = [&[][..], &[0; 64], b"bytes"];
    let hashes = |checksum| pages.map(|bytes| value(digest(&digester(checksum), 9, 16, bytes)));
    let kinds: Vec<_> = built().map(hashes).collect();
    for (at, kind) in kinds.iter().enumerate() {
        for other in &kinds[..at] {
            for (a, b) in kind.iter().zip(other) {
                assert_ne!(a, b);
                // Not by the tag alone: the head names the kind.
                assert_ne!(*a as u32, *b as u32);
            }
        }
    }
    let head_of = |checksum| super::head::Head::new(checksum, transfer(TRANSFER), Fingerprint::from_bytes(MEANING));
    let heads: std::collections::BTreeSet<_> = Checksum::ALL.iter().map(|kind| head_of(*kind).of_page(9, 16)).collect();
    assert_eq!(heads.len(), Checksum::ALL.len(), "also the kinds that are not built");
}

/// Four bytes after which the CRC of a page is zero, when it was `crc` before them.
fn to_zero(crc: u32) -> [u8; 4] {
    let back = |after: u32, _| if after >> 31 == 1 { (after ^ 0x82F6_3B78) << 1 | 1 } else { after << 1 };
    ((0..32).fold(!0, back) ^ !crc).to_le_bytes()
}

// C10
#[test]
fn no_digest_is_zero() {
    let crc = digester(Checksum::Crc32c);
    let before = value(digest(&crc, 9, 16, b"bytes")) as u32;
    let zero = digest(&crc, 9, 16, &[&b"bytes"[..], &to_zero(before)].concat());
    assert_eq!(value(zero) as u32, 0, "a CRC of zero");
    assert!(!zero.is_zero());
    // Nobody can make a hash of 128 bits zero.
    assert_eq!(value(Digest::of(0)), 1);
    assert_eq!(value(Digest::of(2)), 2);
    assert!(Digest::ZERO.is_zero() && !Digest::of(0).is_zero());
}

// C10
#[test]
fn a_key_is_given_exactly_to_the_kinds_that_need_one() {
    let make = |checksum, key: Option<&DigestKey>| {
        Digester::over(checksum, key, transfer(TRANSFER), Fingerprint::from_bytes(MEANING)).map(|it| it.checksum())
    };
    let key = DigestKey::new(SECRET);
    for checksum in built() {
        let (with, without) = (make(checksum, Some(&key)), make(checksum, None));
        if checksum.needs_key() {
            assert_eq!((with, without), (Ok(checksum), Err(DigestError::NoKey { checksum })));
        } else {
            assert_eq!((with, without), (Err(DigestError::UnusedKey { checksum }), Ok(checksum)));
        }
    }
    for key in [None, Some(&key)] {
        assert_eq!(make(Checksum::BytesUnverified, key), Err(DigestError::NoDigests));
    }
}

// C11
#[test]
fn debug_and_errors_show_neither_key_nor_digest_nor_bytes() {
    let checksum = Checksum::Blake3Keyed;
    let key = DigestKey::new(SECRET);
    let mut shown = vec![
        format!("{key:?}"),
        format!("{:#?}", key.clone()),
        format!("{:?}", DigestError::NoKey { checksum }),
        DigestError::UnusedKey { checksum: Checksum::Xxh3 }.to_string(),
    ];
    for checksum in built() {
        let digester = digester(checksum);
        let mut page = digester.page(9, 16);
        page.update(&SECRET);
        shown.extend([format!("{digester:#?}"), format!("{page:#?}"), format!("{:#?}", page.finish())]);
    }
    assert_eq!(shown[0], "DigestKey(..)");
    for text in &shown {
        // Neither a letter of the secret as a number, nor any number of a digest or a head.
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| digits.len() > 1);
        let known = ["32", "128"];
        assert_eq!(numbers.filter(|number| !known.contains(number)).count(), 0, "{text}");
        assert!(!text.contains("zQx"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    // C10
    #[test]
    fn any_cutting_of_the_bytes_gives_the_same_digest(
        bytes in prop::collection::vec(any::<u8>(), 0..20_000),
        cuts in prop::collection::vec(0.0..1.0, 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for checksum in built() {
            let digester = digester(checksum);
            let mut pieces = digester.page(9, 16);
            cuts.windows(2).for_each(|cut| pieces.update(&bytes[cut[0]..cut[1]]));
            prop_assert_eq!(pieces.finish(), digest(&digester, 9, 16, &bytes), "{}", checksum);
        }
    }
}
