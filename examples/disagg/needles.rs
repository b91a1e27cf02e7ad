//! Finds one tenant's bytes in what another one can read, by content and by nothing else.

use std::collections::HashSet;

use crate::contiguous::Contiguous;
use crate::kv_cache::{Half, KvStep};

/// Bytes that are looked for together: eight floats. Two tenants' floats agree so far by chance only.
const CHUNK: usize = 32;

/// Pieces of one tenant's K and V.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needles(HashSet<[u8; CHUNK]>);

impl Needles {
    /// All of a cache, zeroes left out.
    pub(crate) fn of(cache: &Contiguous, layers: usize) -> Self {
        let mut chunks = HashSet::new();
        for plane in (0..layers).flat_map(|layer| [(layer, Half::Key), (layer, Half::Value)]) {
            let Ok(()) = cache.scan(plane.0, plane.1, cache.tokens(), &mut |_, rows| chunks.extend(pieces(rows)));
        }
        Self(chunks)
    }

    /// Leaves out what the other tenant has too: both may use the same word.
    pub(crate) fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Counts the pieces in some bytes, which begin where a row of a page does.
    pub(crate) fn found_in(&self, bytes: &[u8]) -> usize {
        pieces(bytes).filter(|piece| self.0.contains(piece)).count()
    }
}

fn pieces(bytes: &[u8]) -> impl Iterator<Item = [u8; CHUNK]> + '_ {
    bytes.as_chunks().0.iter().copied().filter(|piece| *piece != [0; CHUNK])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv_cache::KvStep;
    use crate::random::SHAPE;

    fn cache(value: f32) -> Contiguous {
        let mut cache = Contiguous::new(&SHAPE);
        let row = vec![value; SHAPE.kv_dim()];
        for layer in 0..SHAPE.layers {
            let Ok(()) = cache.put(layer, 0, &row, &row);
        }
        cache
    }

    #[test]
    fn only_the_other_tenants_bytes_are_found() {
        let (a, b) = (Needles::of(&cache(1.0), SHAPE.layers), Needles::of(&cache(2.0), SHAPE.layers));
        let ones: Vec<u8> = 1.0_f32.to_le_bytes().repeat(16);
        assert_eq!((a.found_in(&ones), b.found_in(&ones)), (2, 0));
        let zeroes = Needles::of(&cache(0.0), SHAPE.layers);
        assert_eq!((a.found_in(&[0; 64]), zeroes.found_in(&[0; 64])), (0, 0));
        assert_eq!(a.without(&a).found_in(&ones), 0);
        assert_eq!(a.without(&b), a);
    }
}
