//! pagestamp

pub mod geometry;
pub mod memory;
