//! Memory between two pages that nobody may touch.

use oneflow_base::Device;
use oneflow_core::Storage;

/// Memory between two pages that nobody may touch.
pub struct Guarded {
    whole: *mut u8,
    bytes: usize,
}

// SAFETY: an address range that this value alone owns.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

const PAGE: usize = 4096;

impl Guarded {
    /// `bytes` that end (or begin) at such a page.
    pub fn storage(bytes: usize, at_end: bool) -> Storage {
        let inner = bytes.max(1).next_multiple_of(PAGE);
        let (flags, all) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, inner + 2 * PAGE);
        // SAFETY: new anonymous pages, which no one else knows.
        let whole = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) }.cast::<u8>();
        assert_ne!(whole.cast(), libc::MAP_FAILED);
        let first = whole.wrapping_add(PAGE);
        // SAFETY: pages of the map above.
        assert_eq!(unsafe { libc::mprotect(first.cast(), inner, libc::PROT_READ | libc::PROT_WRITE) }, 0);
        let start = first.wrapping_add(if at_end { inner - bytes } else { 0 });
        let keep = Box::new(Guarded { whole, bytes: all });
        // SAFETY: the pages live as long as `keep`.
        unsafe { Storage::foreign(Device::CPU, start, bytes, keep) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the map that this value owns.
        unsafe { libc::munmap(self.whole.cast(), self.bytes) };
    }
}
