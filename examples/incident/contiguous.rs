//! A cache in one growing buffer per plane: the reference that every paged cache is compared with.

use std::convert::Infallible;

use crate::kv_cache::{Half, KvCache, KvStep, store_floats};
use crate::shape::Shape;

/// K and V of one sequence, each plane in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contiguous {
    row_bytes: usize,
    planes: Vec<Vec<u8>>,
}

impl Contiguous {
    /// An empty cache for a model of this shape.
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { row_bytes: shape.row_bytes(), planes: vec![Vec::new(); 2 * shape.layers] }
    }

    /// Tokens stored, of the first layer.
    pub(crate) fn tokens(&self) -> usize {
        self.planes.first().map_or(0, Vec::len) / self.row_bytes
    }

    /// Stores this cache's tokens in another one, so that a prompt is prefilled once for several runs.
    ///
    /// # Errors
    /// What the other cache says when it cannot store.
    pub(crate) fn copy_to<C: KvCache>(&self, other: &mut C) -> Result<(), C::Error> {
        let floats = |plane: &Vec<u8>| {
            let mut floats = vec![0.0; plane.len() / 4];
            crate::kv_cache::load_floats(&mut floats, plane);
            floats
        };
        let (layers, _) = self.planes.as_chunks::<2>();
        let mut step = other.step(0, self.tokens())?;
        for (layer, [keys, values]) in layers.iter().enumerate() {
            step.put(layer, 0, &floats(keys), &floats(values))?;
        }
        Ok(())
    }

    fn put_plane(&mut self, plane: usize, first: usize, floats: &[f32]) {
        let bytes = size_of_val(floats);
        let start = first * self.row_bytes;
        let plane = &mut self.planes[plane];
        plane.resize(plane.len().max(start + bytes), 0);
        store_floats(&mut plane[start..start + bytes], floats);
    }
}

impl KvCache for Contiguous {
    type Error = Infallible;
    type Step<'s> = &'s mut Self;

    fn step(&mut self, _first: usize, _tokens: usize) -> Result<&mut Self, Infallible> {
        Ok(self)
    }
}

impl KvStep for Contiguous {
    type Error = Infallible;

    fn put(&mut self, layer: usize, first: usize, keys: &[f32], values: &[f32]) -> Result<(), Infallible> {
        self.put_plane(Half::Key.plane(layer), first, keys);
        self.put_plane(Half::Value.plane(layer), first, values);
        Ok(())
    }

    fn scan(
        &self,
        layer: usize,
        half: Half,
        end: usize,
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Infallible> {
        visit(0, &self.planes[half.plane(layer)][..end * self.row_bytes]);
        Ok(())
    }
}
