//! Splits text into the words within which tokens are merged.
//!
//! First each digit is cut out on its own, then GPT-2's rule splits what lies between:
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//! Letters are Rust's `is_alphabetic`, which also counts a few marks that `\p{L}` does not; that changes the tokens
//! of some scripts with combining vowels, never the text they decode to.

const ENDINGS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// Words of a text, in order; joined together they are the text.
pub(crate) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for piece in text.split_inclusive(char::is_numeric) {
        let digit = piece.chars().next_back().filter(|c| c.is_numeric()).map_or(0, char::len_utf8);
        let (between, digit) = piece.split_at(piece.len() - digit);
        split_between(between, &mut words);
        words.extend(Some(digit).filter(|digit| !digit.is_empty()));
    }
    words
}

/// Splits a text without digits.
fn split_between<'t>(mut text: &'t str, words: &mut Vec<&'t str>) {
    while !text.is_empty() {
        let (word, rest) = text.split_at(word_bytes(text));
        words.push(word);
        text = rest;
    }
}

/// Length of the first word of a text that is not empty.
fn word_bytes(text: &str) -> usize {
    if let Some(ending) = ENDINGS.iter().find(|ending| text.starts_with(*ending)) {
        return ending.len();
    }
    let space = usize::from(text.starts_with(' '));
    match text[space..].chars().next() {
        Some(c) if c.is_alphabetic() => space + run(&text[space..], char::is_alphabetic),
        Some(c) if is_mark(c) => space + run(&text[space..], is_mark),
        _ => space_bytes(text),
    }
}

/// White space up to the end, or all but its last character, which may belong to the word behind it.
fn space_bytes(text: &str) -> usize {
    let all = run(text, char::is_whitespace);
    let last = text[..all].chars().next_back().map_or(0, char::len_utf8);
    if all == text.len() || all == last { all } else { all - last }
}

fn is_mark(c: char) -> bool {
    !c.is_whitespace() && !c.is_alphabetic()
}

/// Bytes of the longest start of `text` whose characters all pass.
fn run(text: &str, pass: impl Fn(char) -> bool) -> usize {
    text.find(|c| !pass(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_split_as_gpt2_and_smollm_do() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("The vault", &["The", " vault"]),
            ("ORCHID-7421-Z", &["ORCHID", "-", "7", "4", "2", "1", "-", "Z"]),
            ("it's we'll 'x", &["it", "'s", " we", "'ll", " '", "x"]),
            ("a  b\n\n c \n", &["a", " ", " b", "\n\n", " c", " \n"]),
            ("x 7", &["x", " ", "7"]),
            ("\nfoo,  bar", &["\n", "foo", ",", " ", " bar"]),
            ("é½漢!?", &["é", "½", "漢", "!?"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    #[test]
    fn words_join_to_the_text() {
        let text = " \u{a0}\u{3000}a\u{301} 1\u{660}  'S\t\t'd\r\n . ";
        assert_eq!(words(text).concat(), text);
    }
}
