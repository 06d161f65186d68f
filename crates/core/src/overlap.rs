//! Overlap of views: what in-place writes and `out=` must know.
//!
//! Decided by sizes and strides. What PyTorch refuses is refused (`Overlap::Partial`); what it finds too hard to decide is
//! computed as if the inputs were read first.

use crate::Tensor;
use smallvec::SmallVec;

/// The relation of two tensors' elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They share no byte.
    No,
    /// They are exactly the same view, or empty ones.
    Same,
    /// Both fill a range of memory, and the ranges share a part.
    Partial,
    /// They may share bytes: at least one of them has gaps or names an element twice.
    Maybe,
}

/// First and one-past-last byte of a tensor's elements.
fn range(t: &Tensor) -> Option<(i64, i64)> {
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
    Some((base + lo * item, base + (hi + 1) * item))
}

/// Returns true if the elements fill a range of memory, each address once.
fn is_dense(t: &Tensor) -> bool {
    if t.is_contiguous() {
        return true;
    }
    let mut dims: SmallVec<[(i64, i64); 6]> =
        t.strides().iter().copied().zip(t.sizes().iter().copied()).filter(|(_, n)| *n != 1).collect();
    dims.sort_unstable();
    let mut next = 1;
    dims.iter().all(|(s, n)| {
        let fits = *s == next;
        next *= n;
        fits
    })
}

/// The relation of two tensors in memory.
pub fn overlap(a: &Tensor, b: &Tensor) -> Overlap {
    if a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() {
        return Overlap::Same;
    }
    let (Some((a0, a1)), Some((b0, b1))) = (range(a), range(b)) else { return Overlap::No };
    if a1 <= b0 || b1 <= a0 {
        return Overlap::No;
    }
    if is_dense(a) && is_dense(b) {
        return match (a0, a1) == (b0, b1) && same_order(a, b) {
            true if a.dtype() == b.dtype() => Overlap::Same,
            true => Overlap::Maybe,
            false => Overlap::Partial,
        };
    }
    if disjoint(a, b) { Overlap::No } else { Overlap::Maybe }
}

/// Returns true if two tensors may share bytes without being exactly the same view.
pub fn overlaps(a: &Tensor, b: &Tensor) -> bool {
    matches!(overlap(a, b), Overlap::Partial | Overlap::Maybe)
}

/// Returns true if the same addresses are named index by index: strides of dimensions with one element do not count.
fn same_order(a: &Tensor, b: &Tensor) -> bool {
    a.sizes() == b.sizes()
        && a.sizes().iter().zip(a.strides().iter().zip(b.strides())).all(|(n, (s, t))| *n == 1 || s == t)
}

/// The limit of the search that distinguishes two views; beyond it they may overlap.
const ATTEMPTS: u32 = 256;

/// Returns true if no element of `a` shares a byte with one of `b`: no choice of indices makes both addresses meet. False where
/// finding out takes too long.
fn disjoint(a: &Tensor, b: &Tensor) -> bool {
    let (size_a, size_b) = (a.dtype().size() as i64, b.dtype().size() as i64);
    // Steps in bytes, each with how often it may be taken: forward by the indices of `b`, back by those of `a`.
    let mut steps: SmallVec<[(i64, i64, i64); 12]> = SmallVec::new();
    let mut add = |step: i64, lo: i64, hi: i64| {
        let (step, lo, hi) = if step < 0 { (-step, -hi, -lo) } else { (step, lo, hi) };
        match steps.iter_mut().find(|x| x.0 == step) {
            Some(x) => (x.1, x.2) = (x.1 + lo, x.2 + hi),
            None => steps.push((step, lo, hi)),
        }
    };
    for (n, s) in a.sizes().iter().zip(a.strides()).filter(|(n, s)| **n > 1 && **s != 0) {
        add(s * size_a, 1 - n, 0);
    }
    for (n, s) in b.sizes().iter().zip(b.strides()).filter(|(n, s)| **n > 1 && **s != 0) {
        add(s * size_b, 0, n - 1);
    }
    steps.sort_unstable_by_key(|x| -x.0);
    // They meet where the distance of two elements is above -size_b and below size_a.
    let apart = b.data_ptr() as i64 - a.data_ptr() as i64;
    let mut attempts = ATTEMPTS;
    !meets(&steps, apart, 1 - size_b, size_a - 1, &mut attempts)
}

/// Returns true if some choice of steps brings `at` into `[lo, hi]`.
fn meets(steps: &[(i64, i64, i64)], at: i64, lo: i64, hi: i64, attempts: &mut u32) -> bool {
    let Some((&(step, least, most), rest)) = steps.split_first() else { return lo <= at && at <= hi };
    let (mut back, mut on) = (0, 0);
    for (s, least, most) in rest {
        back += s * least;
        on += s * most;
    }
    // Only these counts leave a distance that the smaller steps can cover.
    let first = (lo - on - at + step - 1).div_euclid(step).max(least);
    let last = (hi - back - at).div_euclid(step).min(most);
    for k in first..=last {
        if *attempts == 0 {
            return true;
        }
        *attempts -= 1;
        if meets(rest, at + k * step, lo, hi, attempts) {
            return true;
        }
    }
    false
}

/// Returns true if several indices of one tensor name the same element (an expanded dimension).
pub fn has_internal_overlap(t: &Tensor) -> bool {
    !t.is_contiguous() && t.sizes().iter().zip(t.strides()).any(|(n, s)| *n > 1 && *s == 0)
}
