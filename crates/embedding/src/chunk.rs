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
    memory: NonNull<u8>,
    layout: Layout,
    /// The first word, at the beginning of a line or, of a large chunk, of a huge page.
    words: NonNull<u32>,
    length: usize,
}

// SAFETY: the chunk alone owns its memory.
unsafe impl Send for Chunk {}
// SAFETY: shared references only read.
unsafe impl Sync for Chunk {}

/// Bytes of a cache line.
const LINE: usize = 64;

impl Chunk {
    /// `n` zeros, or None if there is no memory.
    pub fn new(n: usize) -> Option<Chunk> {
        let bytes = n.checked_mul(4).filter(|b| *b > 0)?;
        let align = if bytes >= 2 * HUGE { HUGE } else { LINE };
        // An alignment of which the allocator's zeroed memory is the system's, untouched; what is skipped stays so.
        let layout = Layout::from_size_align(bytes.checked_add(align)?, 16).ok()?;
        // SAFETY: the layout has a size.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skipped = memory.as_ptr().align_offset(align);
        // SAFETY: less than `align` bytes, of which the memory has as many more than it needs.
        let words = unsafe { memory.add(skipped) };
        ask_for_huge_pages(words.as_ptr(), bytes);
        Some(Chunk { memory, layout, words: words.cast(), length: n })
    }

    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        // SAFETY: initialised memory of this size, which lives as long as the chunk.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.length) }
    }

    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `words`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_ptr(), self.length) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}
