//! The keyed kind, in a build that has it.

use super::*;

// C10
#[test]
fn blake3_digests_are_the_hash_of_the_bytes_under_a_key_of_the_head() {
    let vector = ::blake3::keyed_hash(b"whats the Elvish word for friend", b"").to_hex();
    assert_eq!(&vector[..32], "92b2b75604ed3c761f9d6f62392c8a92", "BLAKE3's own vector");
    let key_of_page = ::blake3::keyed_hash(&SECRET, &head(b"blake3-keyed"));
    let hash = ::blake3::keyed_hash(key_of_page.as_bytes(), b"bytes");
    let expected = u128::from_be_bytes(hash.as_bytes()[..16].try_into().unwrap());
    assert_eq!(value(digest(&digester(Checksum::Blake3Keyed), 9, 16, b"bytes")), expected);
    assert_eq!(expected, 0x2C0F_F4E7_1C23_E47A_58AD_AF3B_F6DB_08C4, "as in every release of this version");
}

// C10
#[test]
fn every_bit_of_the_key_changes_the_digest() {
    let with = |secret| {
        let (transfer, meaning) = (transfer(TRANSFER), Fingerprint::from_bytes(MEANING));
        let made = Digester::over(Checksum::Blake3Keyed, Some(&DigestKey::new(secret)), transfer, meaning).unwrap();
        // A clone has a key of its own, which outlives the first.
        digest(&made.clone(), 9, 16, b"bytes")
    };
    let mut seen = vec![with(SECRET)];
    assert_eq!(seen[0], digest(&digester(Checksum::Blake3Keyed), 9, 16, b"bytes"), "the same key, the same digest");
    for bit in 0..256 {
        let mut secret = SECRET;
        secret[bit / 8] ^= 1 << (bit % 8);
        let digest = with(secret);
        assert!(!seen.contains(&digest), "bit {bit}");
        seen.push(digest);
    }
}
