//! Address space without memory: what tensors of a dry run lie in. Reads give zeros, and a page that is written takes memory.

use oneflow_base::{Error, Result};

/// A range of addresses that is given back when it is dropped.
pub struct Reserved {
    ptr: *mut u8,
    bytes: usize,
}

// SAFETY: an address range with one owner; who may use the memory behind it is up to that owner.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

impl Reserved {
    /// # Errors
    /// RuntimeError: the process has no such range left.
    pub fn new(bytes: usize) -> Result<Reserved> {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address of the system's choice.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), prot, flags | libc::MAP_NORESERVE, -1, 0) };
        if ptr == libc::MAP_FAILED {
            return Err(Error::runtime(format!("cannot reserve {bytes} bytes of address space for a dry run")));
        }
        Ok(Reserved { ptr: ptr.cast(), bytes })
    }

    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nobody uses it any more.
        unsafe { libc::munmap(self.ptr.cast(), self.bytes.max(1)) };
    }
}
