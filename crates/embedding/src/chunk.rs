//! Words of rows in large pieces of memory, zeros at first, in huge pages where the system gives them.
//!
//! A page takes memory when it is first written.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Sizes from here on ask for huge pages.
const HUGE: usize = 2 << 20;

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
        #[cfg(target_os = "linux")]
        if bytes >= 2 * HUGE {
            let skipped = words.as_ptr().align_offset(HUGE);
            // SAFETY: whole pages inside of this allocation; the advice changes no content. A refusal costs speed alone.
            let _ = unsafe {
                let start = words.as_ptr().add(skipped);
                rustix::mm::madvise(start.cast(), (bytes - skipped) / HUGE * HUGE, rustix::mm::Advice::LinuxHugepage)
            };
        }
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
