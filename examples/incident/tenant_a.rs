//! Tenant A's request, prefilled once and used by every run.

use crate::contiguous::Contiguous;
use crate::llama::Llama;

/// Tenant A's tokens with their K and V.
#[derive(Debug)]
pub(crate) struct TenantA {
    pub(crate) tokens: Vec<u32>,
    /// [`Contiguous::copy_to`] puts it into a run's own cache, as if it had been prefilled there.
    pub(crate) kv: Contiguous,
    /// What the model says after the last of the tokens.
    pub(crate) logits: Vec<f32>,
}

impl TenantA {
    /// Prefills a prompt.
    pub(crate) fn prefill(model: &Llama, tokens: Vec<u32>) -> Self {
        let mut kv = Contiguous::new(model.shape());
        let Ok(logits) = model.forward(&mut kv, 0, &tokens);
        Self { tokens, kv, logits }
    }
}
