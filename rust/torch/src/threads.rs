//! torch's operators on one thread, without touching the host's settings.
//!
//! `at::set_num_threads` would also set MKL's number for the whole process, which belongs to the host. The settings
//! here belong to the calling thread alone: `OpenMP`'s `nthreads-var` and MKL's local number.

#[cfg(target_os = "linux")]
mod libgomp {
    use std::ffi::c_int;

    unsafe extern "C" {
        // OpenMP 5.2, section 18.2.1: sets the calling thread's own number.
        pub(super) safe fn omp_set_num_threads(threads: c_int);
        // Section 18.2.3: the calling thread's own number.
        pub(super) safe fn omp_get_max_threads() -> c_int;
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod mkl {
    use std::ffi::c_int;

    unsafe extern "C" {
        // MKL's C interface; the name in small letters is Fortran's and takes a pointer. torch's x86 wheels export it.
        #[link_name = "MKL_Set_Num_Threads_Local"]
        pub(super) safe fn set_num_threads_local(threads: c_int) -> c_int;
    }
}

/// From here on, torch's operators use no other threads when this thread calls them.
pub fn use_one_thread() {
    // torch sets a thread's number when it is first read, and would overwrite ours later.
    tch::get_num_threads();
    #[cfg(target_os = "linux")]
    libgomp::omp_set_num_threads(1);
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    mkl::set_num_threads_local(1);
}

/// As [`use_one_thread`], on a thread of the host's, until this is dropped.
#[derive(Debug)]
pub(crate) struct OneThreadGuard {
    #[cfg(target_os = "linux")]
    openmp: std::ffi::c_int,
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    mkl: std::ffi::c_int,
}

impl OneThreadGuard {
    pub(crate) fn new() -> Self {
        tch::get_num_threads();
        let guard = Self {
            #[cfg(target_os = "linux")]
            openmp: libgomp::omp_get_max_threads(),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            mkl: mkl::set_num_threads_local(1),
        };
        #[cfg(target_os = "linux")]
        libgomp::omp_set_num_threads(1);
        guard
    }
}

impl Drop for OneThreadGuard {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        libgomp::omp_set_num_threads(self.openmp);
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        mkl::set_num_threads_local(self.mkl);
    }
}
