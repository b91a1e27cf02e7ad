//! A process that may hold pages, and whether it has ended: every call into the system about processes is here.
//!
//! **Owns** a pidfd, which names one process for good where a number names whoever has it now. **Does not know** tickets.
//! **Invariants:** the answer "ended" is given only when the kernel said so, and never taken back.
//!
//! # Source
//!
//! pidfd_open(2), poll(2), waitid(2) of the Linux man pages, 6.x.
#![expect(unsafe_code, reason = "calls pidfd_open, poll and waitid")]

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::Child;
use std::sync::Arc;

use libc::c_int;
use thiserror::Error;

/// Why a process could not be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No process has the number.
    #[error("there is no process {process_id}; it ended and was waited for, or never was")]
    NotThere {
        /// The number asked for.
        process_id: u32,
    },
    /// The number is that of a thread, or of nothing that a process can be.
    #[error("{process_id} is not the number of a process; name the process and not one of its threads")]
    NotAProcess {
        /// The number asked for.
        process_id: u32,
    },
    /// The child was waited for, and somebody else has its number now.
    #[error("process {process_id} is no child of this process; name a child before it is waited for")]
    NotAChild {
        /// The number of the child.
        process_id: u32,
    },
    /// The kernel cannot name a process for good.
    #[error("this kernel has no pidfd, or cannot wait for one; it must be Linux 5.4 or later")]
    Unsupported,
    /// The system refused.
    #[error("the system did not name process {process_id} (error {os})")]
    System {
        /// The number asked for.
        process_id: u32,
        /// The system's error number (`errno`).
        os: i32,
    },
}

/// A process that holds pages from outside: a sender, an offload worker. It can be asked whether it has ended, and the
/// answer is the kernel's.
///
/// It names the process for good: when its number is given to another, this still means the first. Clones share one file
/// descriptor, which a program that this process starts does not get.
///
/// # Examples
///
/// ```
/// use std::process::Command;
///
/// use pagestamp::HolderProcess;
///
/// let mut sender = Command::new("sleep").arg("1000").spawn()?;
/// let process = HolderProcess::of_child(&sender)?;
/// assert!(!process.has_ended());
/// sender.kill()?;
/// sender.wait()?;
/// assert!(process.has_ended());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HolderProcess {
    pidfd: Arc<OwnedFd>,
    process_id: u32,
}

impl AsFd for HolderProcess {
    /// The pidfd, to wait on: it is readable once the process has ended. Only [`has_ended`](Self::has_ended) is believed
    /// here.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl HolderProcess {
    /// Names a child of this process.
    ///
    /// Exact for a child that was not waited for, whether it still runs or not: until then nobody else gets its number. A
    /// child that was waited for is refused, unless its number went to another child of this process.
    ///
    /// # Errors
    ///
    /// - [`ProcessError::NotThere`], [`ProcessError::NotAChild`]: the child was waited for.
    /// - [`ProcessError::Unsupported`]: the kernel is older than Linux 5.4.
    /// - [`ProcessError::System`]: no file descriptor is left, or a sandbox forbids the call.
    pub fn of_child(child: &Child) -> Result<Self, ProcessError> {
        let process = Self::of_pid(child.id())?;
        process.check_child()?;
        Ok(process)
    }

    /// Names the process that has this number now.
    ///
    /// A number is given to another process as soon as its first one is gone. Whoever got it by a message has to know that
    /// the process that sent it still runs: ask it for something after this call.
    ///
    /// # Errors
    ///
    /// - [`ProcessError::NotThere`], [`ProcessError::NotAProcess`].
    /// - [`ProcessError::Unsupported`]: the kernel is older than Linux 5.3.
    /// - [`ProcessError::System`]: no file descriptor is left, or a sandbox forbids the call.
    pub fn of_pid(process_id: u32) -> Result<Self, ProcessError> {
        let number = c_int::try_from(process_id).ok().filter(|&number| number > 0);
        let number = number.ok_or(ProcessError::NotAProcess { process_id })?;
        // SAFETY: two numbers are passed and no memory is touched.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
        let Some(fd) = RawFd::try_from(fd).ok().filter(|&fd| fd >= 0) else {
            return Err(match last_error() {
                libc::ESRCH => ProcessError::NotThere { process_id },
                // Kernels differ in how they refuse a thread.
                libc::EINVAL | libc::ENOENT => ProcessError::NotAProcess { process_id },
                libc::ENOSYS => ProcessError::Unsupported,
                os => ProcessError::System { process_id, os },
            });
        };
        // SAFETY: the call above made the descriptor, and nobody else has it.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { pidfd: Arc::new(pidfd), process_id })
    }

    /// Asks whether this process may wait for that one, without taking its end from whoever waits.
    fn check_child(&self) -> Result<(), ProcessError> {
        let process_id = self.process_id;
        let mut unused = MaybeUninit::<libc::siginfo_t>::uninit();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let fd = libc::id_t::try_from(self.pidfd.as_raw_fd()).unwrap_or(libc::id_t::MAX);
        // SAFETY: the last argument has room for what the call stores there.
        if unsafe { libc::waitid(libc::P_PIDFD, fd, unused.as_mut_ptr(), flags) } == 0 {
            return Ok(());
        }
        Err(match last_error() {
            libc::ECHILD => ProcessError::NotAChild { process_id },
            libc::EINVAL => ProcessError::Unsupported,
            os => ProcessError::System { process_id, os },
        })
    }

    /// The number that the process was named by. Another process may have it when this one was waited for.
    #[must_use]
    pub const fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Asks the kernel whether the whole process has ended: each of its threads, waited for or not. Never waits.
    ///
    /// A process whose first thread ended while others run has not. When the kernel cannot tell, the answer is no. Once it
    /// is yes it stays so.
    ///
    /// # Cost
    ///
    /// One system call.
    ///
    /// # Memory ordering
    ///
    /// The stores of the process's threads happen before the answer yes.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry is passed, and the call changes nothing but its `revents`.
        let answers = unsafe { libc::poll(&raw mut asked, 1, 0) };
        answers == 1 && asked.revents & libc::POLLIN != 0
    }

    /// Equal for clones, and different for any two that are not, while both are alive.
    pub(crate) fn key(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}

impl fmt::Debug for HolderProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HolderProcess").field("process_id", &self.process_id).finish_non_exhaustive()
    }
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // C7
    #[test]
    fn this_process_has_not_ended_and_its_clones_are_one() {
        let this = HolderProcess::of_pid(std::process::id()).expect("it runs");
        assert!(!this.has_ended());
        assert_eq!((this.clone().key(), this.process_id()), (this.key(), std::process::id()));
        let again = HolderProcess::of_pid(std::process::id()).expect("it runs");
        assert_ne!(again.key(), this.key());
    }

    // C11
    #[test]
    fn numbers_that_are_no_process_are_refused() {
        for process_id in [0, 1 << 31, u32::MAX] {
            assert_eq!(
                HolderProcess::of_pid(process_id).expect_err("no process"),
                ProcessError::NotAProcess { process_id }
            );
        }
        let process_id = c_int::MAX as u32; // past the largest number that the kernel gives
        assert_eq!(HolderProcess::of_pid(process_id).expect_err("no process"), ProcessError::NotThere { process_id });
    }

    // C7
    #[test]
    fn a_thread_is_not_taken_for_a_process() {
        let thread = std::thread::spawn(|| {
            // SAFETY: no memory is touched.
            let process_id = unsafe { libc::gettid() } as u32;
            (HolderProcess::of_pid(process_id).map(|_| ()), ProcessError::NotAProcess { process_id })
        });
        let (answer, refused) = thread.join().expect("no panic");
        assert_eq!(answer, Err(refused));
    }

    // C7
    #[test]
    fn a_number_that_went_to_somebody_else_is_no_child() {
        // What a child's number names when the child was waited for and its number was given away.
        let process_id = std::os::unix::process::parent_id();
        let process = HolderProcess::of_pid(process_id).expect("it runs");
        assert_eq!(process.check_child(), Err(ProcessError::NotAChild { process_id }));
    }

    fn is_shared<T: Send + Sync + Clone>() {}

    #[test]
    fn it_goes_to_any_thread() {
        is_shared::<HolderProcess>();
    }
}
