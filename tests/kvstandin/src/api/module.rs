//! Modules and launches.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::Arc;

use super::Handle;
use crate::driver::{Function, Needs, answer, call};
use crate::ptx::{Launch, Module, Order};
use crate::result::{Code, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NO_BINARY_FOR_GPU, NOT_FOUND, NOT_SUPPORTED};
use crate::work::Work;

/// Takes PTX that ends with a zero, and no other image. What it refuses it names on stderr too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Code {
    call("cuModuleLoadData", Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: it ends with a zero, as the module says.
        let text = unsafe { CStr::from_ptr(image.cast()) }.to_str().map_err(|_| NO_BINARY_FOR_GPU)?;
        if text.starts_with("\x7fELF") {
            return Err(NO_BINARY_FOR_GPU);
        }
        let loaded = Module::parse(text).map_err(|refused| {
            eprintln!("kvstandin: refused {refused}");
            driver.refusal = refused.to_string();
            INVALID_PTX
        })?;
        let id = driver.handle();
        // SAFETY: as the module says.
        unsafe { answer(module, id) }?;
        driver.modules.insert(id, Arc::new(loaded));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> Code {
    call("cuModuleUnload", Needs::Context, |mut driver| {
        driver.modules.remove(&module).ok_or(INVALID_HANDLE)?;
        driver.functions.retain(|_, function| function.owner != module);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> Code {
    call("cuModuleGetFunction", Needs::Context, |mut driver| {
        let found = driver.modules.get(&module).cloned().ok_or(INVALID_HANDLE)?;
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: it ends with a zero, as the module says.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let kernel = found.position(name).ok_or(NOT_FOUND)?;
        let id = driver.handle();
        // SAFETY: as the module says.
        unsafe { answer(function, id) }?;
        driver.functions.insert(id, Function { owner: module, module: found, kernel });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    blocks_x: c_uint,
    blocks_y: c_uint,
    blocks_z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared_bytes: c_uint,
    stream: Handle,
    parameters: *const *const u8,
    extra: *const *const u8,
) -> Code {
    call("cuLaunchKernel", Needs::Context, |mut driver| {
        let Function { module, kernel, .. } = driver.functions.get(&function).cloned().ok_or(INVALID_HANDLE)?;
        let (blocks, threads) = ([blocks_x, blocks_y, blocks_z], [threads_x, threads_y, threads_z]);
        let threads_of_block = threads.iter().map(|&n| u64::from(n)).product::<u64>();
        let fits = blocks[0] <= i32::MAX as u32 && blocks[1] <= 65_535 && blocks[2] <= 65_535;
        if blocks.contains(&0) || !fits || threads_of_block == 0 || threads_of_block > 1024 {
            return Err(INVALID_VALUE);
        }
        if shared_bytes != 0 || !extra.is_null() {
            return Err(NOT_SUPPORTED);
        }
        if parameters.is_null() && module.kernels()[kernel].parameters().next().is_some() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: (1) a pointer per parameter, as the module says.
        let parameters = unsafe { module.kernels()[kernel].read_parameters(parameters) };
        let launch = Launch { blocks, threads, parameters, order: Order::Forward, budget: Launch::BUDGET };
        let id = driver.stream(stream)?;
        if let Some(work) = driver.capture(id, Work::Launch { module, kernel, launch })? {
            driver.issue(id, Vec::new(), work);
        }
        Ok(())
    })
}
