//! The handoff, from outside: nothing is readable that is not, in full and by the receiver's own count, what was reserved.
#![expect(unsafe_code, reason = "looks at the raw bytes of released pages, where no handle leads")]

mod accepted;
mod beginnings;
mod ends;
mod incident;
mod memories;
mod ranks;
mod receiver;
mod sender;
mod world;
mod writers;
