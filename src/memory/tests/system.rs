//! What only the system can show: guards, protections, and that nothing is left behind. Tests that end a
//! process, or look at the whole of it, run themselves again as a child.
#![expect(unsafe_code, reason = "touches guard pages and makes system calls in child processes")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use super::*;
use crate::memory::{HostOptions, MemoryError};

const CHILD: &str = "PAGESTAMP_MEMORY_TEST_CHILD";

/// Runs one test of this file in a process of its own, which finds `case` in its environment.
fn child(test: &str, case: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("memory::tests::system::{test}"), "--exact", "--test-threads=1"])
        .env(CHILD, case)
        // a sanitizer would catch the signal that a test waits for
        .env("ASAN_OPTIONS", "handle_segv=0")
        .output()
        .unwrap()
}

fn case() -> Option<String> {
    std::env::var(CHILD).ok()
}

#[track_caller]
fn passes(output: &Output) {
    let shown = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}

fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a valid pointer for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// Two planes that fill whole system pages, so that the guards follow without slack.
fn paged() -> PageGeometry {
    PageGeometry::new(1, &[Plane::per_token(1, 4096), Plane::per_token(2, 4096)]).unwrap()
}

/// The paragraph of `/proc/self/smaps` about the map that holds an address.
fn smaps(address: usize) -> String {
    let all = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = String::new();
    let mut inside = false;
    for line in all.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let range = range
            .and_then(|(from, to)| Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?));
        if let Some(range) = range {
            inside = range.contains(&address);
        }
        if inside {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

fn flags(memory: &impl HostBytes, plane: usize) -> Vec<String> {
    let shown = smaps(memory.plane(plane).unwrap().base().addr().get());
    let flags = shown.lines().find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

fn has(flags: &[String], flag: &str) -> bool {
    flags.iter().any(|found| found == flag)
}

fn kilobytes(paragraph: &str, field: &str) -> usize {
    let line = paragraph.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

// C2
#[test]
fn a_touch_beyond_either_end_of_any_plane_ends_the_process() {
    const NAME: &str = "a_touch_beyond_either_end_of_any_plane_ends_the_process";
    if let Some(case) = case() {
        limit(libc::RLIMIT_CORE, 0);
        let memory = HostMemory::new(paged(), 3).unwrap();
        let plane = memory.plane(usize::from(case.ends_with('1'))).unwrap();
        let first = plane.page(0);
        let behind = plane.page(3);
        let at = match case.split(' ').next().unwrap() {
            "first" => first,
            "last" => behind.wrapping_sub(1),
            "before" => first.wrapping_sub(1),
            "behind" => behind,
            other => panic!("{other}"),
        };
        // SAFETY: none for the guards: the read is to end this process.
        let byte = unsafe { at.read_volatile() };
        assert_eq!(byte, 0);
        return;
    }
    for plane in [0, 1] {
        for inside in ["first", "last"] {
            passes(&child(NAME, &format!("{inside} {plane}")));
        }
        for outside in ["before", "behind"] {
            let output = child(NAME, &format!("{outside} {plane}"));
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{outside} {plane}: {output:?}");
        }
    }
}

// C11
#[test]
fn every_plane_is_kept_out_of_core_dumps_and_forked_children() {
    let memory = HostMemory::new(paged(), 3).unwrap();
    for plane in [0, 1] {
        let flags = flags(&memory, plane);
        assert!(has(&flags, "dd") && has(&flags, "wf"), "{flags:?}");
    }
}

// C2
#[test]
fn a_forked_child_finds_zeroes_and_the_parent_keeps_its_bytes() {
    const NAME: &str = "a_forked_child_finds_zeroes_and_the_parent_keeps_its_bytes";
    if case().is_none() {
        passes(&child(NAME, "fork"));
        return;
    }
    let memory = HostMemory::new(paged(), 3).unwrap();
    soil(&memory);
    let at = memory.plane(1).unwrap().page(2);
    // SAFETY: the child makes one read and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a page of the map, which the child has too.
        let byte = unsafe { at.read_volatile() };
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(byte)) };
    }
    let mut status = -1;
    // SAFETY: a valid pointer for the length of the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 0);
    check(&memory, |_, _, _| false);
}

#[test]
fn huge_pages_are_advised_unless_declined() {
    let memory = HostMemory::new(paged(), 3).unwrap();
    assert_eq!(has(&flags(&memory, 1), "hg"), memory.huge_pages_advised());
    if fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap() {
        assert!(memory.huge_pages_advised());
    }
    let regular = HostMemory::with_options(paged(), 3, &HostOptions::new().with_regular_pages()).unwrap();
    assert!(!has(&flags(&regular, 1), "hg"));
    assert!(!regular.huge_pages_advised());
}

#[test]
fn physical_memory_comes_at_once_when_prefaulted_or_locked_and_goes_with_decommit() {
    let lazy = HostOptions::new().with_regular_pages();
    let locked_pages = if locks() { 16 } else { 0 };
    for (options, resident_pages) in [
        (lazy.clone(), 0),
        (lazy.clone().with_prefault(), 16),
        (lazy.clone().with_lock(), locked_pages),
        (lazy.with_lock().with_prefault(), 16),
    ] {
        let memory = HostMemory::with_options(paged(), 16, &options).unwrap();
        let at = memory.plane(0).unwrap().base().addr().get();
        let resident = || kilobytes(&smaps(at), "Rss") / 4;
        assert_eq!(resident(), resident_pages, "{options:?}");
        soil(&memory);
        assert_eq!(resident(), 16);
        memory.decommit(4..12).unwrap();
        let paragraph = smaps(at);
        let kept = 4 + if kilobytes(&paragraph, "Size") == 16 { 0 } else { 4 };
        // an unlocked middle splits a locked map in three
        assert_eq!(kilobytes(&paragraph, "Rss") / 4, kept, "{options:?}");
        memory.commit(4..12).unwrap();
        assert_eq!(resident(), if resident_pages == 0 { 8 } else { 16 }, "{options:?}");
    }
}

#[test]
fn locked_memory_is_locked_and_what_may_not_be_is_refused_by_name() {
    const NAME: &str = "locked_memory_is_locked_and_what_may_not_be_is_refused_by_name";
    let lock = HostOptions::new().with_lock();
    if case().is_some() {
        let locked = HostMemory::with_options(paged(), 3, &lock).unwrap();
        assert!(has(&flags(&locked, 1), "lo"));
        locked.decommit(1..2).unwrap();
        limit(libc::RLIMIT_MEMLOCK, 4096);
        // SAFETY: touches no memory. A process without privileges has none to lose, and stays.
        let _ = unsafe { libc::setuid(65_534) };
        let before = virtual_pages();
        for _ in 0..100 {
            let error = HostMemory::with_options(paged(), 3, &lock).unwrap_err();
            let (bytes, os) = (12_288, libc::ENOMEM);
            assert_eq!(error, MemoryError::Lock { bytes, os });
        }
        // each refusal had mapped a plane and its guards, five system pages
        assert!(virtual_pages() < before + 400);
        assert!(matches!(locked.commit(1..2), Err(MemoryError::Lock { bytes: 4096, .. })));
        check(&locked, |_, _, _| true);
        return;
    }
    if locks() {
        passes(&child(NAME, "limited"));
    }
}

/// Whether the system's own call locks at all: the address sanitizer replaces it by one that does nothing.
fn locks() -> bool {
    let probe = HostMemory::new(paged(), 1).unwrap();
    let at = probe.plane(0).unwrap().base();
    // SAFETY: a page of the probe's map; locking changes no byte.
    assert_eq!(unsafe { libc::mlock(at.as_ptr().cast(), 4096) }, 0);
    has(&flags(&probe, 0), "lo")
}

fn virtual_pages() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').next().unwrap().parse().unwrap()
}

// C8
#[test]
fn memory_that_is_refused_or_dropped_leaves_nothing_mapped() {
    const NAME: &str = "memory_that_is_refused_or_dropped_leaves_nothing_mapped";
    if case().is_none() {
        passes(&child(NAME, "maps"));
        return;
    }
    // the first plane can be mapped, the second cannot
    let half = PageGeometry::new(1, &[Plane::per_token(1, 4096), Plane::per_token(64, 1 << 31)]).unwrap();
    let refused = || {
        let error = HostMemory::new(half.clone(), 1 << 16).unwrap_err();
        assert!(matches!(error, MemoryError::Map { os: libc::ENOMEM, .. }), "{error}");
    };
    let dropped = || drop(HostMemory::new(paged(), 1 << 16).unwrap());
    refused();
    dropped();
    let before = virtual_pages();
    for _ in 0..50 {
        refused();
        dropped();
    }
    assert!(virtual_pages() < before + (1 << 16), "{} pages, {before} before", virtual_pages());
}
