//! What stands in a stream's queue.

use std::sync::Arc;

use crate::memory::memory;
use crate::ptx::{Launch, Module};
use crate::result::{Code, ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED_ADDRESS};
use crate::space::Fault;

#[derive(Clone)]
pub(crate) enum Work {
    /// Only waits for what stands before it.
    Nothing,
    Launch {
        module: Arc<Module>,
        kernel: usize,
        launch: Launch,
    },
    Fill {
        to: u64,
        value: u8,
        bytes: u64,
    },
    /// Between memory that the device can address.
    Copy {
        from: u64,
        to: u64,
        bytes: u64,
    },
    /// From pageable memory, as it was at the call.
    CopyStaged {
        from: Arc<[u8]>,
        to: u64,
    },
    /// To pageable memory, whose owner waits for it.
    CopyOut {
        from: u64,
        to: Pageable,
        bytes: u64,
    },
    /// Marks the time of an event. Its place in the queue is all else that it is.
    Record {
        event: u64,
    },
    /// What was captured, in that order.
    Graph(Arc<[Work]>),
}

/// Memory of a caller who waits until nobody writes to it any more.
#[derive(Clone, Copy)]
pub(crate) struct Pageable(pub(crate) *mut u8);

// SAFETY: the caller of the copy waits for it, so that its memory is there, and nobody else's.
unsafe impl Send for Pageable {}
// SAFETY: as above.
unsafe impl Sync for Pageable {}

impl Work {
    /// Executes it.
    pub(crate) fn execute(&self) -> Result<(), Fault> {
        match self {
            Work::Nothing | Work::Record { .. } => Ok(()),
            Work::Launch { module, kernel, launch } => {
                launch.run(&module.kernels()[*kernel], &memory().space).map(drop)
            }
            Work::Fill { to, value, bytes } => {
                let memory = memory();
                let place = memory.space.find(*to, *bytes)?;
                // SAFETY: `find` found that many bytes, and the memory is ours while it is locked.
                unsafe { place.write_bytes(*value, *bytes as usize) };
                Ok(())
            }
            Work::Copy { from, to, bytes } => {
                let memory = memory();
                let (from, to) = (memory.space.find(*from, *bytes)?, memory.space.find(*to, *bytes)?);
                // SAFETY: as above; the places may overlap.
                unsafe { std::ptr::copy(from, to, *bytes as usize) };
                Ok(())
            }
            Work::CopyStaged { from, to } => {
                let memory = memory();
                let to = memory.space.find(*to, from.len() as u64)?;
                // SAFETY: as above; `from` is our own.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
                Ok(())
            }
            Work::CopyOut { from, to, bytes } => {
                let memory = memory();
                let from = memory.space.find(*from, *bytes)?;
                // SAFETY: as above; `to` is its caller's, who waits, and no device memory.
                unsafe { std::ptr::copy_nonoverlapping(from, to.0, *bytes as usize) };
                Ok(())
            }
            Work::Graph(works) => works.iter().try_for_each(Work::execute),
        }
    }
}

/// The code of a fault.
pub(crate) fn code(fault: Fault) -> Code {
    match fault {
        Fault::Unmapped { .. } => ILLEGAL_ADDRESS,
        Fault::Misaligned { .. } => MISALIGNED_ADDRESS,
        Fault::Runaway => LAUNCH_FAILED,
    }
}
