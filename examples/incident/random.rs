//! A seeded random model, so that the tests need no file.

use crate::block::{BLOCK, Q4Block, Q8Block};
use crate::layer::Layer;
use crate::llama::Llama;
use crate::matrix::{Blocks, Matrix};
use crate::shape::Shape;

/// SplitMix64: small, seeded, and good enough for weights.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A float in `-limit..limit`.
    pub(crate) fn float(&mut self, limit: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1_u32 << 24) as f32;
        (unit * 2.0 - 1.0) * limit
    }

    /// A number in `0..end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// The numbers `0..end` in random order.
    pub(crate) fn shuffled(&mut self, end: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..end).collect();
        for i in (1..end).rev() {
            numbers.swap(i, self.below(i + 1));
        }
        numbers
    }

    pub(crate) fn q4(&mut self, rows: usize, columns: usize) -> Matrix {
        let blocks = (0..rows * columns / BLOCK)
            .map(|_| Q4Block::new(0.03, -0.22, std::array::from_fn(|_| self.next() as u8)))
            .collect();
        Matrix::new(rows, columns, Blocks::Q4(blocks)).expect("as many blocks as the shape asks for")
    }

    pub(crate) fn q8(&mut self, rows: usize, columns: usize) -> Matrix {
        let blocks = (0..rows * columns / BLOCK)
            .map(|_| Q8Block::new(0.002, std::array::from_fn(|_| self.next() as i8)))
            .collect();
        Matrix::new(rows, columns, Blocks::Q8(blocks)).expect("as many blocks as the shape asks for")
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| 1.0 + self.float(0.2)).collect()
    }
}

/// Shape of the random model: two layers, grouped heads, everything small.
pub(crate) const SHAPE: Shape = Shape {
    layers: 2,
    dim: 64,
    ffn_dim: 96,
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    vocab: 80,
    context: 256,
    rope_theta: 10_000.0,
    norm_epsilon: 1e-5,
};

/// A two-layer Llama with random weights; the same seed gives the same model.
pub(crate) fn llama(seed: u64) -> Llama {
    let mut random = Random::new(seed);
    let embedding = random.q8(SHAPE.vocab, SHAPE.dim);
    let layers = (0..SHAPE.layers).map(|_| layer(&mut random)).collect();
    let norm = random.floats(SHAPE.dim);
    Llama::from_parts(SHAPE, embedding, layers, norm)
}

fn layer(random: &mut Random) -> Layer {
    let Shape { dim, ffn_dim, .. } = SHAPE;
    Layer {
        attention_norm: random.floats(dim),
        query: random.q4(dim, dim),
        key: random.q4(SHAPE.kv_dim(), dim),
        value: random.q4(SHAPE.kv_dim(), dim),
        attention_out: random.q4(dim, dim),
        ffn_norm: random.floats(dim),
        gate: random.q4(ffn_dim, dim),
        up: random.q4(ffn_dim, dim),
        down: random.q4(dim, ffn_dim),
    }
}

#[test]
fn same_seed_gives_the_same_numbers() {
    let draw = |seed| Random::new(seed).shuffled(20);
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}
