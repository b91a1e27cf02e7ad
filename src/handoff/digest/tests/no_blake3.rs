//! The keyed kind, in a build that does not have it.

use super::*;

// C10
#[test]
fn a_kind_that_is_not_built_is_refused_with_a_key_and_without() {
    let checksum = Checksum::Blake3Keyed;
    assert!(!checksum.is_built() && checksum.needs_key());
    for key in [None, Some(&DigestKey::new(SECRET))] {
        let refused = Digester::over(checksum, key, transfer(TRANSFER), Fingerprint::from_bytes(MEANING));
        assert_eq!(refused.err(), Some(DigestError::NotBuilt { checksum }));
    }
    let text = DigestError::NotBuilt { checksum }.to_string();
    assert!(text.contains("feature `blake3`"), "{text}");
}
