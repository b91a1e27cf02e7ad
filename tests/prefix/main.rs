//! Pages that are shared: published prefixes, forks, windows that slide, and the eviction of what nobody holds.
#![expect(unsafe_code, reason = "looks at the raw bytes of released pages, where no handle leads, and ends tickets")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod evicting;
mod forking;
mod found;
mod sharing;
mod sliding;
#[path = "../cases/stage.rs"]
#[expect(dead_code, reason = "shared with the cases, which use all of it")]
mod stage;
