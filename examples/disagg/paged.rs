//! A sequence in the pages of a reservation, wherever they lie.

use pagestamp::memory::HostBytes;
use pagestamp::{Error, PlaneWriter, ReadError, Reservation};

use crate::kv_cache::{Half, KvCache, KvStep, PAGE_TOKENS, store_floats};
use crate::shape::Shape;

/// The cache of one request.
#[derive(Debug)]
pub(crate) struct Paged<'r, M: HostBytes> {
    kv: &'r mut Reservation<M>,
    row_bytes: usize,
}

impl<'r, M: HostBytes> Paged<'r, M> {
    pub(crate) fn new(kv: &'r mut Reservation<M>, shape: &Shape) -> Self {
        Self { kv, row_bytes: shape.row_bytes() }
    }
}

impl<M: HostBytes> KvCache for Paged<'_, M> {
    type Error = Error;
    type Step<'s>
        = PagedStep<'s, M>
    where
        Self: 's;

    /// Commits what the step before wrote, and takes pages as tokens come.
    ///
    /// # Panics
    /// If `first` is not the end of what is written.
    fn step(&mut self, first: usize, tokens: usize) -> Result<PagedStep<'_, M>, Error> {
        let written = self.kv.written_tokens();
        assert_eq!(first as u64, written, "a step goes on where the last one ended");
        self.kv.commit(written)?;
        let end = written + tokens as u64;
        if end > self.kv.reserved_tokens() {
            self.kv.grow(end)?;
        }
        Ok(PagedStep { writer: self.kv.writer(tokens as u64)?, row_bytes: self.row_bytes })
    }
}

/// Some tokens on their way through the layers.
#[derive(Debug)]
pub(crate) struct PagedStep<'s, M: HostBytes> {
    writer: PlaneWriter<'s, M>,
    row_bytes: usize,
}

impl<M: HostBytes> KvStep for PagedStep<'_, M> {
    type Error = Error;

    fn put(&mut self, layer: usize, _first: usize, keys: &[f32], values: &[f32]) -> Result<(), Error> {
        for (half, floats) in [(Half::Key, keys), (Half::Value, values)] {
            let mut bytes = vec![0; size_of_val(floats)];
            store_floats(&mut bytes, floats);
            self.writer.plane(half.plane(layer), &bytes)?;
        }
        Ok(())
    }

    fn scan(&self, layer: usize, half: Half, end: usize, visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), Error> {
        for (ordinal, first) in (0..).zip((0..end).step_by(PAGE_TOKENS)) {
            let rows = self.writer.run(half.plane(layer), ordinal, 0)?;
            let written_tokens = (first + rows.len() / self.row_bytes) as u64;
            let rows = rows.get(..PAGE_TOKENS.min(end - first) * self.row_bytes);
            visit(first, rows.ok_or(ReadError::Unwritten { to_tokens: end as u64, written_tokens })?);
        }
        Ok(())
    }
}
