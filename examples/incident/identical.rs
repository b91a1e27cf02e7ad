//! Shows that pages change nothing: the same logits, bit for bit, from one buffer and from scattered pages.

use crate::contiguous::Contiguous;
use crate::kv_cache::{KvCache, PAGE_TOKENS};
use crate::llama::{Llama, greedy};

/// Tokens decoded after the prompt: enough to begin another page, and to read a few words.
const DECODE_TOKENS: usize = PAGE_TOKENS;

/// Compares the logits after the prompt and after each of a few decoded tokens, from one buffer and from `cache`, which
/// begins empty.
///
/// # Errors
/// What the cache says when it cannot store or read.
pub(crate) fn check<C: KvCache>(model: &Llama, cache: &mut C, prompt: &[u32]) -> Result<Comparison, C::Error> {
    let mut whole = Contiguous::new(model.shape());
    let Ok(expected) = model.forward(&mut whole, 0, prompt);
    let got = model.forward(cache, 0, prompt)?;
    go_on(model, &mut whole, cache, expected, got)
}

/// As [`check`], for a prompt that was prefilled already: `whole` and `cache` hold it, and `logits` came with it.
///
/// # Errors
/// What the cache says when it cannot store or read.
pub(crate) fn check_prefilled<C: KvCache>(
    model: &Llama,
    whole: &Contiguous,
    cache: &mut C,
    logits: Vec<f32>,
) -> Result<Comparison, C::Error> {
    go_on(model, &mut whole.clone(), cache, logits.clone(), logits)
}

fn go_on<C: KvCache>(
    model: &Llama,
    whole: &mut Contiguous,
    cache: &mut C,
    mut expected: Vec<f32>,
    mut got: Vec<f32>,
) -> Result<Comparison, C::Error> {
    let mut comparison = Comparison { logits: 0, bit_identical: true, tokens: Vec::new() };
    for _ in 0..DECODE_TOKENS {
        comparison.note(&expected, &got);
        let (first, token) = (whole.tokens(), greedy(&got));
        comparison.tokens.push(token);
        let Ok(next) = model.forward(whole, first, &[token]);
        got = model.forward(cache, first, &[token])?;
        expected = next;
    }
    comparison.note(&expected, &got);
    Ok(comparison)
}

/// Logits compared, whether every bit of all of them was the same, and what was decoded on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) logits: usize,
    pub(crate) bit_identical: bool,
    /// Tokens that the compared cache gave.
    pub(crate) tokens: Vec<u32>,
}

impl Comparison {
    fn note(&mut self, expected: &[f32], got: &[f32]) {
        self.logits += got.len();
        self.bit_identical &= got.iter().map(|x| x.to_bits()).eq(expected.iter().map(|x| x.to_bits()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain_list::PlainList;
    use crate::random;

    /// Order in which pages are handed out, last first: neither rising nor falling.
    const SCATTERED: [usize; 8] = [3, 6, 1, 4, 7, 2, 0, 5];

    #[test]
    fn scattered_pages_are_bit_identical_and_a_changed_byte_is_not() {
        let model = random::llama(21);
        let prompt: Vec<u32> = (0..30).collect();
        let logits = random::SHAPE.vocab * (DECODE_TOKENS + 1);
        let mut list = PlainList::new(model.shape(), SCATTERED.to_vec());
        let same = check(&model, &mut list.sequence(&mut Vec::new()), &prompt);
        let mut whole = Contiguous::new(model.shape());
        let Ok(expected) = model.forward(&mut whole, 0, &prompt);
        let mut decoding = whole.clone();
        let Ok(tokens) = model.decode(&mut decoding, 30, expected.clone(), DECODE_TOKENS, u32::MAX);
        assert_eq!(same, Ok(Comparison { logits, bit_identical: true, tokens }));

        let mut other = Contiguous::new(model.shape());
        let Ok(_) = model.forward(&mut other, 0, &prompt[..29]);
        let Ok(_) = model.forward(&mut other, 29, &[40]);
        let Ok(differs) = check_prefilled(&model, &whole, &mut other, expected);
        assert!(!differs.bit_identical);
    }
}
