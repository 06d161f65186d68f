//! Convolutions and poolings over one to three spatial dimensions: the rules they share.

pub mod conv_nd;
pub mod conv_prepare_weight;
pub mod conv_transpose_nd;
pub mod native_conv;
pub mod native_conv_activation;
pub mod native_conv_prepared;
pub mod pool;
pub mod pooling;
mod size;

use crate::elementwise;
use crate::named::conv1d as at;
use crate::prelude::*;

/// A list of one number stands for that number in every dimension.
pub(crate) fn expand(name: &str, what: &str, v: &[i64], spatial: usize) -> Result<Dims> {
    match v.len() {
        n if n == spatial => Ok(Dims::from_slice(v)),
        1 => Ok(SmallVec::from_elem(v[0], spatial)),
        _ => Err(Error::runtime(format!(
            "{name}(): expected {what} to be a single integer value or a list of {spatial} values to match the convolution dimensions, but got {what}={v:?}"
        ))),
    }
}

/// The memory format that a tensor's strides speak of: unlike `is_contiguous`, they tell one channel or one pixel apart, and
/// whatever is not channels last is contiguous.
pub fn memory_format_of(t: &Tensor) -> &'static str {
    match t.ndim() {
        4 if is_channels_last(t) => "channels_last",
        5 if is_channels_last(t) => "channels_last_3d",
        _ => "contiguous_format",
    }
}

/// The strides of a tensor of these sizes without gaps in a memory format.
pub fn strides_in(format: &str, sizes: &[i64]) -> Result<Dims> {
    Ok(crate::elementwise::channels_last(format, sizes)?.unwrap_or_else(|| contiguous_strides(sizes)))
}

/// torch's order for a tensor whose channels are innermost: images, volumes, and sequences as images of one row.
pub(crate) fn is_channels_last(t: &Tensor) -> bool {
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    if sizes.len() == 3 {
        strides.insert(2, sizes[2].saturating_mul(strides[2]));
        sizes.insert(2, 1);
    }
    let n = sizes.len();
    if !(n == 4 || n == 5) || strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for d in std::iter::once(1).chain((2..n).rev()).chain([0]) {
        if sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1]) {
            return false;
        }
        least = strides[d] * sizes[d].max(1);
    }
    true
}

/// Strides with the channels innermost.
fn channels_last_strides(sizes: &[i64]) -> Result<Dims> {
    let (mut image, format) =
        (Dims::from_slice(sizes), if sizes.len() == 5 { "channels_last_3d" } else { "channels_last" });
    if sizes.len() == 3 {
        image.insert(2, 1);
    }
    let mut strides = elementwise::channels_last(format, &image)?.unwrap_or_else(|| contiguous_strides(&image));
    if sizes.len() == 3 {
        strides.remove(2);
    }
    Ok(strides)
}

/// A result whose channels are innermost where those of one of the inputs are.
pub(crate) fn push_image(c: &Call<'_>, like: &[In], dtype: DType, sizes: &[i64], outs: &mut Outs) -> Result<()> {
    let device = c.t(like[0])?.device();
    match like.iter().any(|i| c.opt(*i).is_some_and(is_channels_last)) {
        true => outs.push_strided(dtype, device, Dims::from_slice(sizes), channels_last_strides(sizes)?),
        false => outs.push(dtype, device, sizes),
    }
}

/// A composition's result in the layout that `push_image` gives.
pub(crate) fn laid_out(y: Tensor, like: &[&Tensor]) -> Result<Tensor> {
    if !like.iter().any(|t| is_channels_last(t)) {
        return Ok(y);
    }
    match y.ndim() {
        3 => y.unsqueeze(2)?.contiguous_with(Some("channels_last"))?.squeeze_dim(&[2]),
        5 => y.contiguous_with(Some("channels_last_3d")),
        _ => y.contiguous_with(Some("channels_last")),
    }
}

/// The input with a batch dimension, and whether one was added.
pub(crate) fn batched(c: &Call<'_>, spatial: usize) -> Result<(Tensor, bool)> {
    let x = c.t(at::INPUT)?;
    match x.ndim() {
        n if n == spatial + 2 => Ok((x.clone(), false)),
        n if n == spatial + 1 => Ok((x.unsqueeze(0)?, true)),
        _ => Err(Error::runtime(format!(
            "Expected {}D (unbatched) or {}D (batched) input to {}, but got input of size: {:?}",
            spatial + 1,
            spatial + 2,
            c.name(),
            x.sizes()
        ))),
    }
}

pub(crate) fn unbatched(y: Tensor, added: bool) -> Result<Tensor> {
    if added { y.squeeze_dim(&[0]) } else { Ok(y) }
}

/// `x` in the middle of zeros: along each spatial dimension `before` zeros, elements `stretch` apart, `total` in all.
/// A negative `before` cuts off.
pub(crate) fn place(x: &Tensor, before: &[i64], stretch: &[i64], total: &[i64]) -> Result<Tensor> {
    let mut sizes = Dims::from_slice(&x.sizes()[..2]);
    sizes.extend_from_slice(total);
    let zeros = x.new_zeros(&sizes)?;
    let strides = contiguous_strides(&sizes);
    let (mut part, mut steps, mut offset) = (x.clone(), strides.clone(), 0);
    for (d, (&before, &stretch)) in before.iter().zip(stretch).enumerate() {
        let first = if before < 0 { (-before + stretch - 1) / stretch } else { 0 };
        let room = total[d] - (before + first * stretch);
        let n = (part.sizes()[d + 2] - first).min((room + stretch - 1).div_euclid(stretch)).max(0);
        if n == 0 || zeros.numel() == 0 {
            return Ok(zeros);
        }
        part = part.narrow(d as i64 + 2, first, n)?;
        steps[d + 2] *= stretch;
        offset += (before + first * stretch) * strides[d + 2];
    }
    zeros.as_strided_scatter(&part, part.sizes(), &steps, Some(offset))
}

/// Every window of a padded image: [n, c, kernel..., out...], without a copy of the elements beyond the padding.
pub(crate) fn windows(
    x: &Tensor,
    kernel: &[i64],
    out: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
) -> Result<Tensor> {
    let spatial = kernel.len();
    // As far as the last window reaches.
    let total: Dims = (0..spatial)
        .map(|d| {
            let last = i128::from((out[d] - 1).max(0)) * i128::from(stretch(stride[d]));
            let reach = last + size::extent(kernel[d], dilation[d]);
            size::fits("windows", reach.max(i128::from(x.sizes()[d + 2]) + i128::from(padding[d])))
        })
        .collect::<Result<_>>()?;
    let ones: Dims = SmallVec::from_elem(1, spatial);
    let padded = match padding.iter().all(|p| *p == 0) && total[..] == x.sizes()[2..] {
        true => x.contiguous()?,
        false => place(x, padding, &ones, &total)?,
    };
    let s = padded.strides();
    let (mut sizes, mut strides) = (Dims::from_slice(&x.sizes()[..2]), Dims::from_slice(&s[..2]));
    for d in 0..spatial {
        sizes.push(kernel[d]);
        strides.push(s[d + 2] * dilation[d]);
    }
    for d in 0..spatial {
        sizes.push(out[d]);
        strides.push(s[d + 2] * stride[d]);
    }
    padded.as_strided(&sizes, &strides, None)
}

fn stretch(s: i64) -> i64 {
    s.max(1)
}

/// Sums over everything but the channels: the gradient of a bias.
pub(crate) fn sum_to_channels(g: &Tensor) -> Result<Tensor> {
    let dims: Vec<i64> = (0..g.ndim() as i64).filter(|d| *d != 1).collect();
    g.sum(&dims, false)
}
