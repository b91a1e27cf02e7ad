//! Why pagestamp is built as it is: for those who sign it off and those who change it.

#[doc = include_str!("invariants.md")]
pub mod invariants {}

#[doc = include_str!("decisions.md")]
pub mod decisions {}

#[doc = include_str!("changelog.md")]
pub mod changelog {}
