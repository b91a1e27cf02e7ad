//! What the stand-in promises as a driver: order, memory, faults, capture.

mod capture;
mod copies;
mod device;
mod faults;
mod memory;
mod modules;
mod order;
mod session;
