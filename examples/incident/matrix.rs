//! Weight matrices and their product with a batch of tokens.
//!
//! Invariant: one output value is always the sum of its row's blocks from left to right, so results are
//! bit-identical whatever the number of tokens in the batch and whatever the number of threads.
//! A row is unpacked once per batch: a batch of 16 tokens unpacks a sixteenth of what 16 single tokens do.

use std::thread;

use crate::block::{ActivationBlock, BLOCK, Q4Block, Q8Block, WeightBlock};

/// Below this many multiplications a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 8_000_000;
const THREADS: usize = 2;

/// A weight matrix of `rows * columns`, in blocks along the columns.
#[derive(Debug)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    blocks: Blocks,
}

/// The blocks of a matrix, row after row.
#[derive(Debug)]
pub(crate) enum Blocks {
    Q4(Vec<Q4Block>),
    Q8(Vec<Q8Block>),
}

/// A batch of tokens' activations, quantised: `[tokens, columns]`.
#[derive(Debug)]
pub(crate) struct Activations {
    tokens: usize,
    blocks: Vec<ActivationBlock>,
}

impl Activations {
    /// Quantises `[tokens, columns]` floats; `columns` is a multiple of the block.
    pub(crate) fn quantise(floats: &[f32], columns: usize) -> Self {
        let (blocks, _) = floats.as_chunks::<BLOCK>();
        Self { tokens: floats.len() / columns, blocks: blocks.iter().map(ActivationBlock::quantise).collect() }
    }
}

impl Matrix {
    /// Makes a matrix of blocks; `None` if their number is not that of `rows * columns`.
    pub(crate) fn new(rows: usize, columns: usize, blocks: Blocks) -> Option<Self> {
        let have = match &blocks {
            Blocks::Q4(blocks) => blocks.len(),
            Blocks::Q8(blocks) => blocks.len(),
        };
        let fits = columns.is_multiple_of(BLOCK) && rows.checked_mul(columns / BLOCK) == Some(have);
        fits.then_some(Self { rows, columns, blocks })
    }

    /// Multiplies a batch: `[tokens, columns]` gives `[tokens, rows]`.
    pub(crate) fn multiply(&self, batch: &Activations) -> Vec<f32> {
        let work = self.rows * self.columns * batch.tokens;
        self.multiply_on(if work < WORTH_A_THREAD { 1 } else { THREADS }, batch)
    }

    fn multiply_on(&self, threads: usize, batch: &Activations) -> Vec<f32> {
        let row_blocks = self.columns / BLOCK;
        let by_row = match &self.blocks {
            Blocks::Q4(blocks) => multiply_rows(threads, blocks, row_blocks, batch),
            Blocks::Q8(blocks) => multiply_rows(threads, blocks, row_blocks, batch),
        };
        transpose(&by_row, self.rows, batch.tokens)
    }

    /// Dequantises one row: the embedding of a token.
    pub(crate) fn row(&self, row: usize) -> Vec<f32> {
        let row_blocks = self.columns / BLOCK;
        let range = row * row_blocks..(row + 1) * row_blocks;
        match &self.blocks {
            Blocks::Q4(blocks) => dequantise(&blocks[range]),
            Blocks::Q8(blocks) => dequantise(&blocks[range]),
        }
    }
}

fn dequantise<B: WeightBlock>(blocks: &[B]) -> Vec<f32> {
    let mut weights = [0; BLOCK];
    let mut floats = Vec::with_capacity(blocks.len() * BLOCK);
    for block in blocks {
        let (scale, min) = block.unpack(&mut weights);
        floats.extend(weights.iter().map(|&w| scale * f32::from(w) + min));
    }
    floats
}

/// Shares the rows out to threads; the result is `[rows, tokens]`, so that each thread owns one piece of it.
fn multiply_rows<B: WeightBlock>(threads: usize, blocks: &[B], row_blocks: usize, batch: &Activations) -> Vec<f32> {
    let rows = blocks.len() / row_blocks;
    let share = rows.div_ceil(threads).max(1);
    let mut out = vec![0.0; rows * batch.tokens];
    let mut shares = blocks.chunks(share * row_blocks).zip(out.chunks_mut(share * batch.tokens));
    // The calling thread takes the first share itself: with one thread none is started.
    let own = shares.next();
    thread::scope(|scope| {
        for (blocks, out) in shares {
            scope.spawn(move || multiply_share(blocks, row_blocks, batch, out));
        }
        if let Some((blocks, out)) = own {
            multiply_share(blocks, row_blocks, batch, out);
        }
    });
    out
}

fn multiply_share<B: WeightBlock>(blocks: &[B], row_blocks: usize, batch: &Activations, out: &mut [f32]) {
    let mut weights = vec![[0; BLOCK]; row_blocks];
    let mut parts = vec![(0.0, 0.0); row_blocks];
    for (row, out) in blocks.chunks_exact(row_blocks).zip(out.chunks_exact_mut(batch.tokens)) {
        for ((block, weights), parts) in row.iter().zip(&mut weights).zip(&mut parts) {
            *parts = block.unpack(weights);
        }
        for (token, out) in batch.blocks.chunks_exact(row_blocks).zip(out) {
            *out = dot(token, &weights, &parts);
        }
    }
}

fn dot(token: &[ActivationBlock], weights: &[[i16; BLOCK]], parts: &[(f32, f32)]) -> f32 {
    token.iter().zip(weights).zip(parts).map(|((block, weights), &parts)| block.dot(weights, parts)).sum()
}

fn transpose(by_row: &[f32], rows: usize, tokens: usize) -> Vec<f32> {
    (0..tokens).flat_map(|token| (0..rows).map(move |row| by_row[row * tokens + token])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn bits(floats: &[f32]) -> Vec<u32> {
        floats.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn product_is_the_same_for_every_batch_and_thread_count() {
        let mut random = Random::new(7);
        let (rows, columns, tokens) = (37, 96, 5);
        let matrix = random.q4(rows, columns);
        let floats: Vec<f32> = (0..tokens * columns).map(|_| random.float(1.0)).collect();
        let whole = matrix.multiply_on(1, &Activations::quantise(&floats, columns));
        for threads in [2, 3, 64] {
            assert_eq!(bits(&matrix.multiply_on(threads, &Activations::quantise(&floats, columns))), bits(&whole));
        }
        let one_by_one: Vec<f32> =
            floats.chunks(columns).flat_map(|token| matrix.multiply(&Activations::quantise(token, columns))).collect();
        assert_eq!(bits(&one_by_one), bits(&whole));
    }

    #[test]
    fn product_is_near_that_of_the_dequantised_rows() {
        let mut random = Random::new(8);
        for matrix in [random.q4(6, 64), random.q8(6, 64)] {
            let floats: Vec<f32> = (0..64).map(|_| random.float(1.0)).collect();
            let got = matrix.multiply(&Activations::quantise(&floats, 64));
            for (row, got) in got.iter().enumerate() {
                let exact: f32 = matrix.row(row).iter().zip(&floats).map(|(w, x)| w * x).sum();
                assert!((got - exact).abs() < 0.05, "{got} {exact}");
            }
        }
    }

    #[test]
    fn wrong_number_of_blocks_is_refused() {
        assert!(Matrix::new(2, 32, Blocks::Q4(Vec::new())).is_none());
        assert!(Matrix::new(2, 33, Blocks::Q8(Vec::new())).is_none());
    }
}
