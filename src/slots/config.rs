//! How a slot pool is set up.

use crate::error::ConfigError;
use crate::id::Generation;

/// Options of a [`SlotPool`](crate::SlotPool).
///
/// # Examples
///
/// ```
/// use pagestamp::SlotConfig;
/// let config = SlotConfig::new(1024);
/// assert_eq!(config.slots(), 1024);
/// config.validate()?;
/// # Ok::<(), pagestamp::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotConfig {
    slots: u32,
    magazines: u32,
    last_generation: Generation,
}

impl SlotConfig {
    /// Starts from a pool of `slots` slots, all of them made when the pool is.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let magazines = u32::try_from(threads).unwrap_or(u32::MAX).clamp(1, 64).next_power_of_two();
        Self { slots, magazines, last_generation: Generation::MAX }
    }

    /// Sets how many small stacks of free slots threads share when they meet at the pool's lock; by default as many as the
    /// machine has threads. Raised to a power of two, and at most 64.
    #[must_use]
    pub const fn with_magazines(mut self, magazines: u32) -> Self {
        let least = if magazines == 0 { 1 } else { magazines };
        self.magazines = if least > 64 { 64 } else { least.next_power_of_two() };
        self
    }

    /// Sets the generation that a slot retires at instead of being issued in it: fewer lives than the default's 2^40 - 2. For
    /// tests that must see slots retire.
    #[must_use]
    pub const fn with_last_generation(mut self, last: Generation) -> Self {
        self.last_generation = last;
        self
    }

    /// Slots of the pool.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Small stacks of free slots beside the central one.
    #[must_use]
    pub const fn magazines(&self) -> u32 {
        self.magazines
    }

    /// The generation that a slot retires at.
    #[must_use]
    pub const fn last_generation(&self) -> Generation {
        self.last_generation
    }

    /// Checks the options.
    ///
    /// # Errors
    ///
    /// - [`ConfigError::NoSlots`]: a pool of no slot.
    /// - [`ConfigError::NoGenerations`]: slots would retire before their first use.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.slots == 0 {
            return Err(ConfigError::NoSlots);
        }
        if self.last_generation.get() <= Generation::FIRST.get() {
            return Err(ConfigError::NoGenerations { last_generation: self.last_generation });
        }
        Ok(())
    }
}
