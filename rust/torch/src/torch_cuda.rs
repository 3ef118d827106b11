//! torch's CUDA library, `libtorch_cuda`, those that it needs, and the driver's.
//!
//! The linker leaves it out, since nothing here refers to it; so torch without CUDA works too. In Python torch has
//! loaded it, and a Rust program loads it here.

#[cfg(target_os = "linux")]
pub(crate) use linux::{find, find_in_driver};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, Ordering};

    const RTLD_NOW: c_int = 2;
    const RTLD_GLOBAL: c_int = 0x100;

    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    /// The address of a function of torch's CUDA library, or of one that it needs, whichever version that has; `None`
    /// where torch has no CUDA.
    pub(crate) fn find(name: &CStr) -> Option<*mut c_void> {
        static TORCH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        find_in(&TORCH, c"libtorch_cuda.so", name)
    }

    /// The address of a function of NVIDIA's driver; `None` where there is none.
    pub(crate) fn find_in_driver(name: &CStr) -> Option<*mut c_void> {
        static DRIVER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        find_in(&DRIVER, c"libcuda.so.1", name)
    }

    fn find_in(opened: &AtomicPtr<c_void>, file: &CStr, name: &CStr) -> Option<*mut c_void> {
        let mut library = opened.load(Ordering::Acquire);
        if library.is_null() {
            // SAFETY: the name ends in NUL. The library stays open, as torch needs it; opening it twice gives the same.
            library = unsafe { dlopen(file.as_ptr(), RTLD_NOW | RTLD_GLOBAL) };
            opened.store(library, Ordering::Release);
        }
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is open, and the name ends in NUL.
        let function = unsafe { dlsym(library, name.as_ptr()) };
        (!function.is_null()).then_some(function)
    }
}

/// GPUs are used on Linux only, where torch's dispatcher can be called.
#[cfg(not(target_os = "linux"))]
pub(crate) fn find(_: &std::ffi::CStr) -> Option<*mut std::ffi::c_void> {
    None
}

/// See [`find`].
#[cfg(not(target_os = "linux"))]
pub(crate) fn find_in_driver(_: &std::ffi::CStr) -> Option<*mut std::ffi::c_void> {
    None
}
