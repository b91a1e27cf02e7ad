//! Names and texts of codes. They work always, and are not counted as calls.

use std::ffi::c_char;

use crate::result::{Code, INVALID_VALUE, SUCCESS, describe};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code {
    // SAFETY: as the module says.
    unsafe { say(name, describe(code).map(|(name, _)| name.as_ptr())) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code {
    // SAFETY: as the module says.
    unsafe { say(text, describe(code).map(|(_, text)| text.as_ptr())) }
}

/// # Safety
///
/// 1. `to` is null or valid for writes.
unsafe fn say(to: *mut *const c_char, text: Option<*const c_char>) -> Code {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: (1).
    unsafe { to.write(text.unwrap_or(std::ptr::null())) };
    if text.is_some() { SUCCESS } else { INVALID_VALUE }
}
