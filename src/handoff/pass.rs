//! One pass over sealed pages: read a chunk, digest it, and put it where it goes while it is in the cache.

use std::ops::Range;

use crate::access::PageView;
use crate::geometry::{PlaneWindow, Slice};
use crate::handoff::landing::{Landed, Landing};
use crate::handoff::verdict::tokens_in_page;
use crate::handoff::verify::{chunk_for, chunk_tokens};
use crate::handoff::{
    Checksum, Digest, Digester, LandError, Outbound, OutboundError, PageDigester, Sending, SentPart,
};
use crate::memory::{PageMemory, Scratch};

/// Where the bytes go; planes are those of what this sender sends.
pub(super) trait Sink {
    /// Says whether a part is wanted.
    fn begin(&mut self, page: u32, plane: usize, tokens: &Range<u32>) -> Result<Landed, LandError>;
    /// Takes a chunk of it.
    fn store(&mut self, page: u32, plane: usize, tokens: Range<u32>, bytes: &[u8]) -> Result<(), LandError>;
    /// The part is there.
    fn end(&mut self, page: u32, plane: usize, tokens: Range<u32>);
}

/// Nowhere: a pass that only digests.
pub(super) struct Dry;

impl Sink for Dry {
    fn begin(&mut self, _: u32, _: usize, _: &Range<u32>) -> Result<Landed, LandError> {
        Ok(Landed::Before)
    }

    fn store(&mut self, _: u32, _: usize, _: Range<u32>, _: &[u8]) -> Result<(), LandError> {
        Ok(())
    }

    fn end(&mut self, _: u32, _: usize, _: Range<u32>) {}
}

impl<N: PageMemory> Sink for Landing<'_, N> {
    fn begin(&mut self, page: u32, plane: usize, tokens: &Range<u32>) -> Result<Landed, LandError> {
        Landing::begin(self, page, plane, tokens)
    }

    fn store(&mut self, page: u32, plane: usize, tokens: Range<u32>, bytes: &[u8]) -> Result<(), LandError> {
        Landing::store(self, page, plane, tokens, bytes)
    }

    fn end(&mut self, page: u32, plane: usize, tokens: Range<u32>) {
        Landing::end(self, page, plane, tokens);
    }
}

/// Sends some layers of some pages to a sink, and digests them if the receiver wants that.
pub(super) fn run<M: PageMemory>(
    outbound: &Outbound<M>,
    sending: &Sending,
    layers: Range<u32>,
    pages: Range<u32>,
    sink: &mut impl Sink,
) -> Result<SentPart, OutboundError> {
    let slice = check_part(outbound, sending, &layers, &pages)?;
    let page_tokens = outbound.model.page_tokens();
    let tokens = u64::from(pages.start) * u64::from(page_tokens)
        ..(u64::from(pages.end) * u64::from(page_tokens)).min(outbound.tokens);
    let committed_tokens = outbound.sealed_tokens();
    if tokens.end > committed_tokens {
        return Err(OutboundError::NotCommitted { to_tokens: tokens.end, committed_tokens });
    }
    let places = Places::new(outbound, sending, &slice)?;
    let scratch = chunk_for(&places.sources);
    let digester = match sending.checksum() {
        Checksum::BytesUnverified => None,
        kind => Some(Digester::new(kind, outbound.key.as_ref(), sending.transfer(), &outbound.model, &slice)?),
    };
    let first_sent = sending.pages().start;
    let mut pass = Pass { places, scratch, sink, digester, digests: Vec::with_capacity(pages.len()) };
    let guard = outbound.read(tokens)?;
    for (ordinal, view) in pages.clone().zip(guard.pages()) {
        pass.page(ordinal, &view, tokens_in_page(outbound.tokens, page_tokens, ordinal), ordinal >= first_sent)?;
    }
    let planes = if pass.digester.is_some() { 0..pass.places.sources.len() as u32 } else { 0..0 };
    Ok(SentPart::new(slice, pages).with_digests(planes, pass.digests))
}

fn check_part<M: PageMemory>(
    outbound: &Outbound<M>,
    sending: &Sending,
    layers: &Range<u32>,
    pages: &Range<u32>,
) -> Result<Slice, OutboundError> {
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

/// Where each plane of a part lies: in the sender's own pages, and among the planes that this sender sends.
struct Places {
    sources: Vec<PlaneWindow>,
    sent: Vec<usize>,
}

impl Places {
    fn new<M: PageMemory>(
        outbound: &Outbound<M>,
        sending: &Sending,
        part: &Slice,
    ) -> Result<Self, OutboundError> {
        let windows = |of: &Slice| outbound.model.windows(of, part).map_err(crate::handoff::DigestError::from);
        let sent = windows(sending.slice())?.iter().map(PlaneWindow::plane).collect();
        Ok(Self { sources: windows(&outbound.slice)?, sent })
    }
}

struct Pass<'s, S: Sink> {
    places: Places,
    scratch: Scratch,
    sink: &'s mut S,
    digester: Option<Digester>,
    digests: Vec<Digest>,
}

impl<S: Sink> Pass<'_, S> {
    fn page<M: PageMemory>(
        &mut self,
        ordinal: u32,
        view: &PageView<'_, M>,
        tokens: u32,
        is_sent: bool,
    ) -> Result<(), OutboundError> {
        let mut digest = self.digester.as_ref().map(|digester| digester.page(ordinal, tokens));
        for at in 0..self.places.sources.len() {
            let wanted = is_sent && self.sink.begin(ordinal, self.places.sent[at], &(0..tokens))? == Landed::Now;
            if wanted || digest.is_some() {
                self.plane(ordinal, view, at, tokens, wanted, &mut digest)?;
            }
            if wanted {
                self.sink.end(ordinal, self.places.sent[at], 0..tokens);
            }
        }
        self.digests.extend(digest.map(PageDigester::finish));
        Ok(())
    }

    fn plane<M: PageMemory>(
        &mut self,
        ordinal: u32,
        view: &PageView<'_, M>,
        at: usize,
        tokens: u32,
        wanted: bool,
        digest: &mut Option<PageDigester>,
    ) -> Result<(), OutboundError> {
        let window = self.places.sources[at];
        let step = chunk_tokens(window.token_bytes());
        let mut first = 0;
        while first < tokens {
            let chunk = first..tokens.min(first.saturating_add(step));
            let bytes = self.scratch.take((u64::from(chunk.end - first) * window.token_bytes()) as usize);
            view.copy_window(&window, chunk.clone(), bytes)?;
            if let Some(digest) = digest {
                digest.update(bytes);
            }
            first = chunk.end;
            if wanted {
                self.sink.store(ordinal, self.places.sent[at], chunk, bytes)?;
            }
        }
        Ok(())
    }
}
