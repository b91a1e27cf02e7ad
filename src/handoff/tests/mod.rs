//! White-box tests of the handoff.

mod segments;
