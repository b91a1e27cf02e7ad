//! What became of published pages, for routers that send a request to where its prefix is.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;

use crate::id::OwnerId;

/// Names a published page in the pool's events. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PrefixKey(pub(crate) NonZeroU64);

impl PrefixKey {
    /// The number of the key.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// A page was published, or is no longer found.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefixEvent {
    /// A page was published.
    Stored {
        /// Its name.
        key: PrefixKey,
        /// The page that it continues; `None` for the first of a prompt.
        parent: Option<PrefixKey>,
        /// Whose it is.
        owner: OwnerId,
        /// Its token ids.
        tokens: Box<[u32]>,
    },
    /// A page is no longer found: evicted, unpublished, or its owner was reclaimed.
    Removed {
        /// Its name.
        key: PrefixKey,
    },
}

/// Shows how many tokens, never which: prompts are secrets.
impl fmt::Debug for PrefixEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored { key, parent, owner, tokens } => f
                .debug_struct("Stored")
                .field("key", key)
                .field("parent", parent)
                .field("owner", owner)
                .field("tokens", &tokens.len())
                .finish(),
            Self::Removed { key } => f.debug_struct("Removed").field("key", key).finish(),
        }
    }
}

/// The last events that nobody took yet. Keeps at most so many, and counts those that it had to forget.
#[derive(Default, Debug)]
pub(crate) struct EventRing {
    capacity: usize,
    events: VecDeque<PrefixEvent>,
    lost: u64,
}

impl EventRing {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Notes an event, made only if somebody listens.
    pub(crate) fn push(&mut self, event: impl FnOnce() -> PrefixEvent) {
        if self.capacity == 0 {
            return;
        }
        if self.events.len() >= self.capacity {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(event());
    }

    /// Moves all events out, and tells how many were forgotten since the last time.
    pub(crate) fn take(&mut self, into: &mut Vec<PrefixEvent>) -> u64 {
        into.extend(self.events.drain(..));
        std::mem::take(&mut self.lost)
    }
}
