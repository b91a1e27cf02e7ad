//! Whether the writers' slices are the receiver's slice: all of it, and nothing twice.
//!
//! *Owns* the check of writers. *Does not know* pages. O(writers squared), of which there are few.

use thiserror::Error;

use crate::geometry::Slice;
use crate::handoff::Writer;
use crate::handoff::error::Part;
use crate::ticket::HolderId;

/// Says why writers do not tile a slice.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TilingError {
    /// Nobody sends anything.
    #[error("a handoff needs a writer; name at least one")]
    NoWriter,
    /// More writers than a handoff can have.
    #[error("{writers} writers are named, a handoff has at most {max_writers}")]
    TooMany {
        /// Writers named.
        writers: usize,
        /// Most that a handoff can have.
        max_writers: usize,
    },
    /// One number for two writers.
    #[error("writer {} is named twice; give each a number of its own", holder.0)]
    Twice {
        /// The number.
        holder: HolderId,
    },
    /// A writer sends what the receiver does not hold.
    #[error("writer {} sends {}, the receiver holds {}; cut each slice to the receiver's", holder.0, Part(slice), Part(receiver))]
    Outside {
        /// The writer.
        holder: HolderId,
        /// Its slice.
        slice: Slice,
        /// What the receiver holds.
        receiver: Slice,
    },
    /// Two writers send the same layer of the same head.
    #[error("writers {} and {} both send layer {layer} of head {head}; cut their slices apart", first.0, second.0)]
    Overlap {
        /// One writer.
        first: HolderId,
        /// The other.
        second: HolderId,
        /// A layer that both send.
        layer: u32,
        /// A head of it that both send.
        head: u32,
    },
    /// Some layers of some heads are sent by nobody.
    #[error("the writers send {sent} of {expected} layers of heads; name one for each")]
    Gap {
        /// Pairs of layer and head that are sent.
        sent: u64,
        /// Pairs of the receiver's slice.
        expected: u64,
    },
}

/// Most writers of a handoff.
pub(in crate::handoff) const MAX_WRITERS: usize = 1024;

/// Checks that the writers' slices are all of `receiver`, and nothing twice.
pub(in crate::handoff) fn check_tiling(writers: &[Writer], receiver: &Slice) -> Result<(), TilingError> {
    if writers.is_empty() {
        return Err(TilingError::NoWriter);
    }
    if writers.len() > MAX_WRITERS {
        return Err(TilingError::TooMany { writers: writers.len(), max_writers: MAX_WRITERS });
    }
    for (at, writer) in writers.iter().enumerate() {
        let (holder, slice) = (writer.holder(), writer.slice());
        if !lies_within(slice, receiver) {
            return Err(TilingError::Outside { holder, slice: slice.clone(), receiver: receiver.clone() });
        }
        for before in &writers[..at] {
            if before.holder() == holder {
                return Err(TilingError::Twice { holder });
            }
            if let Some((layer, head)) = first_common(before.slice(), slice) {
                return Err(TilingError::Overlap { first: before.holder(), second: holder, layer, head });
            }
        }
    }
    // Nothing is outside and nothing twice: as many as there are is all of them.
    let (sent, expected) = (writers.iter().map(|writer| pairs(writer.slice())).sum(), pairs(receiver));
    if sent == expected { Ok(()) } else { Err(TilingError::Gap { sent, expected }) }
}

/// Says whether all of `part` is in `whole`.
pub(in crate::handoff) fn lies_within(part: &Slice, whole: &Slice) -> bool {
    let (layers, heads) = (part.layers(), part.heads());
    let (all_layers, all_heads) = (whole.layers(), whole.heads());
    layers.start >= all_layers.start
        && layers.end <= all_layers.end
        && heads.start >= all_heads.start
        && heads.end <= all_heads.end
}

/// The first layer and head that two slices have in common.
fn first_common(a: &Slice, b: &Slice) -> Option<(u32, u32)> {
    let layer = a.layers().start.max(b.layers().start);
    let head = a.heads().start.max(b.heads().start);
    let both = layer < a.layers().end.min(b.layers().end) && head < a.heads().end.min(b.heads().end);
    both.then_some((layer, head))
}

/// Pairs of layer and head.
fn pairs(slice: &Slice) -> u64 {
    u64::from(slice.layers().end - slice.layers().start) * u64::from(slice.heads().end - slice.heads().start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slice(layers: std::ops::Range<u32>, heads: std::ops::Range<u32>) -> Slice {
        Slice::new(layers, heads).expect("not empty")
    }

    fn writers(slices: &[Slice]) -> Vec<Writer> {
        (0..).zip(slices).map(|(holder, slice)| Writer::new(HolderId(holder), slice.clone())).collect()
    }

    /// What each pair of layer and head is sent by, counted one by one.
    fn counts(slices: &[Slice], receiver: &Slice) -> Vec<usize> {
        let pairs = receiver.layers().flat_map(|layer| receiver.heads().map(move |head| (layer, head)));
        let sends = |slice: &Slice, (layer, head)| slice.layers().contains(&layer) && slice.heads().contains(&head);
        pairs.map(|pair| slices.iter().filter(|slice| sends(slice, pair)).count()).collect()
    }

    // C10
    #[test]
    fn ranks_that_cut_by_heads_and_by_layers_tile_a_slice() {
        let receiver = slice(4..12, 2..6);
        let ranks = [slice(4..8, 2..4), slice(4..8, 4..6), slice(8..12, 2..3), slice(8..12, 3..6)];
        assert_eq!(check_tiling(&writers(&ranks), &receiver), Ok(()));
        assert_eq!(check_tiling(&writers(&ranks[1..]), &receiver), Err(TilingError::Gap { sent: 24, expected: 32 }));
        let twice = [ranks[0].clone(), ranks[1].clone(), slice(7..12, 2..6)];
        let overlap = TilingError::Overlap { first: HolderId(0), second: HolderId(2), layer: 7, head: 2 };
        assert_eq!(check_tiling(&writers(&twice), &receiver), Err(overlap));
        let beside = [slice(4..12, 2..5), slice(4..12, 5..7)];
        assert!(matches!(
            check_tiling(&writers(&beside), &receiver),
            Err(TilingError::Outside { holder: HolderId(1), .. })
        ));
        assert_eq!(check_tiling(&[], &receiver), Err(TilingError::NoWriter));
        let same = [Writer::new(HolderId(7), slice(4..8, 2..6)), Writer::new(HolderId(7), slice(8..12, 2..6))];
        assert_eq!(check_tiling(&same, &receiver), Err(TilingError::Twice { holder: HolderId(7) }));
        let many = vec![same[0].clone(); MAX_WRITERS + 1];
        assert!(matches!(
            check_tiling(&many, &receiver),
            Err(TilingError::TooMany { writers: 1025, max_writers: 1024 })
        ));
    }

    proptest! {
        // C10
        #[test]
        fn writers_are_taken_only_if_each_layer_of_each_head_is_sent_once(
            boxes in prop::collection::vec((1u32..4, 1u32..4, 0u32..4, 0u32..4), 1..6),
        ) {
            let receiver = slice(1..4, 1..4);
            let cut = |(layer, head, layers, heads): &(u32, u32, u32, u32)| {
                slice(*layer..(layer + 1 + layers).min(4), *head..(head + 1 + heads).min(4))
            };
            let slices: Vec<Slice> = boxes.iter().map(cut).collect();
            let once = counts(&slices, &receiver).iter().all(|count| *count == 1);
            prop_assert_eq!(check_tiling(&writers(&slices), &receiver).is_ok(), once);
        }
    }
}
