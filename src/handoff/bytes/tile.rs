//! One writer of an inbound: where its slice lies in the receiver's pages, what landed of it, and what it said.
//!
//! *Owns* the progress of one writer. *Does not know* the pages' bytes.

use crate::geometry::{LayerPlanes, LayoutError, ModelLayout, PlaneWindow, Slice};
use crate::handoff::bytes::coverage::{Coverage, Missing};
use crate::handoff::receipt::told::Grid;
use crate::handoff::verdict::expected::Expected;
use crate::handoff::{InboundError, Writer};
use crate::ticket::TicketId;

/// How a writer's bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::handoff) enum Via {
    /// It has not begun.
    Nothing,
    /// By a landing, which counts them.
    Landing,
    /// From outside, under this ticket: what it says of its bytes is compared with their digests.
    Ticket(TicketId),
}

/// Where the bytes of one plane of a part go, and what is counted for it: one unit for each plane of each layer, whether
/// layers have planes of their own or share them.
#[derive(Clone, Copy, Debug)]
pub(in crate::handoff) struct Target {
    pub(in crate::handoff) window: PlaneWindow,
    first_unit: usize,
    unit_step: usize,
    unit_count: usize,
}

impl Target {
    pub(in crate::handoff) fn units(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        (self.first_unit..).step_by(self.unit_step).take(self.unit_count)
    }
}

#[derive(Debug)]
pub(in crate::handoff) struct Tile {
    pub(in crate::handoff) writer: Writer,
    /// One for each plane of the writer's slice.
    pub(in crate::handoff) targets: Vec<Target>,
    pub(in crate::handoff) via: Via,
    pub(in crate::handoff) landed: Coverage,
    pub(in crate::handoff) told: Grid,
    layer_units: usize,
}

impl Tile {
    pub(in crate::handoff) fn new(
        model: &ModelLayout,
        receiver: &Slice,
        writer: &Writer,
        pages: u32,
    ) -> Result<Self, LayoutError> {
        let slice = writer.slice();
        let targets = targets(model, receiver, slice, slice)?;
        let layer_units = layer_units(model, slice)?;
        let landed = Coverage::new(pages, layer_units * slice.layers().len());
        let told = Grid::new(slice.layers(), pages);
        Ok(Self { writer: writer.clone(), targets, via: Via::Nothing, landed, told, layer_units })
    }

    /// The layer and the plane of it that a unit is.
    pub(in crate::handoff) fn place_of(&self, unit: usize) -> (u32, usize) {
        // fewer units than the model has layers and planes
        (self.writer.slice().layers().start + (unit / self.layer_units) as u32, unit % self.layer_units)
    }

    /// What this writer did wrong: nothing can mend it.
    pub(in crate::handoff) fn find_wrong(&self) -> Result<(), InboundError> {
        let Some(overlap) = self.landed.first_overlap().cloned() else { return Ok(()) };
        let writer = self.writer.holder();
        let ((layer, plane), page) = (self.place_of(overlap.unit), overlap.page);
        Err(InboundError::Overlap { writer, page, layer, plane, landed: overlap.landed, sent: overlap.sent })
    }

    /// What is still to come from this writer.
    pub(in crate::handoff) fn find_missing(&self, expected: &Expected) -> Result<(), InboundError> {
        let writer = self.writer.holder();
        if let Some((layer, page)) = self.told.first_untold() {
            let is_held = page < expected.held_pages();
            return Err(if is_held {
                InboundError::UntoldHeld { writer, page, layer }
            } else {
                InboundError::Untold { writer, page, layer }
            });
        }
        if matches!(self.via, Via::Ticket(_)) {
            return Ok(());
        }
        let to_land = |page| expected.tokens_to_land(page);
        let Some(Missing { page, unit, landed_tokens }) = self.landed.first_missing(to_land) else { return Ok(()) };
        let (layer, plane) = self.place_of(unit);
        Err(InboundError::Gap {
            writer,
            page,
            layer,
            plane,
            expected_tokens: to_land(page),
            landed_tokens,
            expected_pages: expected.pages,
            complete_pages: self.landed.complete_pages(to_land),
        })
    }
}

/// Planes of one layer.
fn layer_units(model: &ModelLayout, slice: &Slice) -> Result<usize, LayoutError> {
    let planes = model.geometry(slice)?.planes().len();
    Ok(match model.whole().layer_planes() {
        LayerPlanes::PerLayer => planes / slice.layers().len(),
        LayerPlanes::Shared => planes,
    })
}

/// Where each plane of a part goes, which has some layers of a writer's slice and all of its heads.
pub(in crate::handoff) fn targets(
    model: &ModelLayout,
    receiver: &Slice,
    tile: &Slice,
    part: &Slice,
) -> Result<Vec<Target>, LayoutError> {
    let units = layer_units(model, part)?;
    let first = part.layers().start.saturating_sub(tile.layers().start) as usize * units;
    let shared = model.whole().layer_planes() == LayerPlanes::Shared;
    let (unit_step, unit_count) = if shared { (units, part.layers().len()) } else { (1, 1) };
    let target = |(plane, window)| Target { window, first_unit: first + plane, unit_step, unit_count };
    Ok((0..).zip(model.windows(receiver, part)?).map(target).collect())
}
