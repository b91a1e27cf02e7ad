//! How a page of tokens becomes a number: hashed outside the pool's lock, under a key of the pool's own.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use twox_hash::XxHash3_128;

use super::{PrefixExtra, PrefixTokens};
use crate::id::OwnerId;

/// What stands in front of the first page. Compared in full.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Namespace {
    pub(crate) owner: OwnerId,
    salt: Box<[u8]>,
    adapter: Box<[u8]>,
}

impl Namespace {
    pub(crate) fn new(owner: OwnerId, prefix: &PrefixTokens<'_>) -> Self {
        Self { owner, salt: prefix.salt.into(), adapter: prefix.adapter.into() }
    }
}

/// A salt is a secret.
impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The hash function of a pool.
#[derive(Clone, Debug)]
pub(crate) enum PageHashes {
    Keyed {
        seed: u64,
    },
    /// Every page has the same hash: what is shared must not depend on it.
    #[cfg(test)]
    Constant,
}

impl PageHashes {
    pub(crate) fn new() -> Self {
        Self::Keyed { seed: RandomState::new().hash_one(0u64) }
    }

    /// Hashes the tokens and extras of one page, without what comes before it.
    pub(crate) fn page(&self, tokens: &[u32], extras: &[u8]) -> u64 {
        match self {
            Self::Keyed { seed } => {
                let hash = tokens.chunks(CHUNK).fold(*seed, hash_tokens);
                if extras.is_empty() { hash } else { XxHash3_128::oneshot_with_seed(hash, extras) as u64 }
            }
            #[cfg(test)]
            Self::Constant => 7,
        }
    }
}

/// Tokens hashed at once.
const CHUNK: usize = 64;

/// Goes on from a hash with at most [`CHUNK`] tokens.
fn hash_tokens(seed: u64, tokens: &[u32]) -> u64 {
    let mut bytes = [0; 4 * CHUNK];
    let used = bytes.chunks_exact_mut(4).zip(tokens);
    used.for_each(|(bytes, token)| bytes.copy_from_slice(&token.to_le_bytes()));
    XxHash3_128::oneshot_with_seed(seed, &bytes[..4 * tokens.len()]) as u64
}

/// Writes down the extras that concern some tokens, so that equal bytes mean equal extras.
fn encode_extras(extras: &[PrefixExtra<'_>], tokens: Range<u64>) -> Vec<u8> {
    let mut into = Vec::new();
    let concerns = |extra: &&PrefixExtra<'_>| extra.tokens.start < tokens.end && tokens.start < extra.tokens.end;
    for extra in extras.iter().filter(concerns) {
        for part in [extra.tag.as_bytes(), extra.bytes] {
            into.extend_from_slice(&(part.len() as u64).to_le_bytes());
            into.extend_from_slice(part);
        }
        into.extend_from_slice(&extra.tokens.start.to_le_bytes());
        into.extend_from_slice(&extra.tokens.end.to_le_bytes());
    }
    into
}

/// What names a page, without what comes before it.
#[derive(Clone, Copy)]
pub(crate) struct PageName<'a> {
    pub(crate) hash: u64,
    pub(crate) tokens: &'a [u32],
    pub(crate) extras: &'a [u8],
}

/// Hashes of some pages of a prefix, with what was hashed.
pub(crate) struct PageNames<'a> {
    page_tokens: u32,
    prefix: PrefixTokens<'a>,
    first: u32,
    hashes: Vec<u64>,
    /// Extras of each page of `hashes`; empty when the prefix has none.
    extras: Vec<Vec<u8>>,
}

impl<'a> PageNames<'a> {
    pub(crate) fn new(page_tokens: u32, prefix: &PrefixTokens<'a>) -> Self {
        Self { page_tokens, prefix: *prefix, first: 0, hashes: Vec::new(), extras: Vec::new() }
    }

    /// Hashes these pages, as far as the prefix has them in full.
    pub(crate) fn hash(&mut self, hashes: &PageHashes, ordinals: Range<u32>) {
        let full = (self.prefix.tokens.len() / self.page_tokens as usize) as u32;
        self.first = ordinals.start;
        self.hashes.clear();
        self.extras.clear();
        for ordinal in ordinals.start..ordinals.end.min(full) {
            if !self.prefix.extras.is_empty() {
                let begin = u64::from(ordinal) * u64::from(self.page_tokens);
                self.extras.push(encode_extras(self.prefix.extras, begin..begin + u64::from(self.page_tokens)));
            }
            let PageName { tokens, extras, .. } = self.get(ordinal);
            let hash = hashes.page(tokens, extras);
            self.hashes.push(hash);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The pages that were hashed last.
    pub(crate) fn ordinals(&self) -> Range<u32> {
        self.first..self.first + self.hashes.len() as u32
    }

    /// One of them.
    pub(crate) fn get(&self, ordinal: u32) -> PageName<'_> {
        let (at, page_tokens) = ((ordinal - self.first) as usize, self.page_tokens as usize);
        let begin = ordinal as usize * page_tokens;
        let extras = self.extras.get(at).map_or(&[][..], Vec::as_slice);
        let hash = self.hashes.get(at).copied().unwrap_or(0);
        PageName { hash, tokens: &self.prefix.tokens[begin..begin + page_tokens], extras }
    }
}
