//! Byte-pair tokenizer: GPT-2's, with the `smollm` rule that each digit stands alone.
//!
//! Owns the vocabulary and the merges. Text is split into words ([`crate::words`]), a word into bytes, and the bytes
//! are merged in the order of the merge ranks. Special tokens are made by name only: no text that a tenant sends
//! turns into one.

use std::collections::HashMap;

use crate::gguf::{Gguf, GgufError};
use crate::words::words;

/// Kind of a token that stands for itself and not for text.
const CONTROL: i128 = 3;

/// Text to tokens and back.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    /// Bytes of each token; of a special token, its name.
    texts: Vec<Vec<u8>>,
    specials: HashMap<String, u32>,
    /// Token of each single byte; a byte that the vocabulary lacks becomes `unknown`.
    bytes: [u32; 256],
    /// Two neighbours, and the rank and token of their merge. Lower ranks merge first.
    merges: HashMap<(u32, u32), (usize, u32)>,
    stop: u32,
}

impl Tokenizer {
    /// Reads the tokenizer of a model file.
    ///
    /// # Errors
    /// A key is missing, or it is another kind of tokenizer than a `smollm` one.
    pub(crate) fn read(file: &Gguf) -> Result<Self, GgufError> {
        if (file.text("tokenizer.ggml.model")?, file.text("tokenizer.ggml.pre")?) != ("gpt2", "smollm") {
            return Err(GgufError::Unsupported { what: "tokenizer (only gpt2 with smollm is)" });
        }
        let names = file.texts("tokenizer.ggml.tokens")?;
        let kinds = file.wholes("tokenizer.ggml.token_type")?;
        let merges = file.texts("tokenizer.ggml.merges")?;
        let id = |key| match file.size(key)? {
            id if id < names.len() => Ok(id as u32),
            _ => Err(GgufError::Key { key: key.to_owned() }),
        };
        let unknown = id("tokenizer.ggml.unknown_token_id")?;
        let stop = id("tokenizer.ggml.eos_token_id")?;
        Ok(Self::from_parts(names, kinds, merges, unknown, stop))
    }

    fn from_parts(names: &[String], kinds: &[i128], merges: &[String], unknown: u32, stop: u32) -> Self {
        let letters = byte_letters();
        let ids: HashMap<&str, u32> = names.iter().zip(0..).map(|(name, id)| (name.as_str(), id)).collect();
        let is_special = |id: usize| kinds.get(id) == Some(&CONTROL);
        let texts = names.iter().enumerate();
        let texts =
            texts.map(|(id, name)| if is_special(id) { name.clone().into_bytes() } else { spell(name, &letters) });
        let specials = names.iter().enumerate().filter(|&(id, _)| is_special(id));
        Self {
            texts: texts.collect(),
            specials: specials.map(|(id, name)| (name.clone(), id as u32)).collect(),
            bytes: letters.map(|letter| ids.get(letter.to_string().as_str()).copied().unwrap_or(unknown)),
            merges: merges.iter().enumerate().filter_map(|(rank, merge)| find_merge(rank, merge, &ids)).collect(),
            stop,
        }
    }

    /// Tokens of a text.
    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        words(text).into_iter().flat_map(|word| self.merge(word)).collect()
    }

    /// A special token, such as `<|endoftext|>`.
    pub(crate) fn special(&self, name: &str) -> Option<u32> {
        self.specials.get(name).copied()
    }

    /// The token that ends an answer.
    pub(crate) fn stop(&self) -> u32 {
        self.stop
    }

    /// Bytes of the longest token: a text of `n` bytes has at least `n / longest` tokens.
    pub(crate) fn longest_token_bytes(&self) -> usize {
        self.texts.iter().map(Vec::len).max().unwrap_or(1).max(1)
    }

    /// Text of tokens; bytes that are no UTF-8 show as the replacement character.
    pub(crate) fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> =
            tokens.iter().filter_map(|&token| self.texts.get(token as usize)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Merges a word's bytes, best pair first, until no pair merges.
    fn merge(&self, word: &str) -> Vec<u32> {
        let mut tokens: Vec<u32> = word.bytes().map(|byte| self.bytes[usize::from(byte)]).collect();
        while let Some((pair, merged)) = self.best_pair(&tokens) {
            let mut place = 0;
            while place + 1 < tokens.len() {
                if (tokens[place], tokens[place + 1]) == pair {
                    tokens[place] = merged;
                    tokens.remove(place + 1);
                }
                place += 1;
            }
        }
        tokens
    }

    fn best_pair(&self, tokens: &[u32]) -> Option<((u32, u32), u32)> {
        let pairs = tokens.iter().zip(tokens.iter().skip(1)).map(|(&left, &right)| (left, right));
        let merges = pairs.filter_map(|pair| self.merges.get(&pair).map(|&(rank, merged)| (rank, pair, merged)));
        merges.min().map(|(_, pair, merged)| (pair, merged))
    }
}

/// `None` if the vocabulary lacks a part: such a merge can never happen.
fn find_merge(rank: usize, merge: &str, ids: &HashMap<&str, u32>) -> Option<((u32, u32), (usize, u32))> {
    let (left, right) = merge.split_once(' ')?;
    let merged = ids.get(format!("{left}{right}").as_str())?;
    Some(((*ids.get(left)?, *ids.get(right)?), (rank, *merged)))
}

/// GPT-2's letter for each byte: printable bytes stand for themselves, the others for letters from U+0100 on.
fn byte_letters() -> [char; 256] {
    let mut next = 0x100..;
    std::array::from_fn(|byte| match byte as u8 {
        printable @ (b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) => char::from(printable),
        _ => next.next().and_then(char::from_u32).unwrap_or_default(),
    })
}

/// Bytes that a token's letters stand for.
fn spell(name: &str, letters: &[char; 256]) -> Vec<u8> {
    let byte = |letter| letters.iter().position(|&known| known == letter).map(|byte| byte as u8);
    name.chars().filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `<end>`, the 256 bytes, and then one token per merge.
    fn tokenizer(merges: &[&str]) -> Tokenizer {
        let letters = byte_letters();
        let mut names = vec!["<end>".to_owned()];
        names.extend(letters.iter().map(char::to_string));
        names.extend(merges.iter().map(|merge| merge.replace(' ', "")));
        let merges: Vec<String> = merges.iter().map(|&merge| merge.to_owned()).collect();
        Tokenizer::from_parts(&names, &[CONTROL], &merges, 0, 0)
    }

    #[test]
    fn lower_ranks_merge_first() {
        let tokens = tokenizer(&["b c", "a b", "a bc"]);
        assert_eq!(tokens.encode("abc"), [259]);
        let tokens = tokenizer(&["a b", "b c", "a bc"]);
        assert_eq!(tokens.encode("abc"), [257, 1 + u32::from(b'c')]);
        assert_eq!(tokens.encode("abab"), [257, 257]);
    }

    #[test]
    fn every_text_comes_back() {
        let tokens = tokenizer(&["Ġ a", "Ġa b"]);
        for text in ["", " ab ab", "tab\t\r\n  7421 é 漢字 \u{1f600}", "<end>", "it's 'll  x"] {
            assert_eq!(tokens.decode(&tokens.encode(text)), text);
        }
        assert_eq!(tokens.encode(" ab"), [258]);
    }

    #[test]
    fn text_never_becomes_a_special_token() {
        let tokens = tokenizer(&[]);
        assert!(!tokens.encode("<end>").contains(&0));
        assert_eq!(tokens.special("<end>"), Some(0));
        assert_eq!(tokens.special("a"), None);
        assert_eq!(tokens.decode(&[0]), "<end>");
    }

    #[test]
    fn letters_are_those_of_gpt2() {
        let letters = byte_letters();
        assert_eq!(
            (letters[b' ' as usize], letters[b'\n' as usize], letters[0xad], letters[b'A' as usize]),
            ('Ġ', 'Ċ', 'Ń', 'A')
        );
    }
}
