//! How a pool is set up.
//!
//! *Owns* the options and their validation. *Does not know* memory: what depends on it is checked when the pool is made.

use crate::error::ConfigError;
use crate::id::Generation;

/// When a released page is zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CleanMode {
    /// By the release itself, outside the lock, its own pages only. Pages that a guard, a borrow or a ticket held when they
    /// were released are not zeroed when that ends, which would make a reader pay: from then on they wait as under
    /// [`Later`](Self::Later).
    #[default]
    OnRelease,
    /// By [`maintain`](crate::PagePool::maintain), a [`Scrubber`](crate::Scrubber), or at the latest the admission that needs
    /// the page zero.
    Later,
}

/// Whether the pool keeps two pages for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OwnPages {
    /// Page 0 is `null` (padding reads it, it is always zero), page 1 is `sink` (padding writes go there, nobody reads it).
    #[default]
    NullAndSink,
    /// All pages are for reservations.
    None,
}

/// Which of the free pages are handed out next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The pages that came back last, which may still be in a cache. Neighbours are soon scattered.
    #[default]
    HotFirst,
    /// Neighbours: the first run of free pages that is long enough, else the longest runs there are. For pools whose pages
    /// travel: a transport moves a run in one descriptor. Reserve and release cost more, zeroing and reads the same.
    Contiguous,
}

/// Options of a [`PagePool`](crate::PagePool).
///
/// # Examples
///
/// ```
/// use pagestamp::{CleanMode, PoolConfig};
/// let config = PoolConfig::new(1024).with_clean_mode(CleanMode::Later);
/// assert_eq!(config.pages(), 1024);
/// config.validate()?;
/// # Ok::<(), pagestamp::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    pages: u32,
    clean_mode: CleanMode,
    own_pages: OwnPages,
    placement: Placement,
    last_generation: Generation,
    prefix_events: usize,
}

impl PoolConfig {
    /// Starts from `pages` pages in circulation, the pool's own two included. The memory's `max_pages` is how far a
    /// [`resize`](crate::PagePool::resize) may go.
    #[must_use]
    pub const fn new(pages: u32) -> Self {
        Self {
            pages,
            clean_mode: CleanMode::OnRelease,
            own_pages: OwnPages::NullAndSink,
            placement: Placement::HotFirst,
            last_generation: Generation::MAX,
            prefix_events: 0,
        }
    }

    /// Sets when released pages are zeroed.
    #[must_use]
    pub const fn with_clean_mode(mut self, mode: CleanMode) -> Self {
        self.clean_mode = mode;
        self
    }

    /// Sets whether the pool keeps a null and a sink page.
    #[must_use]
    pub const fn with_own_pages(mut self, own: OwnPages) -> Self {
        self.own_pages = own;
        self
    }

    /// Sets which of the free pages are handed out next.
    #[must_use]
    pub const fn with_placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the generation that a page retires at instead of being issued in it: fewer lives than the default's 2^40 - 2. For tests that
    /// must see pages retire.
    #[must_use]
    pub const fn with_last_generation(mut self, last: Generation) -> Self {
        self.last_generation = last;
        self
    }

    /// Sets how many [events](crate::PrefixEvent) about published pages are kept until somebody takes them. 0, the default,
    /// keeps none. An event holds the tokens of a page.
    #[must_use]
    pub const fn with_prefix_events(mut self, events: usize) -> Self {
        self.prefix_events = events;
        self
    }

    /// Events about published pages that are kept until somebody takes them.
    #[must_use]
    pub const fn prefix_events(&self) -> usize {
        self.prefix_events
    }

    /// Pages in circulation at the start.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// When released pages are zeroed.
    #[must_use]
    #[inline]
    pub const fn clean_mode(&self) -> CleanMode {
        self.clean_mode
    }

    /// Whether the pool keeps a null and a sink page.
    #[must_use]
    #[inline]
    pub const fn own_pages(&self) -> OwnPages {
        self.own_pages
    }

    /// Which of the free pages are handed out next.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.placement
    }

    /// The generation that a page retires at.
    #[must_use]
    #[inline]
    pub const fn last_generation(&self) -> Generation {
        self.last_generation
    }

    /// Pages that the pool keeps for itself: 0 or 2.
    #[must_use]
    #[inline]
    pub const fn own_page_count(&self) -> u32 {
        match self.own_pages {
            OwnPages::NullAndSink => 2,
            OwnPages::None => 0,
        }
    }

    /// Checks the options against each other.
    ///
    /// # Errors
    ///
    /// - [`ConfigError::NoPages`]: no page would be left for a reservation.
    /// - [`ConfigError::NoGenerations`]: pages would retire before their first use.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.pages <= self.own_page_count() {
            return Err(ConfigError::NoPages { pages: self.pages, own_pages: self.own_page_count() });
        }
        if self.last_generation.get() <= Generation::FIRST.get() {
            return Err(ConfigError::NoGenerations { last_generation: self.last_generation });
        }
        Ok(())
    }
}
