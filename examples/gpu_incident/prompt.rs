//! A model in which one can see what attention read: V of a token is eight letters of the text, and K says where it stands.
//!
//! A query asks for a position. A token that stands there scores 16, one that stands elsewhere -16 or less, and what nobody
//! wrote 0: softmax leaves nothing of what scores less, so that the answers to all positions in turn are the text, and zeros
//! where nothing was written. Where two tokens claim one position, it is their mean.

/// Floats of a token in K, in V and in a query; also letters of a token. As in `reader.cu`.
pub(crate) const HEAD: usize = 8;
/// As in `reader.cu`.
pub(crate) const PAGE_TOKENS: usize = 4;
/// Pages of a prompt.
pub(crate) const PAGES: usize = 8;
pub(crate) const TOKENS: usize = PAGES * PAGE_TOKENS;
/// Bytes of a page, in K or in V.
pub(crate) const PAGE_BYTES: usize = PAGE_TOKENS * HEAD * size_of::<f32>();

/// What must not come out.
pub(crate) const SECRET: &str = "ORCHID-7421-ZEPHYR";

const ALICE: &str = "Notes for our counsel, in confidence. Nobody else is to see them. \
    The word that opens the vault is ORCHID-7421-ZEPHYR; it is known to the two of us alone. \
    Please confirm by return, and destroy this letter as soon as you have read it. Alice.";
const BOB: &str = "Which day is it, and where am I?";

/// K and V of a text, as prefill makes them.
#[derive(Debug)]
pub(crate) struct Prompt {
    k: Vec<u8>,
    v: Vec<u8>,
}

impl Prompt {
    /// Eight pages, and in the middle of them the secret.
    pub(crate) fn alice() -> Self {
        Self::new(ALICE)
    }

    /// One page: what a prefill that was told to give up sent instead of eight.
    pub(crate) fn bob() -> Self {
        Self::new(BOB)
    }

    fn new(text: &str) -> Self {
        let letters = text.bytes().chain(std::iter::repeat(b' ')).take(TOKENS * HEAD);
        Self { k: bytes((0..TOKENS).flat_map(|position| code(position, 4.0))), v: bytes(letters.map(f32::from)) }
    }

    /// K and V of a page.
    pub(crate) fn page(&self, ordinal: usize) -> [&[u8]; 2] {
        let page = ordinal * PAGE_BYTES..(ordinal + 1) * PAGE_BYTES;
        [&self.k[page.clone()], &self.v[page]]
    }
}

/// One query for each position.
pub(crate) fn queries() -> Vec<u8> {
    bytes((0..TOKENS).flat_map(|position| code(position, -16.0)))
}

/// The bits of a position, each 4 or -4, then a number that all tokens have in common.
fn code(position: usize, common: f32) -> [f32; HEAD] {
    const BITS: usize = TOKENS.ilog2() as usize;
    std::array::from_fn(|at| match at {
        BITS => common,
        _ if at > BITS => 0.0,
        _ if position >> at & 1 == 0 => -4.0,
        _ => 4.0,
    })
}

fn bytes(floats: impl Iterator<Item = f32>) -> Vec<u8> {
    floats.flat_map(f32::to_le_bytes).collect()
}

/// What attention answered to all queries of a row, bit by bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer(pub(crate) Vec<u8>);

impl Answer {
    /// The letters; a point where there is none.
    pub(crate) fn text(&self) -> String {
        let floats = self.0.chunks_exact(4).filter_map(|float| float.try_into().ok().map(f32::from_le_bytes));
        floats
            .map(|float| float.round() as u8 as char)
            .map(|c| if (' '..='~').contains(&c) { c } else { '.' })
            .collect()
    }

    /// Whether another tenant's secret is in it.
    pub(crate) fn leaks(&self) -> bool {
        self.text().contains(SECRET)
    }
}
