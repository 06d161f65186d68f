//! Copies of long blocks of bytes to memory past the cache, which would not hold them until they are used.

/// Shorter blocks are copied through the cache, which may still hold them when they are used.
pub(crate) const LONG: usize = 16 << 20;

/// Copies all of `from` to a slice of equal length, past the cache where it is long.
///
/// # Panics
/// If the lengths differ, as `copy_from_slice`.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() < LONG {
        return to.copy_from_slice(from);
    }
    assert_eq!(from.len(), to.len(), "a copy between slices of different lengths");
    // SAFETY: two slices of this length, one of them mutable: they do not overlap.
    unsafe { copy_past_cache(from.as_ptr(), to.as_mut_ptr(), from.len()) };
}

/// Copies to memory past the cache, where the processor can: what is written need not be read first.
///
/// # Safety
/// As for `copy_nonoverlapping`.
pub(crate) unsafe fn copy_past_cache(src: *const u8, dst: *mut u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        let head = dst.align_offset(LINE).min(n);
        let end = head + (n - head) / LINE * LINE;
        // SAFETY: the caller's promise; from `head` to `end` the target is aligned, and every processor of this kind has SSE2.
        unsafe {
            src.copy_to_nonoverlapping(dst, head);
            for line in (head..end).step_by(LINE) {
                let (from, to) = (src.add(line).cast::<__m128i>(), dst.add(line).cast::<__m128i>());
                for word in 0..LINE / size_of::<__m128i>() {
                    _mm_stream_si128(to.add(word), _mm_loadu_si128(from.add(word)));
                }
            }
            src.add(end).copy_to_nonoverlapping(dst.add(end), n - end);
            // Whoever is told of the bytes sees them.
            _mm_sfence();
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        src.copy_to_nonoverlapping(dst, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_past_the_cache_write_their_bytes_and_no_others() {
        let from: Vec<u8> = (0..400).map(|i| i as u8 | 1).collect();
        for (src, dst, n) in
            (0..17).flat_map(|src| (0..70).flat_map(move |dst| [0, 1, 63, 64, 200].map(|n| (src, dst, n))))
        {
            let mut to = vec![0; 400];
            // SAFETY: both ranges lie in their vectors.
            unsafe { copy_past_cache(from[src..].as_ptr(), to[dst..].as_mut_ptr(), n) };
            assert!(to[dst..dst + n] == from[src..src + n], "{src} {dst} {n}");
            assert!(to[..dst].iter().chain(&to[dst + n..]).all(|&b| b == 0), "{src} {dst} {n}");
        }
    }

    #[test]
    fn long_and_short_slices_are_copied_whole() {
        for n in [0, 1, LONG - 1, LONG, LONG + 77] {
            let from: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
            let mut to = vec![0; n];
            copy(&from, &mut to);
            assert!(from == to, "{n}");
        }
    }
}
