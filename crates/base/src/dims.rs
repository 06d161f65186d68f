//! Sizes and strides as inline vectors, and the arithmetic on them. All products are checked.

use crate::{Error, Result};
use smallvec::SmallVec;

/// Sizes or strides: inline up to six dimensions. Strides are counted in elements.
pub type Dims = SmallVec<[i64; 6]>;

/// Number of elements; an error where the product does not fit (never a wrap-around into a small allocation).
#[inline]
pub fn numel(sizes: &[i64]) -> Result<i64> {
    let mut n: i64 = 1;
    let mut overflow = false;
    for &s in sizes {
        let (m, o) = n.overflowing_mul(s);
        n = m;
        overflow |= o;
    }
    if overflow && !sizes.contains(&0) {
        return Err(Error::runtime(format!("numel: integer multiplication overflow for sizes {sizes:?}")));
    }
    Ok(if sizes.contains(&0) { 0 } else { n })
}

/// Row-major strides for these sizes (zero sizes count as one, as torch does).
#[inline]
pub fn contiguous_strides(sizes: &[i64]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(1, sizes.len());
    let mut acc = 1i64;
    for i in (0..sizes.len()).rev() {
        strides[i] = acc;
        acc = acc.wrapping_mul(sizes[i].max(1));
    }
    strides
}

/// Returns true if elements are row-major without gaps. Dimensions of size one may have any stride.
#[inline]
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut acc = 1i64;
    for i in (0..sizes.len()).rev() {
        let n = sizes[i];
        if n == 0 {
            return true;
        }
        if n != 1 {
            if strides[i] != acc {
                return sizes.contains(&0);
            }
            acc = acc.wrapping_mul(n);
        }
    }
    true
}

/// NumPy broadcasting of two shapes.
#[inline]
pub fn broadcast_shapes(a: &[i64], b: &[i64]) -> Result<Dims> {
    if a == b {
        return Ok(Dims::from_slice(a));
    }
    let n = a.len().max(b.len());
    let mut out: Dims = SmallVec::from_elem(1, n);
    for i in 0..n {
        let x = if i + a.len() >= n { a[i + a.len() - n] } else { 1 };
        let y = if i + b.len() >= n { b[i + b.len() - n] } else { 1 };
        out[i] = match (x, y) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                return Err(Error::runtime(format!(
                    "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i} (shapes {a:?} and {b:?})"
                )));
            }
        };
    }
    Ok(out)
}

/// A possibly negative dimension as an index below `ndim`; 0-dim tensors accept 0 and -1.
#[inline]
pub fn wrap_dim(dim: i64, ndim: usize) -> Result<usize> {
    let n = ndim.max(1) as i64;
    if dim < -n || dim >= n {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -n,
            n - 1
        )));
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_an_error_but_zero_is_zero() {
        assert!(numel(&[i64::MAX, 2]).is_err());
        assert_eq!(numel(&[i64::MAX, 2, 0]).unwrap(), 0);
        assert_eq!(numel(&[]).unwrap(), 1);
    }

    #[test]
    fn contiguity() {
        assert!(is_contiguous(&[2, 3], &[3, 1]));
        assert!(is_contiguous(&[2, 1, 3], &[3, 77, 1]));
        assert!(!is_contiguous(&[3, 2], &[1, 3]));
        assert!(is_contiguous(&[3, 0], &[1, 3]));
        assert_eq!(contiguous_strides(&[2, 3, 4]).as_slice(), &[12, 4, 1]);
    }

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast_shapes(&[2, 1], &[3]).unwrap().as_slice(), &[2, 3]);
        assert_eq!(broadcast_shapes(&[0], &[1]).unwrap().as_slice(), &[0]);
        assert!(broadcast_shapes(&[2], &[3]).is_err());
        assert_eq!(wrap_dim(-1, 0).unwrap(), 0);
        assert!(wrap_dim(2, 2).is_err());
    }
}
