//! torch's CUDA library, `libtorch_cuda`, and those that it needs.
//!
//! The linker leaves it out, since nothing here refers to it; so torch without CUDA works too. In Python torch has loaded it, and a
//! Rust program loads it here.

/// The address of a function of torch's CUDA library, or of one that it needs, whichever version that has; `None` where torch has no
/// CUDA.
#[cfg(target_os = "linux")]
pub(crate) fn find(name: &std::ffi::CStr) -> Option<*mut std::ffi::c_void> {
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::{AtomicPtr, Ordering};

    const RTLD_NOW: c_int = 2;
    const RTLD_GLOBAL: c_int = 0x100;

    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut library = LIBRARY.load(Ordering::Acquire);
    if library.is_null() {
        // SAFETY: the name ends in NUL. The library stays open, as torch needs it; opening it twice gives the same.
        library = unsafe { dlopen(c"libtorch_cuda.so".as_ptr(), RTLD_NOW | RTLD_GLOBAL) };
        LIBRARY.store(library, Ordering::Release);
    }
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is open, and the name ends in NUL.
    let function = unsafe { dlsym(library, name.as_ptr()) };
    (!function.is_null()).then_some(function)
}

/// GPUs are used on Linux only, where torch's dispatcher can be called.
#[cfg(not(target_os = "linux"))]
pub(crate) fn find(_: &std::ffi::CStr) -> Option<*mut std::ffi::c_void> {
    None
}
