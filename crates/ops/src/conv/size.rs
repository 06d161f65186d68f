//! The one place where sizes of windows are computed: exact for every number a caller may give, refused where a size or
//! an index of a kernel would not fit. Knows no tensor.

use crate::prelude::*;

/// Largest padding and dilation of a convolution: sums of a few products' parts stay far from overflow.
const FAR: i64 = 1 << 60;

/// The kernels keep boxes of the padded image in memory; they decline where that would be nearly nothing but zeros.
pub(crate) fn is_mostly_padding(input: &[i64], padding: &[i64]) -> bool {
    input.iter().zip(padding).any(|(n, p)| *p / 4 > n.saturating_add(1 << 16))
}

/// Elements from the first to the last tap.
pub(crate) fn extent(kernel: i64, dilation: i64) -> i128 {
    i128::from(dilation) * (i128::from(kernel) - 1) + 1
}

/// Elements with the padding of both sides.
pub(crate) fn padded(input: i64, padding: i64) -> i128 {
    i128::from(input) + 2 * i128::from(padding)
}

/// How many windows there are; may be less than one. With `ceil` those that begin in the input or its left padding count too.
pub(crate) fn count(input: i64, padding: i64, extent: i128, stride: i64, ceil: bool) -> i128 {
    let s = i128::from(stride);
    let span = padded(input, padding) - extent;
    let n = (span + if ceil { s - 1 } else { 0 }).div_euclid(s) + 1;
    if ceil && (n - 1) * s >= i128::from(input) + i128::from(padding) { n - 1 } else { n }
}

/// The size of a transposed convolution's result.
pub(crate) fn transposed(input: i64, stride: i64, padding: i64, extent: i128, extra: i64) -> i128 {
    (i128::from(input) - 1) * i128::from(stride) - 2 * i128::from(padding) + extent + i128::from(extra)
}

/// Channels of all groups together.
pub(crate) fn channels(name: &str, of_one: i64, groups: i64) -> Result<i64> {
    fits(name, of_one as i128 * groups as i128)
}

/// A size as the number it must be.
pub(crate) fn fits(name: &str, size: i128) -> Result<i64> {
    i64::try_from(size).map_err(|_| Error::runtime(format!("{name}: the output size {size} does not fit an integer")))
}

/// Poolings count taps and positions in 32 bits, as torch does.
pub(crate) fn within_32_bits(name: &str, what: &str, v: &[i64]) -> Result<()> {
    match v.iter().find(|n| i32::try_from(**n).is_err()) {
        Some(n) => Err(Error::runtime(format!("{name}: {what} {n}: integer out of range"))),
        None => Ok(()),
    }
}

/// Kernels of convolutions add positions in 64 bits.
pub(crate) fn near(what: &str, v: &[i64]) -> Result<()> {
    match v.iter().find(|n| n.unsigned_abs() > FAR.unsigned_abs()) {
        Some(n) => Err(Error::runtime(format!("{what} {n}: integer out of range"))),
        None => Ok(()),
    }
}
