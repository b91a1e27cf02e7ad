//! Pages in the memory of a CUDA device.
//!
//! *Owns* the device's addresses, the kernels, and the order of what runs there. *Does not know* owners or states, as every
//! memory.
//!
//! **Order.** Cleaning runs on a queue of its own, behind everything that the engine's streams (lanes) held when a page left:
//! an event is recorded on each of them, and the queue waits for these, not the host. What the host writes and reads goes
//! through pinned staging on a second queue, so that it does not wait for the engine's streams. So the host reads, and digests,
//! what is on the device at that time: say `assume_written` of what a kernel computes when the kernel is done, or send it
//! by what follows it on its own stream. Said too early, the host sees zeros or this owner's own older bytes.
//!
//! | file | owns |
//! |---|---|
//! | `driver` | the driver's functions, found at run time |
//! | `device` | context, streams, events and memory, each freed when dropped |
//! | `kernels` | the shipped PTX and its arguments |
//! | `queue` | cleaning: lists on their way, fences |
//! | `stamps` | the device's mirror of the stamps |
//! | `staging` | bytes between host and device |
//! | `transform` | copies and digests of whole pages where they are |
//! | `guard` | the check on the device |
//! | `pages` | [`CudaMemory`]: slabs, or planes of the engine |

mod device;
mod driver;
mod guard;
mod kernels;
mod pages;
mod queue;
mod staging;
mod stamps;
mod transform;

pub use driver::{Driver, DriverError};
pub use guard::{AttentionTable, DeviceTable, GuardError, GuardFault, GuardReason, GuardTable, GuardVerdict};
pub use pages::{CudaError, CudaMemory, CudaPlane};
