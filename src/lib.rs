//! pagestamp

pub mod geometry;
