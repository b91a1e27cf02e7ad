//! The model, and the two tenants' prompts: what both processes know. A router would have told them.

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, ModelLayout, PageGeometry, Slice};
use pagestamp::{OwnerId, PoolConfig};

use crate::Failure;
use crate::arguments::ModelKind;
use crate::contiguous::Contiguous;
use crate::fetch;
use crate::gguf::Gguf;
use crate::kv_cache::PAGE_TOKENS;
use crate::llama::Llama;
use crate::prompts;
use crate::shape::Shape;
use crate::tiny::{self, Seeded};
use crate::tokenizer::Tokenizer;

/// Tokens of B's prompt: eight pages, the last one half full.
pub(crate) const PROMPT_TOKENS: usize = PROMPT_PAGES as usize * PAGE_TOKENS - PAGE_TOKENS / 2;
pub(crate) const PROMPT_PAGES: u32 = 8;
/// Tokens that are decoded for B.
pub(crate) const ANSWER_TOKENS: usize = PAGE_TOKENS;
/// B's request at its largest.
pub(crate) const REQUEST_TOKENS: u64 = (PROMPT_TOKENS + ANSWER_TOKENS) as u64;
/// Pages that requests can have at decode: A has all of them first.
pub(crate) const DECODE_PAGES: u32 = 2 * PROMPT_PAGES;
/// Pages of the shared memory: the pool has some of its own.
pub(crate) const SHARED_PAGES: u32 = DECODE_PAGES + PoolConfig::new(DECODE_PAGES).own_page_count();
/// Pages that may be on their way at once.
pub(crate) const BATCH_PAGES: u32 = 3;

const SEED: u64 = 0x0d15_a99e_0007;

const PROMPT: &str = "A short guide to the rivers of Europe, for those who travel by boat. The Danube rises in the Black \
    Forest and flows east through ten countries to the Black Sea. The Rhine begins in the Alps, passes Basel, Cologne and \
    Rotterdam, and ends in the North Sea. The Loire is the longest river of France; castles stand along its banks. The Elbe \
    comes from the Giant Mountains and reaches the sea behind Hamburg. The Po crosses the plain of northern Italy from west \
    to east. The Tagus is the longest river of the Iberian peninsula and meets the ocean at Lisbon. The Vistula runs through \
    Cracow and Warsaw to the Baltic. Travellers who have a month to spare should begin with";

/// The tenants: A had the pages before, B's prompt is handed over, C has the pages next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners {
    pub(crate) a: OwnerId,
    pub(crate) b: OwnerId,
    pub(crate) c: OwnerId,
}

/// What a process of the example works with.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) model: Llama,
    pub(crate) tokenizer: Option<Tokenizer>,
    pub(crate) layout: ModelLayout,
    pub(crate) slice: Slice,
    pub(crate) owners: Owners,
    pub(crate) prompt_a: Vec<u32>,
    pub(crate) prompt_b: Vec<u32>,
    /// What runs in place of a prompt that was rejected.
    pub(crate) placeholder: u32,
}

/// The pages of both pools, without the weights.
///
/// # Errors
/// There is no model, or it is none.
pub(crate) fn geometry(kind: ModelKind) -> Result<PageGeometry, Failure> {
    let layout = layout(&Shape::read(&file(kind)?)?, kind, HeadOrder::Nhd)?;
    Ok(layout.geometry(&Slice::whole(&layout))?)
}

fn file(kind: ModelKind) -> Result<Gguf, Failure> {
    Ok(Gguf::parse(match kind {
        ModelKind::Tiny => tiny::file(SEED),
        ModelKind::Real => fetch::model(None)?,
    })?)
}

impl Scene {
    /// Reads the model and makes the prompts.
    ///
    /// # Errors
    /// There is no model, or it is none.
    pub(crate) fn new(kind: ModelKind) -> Result<Self, Failure> {
        let file = file(kind)?;
        let model = Llama::read(&file)?;
        let owner = |number| OwnerId::new(number).ok_or("zero is nobody");
        let owners = Owners { a: owner(1)?, b: owner(2)?, c: owner(3)? };
        let layout = layout(model.shape(), kind, HeadOrder::Nhd)?;
        let slice = Slice::whole(&layout);
        let (tokenizer, [prompt_a, prompt_b], placeholder) = match kind {
            ModelKind::Tiny => (None, [random_prompt(1), random_prompt(2)], 0),
            ModelKind::Real => {
                let tokenizer = Tokenizer::read(&file)?;
                let a = prompts::tenant_a(prompts::DEFAULT_SECRET, &tokenizer)?;
                let mut b = tokenizer.encode(PROMPT);
                b.truncate(PROMPT_TOKENS);
                let placeholder = tokenizer.special(prompts::PLACEHOLDER).ok_or("the model has no placeholder")?;
                (Some(tokenizer), [a, b], placeholder)
            }
        };
        if prompt_b.len() != PROMPT_TOKENS {
            return Err(format!("B's prompt has {} tokens, not {PROMPT_TOKENS}", prompt_b.len()).into());
        }
        Ok(Self { model, tokenizer, layout, slice, owners, prompt_a, prompt_b, placeholder })
    }

    /// The pages of both pools.
    ///
    /// # Errors
    /// The layout is none.
    pub(crate) fn geometry(&self) -> Result<PageGeometry, Failure> {
        Ok(self.layout.geometry(&self.slice)?)
    }

    /// The same model with the heads of a page apart: pages of the same size, and other bytes in them.
    ///
    /// # Errors
    /// The layout is none.
    pub(crate) fn other_layout(&self, kind: ModelKind) -> Result<ModelLayout, Failure> {
        layout(self.model.shape(), kind, HeadOrder::Hnd)
    }

    /// Computes a prompt into one buffer: the reference, and what the model says after it.
    pub(crate) fn compute(&self, prompt: &[u32]) -> (Contiguous, Vec<f32>) {
        let mut whole = Contiguous::new(self.model.shape());
        let Ok(logits) = self.model.forward(&mut whole, 0, prompt);
        (whole, logits)
    }

    /// The text of tokens, where the model has one.
    pub(crate) fn text(&self, tokens: &[u32]) -> String {
        self.tokenizer.as_ref().map_or_else(|| format!("{tokens:?}"), |tokenizer| tokenizer.decode(tokens))
    }
}

fn layout(shape: &Shape, kind: ModelKind, order: HeadOrder) -> Result<ModelLayout, Failure> {
    let (layers, heads) = (u32::try_from(shape.layers)?, u32::try_from(shape.kv_heads)?);
    let format = ElementFormat::plain(Dtype::F32);
    let cache = HeadCache::new(heads, u32::try_from(shape.head_dim)?, format).with_order(order);
    Ok(ModelLayout::new(kind.name(), "r1", KvLayout::new(PAGE_TOKENS as u32, layers, cache))?)
}

fn random_prompt(tenant: u64) -> Vec<u32> {
    Seeded(SEED ^ tenant).take(PROMPT_TOKENS).map(|number| (number % tiny::VOCAB as u64) as u32).collect()
}
