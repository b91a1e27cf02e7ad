//! One writer of an inbound: where its slice lies in the receiver's pages, what landed of it, and what it said.
//!
//! *Owns* the progress of one writer. *Does not know* the pages' bytes.

use crate::geometry::{LayoutError, ModelLayout, PageGeometry, PlaneWindow, Slice};
use crate::handoff::coverage::{Coverage, Missing};
use crate::handoff::told::Grid;
use crate::handoff::verdict::Expected;
use crate::handoff::{InboundError, Writer};
use crate::ticket::TicketId;

/// How a writer's bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Via {
    /// It has not begun.
    Nothing,
    /// By a landing, which counts them.
    Landing,
    /// From outside, under this ticket: what it says of its bytes is compared with their digests.
    Ticket(TicketId),
}

#[derive(Debug)]
pub(super) struct Tile {
    pub(super) writer: Writer,
    /// Pages of the writer's slice alone.
    pub(super) geometry: PageGeometry,
    /// Where each of its planes lies in the receiver's.
    pub(super) windows: Vec<PlaneWindow>,
    pub(super) via: Via,
    pub(super) landed: Coverage,
    pub(super) told: Grid,
}

impl Tile {
    pub(super) fn new(model: &ModelLayout, receiver: &Slice, writer: &Writer, pages: u32) -> Result<Self, LayoutError> {
        let geometry = model.geometry(writer.slice())?;
        let windows = model.windows(receiver, writer.slice())?;
        let landed = Coverage::new(pages, windows.len());
        let told = Grid::new(writer.slice().layers(), pages);
        Ok(Self { writer: writer.clone(), geometry, windows, via: Via::Nothing, landed, told })
    }

    /// Bytes of a token in a plane that exists.
    pub(super) fn token_bytes(&self, plane: usize) -> u64 {
        self.geometry.planes()[plane].token_bytes()
    }

    /// What this writer did wrong: nothing can mend it.
    pub(super) fn find_wrong(&self) -> Result<(), InboundError> {
        let Some(overlap) = self.landed.first_overlap().cloned() else { return Ok(()) };
        let writer = self.writer.holder();
        let (page, plane, landed, sent) = (overlap.page, overlap.plane, overlap.landed, overlap.sent);
        Err(InboundError::Overlap { writer, page, plane, landed, sent })
    }

    /// What is still to come from this writer.
    pub(super) fn find_missing(&self, expected: &Expected) -> Result<(), InboundError> {
        let writer = self.writer.holder();
        if let Some((layer, page)) = self.told.first_untold() {
            return Err(InboundError::Untold { writer, page, layer });
        }
        if matches!(self.via, Via::Ticket(_)) {
            return Ok(());
        }
        let to_land = |page| expected.tokens_to_land(page);
        let Some(Missing { page, plane, landed_tokens }) = self.landed.first_missing(to_land) else { return Ok(()) };
        Err(InboundError::Gap {
            writer,
            page,
            plane,
            expected_tokens: to_land(page),
            landed_tokens,
            expected_pages: expected.pages,
            complete_pages: self.landed.complete_pages(to_land),
        })
    }
}
