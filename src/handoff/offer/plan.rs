//! What a receiver wants: how many tokens, from whom, and how they are to be proved.

use std::num::NonZeroU32;

use crate::geometry::{ModelLayout, Slice};
use crate::handoff::{Checksum, DigestKey, Writer};

/// Says what an inbound expects.
///
/// At first one writer sends all of the receiver's slice, pages are digested with [`Checksum::Xxh3`], and batches have no
/// limit. [`Inbound::open`](crate::handoff::Inbound::open) checks it.
///
/// # Examples
///
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, LayoutError, ModelLayout, Slice};
/// use pagestamp::{Checksum, HolderId, InboundPlan, Writer};
///
/// let cache = HeadCache::new(8, 128, ElementFormat::plain(Dtype::Bf16));
/// let model = ModelLayout::new("llama-3-70b", "r1", KvLayout::new(16, 80, cache))?;
/// let all = Slice::whole(&model);
/// // two pipeline stages of prefill fill one decode rank
/// let stages = [Slice::new(0..40, 0..8)?, Slice::new(40..80, 0..8)?];
/// let writers = (0..).zip(stages).map(|(stage, slice)| Writer::new(HolderId(stage), slice)).collect();
/// let plan = InboundPlan::new(&model, &all, 8192).with_writers(writers).with_checksum(Checksum::Crc32c);
/// assert_eq!(plan.writers().len(), 2);
/// # Ok::<(), LayoutError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a plan opens an inbound"]
pub struct InboundPlan {
    pub(in crate::handoff) model: ModelLayout,
    pub(in crate::handoff) slice: Slice,
    pub(in crate::handoff) tokens: u64,
    pub(in crate::handoff) writers: Vec<Writer>,
    pub(in crate::handoff) checksum: Checksum,
    pub(in crate::handoff) key: Option<DigestKey>,
    pub(in crate::handoff) batch_pages: NonZeroU32,
}

impl InboundPlan {
    /// Expects `tokens` tokens of a slice in all, those that the reservation holds already included, from one writer.
    pub fn new(model: &ModelLayout, slice: &Slice, tokens: u64) -> Self {
        Self {
            model: model.clone(),
            slice: slice.clone(),
            tokens,
            writers: vec![Writer::new(Writer::ONLY, slice.clone())],
            checksum: Checksum::default(),
            key: None,
            batch_pages: NonZeroU32::MAX,
        }
    }

    /// Sets who sends which part; together they must send all of the slice, and nothing twice.
    pub fn with_writers(mut self, writers: Vec<Writer>) -> Self {
        self.writers = writers;
        self
    }

    /// Sets how pages are digested.
    ///
    /// [`Checksum::BytesUnverified`] gives up the proof that the bytes are the sender's: what is there is believed, and of a writer from outside
    /// nothing shows that a byte came.
    pub const fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// Sets the secret that both sides have, and digests with [`Checksum::Blake3Keyed`].
    pub fn with_key(mut self, key: DigestKey) -> Self {
        (self.checksum, self.key) = (Checksum::Blake3Keyed, Some(key));
        self
    }

    /// Sets the most pages that a writer may have on their way at once.
    pub const fn with_batch_pages(mut self, batch_pages: NonZeroU32) -> Self {
        self.batch_pages = batch_pages;
        self
    }

    /// Returns who sends which part.
    #[must_use]
    pub fn writers(&self) -> &[Writer] {
        &self.writers
    }
}
