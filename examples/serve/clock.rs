//! How long a model would take: a stated model of service, not a measurement.

/// Tokens of prefill in a second.
const PREFILL_TOKENS: f64 = 8000.0;
/// Seconds of one token of decode.
const DECODE_SECONDS: f64 = 0.03;
/// Tokens that each running request makes in one tick.
pub(crate) const TICK_TOKENS: u64 = 16;

/// Seconds of one tick of the scheduler.
pub(crate) const fn tick_seconds() -> f64 {
    TICK_TOKENS as f64 * DECODE_SECONDS
}

/// Ticks that a prefill of so many tokens takes.
pub(crate) fn prefill_ticks(tokens: u64) -> u64 {
    (tokens as f64 / PREFILL_TOKENS / tick_seconds()).ceil() as u64
}
