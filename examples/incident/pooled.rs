//! A sequence in pages of a pagestamp pool: the forward pass runs over a reservation.

use std::error::Error;
use std::fmt;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
use pagestamp::{
    ExtentError, GrowError, HostMemory, PagePool, PlaneWriter, PoolConfig, ReadError, Reservation, WriteError,
};

use crate::kv_cache::{Half, KvCache, KvStep, PAGE_TOKENS, store_floats};
use crate::shape::Shape;

/// A pool of the example: pages in host memory.
pub(crate) type Pool = PagePool<HostMemory>;
/// A request's pages in it.
pub(crate) type Pages = Reservation<HostMemory>;

/// What both sides of a handoff must agree on: K and V of each layer in a plane of its own, f32, token by token.
pub(crate) fn layout(shape: &Shape) -> Result<ModelLayout, Box<dyn Error>> {
    let (layers, heads) = (u32::try_from(shape.layers)?, u32::try_from(shape.kv_heads)?);
    let cache = HeadCache::new(heads, u32::try_from(shape.head_dim)?, ElementFormat::plain(Dtype::F32));
    let whole = KvLayout::new(PAGE_TOKENS as u32, layers, cache);
    Ok(ModelLayout::new("SmolLM2-135M-Instruct", "Q4_1", whole)?)
}

/// A pool with room for so many pages of requests.
pub(crate) fn pool(shape: &Shape, pages: usize) -> Result<Pool, Box<dyn Error>> {
    let layout = layout(shape)?;
    let geometry = layout.geometry(&Slice::whole(&layout))?;
    let pages = u32::try_from(pages)?;
    let config = PoolConfig::new(pages);
    let config = PoolConfig::new(pages + config.own_page_count());
    Ok(PagePool::new(config.clone(), HostMemory::new(geometry, config.pages())?)?)
}

/// Why the model could not go on over its pages.
#[derive(Debug)]
pub(crate) enum PooledError {
    /// The engine is about to write at a position that is not the end of what is written.
    Gap {
        first: usize,
        written: u64,
    },
    Grow(GrowError),
    Write(WriteError),
    Read(ReadError),
    Commit(ExtentError),
}

impl fmt::Display for PooledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { first, written } => {
                write!(f, "position {first} is not the end of the {written} tokens written")
            }
            Self::Grow(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
            Self::Commit(error) => error.fmt(f),
        }
    }
}

impl Error for PooledError {}

/// The cache of one request, in its reservation.
#[derive(Debug)]
pub(crate) struct Pooled<'r> {
    pages: &'r mut Pages,
    row_bytes: usize,
}

impl<'r> Pooled<'r> {
    pub(crate) fn new(pages: &'r mut Pages, shape: &Shape) -> Self {
        Self { pages, row_bytes: shape.row_bytes() }
    }
}

impl KvCache for Pooled<'_> {
    type Error = PooledError;
    type Step<'s>
        = PooledStep<'s>
    where
        Self: 's;

    /// Takes pages as tokens come: within what was admitted that cannot fail.
    fn step(&mut self, first: usize, tokens: usize) -> Result<PooledStep<'_>, PooledError> {
        let written = self.pages.written_tokens();
        if first as u64 != written {
            return Err(PooledError::Gap { first, written });
        }
        let end = written + tokens as u64;
        self.pages.commit(written).map_err(PooledError::Commit)?;
        self.pages.grow(end.max(self.pages.reserved_tokens())).map_err(PooledError::Grow)?;
        let writer = self.pages.writer(tokens as u64).map_err(PooledError::Write)?;
        Ok(PooledStep { writer, row_bytes: self.row_bytes, bytes: Vec::new() })
    }
}

/// Some tokens on their way through the layers. They count as written with the last plane of the last layer.
#[derive(Debug)]
pub(crate) struct PooledStep<'s> {
    writer: PlaneWriter<'s, HostMemory>,
    row_bytes: usize,
    bytes: Vec<u8>,
}

impl PooledStep<'_> {
    fn put_plane(&mut self, plane: usize, floats: &[f32]) -> Result<(), PooledError> {
        self.bytes.resize(size_of_val(floats), 0);
        store_floats(&mut self.bytes, floats);
        self.writer.plane(plane, &self.bytes).map_err(PooledError::Write)
    }
}

impl KvStep for PooledStep<'_> {
    type Error = PooledError;

    fn put(&mut self, layer: usize, _first: usize, keys: &[f32], values: &[f32]) -> Result<(), PooledError> {
        self.put_plane(Half::Key.plane(layer), keys)?;
        self.put_plane(Half::Value.plane(layer), values)
    }

    fn scan(
        &self,
        layer: usize,
        half: Half,
        end: usize,
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PooledError> {
        for (ordinal, first) in (0..end).step_by(PAGE_TOKENS).enumerate() {
            let rows = self.writer.run(half.plane(layer), ordinal as u32, 0).map_err(PooledError::Read)?;
            let bytes = PAGE_TOKENS.min(end - first) * self.row_bytes;
            let rows = rows.get(..bytes).ok_or(PooledError::Read(ReadError::Unwritten {
                to_tokens: end as u64,
                written_tokens: (first + rows.len() / self.row_bytes) as u64,
            }))?;
            visit(first, rows);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contiguous::Contiguous;
    use crate::random::{self, SHAPE};
    use pagestamp::geometry::PlaneKind;
    use pagestamp::{CapacityPlan, OwnerId, Request};

    fn reserve(tokens: u64) -> Pages {
        let pool = pool(&SHAPE, 12).expect("a small pool");
        let proof = pool.prove(CapacityPlan::new(192)).expect("12 pages");
        pool.reserve(&proof, Request::new(OwnerId::new(1).expect("one"), 192), tokens).expect("room")
    }

    #[test]
    fn pages_of_the_pool_give_the_same_logits_as_one_buffer() {
        let model = random::llama(31);
        let tokens: Vec<u32> = (0..50).collect();
        let (mut pages, mut whole) = (reserve(0), Contiguous::new(&SHAPE));
        let Ok(expected) = model.forward(&mut whole, 0, &tokens);
        let got = model.forward(&mut Pooled::new(&mut pages, &SHAPE), 0, &tokens).expect("room");
        assert_eq!(got, expected);
        assert_eq!(pages.written_tokens(), 50);
    }

    #[test]
    fn a_step_past_what_is_written_is_refused() {
        let model = random::llama(31);
        let mut pages = reserve(128);
        let mut cache = Pooled::new(&mut pages, &SHAPE);
        model.forward(&mut cache, 0, &[3]).expect("room");
        let refused = model.forward(&mut cache, 128, &[3]).expect_err("seven pages are unwritten");
        assert!(matches!(refused, PooledError::Gap { first: 128, written: 1 }));
    }

    #[test]
    fn keys_and_values_of_a_layer_are_neighbours() {
        let layout = layout(&SHAPE).expect("a layout");
        let roles = layout.kv_layout(&Slice::whole(&layout)).and_then(|kv| kv.roles()).expect("roles");
        for (plane, role) in roles.iter().enumerate() {
            let half = if role.kind() == PlaneKind::K { Half::Key } else { Half::Value };
            assert_eq!(half.plane(role.layers().start as usize), plane);
        }
    }
}
