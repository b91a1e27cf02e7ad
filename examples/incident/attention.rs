//! Attention over a cache: rotary positions, scores, softmax, weighted sum.
//!
//! Reads K and V where they lie, page after page. Invariant: one head's output depends only on its query and on the
//! rows `0..=position`, in order; never on the batch or on where a page begins.

use crate::kv_cache::{Half, KvStep, load_floats};
use crate::shape::Shape;

/// Turns each pair of neighbours in each head by an angle that grows with the token's position.
///
/// `rows` is `[tokens, any number of heads, head_dim]`, the first token at position `first`.
pub(crate) fn rotate(rows: &mut [f32], first: usize, tokens: usize, shape: &Shape) {
    let row_len = rows.len() / tokens;
    for (token, row) in rows.chunks_exact_mut(row_len).enumerate() {
        let turns = turns(first + token, shape);
        for head in row.chunks_exact_mut(shape.head_dim) {
            let (pairs, _) = head.as_chunks_mut::<2>();
            for ([x, y], (sin, cos)) in pairs.iter_mut().zip(&turns) {
                (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
            }
        }
    }
}

/// Sine and cosine for each pair of a head at one position.
fn turns(position: usize, shape: &Shape) -> Vec<(f32, f32)> {
    let theta = f64::from(shape.rope_theta);
    let angle = |pair: usize| position as f64 * theta.powf(-2.0 * pair as f64 / shape.head_dim as f64);
    (0..shape.head_dim / 2).map(angle).map(|angle| (angle.sin() as f32, angle.cos() as f32)).collect()
}

/// Attends from each query of a batch over the cache up to and with its own position.
///
/// `queries` and the result are `[tokens, heads, head_dim]`, the first token at position `first`; the batch's own K
/// and V are already in the cache.
///
/// # Errors
/// What the cache says when it cannot read.
pub(crate) fn attend<C: KvStep>(
    cache: &C,
    layer: usize,
    first: usize,
    queries: &[f32],
    shape: &Shape,
) -> Result<Vec<f32>, C::Error> {
    let end = first + queries.len() / shape.dim;
    let mut weights = scores(cache, layer, first, end, queries, shape)?;
    for (head, weights) in weights.chunks_exact_mut(end).enumerate() {
        softmax(&mut weights[..=first + head / shape.heads]);
    }
    weighted_sum(cache, layer, first, end, &weights, shape)
}

/// `[tokens, heads, end]`: the score of each earlier position; later positions stay zero.
fn scores<C: KvStep>(
    cache: &C,
    layer: usize,
    first: usize,
    end: usize,
    queries: &[f32],
    shape: &Shape,
) -> Result<Vec<f32>, C::Error> {
    let scale = (shape.head_dim as f32).sqrt().recip();
    let mut scores = vec![0.0; queries.len() / shape.head_dim * end];
    scan_rows(cache, layer, Half::Key, end, shape, &mut |position, key| {
        for head in heads_that_see(position, first, end, shape) {
            let query = &queries[head * shape.head_dim..][..shape.head_dim];
            scores[head * end + position] = scale * dot(query, kv_head(key, head, shape));
        }
    })?;
    Ok(scores)
}

fn weighted_sum<C: KvStep>(
    cache: &C,
    layer: usize,
    first: usize,
    end: usize,
    weights: &[f32],
    shape: &Shape,
) -> Result<Vec<f32>, C::Error> {
    let mut sums = vec![0.0; weights.len() / end * shape.head_dim];
    scan_rows(cache, layer, Half::Value, end, shape, &mut |position, value| {
        for head in heads_that_see(position, first, end, shape) {
            let weight = weights[head * end + position];
            let sum = &mut sums[head * shape.head_dim..][..shape.head_dim];
            for (sum, value) in sum.iter_mut().zip(kv_head(value, head, shape)) {
                *sum += weight * value;
            }
        }
    })?;
    Ok(sums)
}

/// Heads of the batch, counted through its tokens, whose token is at `position` or behind it.
fn heads_that_see(position: usize, first: usize, end: usize, shape: &Shape) -> std::ops::Range<usize> {
    position.saturating_sub(first) * shape.heads..(end - first) * shape.heads
}

/// The K or V head that a query head, counted through the batch, shares with its group.
fn kv_head<'r>(row: &'r [f32], head: usize, shape: &Shape) -> &'r [f32] {
    let group = head % shape.heads / (shape.heads / shape.kv_heads);
    &row[group * shape.head_dim..][..shape.head_dim]
}

/// Hands over the cache's runs row by row, as floats.
fn scan_rows<C: KvStep>(
    cache: &C,
    layer: usize,
    half: Half,
    end: usize,
    shape: &Shape,
    visit: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), C::Error> {
    let mut row = vec![0.0; shape.kv_dim()];
    cache.scan(layer, half, end, &mut |first, rows| {
        for (i, bytes) in rows.chunks_exact(shape.row_bytes()).enumerate() {
            load_floats(&mut row, bytes);
            visit(first + i, &row);
        }
    })
}

/// Dot product in eight lanes: float sums have an order, and only a fixed one of this form is vectorised.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (a, _) = a.as_chunks::<8>();
    let (b, _) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    lanes.iter().sum()
}

fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contiguous::Contiguous;
    use crate::random::{Random, SHAPE};

    #[test]
    fn a_single_token_gets_its_own_value() {
        let mut random = Random::new(1);
        let row: Vec<f32> = (0..SHAPE.kv_dim()).map(|_| random.float(1.0)).collect();
        let queries: Vec<f32> = (0..SHAPE.dim).map(|_| random.float(1.0)).collect();
        let mut cache = Contiguous::new(&SHAPE);
        let Ok(()) = cache.put(0, 0, &row, &row);
        let Ok(out) = attend(&cache, 0, 0, &queries, &SHAPE);
        for (head, out) in out.chunks(SHAPE.head_dim).enumerate() {
            assert_eq!(out, kv_head(&row, head, &SHAPE));
        }
    }

    #[test]
    fn rotation_keeps_lengths_and_is_none_at_position_zero() {
        let mut rows: Vec<f32> = (0..SHAPE.dim).map(|i| i as f32 / 8.0).collect();
        let before = rows.clone();
        rotate(&mut rows, 0, 1, &SHAPE);
        assert_eq!(rows, before);
        rotate(&mut rows, 9, 1, &SHAPE);
        assert_ne!(rows, before);
        assert!((dot(&rows, &rows) / dot(&before, &before) - 1.0).abs() < 1e-5);
    }
}
