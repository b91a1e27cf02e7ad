//! The models, by protocol. Each is a function of the [`Plant`](crate::world::Plant) to run with.

pub(crate) mod blocks;
pub(crate) mod extent;
pub(crate) mod header;
pub(crate) mod release;
pub(crate) mod shared;
pub(crate) mod slot;
pub(crate) mod step;
pub(crate) mod stock;
pub(crate) mod ticket;
