//! pagestamp
