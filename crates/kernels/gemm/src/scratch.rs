//! Thread-local packing buffers: they grow to the largest block once and are reused by every later call.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;

const ALIGN: usize = 64;

struct Buffer {
    ptr: *mut u8,
    bytes: usize,
}

impl Buffer {
    const EMPTY: Buffer = Buffer { ptr: std::ptr::null_mut(), bytes: 0 };

    fn layout(bytes: usize) -> Layout {
        // Sizes are block sizes of the driver, a few MiB; far from the limit of a layout.
        Layout::from_size_align(bytes, ALIGN).unwrap_or(Layout::new::<u64>())
    }

    fn grow(&mut self, bytes: usize) {
        if bytes <= self.bytes {
            return;
        }
        let bytes = bytes.next_multiple_of(4096);
        self.free();
        // SAFETY: the size is not zero here.
        self.ptr = unsafe { alloc(Self::layout(bytes)) };
        if self.ptr.is_null() {
            handle_alloc_error(Self::layout(bytes));
        }
        self.bytes = bytes;
    }

    fn free(&mut self) {
        if !self.ptr.is_null() {
            // SAFETY: allocated by `grow` with this very layout.
            unsafe { dealloc(self.ptr, Self::layout(self.bytes)) };
            (self.ptr, self.bytes) = (std::ptr::null_mut(), 0);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.free();
    }
}

/// Which of the thread's buffers.
#[derive(Clone, Copy)]
pub enum Slot {
    A,
    B,
    C,
    /// A whole operand that several tasks read.
    Whole,
    /// A part of a panel.
    Piece,
    /// An image in another order.
    Image,
}

thread_local! {
    static BUFFERS: [Cell<Buffer>; 6] = const { [const { Cell::new(Buffer::EMPTY) }; 6] };
}

/// Runs `f` with `bytes` (and 64 spare bytes behind them) of uninitialised memory, aligned to a cache line.
/// A null pointer for none. Reentrant: an inner use of the same slot gets its own memory.
pub fn with<R>(slot: Slot, bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    if bytes == 0 {
        return f(std::ptr::null_mut());
    }
    let mut buffer = BUFFERS.with(|all| all[slot as usize].replace(Buffer::EMPTY));
    buffer.grow(bytes + ALIGN);
    let result = f(buffer.ptr);
    BUFFERS.with(|all| all[slot as usize].set(buffer));
    result
}
