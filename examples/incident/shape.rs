//! The numbers that give a Llama its shape, read from the model file and checked before anything is sized by them.

use crate::block::BLOCK;
use crate::gguf::{Gguf, GgufError};

/// Shape of a Llama model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    pub(crate) layers: usize,
    pub(crate) dim: usize,
    pub(crate) ffn_dim: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) vocab: usize,
    pub(crate) context: usize,
    pub(crate) rope_theta: f32,
    pub(crate) norm_epsilon: f32,
}

impl Shape {
    /// Values of K, and as many of V, per token and layer.
    pub(crate) fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Bytes of one token's K, or V, of one layer.
    pub(crate) fn row_bytes(&self) -> usize {
        self.kv_dim() * size_of::<f32>()
    }

    /// Reads the shape of a `llama` model file.
    ///
    /// # Errors
    /// - a key is missing or of another kind
    /// - [`GgufError::Unsupported`]: another architecture, or numbers that do not fit together
    pub(crate) fn read(file: &Gguf) -> Result<Self, GgufError> {
        if file.text("general.architecture")? != "llama" {
            return Err(GgufError::Unsupported { what: "architecture (only llama is)" });
        }
        let dim = file.size("llama.embedding_length")?;
        let heads = file.size("llama.attention.head_count")?;
        let shape = Self {
            layers: file.size("llama.block_count")?,
            dim,
            ffn_dim: file.size("llama.feed_forward_length")?,
            heads,
            kv_heads: file.size("llama.attention.head_count_kv")?,
            head_dim: dim.checked_div(heads).unwrap_or(0),
            vocab: file.size("llama.vocab_size")?,
            context: file.size("llama.context_length")?,
            rope_theta: file.float("llama.rope.freq_base")?,
            norm_epsilon: file.float("llama.attention.layer_norm_rms_epsilon")?,
        };
        let whole_head = file.size("llama.rope.dimension_count")? == shape.head_dim;
        if whole_head && shape.is_sound() { Ok(shape) } else { Err(GgufError::Unsupported { what: "model shape" }) }
    }

    /// Whether the numbers fit together; the limits keep every product of two far from overflow.
    fn is_sound(&self) -> bool {
        let sizes =
            [self.layers, self.dim, self.ffn_dim, self.heads, self.kv_heads, self.head_dim, self.vocab, self.context];
        sizes.iter().all(|&size| (1..=1 << 20).contains(&size))
            && self.dim == self.heads * self.head_dim
            && self.dim.is_multiple_of(BLOCK)
            && self.ffn_dim.is_multiple_of(BLOCK)
            && self.head_dim.is_multiple_of(8)
            && self.heads.is_multiple_of(self.kv_heads)
    }
}
