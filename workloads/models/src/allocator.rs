//! Memory that is freed and asked for again at every step.

/// Makes the C library's allocator keep freed memory for the process's next use.
///
/// A step frees and asks for the same hundreds of megabytes again. By its defaults, glibc
/// returns each large block to the kernel, which clears its pages anew every time: a tenth
/// to a quarter of a step's CPU time. Call it first thing in a process that trains; with
/// another C library it does nothing.
///
/// Where the environment asks for the least memory (`EPOCHCOST_RECOMPUTE=least`), blocks of 16 MiB or
/// more are returned all the same: the peak is then nearer to what is in use at once, and the step
/// takes longer (`docs/performance.md`).
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    // SAFETY: mallopt only sets the allocator's own parameters.
    unsafe {
        if crate::trainer::Saving::asked() == crate::trainer::Saving::Least {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 16 << 20);
        } else {
            libc::mallopt(libc::M_MMAP_MAX, 0);
        }
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        // One heap, so that what one thread freed serves another.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
