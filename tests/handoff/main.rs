//! The handoff, from outside: nothing is readable that is not, in full and by the receiver's own count, what was reserved.
#![expect(unsafe_code, reason = "looks at the raw bytes of released pages, where no handle leads")]

mod accepted;
mod beginnings;
mod ends;
mod forged_offers;
mod held;
mod hostile;
mod incident;
mod memories;
mod moves;
mod outside;
mod ranks;
mod receiver;
mod registry;
mod sender;
mod streaming;
mod transport;
mod watched;
mod world;
mod writers;
