//! One pass over sealed pages: look at a piece, digest it, and put it where it goes while it is in the cache.

use std::ops::Range;

use crate::access::{PageView, WriteBorrow};
use crate::error::{ReadError, WriteError};
use crate::geometry::{LayoutError, PlaneWindow, Slice};
use crate::handoff::bytes::landing::{Landed, Landing};
use crate::handoff::bytes::tile::Target;
use crate::handoff::verdict::expected::tokens_in_page;
use crate::handoff::{
    Checksum, Digest, DigestError, Digester, LandError, Outbound, OutboundError, PageDigester, Sending, SentPart,
};
use crate::memory::PageMemory;

/// Where the bytes go. Planes are those of the part that is sent.
pub(in crate::handoff) trait Sink {
    type Error;

    /// Whether it takes no byte.
    const IS_DRY: bool = false;

    /// Makes ready for parts of some layers.
    fn prepare(&mut self, _part: &Slice) -> Result<(), LayoutError> {
        Ok(())
    }

    /// Says whether a plane of a page is wanted.
    fn begin(&mut self, page: u32, plane: usize, tokens: u32) -> Result<Landed, Self::Error>;

    /// Takes some tokens of a run of it: `[tokens, run_bytes]`.
    fn store(&mut self, at: At, tokens: Range<u32>, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Whether a plane's bytes of a full page lie at the receiver as they lie in the part, one after the other.
    fn is_whole(&self, plane: usize) -> bool;

    /// Takes bytes of a plane of a full page where [`is_whole`](Self::is_whole) says yes, from byte `offset` on.
    fn store_whole(&mut self, page: u32, plane: usize, offset: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// All of it is there.
    fn end(&mut self, _page: u32, _plane: usize, _tokens: u32) {}
}

/// A run of a plane of a page.
#[derive(Clone, Copy)]
pub(in crate::handoff) struct At {
    pub(in crate::handoff) page: u32,
    pub(in crate::handoff) plane: usize,
    pub(in crate::handoff) run: u32,
}

/// Nowhere: a pass that only digests.
pub(in crate::handoff) struct Dry;

impl Sink for Dry {
    type Error = LandError;

    const IS_DRY: bool = true;

    fn begin(&mut self, _: u32, _: usize, _: u32) -> Result<Landed, LandError> {
        Ok(Landed::Before)
    }

    fn store(&mut self, _: At, _: Range<u32>, _: &[u8]) -> Result<(), LandError> {
        Ok(())
    }

    fn is_whole(&self, _: usize) -> bool {
        true
    }

    fn store_whole(&mut self, _: u32, _: usize, _: u64, _: &[u8]) -> Result<(), LandError> {
        Ok(())
    }
}

/// Onto pages of the same shape.
pub(in crate::handoff) struct Onto<'a, N: PageMemory> {
    pub(in crate::handoff) right: WriteBorrow<'a, N>,
    pub(in crate::handoff) windows: Vec<PlaneWindow>,
}

impl<N: PageMemory> Sink for Onto<'_, N> {
    type Error = WriteError;

    fn begin(&mut self, _: u32, _: usize, _: u32) -> Result<Landed, WriteError> {
        Ok(Landed::Now)
    }

    fn store(&mut self, at: At, tokens: Range<u32>, bytes: &[u8]) -> Result<(), WriteError> {
        self.right.store_run(at.page, &self.windows[at.plane], at.run, tokens, bytes)
    }

    fn is_whole(&self, plane: usize) -> bool {
        self.windows[plane].is_whole()
    }

    fn store_whole(&mut self, page: u32, plane: usize, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.right.store_whole(page, &self.windows[plane], offset, bytes)
    }
}

/// Into the pages of an inbound of this process.
pub(in crate::handoff) struct Within<'l, 'a, N: PageMemory> {
    landing: &'l mut Landing<'a, N>,
    targets: Vec<Target>,
}

impl<'l, 'a, N: PageMemory> Within<'l, 'a, N> {
    pub(in crate::handoff) const fn new(landing: &'l mut Landing<'a, N>) -> Self {
        Self { landing, targets: Vec::new() }
    }
}

impl<N: PageMemory> Sink for Within<'_, '_, N> {
    type Error = LandError;

    fn prepare(&mut self, part: &Slice) -> Result<(), LayoutError> {
        self.targets = self.landing.targets(part)?;
        Ok(())
    }

    fn begin(&mut self, page: u32, plane: usize, tokens: u32) -> Result<Landed, LandError> {
        self.landing.begin(page, &self.targets[plane], &(0..tokens))
    }

    fn store(&mut self, at: At, tokens: Range<u32>, bytes: &[u8]) -> Result<(), LandError> {
        self.landing.store_run(at.page, &self.targets[at.plane], at.run, tokens, bytes)
    }

    fn is_whole(&self, plane: usize) -> bool {
        self.targets[plane].window.is_whole()
    }

    fn store_whole(&mut self, page: u32, plane: usize, offset: u64, bytes: &[u8]) -> Result<(), LandError> {
        self.landing.store_whole(page, &self.targets[plane], offset, bytes)
    }

    fn end(&mut self, page: u32, plane: usize, tokens: u32) {
        self.landing.end(page, &self.targets[plane], &(0..tokens));
    }
}

/// Sends some layers of some pages to a sink, and digests them if the receiver wants that.
pub(in crate::handoff) fn run<M: PageMemory, S: Sink<Error = LandError>>(
    outbound: &Outbound<M>,
    sending: &Sending,
    layers: Range<u32>,
    pages: Range<u32>,
    sink: &mut S,
) -> Result<SentPart, OutboundError> {
    let slice = check_part(outbound, sending, &layers, &pages)?;
    let page_tokens = outbound.model.page_tokens();
    let tokens = u64::from(pages.start) * u64::from(page_tokens)
        ..(u64::from(pages.end) * u64::from(page_tokens)).min(outbound.tokens);
    let committed_tokens = outbound.sealed_tokens();
    if tokens.end > committed_tokens {
        return Err(OutboundError::NotCommitted { to_tokens: tokens.end, committed_tokens });
    }
    let sources = outbound.model.windows(&outbound.slice, &slice).map_err(DigestError::from)?;
    sink.prepare(&slice).map_err(DigestError::from)?;
    let digester = match sending.checksum() {
        Checksum::BytesUnverified => None,
        kind => Some(Digester::new(kind, outbound.key.as_ref(), sending.transfer(), &outbound.model, &slice)?),
    };
    let first_sent = sending.pages().start;
    let planes = if digester.is_some() { 0..sources.len() as u32 } else { 0..0 };
    let guard = outbound.read(tokens)?;
    let filled = pages.clone().map(|page| (page, tokens_in_page(outbound.tokens, page_tokens, page)));
    if S::IS_DRY
        && M::DIGESTS_IN_PLACE
        && let Some(mut crcs) = digester.as_ref().and_then(|digester| digester.in_place(filled.clone()))
        && let Some(done) = guard.crc32c(&sources, &mut crcs)
    {
        done?;
        return Ok(SentPart::new(slice, pages).with_digests(planes, crcs.iter().map(Digester::of_crc).collect()));
    }
    let mut pass = Pass::new(sources, sink, digester);
    for ((ordinal, tokens), view) in filled.zip(guard.pages()) {
        pass.page::<M, OutboundError>(ordinal, &view, tokens, ordinal >= first_sent)?;
    }
    Ok(SentPart::new(slice, pages).with_digests(planes, pass.into_digests()))
}

fn check_part<M: PageMemory>(
    outbound: &Outbound<M>,
    sending: &Sending,
    layers: &Range<u32>,
    pages: &Range<u32>,
) -> Result<Slice, OutboundError> {
    if sending.outbound() != outbound.id {
        return Err(OutboundError::NotServed { transfer: sending.transfer() });
    }
    let (expected_layers, sealed_pages) = (sending.slice().layers(), outbound.pages());
    let is_inside = layers.start >= expected_layers.start && layers.end <= expected_layers.end;
    let slice = Slice::new(layers.clone(), sending.slice().heads());
    match slice {
        Ok(slice) if is_inside && !pages.is_empty() && pages.end <= sealed_pages => Ok(slice),
        _ => {
            let (layers, pages) = (layers.clone(), pages.clone());
            Err(OutboundError::NoSuchPart { layers, pages, expected_layers, sealed_pages })
        }
    }
}

/// The pages of one part, one after the other.
pub(in crate::handoff) struct Pass<'s, S: Sink> {
    sources: Vec<PlaneWindow>,
    sink: &'s mut S,
    digester: Option<Digester>,
    digests: Vec<Digest>,
}

impl<'s, S: Sink> Pass<'s, S> {
    pub(in crate::handoff) fn new(sources: Vec<PlaneWindow>, sink: &'s mut S, digester: Option<Digester>) -> Self {
        Self { sources, sink, digester, digests: Vec::new() }
    }

    pub(in crate::handoff) fn into_digests(self) -> Vec<Digest> {
        self.digests
    }

    /// Digests a page, and sends it if it is to be sent and wanted.
    pub(in crate::handoff) fn page<M: PageMemory, E: From<ReadError> + From<S::Error>>(
        &mut self,
        ordinal: u32,
        view: &PageView<'_, M>,
        tokens: u32,
        is_sent: bool,
    ) -> Result<(), E> {
        let mut digest = self.digester.as_ref().map(|digester| digester.page(ordinal, tokens));
        for at in 0..self.sources.len() {
            let wanted = is_sent && self.sink.begin(ordinal, at, tokens)? == Landed::Now;
            if wanted || digest.is_some() {
                self.plane::<M, E>(ordinal, view, at, tokens, wanted, &mut digest)?;
            }
            if wanted {
                self.sink.end(ordinal, at, tokens);
            }
        }
        self.digests.extend(digest.map(PageDigester::finish));
        Ok(())
    }

    fn plane<M: PageMemory, E: From<ReadError> + From<S::Error>>(
        &mut self,
        ordinal: u32,
        view: &PageView<'_, M>,
        at: usize,
        tokens: u32,
        wanted: bool,
        digest: &mut Option<PageDigester>,
    ) -> Result<(), E> {
        let window = self.sources[at];
        if view.is_whole(&window) && (!wanted || self.sink.is_whole(at)) {
            // Runs that lie one after the other on both sides are one stretch, however short each is.
            let mut stored = Ok(());
            view.look_whole(&window, &mut |offset, bytes| {
                if let Some(digest) = digest {
                    digest.update(bytes);
                }
                if wanted && stored.is_ok() {
                    stored = self.sink.store_whole(ordinal, at, offset, bytes);
                }
            })?;
            return Ok(stored?);
        }
        for run in 0..window.runs() {
            let (place, mut stored) = (At { page: ordinal, plane: at, run }, Ok(()));
            view.look(&window, run, 0..tokens, &mut |tokens, bytes| {
                if let Some(digest) = digest {
                    digest.update(bytes);
                }
                if wanted && stored.is_ok() {
                    stored = self.sink.store(place, tokens, bytes);
                }
            })?;
            stored?;
        }
        Ok(())
    }
}
