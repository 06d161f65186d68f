//! Words of rows in large pieces of memory, zeros at first, in huge pages where the system gives them.
//!
//! A page takes memory when it is first written.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Sizes from here on ask for huge pages.
const HUGE: usize = 2 << 20;

/// Asks for huge pages for the whole ones in a piece of memory, before it is first written. A refusal costs speed alone.
pub fn ask_for_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= 2 * HUGE {
        let skipped = start.align_offset(HUGE);
        // SAFETY: whole pages inside of the caller's memory; the advice changes no content.
        let _ = unsafe {
            let whole = (bytes - skipped) / HUGE * HUGE;
            rustix::mm::madvise(start.add(skipped).cast(), whole, rustix::mm::Advice::LinuxHugepage)
        };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

pub struct Chunk {
    words: NonNull<u32>,
    layout: Layout,
}

// SAFETY: the chunk alone owns its memory.
unsafe impl Send for Chunk {}
// SAFETY: shared references only read.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// `n` zeros, or None if there is no memory.
    pub fn new(n: usize) -> Option<Chunk> {
        let bytes = n.checked_mul(4).filter(|b| *b > 0)?;
        // An alignment of which the allocator's zeroed memory is the system's, untouched.
        let layout = Layout::from_size_align(bytes, 16).ok()?;
        // SAFETY: the layout has a size.
        let words = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        ask_for_huge_pages(words.as_ptr(), bytes);
        Some(Chunk { words: words.cast(), layout })
    }

    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        // SAFETY: initialised memory of this size, which lives as long as the chunk.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.layout.size() / 4) }
    }

    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `words`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_ptr(), self.layout.size() / 4) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.words.as_ptr().cast(), self.layout) }
    }
}
