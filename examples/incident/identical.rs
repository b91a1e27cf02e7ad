//! Shows that pages change nothing: the same logits, bit for bit, from one buffer and from scattered pages.

use crate::contiguous::Contiguous;
use crate::kv_cache::PAGE_TOKENS;
use crate::llama::{Llama, greedy};
use crate::plain_list::{OutOfPages, PlainList};

/// Tokens decoded after the prompt: enough to begin another page.
const DECODE_TOKENS: usize = PAGE_TOKENS / 2;
/// Order in which pages are handed out, last first: neither rising nor falling.
const SCATTERED: [usize; 8] = [3, 6, 1, 4, 7, 2, 0, 5];

/// Compares the logits after the prompt and after each of a few decoded tokens; returns how many were compared.
///
/// # Errors
/// [`OutOfPages`] for a prompt that the few pages cannot hold.
///
/// # Panics
/// If any bit differs.
pub(crate) fn check(model: &Llama, prompt: &[u32]) -> Result<usize, OutOfPages> {
    let mut list = PlainList::new(model.shape(), SCATTERED.to_vec());
    let mut table = Vec::new();
    let mut paged = list.sequence(&mut table);
    let mut whole = Contiguous::new(model.shape());
    let mut tokens = prompt.to_vec();
    let mut compared = 0;
    for _ in 0..=DECODE_TOKENS {
        let first = whole.tokens();
        let Ok(expected) = model.forward(&mut whole, first, &tokens);
        let got = model.forward(&mut paged, first, &tokens)?;
        assert!(got.iter().map(|x| x.to_bits()).eq(expected.iter().map(|x| x.to_bits())), "pages changed the logits");
        compared += got.len();
        tokens = vec![greedy(&expected)];
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn random_model_passes() {
        let model = random::llama(21);
        let prompt: Vec<u32> = (0..30).collect();
        assert_eq!(check(&model, &prompt), Ok(random::SHAPE.vocab * (DECODE_TOKENS + 1)));
    }
}
