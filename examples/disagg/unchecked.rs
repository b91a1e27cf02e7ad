//! Decode as in the incident: a plain list of pages, and the sender's word. It shows that the example sees a leak.

use std::cell::Cell;

use pagestamp::{Message, Offer, TransferId, Writer};

use crate::Failure;
use crate::channel::{Channel, ChannelError, Frame, Signal};
use crate::fault::Outcome;
use crate::findings::Findings;
use crate::kv_cache::{Half, KvCache, KvStep, PAGE_TOKENS, store_floats};
use crate::lines::note;
use crate::llama::greedy;
use crate::scene::{ANSWER_TOKENS, PROMPT_PAGES, PROMPT_TOKENS, Scene};
use crate::system::{OutOfPage, Shared};
use crate::tenants::Watch;

/// Tokens that are decoded for B: so many that the model repeats a secret whole.
const LONG_ANSWER_TOKENS: usize = 3 * ANSWER_TOKENS;

/// A sequence in the first pages of the list.
struct Raw<'s> {
    shared: &'s Shared,
    scene: &'s Scene,
    watch: &'s Watch,
    /// whether attention has seen another tenant's bytes
    leaked: Cell<bool>,
}

/// Tenant A fills pages and is gone, B gets the same ones, prefill sends one of eight, and B's answer is decoded over all.
///
/// # Errors
/// Something that should work does not.
pub(crate) fn run(scene: &Scene, shared: &Shared, channel: &Channel) -> Result<(), Failure> {
    let ((kv_a, _), (kv_b, _)) = (scene.compute(&scene.prompt_a), scene.compute(&scene.prompt_b));
    let watch = Watch::new(scene, &kv_a, &kv_b);
    let mut raw = Raw { shared, scene, watch: &watch, leaked: Cell::new(false) };
    kv_a.copy_to(&mut raw)?;
    note(format_args!("tenant A had {PROMPT_PAGES} pages, and is gone; B gets the same ones"));
    channel.send(&Message::Offer(offer(scene)?))?;
    let mut first_token = 0;
    loop {
        match channel.next()? {
            Frame::Message(Message::Receipt(receipt)) => {
                note(format_args!("a receipt for {} of {PROMPT_PAGES} pages: complete", receipt.pages()));
            }
            Frame::Signal(Signal::FirstToken(token)) => first_token = token,
            Frame::Signal(Signal::Stopped(_)) => break,
            frame => return Err(format!("decode was told {frame:?} in a handoff").into()),
        }
    }
    channel.signal(&Signal::Accepted)?;
    let mut answer = vec![first_token];
    while answer.len() < LONG_ANSWER_TOKENS {
        let position = PROMPT_TOKENS + answer.len() - 1;
        let logits = scene.model.forward(&mut raw, position, &answer[answer.len() - 1..])?;
        answer.push(greedy(&logits));
    }
    note(format_args!("B's answer is {:?}", scene.text(&answer)));
    match channel.signal(&Signal::Bye) {
        Ok(()) | Err(ChannelError::Gone) => {}
        Err(error) => return Err(error.into()),
    }
    let (outcome, leaked) = (Some(Outcome::Completed), Some(raw.leaked.get()));
    Findings { outcome, leaked, ..Findings::default() }.tell();
    Ok(())
}

/// An offer of pages that no pool has.
fn offer(scene: &Scene) -> Result<Offer, Failure> {
    let transfer = TransferId::from_bits(1 << 64 | 1).ok_or("a transfer has a number")?;
    let pages = (0..u128::from(PROMPT_PAGES)).map(|page| 1 << 64 | 1 << 32 | page).collect();
    Ok(Offer::new(transfer, scene.owners.b, scene.layout.clone(), scene.slice.clone())
        .with_writers(vec![Writer::new(Writer::ONLY, scene.slice.clone())])
        .with_tokens(PROMPT_TOKENS as u64, pages)
        .with_checksum(pagestamp::Checksum::default()))
}

impl KvCache for Raw<'_> {
    type Error = OutOfPage;
    type Step<'s>
        = &'s mut Self
    where
        Self: 's;

    fn step(&mut self, _first: usize, _tokens: usize) -> Result<&mut Self, OutOfPage> {
        Ok(self)
    }
}

impl KvStep for Raw<'_> {
    type Error = OutOfPage;

    fn put(&mut self, layer: usize, first: usize, keys: &[f32], values: &[f32]) -> Result<(), OutOfPage> {
        let shape = self.scene.model.shape();
        for (half, floats) in [(Half::Key, keys), (Half::Value, values)] {
            for (token, row) in (first..).zip(floats.chunks(shape.kv_dim())) {
                let mut bytes = vec![0; shape.row_bytes()];
                store_floats(&mut bytes, row);
                let at = token % PAGE_TOKENS * shape.row_bytes();
                self.shared.store((token / PAGE_TOKENS) as u32, half.plane(layer), at, &bytes)?;
            }
        }
        Ok(())
    }

    fn scan(&self, layer: usize, half: Half, end: usize, visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), OutOfPage> {
        for (page, first) in (0..).zip((0..end).step_by(PAGE_TOKENS)) {
            let rows = self.shared.load(page, half.plane(layer))?;
            let rows = &rows[..PAGE_TOKENS.min(end - first) * self.scene.model.shape().row_bytes()];
            self.leaked.set(self.leaked.get() || self.watch.are_foreign(self.scene.owners.b, rows));
            visit(first, rows);
        }
        Ok(())
    }
}
