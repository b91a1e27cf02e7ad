//! One transformer layer: attention, then the gated feed-forward net, each added to the residual stream.

use crate::attention::{attend, rotate};
use crate::gguf::{Gguf, GgufError};
use crate::kv_cache::KvStep;
use crate::matrix::{Activations, Matrix};
use crate::shape::Shape;

/// Weights of one layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) attention_out: Matrix,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

impl Layer {
    /// Reads layer `index` of a model file.
    ///
    /// # Errors
    /// A tensor is missing or not of the shape that the model says.
    pub(crate) fn read(file: &Gguf, index: usize, shape: &Shape) -> Result<Self, GgufError> {
        let matrix = |name: &str, rows, columns| file.matrix(&format!("blk.{index}.{name}.weight"), rows, columns);
        let vector = |name: &str| file.vector(&format!("blk.{index}.{name}.weight"), shape.dim);
        let Shape { dim, ffn_dim, .. } = *shape;
        Ok(Self {
            attention_norm: vector("attn_norm")?,
            query: matrix("attn_q", dim, dim)?,
            key: matrix("attn_k", shape.kv_dim(), dim)?,
            value: matrix("attn_v", shape.kv_dim(), dim)?,
            attention_out: matrix("attn_output", dim, dim)?,
            ffn_norm: vector("ffn_norm")?,
            gate: matrix("ffn_gate", ffn_dim, dim)?,
            up: matrix("ffn_up", ffn_dim, dim)?,
            down: matrix("ffn_down", dim, ffn_dim)?,
        })
    }

    /// Runs the layer over `[tokens, dim]` in place, the first token at position `first`.
    ///
    /// # Errors
    /// What the cache says when it cannot store or read.
    pub(crate) fn forward<C: KvStep>(
        &self,
        cache: &mut C,
        index: usize,
        first: usize,
        stream: &mut [f32],
        shape: &Shape,
    ) -> Result<(), C::Error> {
        let tokens = stream.len() / shape.dim;
        let input = Activations::quantise(&normalise(stream, &self.attention_norm, shape), shape.dim);
        let mut queries = self.query.multiply(&input);
        let mut keys = self.key.multiply(&input);
        rotate(&mut queries, first, tokens, shape);
        rotate(&mut keys, first, tokens, shape);
        cache.put(index, first, &keys, &self.value.multiply(&input))?;
        let attended = attend(cache, index, first, &queries, shape)?;
        add(stream, &self.attention_out.multiply(&Activations::quantise(&attended, shape.dim)));
        self.feed_forward(stream, shape);
        Ok(())
    }

    fn feed_forward(&self, stream: &mut [f32], shape: &Shape) {
        let input = Activations::quantise(&normalise(stream, &self.ffn_norm, shape), shape.dim);
        let mut gated = self.gate.multiply(&input);
        for (gate, up) in gated.iter_mut().zip(self.up.multiply(&input)) {
            *gate = *gate / (1.0 + (-*gate).exp()) * up;
        }
        add(stream, &self.down.multiply(&Activations::quantise(&gated, shape.ffn_dim)));
    }
}

/// Scales each token to unit mean square, then by the learned weights.
pub(crate) fn normalise(stream: &[f32], weights: &[f32], shape: &Shape) -> Vec<f32> {
    let mut out = Vec::with_capacity(stream.len());
    for token in stream.chunks_exact(shape.dim) {
        let mean = token.iter().map(|x| x * x).sum::<f32>() / shape.dim as f32;
        let scale = (mean + shape.norm_epsilon).sqrt().recip();
        out.extend(token.iter().zip(weights).map(|(x, weight)| x * scale * weight));
    }
    out
}

fn add(stream: &mut [f32], delta: &[f32]) {
    for (x, delta) in stream.iter_mut().zip(delta) {
        *x += delta;
    }
}
