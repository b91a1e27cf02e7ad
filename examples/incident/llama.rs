//! A Llama forward pass over any [`KvCache`].
//!
//! Knows the model; does not know where keys and values live. Logits are bit-identical whatever the cache, the batch
//! and the number of threads.

use crate::gguf::{Gguf, GgufError};
use crate::kv_cache::KvCache;
use crate::layer::{Layer, normalise};
use crate::matrix::{Activations, Matrix};
use crate::shape::Shape;

/// Tokens of a prompt that go through the layers together.
const BATCH_TOKENS: usize = 16;

/// A model, ready to run.
#[derive(Debug)]
pub(crate) struct Llama {
    shape: Shape,
    /// One row per token; the output head is tied to it.
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
}

impl Llama {
    /// Reads a model file.
    ///
    /// # Errors
    /// A key or tensor is missing, or of another kind or shape than a Llama of this size has.
    pub(crate) fn read(file: &Gguf) -> Result<Self, GgufError> {
        let shape = Shape::read(file)?;
        let embedding = file.matrix("token_embd.weight", shape.vocab, shape.dim)?;
        let layers = (0..shape.layers).map(|index| Layer::read(file, index, &shape)).collect::<Result<_, _>>()?;
        let norm = file.vector("output_norm.weight", shape.dim)?;
        Ok(Self { shape, embedding, layers, norm })
    }

    #[cfg(test)]
    pub(crate) fn from_parts(shape: Shape, embedding: Matrix, layers: Vec<Layer>, norm: Vec<f32>) -> Self {
        Self { shape, embedding, layers, norm }
    }

    /// Shape of the model.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Runs `tokens` at the positions from `first` on, stores their K and V, and returns the logits of the last one.
    ///
    /// # Errors
    /// What the cache says when it cannot store or read.
    ///
    /// # Panics
    /// If `tokens` is empty or holds a token that is not in the vocabulary.
    pub(crate) fn forward<C: KvCache>(
        &self,
        cache: &mut C,
        first: usize,
        tokens: &[u32],
    ) -> Result<Vec<f32>, C::Error> {
        self.forward_in(BATCH_TOKENS, cache, first, tokens)
    }

    fn forward_in<C: KvCache>(
        &self,
        batch_tokens: usize,
        cache: &mut C,
        first: usize,
        tokens: &[u32],
    ) -> Result<Vec<f32>, C::Error> {
        assert!(!tokens.is_empty(), "a forward pass needs a token");
        let mut last = Vec::new();
        for (batch, tokens) in tokens.chunks(batch_tokens).enumerate() {
            let mut stream: Vec<f32> = tokens.iter().flat_map(|&token| self.embedding.row(token as usize)).collect();
            let first = first + batch * batch_tokens;
            let mut step = cache.step(first, tokens.len())?;
            for (index, layer) in self.layers.iter().enumerate() {
                layer.forward(&mut step, index, first, &mut stream, &self.shape)?;
            }
            last = stream.split_off(stream.len() - self.shape.dim);
        }
        Ok(self.logits(&last))
    }

    /// Only the last token of a prompt needs logits: the head is a fifth of a token's work.
    fn logits(&self, last: &[f32]) -> Vec<f32> {
        let normal = normalise(last, &self.norm, &self.shape);
        self.embedding.multiply(&Activations::quantise(&normal, self.shape.dim))
    }

    /// Decodes greedily: the first token comes from `logits`, which are those before position `first`.
    ///
    /// Ends after `limit` tokens, or at `stop`, which is not part of the result.
    ///
    /// # Errors
    /// What the cache says when it cannot store or read.
    pub(crate) fn decode<C: KvCache>(
        &self,
        cache: &mut C,
        first: usize,
        mut logits: Vec<f32>,
        limit: usize,
        stop: u32,
    ) -> Result<Vec<u32>, C::Error> {
        let mut tokens = Vec::new();
        while tokens.len() < limit {
            let token = greedy(&logits);
            if token == stop {
                break;
            }
            tokens.push(token);
            if tokens.len() < limit {
                logits = self.forward(cache, first + tokens.len() - 1, &[token])?;
            }
        }
        Ok(tokens)
    }
}

/// The token with the largest logit; of equals, the first.
pub(crate) fn greedy(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or(0, |(token, _)| token as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contiguous::Contiguous;
    use crate::random::{self, Random};

    fn prompt(seed: u64, len: usize) -> Vec<u32> {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.below(random::SHAPE.vocab) as u32).collect()
    }

    fn bits(logits: &[f32]) -> Vec<u32> {
        logits.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn batches_of_any_size_give_the_same_logits_and_cache() {
        let (model, tokens) = (random::llama(5), prompt(6, 50));
        let run = |batch_tokens| {
            let mut cache = Contiguous::new(model.shape());
            let Ok(logits) = model.forward_in(batch_tokens, &mut cache, 0, &tokens);
            (bits(&logits), cache)
        };
        let one_by_one = run(1);
        for batch_tokens in [2, 7, 16, 64] {
            assert!(run(batch_tokens) == one_by_one, "batch of {batch_tokens}");
        }
    }

    #[test]
    fn logits_depend_on_every_earlier_token() {
        let (model, tokens) = (random::llama(5), prompt(6, 20));
        let logits = |tokens: &[u32]| {
            let Ok(logits) = model.forward(&mut Contiguous::new(model.shape()), 0, tokens);
            bits(&logits)
        };
        let whole = logits(&tokens);
        for place in 0..tokens.len() {
            let mut other = tokens.clone();
            other[place] = (other[place] + 1) % random::SHAPE.vocab as u32;
            assert_ne!(logits(&other), whole, "token {place}");
        }
    }

    #[test]
    fn decode_ends_at_the_limit_and_before_the_stop_token() {
        let (model, tokens) = (random::llama(9), prompt(9, 8));
        let decode = |limit, stop| {
            let mut cache = Contiguous::new(model.shape());
            let Ok(logits) = model.forward(&mut cache, 0, &tokens);
            let Ok(decoded) = model.decode(&mut cache, tokens.len(), logits, limit, stop);
            decoded
        };
        let free = decode(6, u32::MAX);
        assert_eq!(free.len(), 6);
        let stop = free[3];
        let until = free.iter().position(|&token| token == stop).expect("it was decoded");
        assert_eq!(decode(6, stop), free[..until]);
    }

    #[test]
    fn greedy_takes_the_first_of_equals() {
        assert_eq!(greedy(&[0.0, 2.0, 1.0, 2.0]), 1);
    }
}
