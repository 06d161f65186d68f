//! Whether this process may use the tiles of AMX: the processor has them and the system keeps them across its switches.
//!
//! Linux saves tiles only for processes that have asked (`arch_prctl`); threads and forks of a process share its
//! answer.

/// Whether tiles of bfloat16 and of bytes can be multiplied here. Asks the system on the first call.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) fn available() -> bool {
    use std::arch::is_x86_feature_detected as has;
    use std::arch::x86_64::__cpuid_count;
    /// `ARCH_REQ_XCOMP_PERM`, and the state component of tile data, of `asm/prctl.h` and the processor's manual.
    const REQUEST: libc::c_int = 0x1023;
    const TILE_DATA: libc::c_ulong = 18;
    /// AMX-BF16, AMX-TILE and AMX-INT8 in EDX of leaf 7.
    const FEATURES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    if !has!("xsave") || __cpuid_count(0, 0).eax < 7 || __cpuid_count(7, 0).edx & FEATURES != FEATURES {
        return false;
    }
    // SAFETY: the call changes what the system saves for this process and nothing else; where it is unknown it fails.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) fn available() -> bool {
    false
}
