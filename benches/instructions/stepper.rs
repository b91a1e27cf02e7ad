//! Counts the instructions that a child of this process executes, by stepping it.
#![expect(unsafe_code, reason = "forks, traces its child, and waits for it; each call names its own reason")]

use std::io;

use crate::calls::Call;

/// Counts each call once it is warm. The count of an empty call is taken off.
///
/// # Errors
/// What the system says that forbids it.
pub(crate) fn count(calls: &[Call]) -> io::Result<Vec<(&'static str, u64)>> {
    let nothing = in_child(&mut || {})?;
    let mut counts = Vec::new();
    for call in calls {
        let mut run = (call.prepare)();
        counts.push((call.name, in_child(&mut *run)?.saturating_sub(nothing)));
    }
    Ok(counts)
}

/// Runs a call twice in a child, and counts the second time.
fn in_child(run: &mut dyn FnMut()) -> io::Result<u64> {
    // SAFETY: this process has one thread, so that the child finds no lock taken.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => be_stepped(run),
        child => step(child),
    }
}

/// The child: warms up, and stops in front of the call and behind it.
fn be_stepped(run: &mut dyn FnMut()) -> ! {
    run();
    // SAFETY: asks to be traced by its parent, with no memory involved.
    let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    if traced == 0 {
        stop();
        run();
        stop();
    }
    // SAFETY: ends the child at once, without the parent's exit handlers.
    unsafe { libc::_exit(i32::from(traced != 0)) }
}

fn stop() {
    // SAFETY: sends a signal to this process, which its tracer sees.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// The parent: steps the child from its first stop to its second.
fn step(child: libc::pid_t) -> io::Result<u64> {
    wait_for_stop(child, libc::SIGSTOP)?;
    let mut steps = 0;
    loop {
        // SAFETY: the child is stopped and traced by this process; no address is read or written.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) } != 0 {
            return Err(end(child));
        }
        steps += 1;
        match wait(child)? {
            libc::SIGTRAP => {}
            libc::SIGSTOP => {
                end(child);
                return Ok(steps);
            }
            signal => {
                end(child);
                return Err(io::Error::other(format!("the child met signal {signal}")));
            }
        }
    }
}

fn wait_for_stop(child: libc::pid_t, expected: i32) -> io::Result<()> {
    let signal = wait(child)?;
    if signal == expected {
        return Ok(());
    }
    end(child);
    Err(io::Error::other(format!("the child met signal {signal}")))
}

/// Waits for the child to stop, and answers the signal that stopped it.
fn wait(child: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: waits for a child of this process; the status is a local.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    if libc::WIFSTOPPED(status) {
        return Ok(libc::WSTOPSIG(status));
    }
    Err(io::Error::other("the child may not be traced"))
}

/// Ends a child that is stopped, and answers the last error.
fn end(child: libc::pid_t) -> io::Error {
    let error = io::Error::last_os_error();
    let mut status = 0;
    // SAFETY: ends a child of this process.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: waits for that child; the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    error
}
