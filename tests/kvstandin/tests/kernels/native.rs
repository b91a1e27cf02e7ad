//! The kernels as plain C++, built by g++ when there is one.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::arena;
use crate::round::Round;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type LaunchFunction = unsafe extern "C" fn(*const c_char, *const u32, u32, *const c_void) -> c_int;

pub struct Native(LaunchFunction);

/// There is one arena, and one set of coroutines.
static ARENA: Mutex<()> = Mutex::new(());

pub fn build() -> Option<Native> {
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("kvstandin: SKIPPED the plain C++ of the kernels: no g++");
        return None;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native.so");
    let status = Command::new("g++")
        .args(["-std=c++17", "-O1", "-fno-strict-aliasing", "-Wall", "-Wno-unknown-pragmas", "-Werror"])
        .args(["-shared", "-fPIC", "-I"])
        .arg(here.join("../../src/memory/cuda"))
        .arg("-o")
        .arg(&library)
        .arg(here.join("cpp/native.cpp"))
        .status()
        .expect("g++ starts");
    assert!(status.success(), "g++ refuses the kernels");
    let path = CString::new(library.to_str().expect("a path of text")).expect("no zero in a path");
    // SAFETY: a path that ends with a zero; the library runs nothing when it is loaded. RTLD_NOW.
    let handle = unsafe { dlopen(path.as_ptr(), 2) };
    assert!(!handle.is_null(), "the library that was just built opens");
    // SAFETY: a library that is open, a name that ends with a zero.
    let function = unsafe { dlsym(handle, c"native_launch".as_ptr()) };
    assert!(!function.is_null(), "the library has its function");
    // SAFETY: native.cpp declares it so.
    Some(Native(unsafe { std::mem::transmute::<*mut c_void, LaunchFunction>(function) }))
}

impl Native {
    /// What the plain C++ leaves.
    pub fn run(&self, round: &Round) -> Vec<u8> {
        let _arena = ARENA.lock().expect("no round panicked");
        let (memory, bytes) = (arena::base() as *mut u8, round.before.bytes.len());
        // SAFETY: the mapping has that many bytes; the lock makes it ours.
        unsafe { std::ptr::copy_nonoverlapping(round.before.bytes.as_ptr(), memory, bytes) };
        let name = CString::new(round.kernel).expect("no zero in a name");
        // As aligned as a struct of u64.
        let arguments: Vec<u64> = round
            .arguments
            .chunks_exact(8)
            .map(|chunk| u64::from_ne_bytes(chunk.try_into().expect("8 bytes")))
            .collect();
        let pointer = arguments.as_ptr().cast();
        // SAFETY: the arguments lead to the arena alone, as every round makes them.
        let unknown = unsafe { (self.0)(name.as_ptr(), round.blocks.as_ptr(), round.threads, pointer) };
        assert_eq!(unknown, 0, "the plain C++ has every kernel");
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(memory, bytes) }.to_vec()
    }
}
