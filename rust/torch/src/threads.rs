//! One computing thread for each thread of ours, without touching the host's settings.
//!
//! `at::set_num_threads` also sets MKL's number for the whole process, which belongs to the host. What is set here
//! belongs to the calling thread alone: `OpenMP`'s `nthreads-var` and MKL's local number.

#[cfg(target_os = "linux")]
mod libgomp {
    use std::ffi::c_int;

    unsafe extern "C" {
        // OpenMP 5.2, section 18.2.1: sets the calling thread's own number.
        pub(super) safe fn omp_set_num_threads(threads: c_int);
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

/// From here on, torch's operators called on this thread compute on this thread alone.
pub fn compute_alone() {
    // torch sets a thread's number when it first asks for it, and would undo ours later.
    tch::get_num_threads();
    #[cfg(target_os = "linux")]
    libgomp::omp_set_num_threads(1);
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    mkl::set_num_threads_local(1);
}
