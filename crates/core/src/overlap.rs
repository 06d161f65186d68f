//! Whether views overlap: what in-place writes and `out=` must know.

use crate::Tensor;

/// First and one-past-last byte of a tensor's elements.
fn range(t: &Tensor) -> Option<(usize, usize)> {
    if t.numel() == 0 || t.storage().is_none() {
        return None;
    }
    let item = t.dtype().size() as i64;
    let (mut lo, mut hi) = (0i64, 0i64);
    for (n, s) in t.sizes().iter().zip(t.strides()) {
        let reach = (n - 1) * s;
        if reach < 0 { lo += reach } else { hi += reach }
    }
    let base = t.data_ptr() as usize as i64;
    Some(((base + lo * item) as usize, (base + (hi + 1) * item) as usize))
}

/// Whether two tensors may share bytes without being exactly the same view.
pub fn overlaps(a: &Tensor, b: &Tensor) -> bool {
    if a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() {
        return false;
    }
    match (range(a), range(b)) {
        (Some((a0, a1)), Some((b0, b1))) => a0 < b1 && b0 < a1,
        _ => false,
    }
}

/// Whether several indices of one tensor name the same element (an expanded dimension).
pub fn has_internal_overlap(t: &Tensor) -> bool {
    !t.is_contiguous() && t.sizes().iter().zip(t.strides()).any(|(n, s)| *n > 1 && *s == 0)
}
