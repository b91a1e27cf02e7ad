//! The same request through pagestamp: each layer below the first is reached by a mistake that a real engine can make with
//! the public API, and each refuses.

use std::error::Error;

use pagestamp::{AdmitError, CapacityPlan, CapacityProof, OwnerId, PageHandle, Request};

use crate::identical;
use crate::kv_cache::PAGE_TOKENS;
use crate::llama::Llama;
use crate::pooled::{self, Pages, Pool, Pooled};
use crate::prompts::{self, ANSWER_PAGES, ANSWER_TOKENS, CLAIM_PAGES, CLAIM_TOKENS};
use crate::receipt;
use crate::tenant_a::TenantA;
use crate::tokenizer::Tokenizer;
use crate::zero;

type Failure = Box<dyn Error>;

/// The most that the service advertises: prompt and answer.
const ADVERTISED_TOKENS: u64 = (CLAIM_TOKENS + ANSWER_TOKENS) as u64;
/// Pages of the prefill pool, sized from what memory was left: too few for what is advertised.
const PREFILL_PAGES: usize = CLAIM_PAGES;
/// Pages of the decode pool: one request at its largest, and A's.
const DECODE_PAGES: usize = 2 * (CLAIM_PAGES + ANSWER_PAGES);

/// The layers, in the order in which the request meets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerName {
    Gate,
    Receipt,
    Extent,
    Stale,
    Zero,
}

impl LayerName {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Receipt => "receipt",
            Self::Extent => "extent",
            Self::Stale => "stale",
            Self::Zero => "zero",
        }
    }
}

/// What one layer did about the request.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) name: LayerName,
    pub(crate) refused: bool,
    /// What it said.
    pub(crate) error: String,
}

impl Layer {
    pub(crate) fn new(name: LayerName, refused: bool, error: impl ToString) -> Self {
        Self { name, refused, error: error.to_string() }
    }
}

/// What honest requests got.
#[derive(Debug)]
pub(crate) struct Honest {
    /// Logits of both tenants that were compared with those of one buffer.
    pub(crate) logits: usize,
    pub(crate) bit_identical: bool,
    /// First words of the answer to tenant A.
    pub(crate) answer_a: String,
    pub(crate) answer_b: String,
}

/// What the checked run showed.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) layers: Vec<Layer>,
    pub(crate) honest: Honest,
    /// "ok", or what the audit found.
    pub(crate) audit: String,
}

impl Checked {
    /// Fails unless everything that should be refused was, and everything honest went through.
    pub(crate) fn verdict(&self, secret: &str) -> Result<(), Failure> {
        if let Some(layer) = self.layers.iter().find(|layer| !layer.refused) {
            return Err(format!("the layer `{}` did not hold: {}", layer.name.text(), layer.error).into());
        }
        if !self.honest.bit_identical {
            return Err("honest logits differ from those of one buffer".into());
        }
        if self.honest.answer_b.contains(secret) {
            return Err("B's honest answer holds the secret: take one that the model does not say by itself".into());
        }
        if self.audit != "ok" {
            return Err(format!("the audit failed: {}", self.audit).into());
        }
        Ok(())
    }
}

/// The two tenants, their pools, and what runs over them.
pub(crate) struct Scene<'m> {
    pub(crate) model: &'m Llama,
    pub(crate) tokenizer: &'m Tokenizer,
    pub(crate) tenant_a: &'m TenantA,
    pub(crate) secret: &'m str,
    pub(crate) placeholder: u32,
    pub(crate) prefill: Pool,
    pub(crate) decode: Pool,
    /// The decode pool carries what is advertised.
    pub(crate) decode_proof: CapacityProof,
    pub(crate) a: OwnerId,
    pub(crate) b: OwnerId,
}

/// Runs the request through every layer, then honest ones.
///
/// # Errors
/// When something that should work does not. What should be refused and is not is a layer with `refused: false`.
pub(crate) fn run(
    model: &Llama,
    tokenizer: &Tokenizer,
    tenant_a: &TenantA,
    secret: &str,
    placeholder: u32,
) -> Result<Checked, Failure> {
    let decode = pooled::pool(model.shape(), DECODE_PAGES)?;
    let scene = Scene {
        model,
        tokenizer,
        tenant_a,
        secret,
        placeholder,
        prefill: pooled::pool(model.shape(), PREFILL_PAGES)?,
        decode_proof: decode.prove(CapacityPlan::new(ADVERTISED_TOKENS))?,
        decode,
        a: OwnerId::new(1).ok_or("zero is nobody")?,
        b: OwnerId::new(2).ok_or("zero is nobody")?,
    };
    let gate = scene.gate()?;
    let (handles, zero) = scene.a_comes_and_goes()?;
    let layers = vec![gate, receipt::layer(&scene)?, scene.extent()?, scene.stale(&handles)?, zero];
    let honest = scene.honest()?;
    Ok(Checked { layers, honest, audit: scene.audit() })
}

impl Scene<'_> {
    /// The first layer: no request is served at all by a pool that does not carry what is advertised. No page is taken.
    fn gate(&self) -> Result<Layer, Failure> {
        let before = self.prefill.stats();
        let refused = self.prefill.prove(CapacityPlan::new(ADVERTISED_TOKENS));
        let untouched = self.prefill.stats() == before;
        self.boundary()?;
        let error = refused.err().map_or_else(String::new, |error| error.to_string());
        Ok(Layer::new(LayerName::Gate, untouched && !error.is_empty(), error))
    }

    /// The largest request that fits is admitted; one token more never is.
    fn boundary(&self) -> Result<(), Failure> {
        let largest = (PREFILL_PAGES * PAGE_TOKENS) as u64;
        let proof = self.prefill.prove(CapacityPlan::new(largest))?;
        drop(self.prefill.admit(&proof, Request::new(self.b, largest))?);
        match self.prefill.admit(&proof, Request::new(self.b, largest + 1)) {
            Err(AdmitError::Rejected(_)) => {}
            other => return Err(format!("one token past the boundary: {other:?}").into()),
        }
        match self.prefill.prove(CapacityPlan::new(largest + 1)) {
            Err(_) => Ok(()),
            Ok(proof) => Err(format!("one token past the boundary was proved: {proof:?}").into()),
        }
    }

    /// Reserves pages of the decode pool for B's whole claim.
    pub(crate) fn reserve_claim(&self) -> Result<Pages, Failure> {
        let request = Request::new(self.b, ADVERTISED_TOKENS);
        Ok(self.decode.reserve(&self.decode_proof, request, CLAIM_TOKENS as u64)?)
    }

    /// Tenant A's prompt goes through the decode pool and its pages are released: B will get the same ones. Answers with the
    /// handles that an engine forgot to forget, and with what a raw look at the released pages shows.
    fn a_comes_and_goes(&self) -> Result<(Vec<PageHandle<pagestamp::HostMemory>>, Layer), Failure> {
        let tokens = self.tenant_a.tokens.len() as u64;
        let mut pages = self.decode.reserve(&self.decode_proof, Request::new(self.a, tokens), 0)?;
        self.tenant_a.kv.copy_to(&mut Pooled::new(&mut pages, self.model.shape()))?;
        let handles: Vec<_> = pages.handles().collect();
        let zero = zero::layer(self, pages, &handles)?;
        Ok((handles, zero))
    }

    /// An engine that fills its reservation itself, stops after the placeholder, and reads on.
    fn extent(&self) -> Result<Layer, Failure> {
        let mut pages = self.reserve_claim()?;
        let logits = self.model.forward(&mut Pooled::new(&mut pages, self.model.shape()), 0, &[self.placeholder])?;
        let refused = pages.read(0..CLAIM_TOKENS as u64).map(drop);
        // It even swears that a kernel wrote the rest: then it reads zeros, not A's text.
        pages.assume_written(CLAIM_TOKENS as u64)?;
        let shows_zeros = self.is_zero_from(&pages, 1)?;
        let answer = self.answer(&mut pages, logits)?;
        let leaked = answer.contains(self.secret);
        let error = refused.err().map_or_else(String::new, |error| error.to_string());
        Ok(Layer::new(LayerName::Extent, shows_zeros && !leaked && !error.is_empty(), error))
    }

    /// Says whether every byte of every plane is zero from a token on.
    fn is_zero_from(&self, pages: &Pages, first: u64) -> Result<bool, Failure> {
        let guard = pages.read(first..pages.written_tokens())?;
        let mut zero = true;
        for view in guard.pages() {
            for plane in 0..self.decode.geometry().planes().len() {
                zero &= view.run(plane, 0)?.iter().all(|byte| *byte == 0);
            }
        }
        Ok(zero)
    }

    /// Decodes an answer behind the claimed tokens.
    fn answer(&self, pages: &mut Pages, logits: Vec<f32>) -> Result<String, Failure> {
        let mut cache = Pooled::new(pages, self.model.shape());
        let tokens = self.model.decode(&mut cache, CLAIM_TOKENS, logits, ANSWER_TOKENS, self.tokenizer.stop())?;
        Ok(self.tokenizer.decode(&tokens))
    }

    /// An engine that builds B's table out of handles that it kept from A.
    fn stale(&self, handles: &[PageHandle<pagestamp::HostMemory>]) -> Result<Layer, Failure> {
        let table = self.reserve_claim()?;
        let reused = table.handles().filter(|new| handles.iter().any(|old| old.index() == new.index())).count();
        if reused == 0 {
            return Err("B's table has none of A's pages: the layer was not put to the test".into());
        }
        let read = |owner| handles.iter().filter_map(move |handle| self.decode.read(owner, *handle).err());
        let errors: Vec<_> = read(self.a).chain(read(self.b)).collect();
        let all = errors.len() == 2 * handles.len();
        let first = errors.first().map_or_else(String::new, ToString::to_string);
        Ok(Layer::new(LayerName::Stale, all, format!("{} of {} handles: {first}", errors.len() / 2, handles.len())))
    }

    /// Honest requests of both tenants complete, A's from prefill over the handoff to decode, bit for bit as in one buffer.
    fn honest(&self) -> Result<Honest, Failure> {
        let pages = receipt::honest_handoff(self)?;
        let mut pages_a = pages;
        let (kv, logits) = (&self.tenant_a.kv, self.tenant_a.logits.clone());
        let a = identical::check_prefilled(self.model, kv, &mut Pooled::new(&mut pages_a, self.model.shape()), logits)?;
        let prompt = self.tokenizer.encode(prompts::PUBLIC);
        let mut pages_b = self.decode.reserve(&self.decode_proof, Request::new(self.b, ADVERTISED_TOKENS), 0)?;
        let b = identical::check(self.model, &mut Pooled::new(&mut pages_b, self.model.shape()), &prompt)?;
        Ok(Honest {
            logits: a.logits + b.logits,
            bit_identical: a.bit_identical && b.bit_identical,
            answer_a: self.text(&a.tokens),
            answer_b: self.text(&b.tokens),
        })
    }

    /// Text of an answer, up to the token that ends it.
    fn text(&self, answer: &[u32]) -> String {
        let stop = self.tokenizer.stop();
        let end = answer.iter().position(|token| *token == stop).unwrap_or(answer.len());
        self.tokenizer.decode(&answer[..end])
    }

    fn audit(&self) -> String {
        let audit = |pool: &Pool| pool.audit().and_then(|()| pool.audit_bytes(0..pool.max_pages()));
        match audit(&self.prefill).and_then(|()| audit(&self.decode)) {
            Ok(()) => "ok".into(),
            Err(error) => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked() -> Checked {
        let honest =
            Honest { logits: 1, bit_identical: true, answer_a: "the secret".into(), answer_b: "Coimbra".into() };
        Checked { layers: vec![Layer::new(LayerName::Zero, true, "said")], honest, audit: "ok".into() }
    }

    #[test]
    fn verdict_fails_for_each_thing_that_is_wrong() {
        let breaks: [(&str, fn(&mut Checked)); 4] = [
            ("`zero` did not hold: said", |checked| checked.layers[0].refused = false),
            ("honest logits differ", |checked| checked.honest.bit_identical = false),
            ("B's honest answer holds", |checked| checked.honest.answer_b = "a secret".into()),
            ("the audit failed: lost", |checked| checked.audit = "lost".into()),
        ];
        assert!(checked().verdict("secret").is_ok());
        for (said, spoil) in breaks {
            let mut checked = checked();
            spoil(&mut checked);
            let error = checked.verdict("secret").expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
