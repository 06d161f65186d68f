//! Pooling: windows and their sizes, the two fused ops and their gradients.

use super::*;
use crate::named::{avg_pool_backward, max_pool_backward, native_avg_pool, native_max_pool};

/// One dimension's windows, as the ops' arguments say them. A kernel of zero: adaptive.
#[derive(Clone, Copy)]
struct Axis {
    input: i64,
    output: i64,
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
}

impl Axis {
    /// Start and end of every window, [out, 1], before they are cut at the borders.
    fn bounds(&self, like: &Tensor) -> Result<(Tensor, Tensor)> {
        let o =
            like.new_ones_with(&[self.output], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64)?.unsqueeze(1)?;
        if self.kernel == 0 {
            let start = o.mul(self.input)?.div_with(self.output, Some("floor"))?;
            let end = o.add(1i64)?.mul(self.input)?.add(self.output - 1)?.div_with(self.output, Some("floor"))?;
            return Ok((start, end));
        }
        let start = o.mul(self.stride)?.sub(self.padding)?;
        let end = start.add((self.kernel - 1) * self.dilation + 1)?;
        Ok((start, end))
    }

    /// Most elements of a window.
    fn reach(&self) -> i64 {
        if self.kernel > 0 { self.kernel } else { (self.input + self.output - 1).div_euclid(self.output.max(1)) + 1 }
    }
}

/// A matrix [out, in] of ones where an element belongs to a window, each row divided by the window's part of the divisor.
fn averages(like: &Tensor, axis: &Axis, include_pad: bool, fixed: bool) -> Result<Tensor> {
    let (start, end) = axis.bounds(like)?;
    let i = like.new_ones_with(&[axis.input], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64)?.unsqueeze(0)?;
    let member = i.ge(&start)?.logical_and(&i.lt(&end)?)?.to_copy_with(Some(like.dtype()), None)?;
    if fixed {
        return Ok(member);
    }
    let count = if include_pad && axis.kernel > 0 {
        end.clamp(None, Some(Scalar::Int(axis.input + axis.padding)))?
            .sub(&start)?
            .to_copy_with(Some(like.dtype()), None)?
    } else {
        member.sum(&[1], true)?.clamp(Some(Scalar::Float(1.0)), None)?
    };
    member.div(&count)
}

/// Multiplies every spatial dimension with its matrix (or the transposed one).
fn along_dims(x: &Tensor, matrices: &[Tensor], transposed: bool) -> Result<Tensor> {
    let mut y = x.clone();
    for (d, m) in matrices.iter().enumerate() {
        let m = if transposed { m.clone() } else { m.transpose(0, 1)? };
        y = y.transpose(d as i64 + 2, -1)?.matmul(&m)?.transpose(d as i64 + 2, -1)?;
    }
    y.contiguous()
}

fn max_axes(c: &Call<'_>) -> Result<SmallVec<[Axis; 3]>> {
    let (k, s, p, d, o) = (
        c.ints(native_max_pool::KERNEL_SIZE)?,
        c.ints(native_max_pool::STRIDE)?,
        c.ints(native_max_pool::PADDING)?,
        c.ints(native_max_pool::DILATION)?,
        c.ints(native_max_pool::OUTPUT_SIZE)?,
    );
    let x = c.t(native_max_pool::INPUT)?.sizes();
    let axis =
        |i: usize| Axis { input: x[i + 2], output: o[i], kernel: k[i], stride: s[i], padding: p[i], dilation: d[i] };
    Ok((0..o.len()).map(axis).collect())
}

/// Refuses the gradient of a result without elements in its planes, as torch does.
fn has_planes(c: &Call<'_>, grad_output: &Tensor) -> Result<()> {
    match grad_output.sizes()[2..].contains(&0) {
        false => Ok(()),
        true => Err(Error::runtime(format!(
            "{}(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes {:?}",
            c.name(),
            grad_output.sizes()
        ))),
    }
}

fn with_size(lead: &Tensor, spatial: &[i64]) -> Dims {
    let mut sizes = Dims::from_slice(&lead.sizes()[..2]);
    sizes.extend_from_slice(spatial);
    sizes
}

/// Spatial dimensions stay whole.
fn spatial_axes(c: &Call<'_>) -> u32 {
    let n = c.t(native_max_pool::INPUT).map_or(2, Tensor::ndim);
    (2..n).fold(0, |m, d| m | 1 << d)
}

/// Whether channels stay last where they are last in the input: torch's adaptive maxima of volumes are contiguous.
fn follows_input(c: &Call<'_>) -> Result<bool> {
    let is_adaptive = c.ints(native_max_pool::KERNEL_SIZE)?.contains(&0);
    Ok(!(is_adaptive && c.t(native_max_pool::INPUT)?.ndim() == 5))
}

/// Whether means are contiguous whatever the input's layout: those of volumes are in torch, but for the mean of a whole one.
fn mean_is_contiguous(c: &Call<'_>) -> Result<bool> {
    let is_adaptive = c.ints(native_avg_pool::KERNEL_SIZE)?.contains(&0);
    let is_whole = is_adaptive && c.ints(native_avg_pool::OUTPUT_SIZE)?.iter().all(|n| *n == 1);
    Ok(c.t(native_avg_pool::INPUT)?.ndim() == 5 && !is_whole)
}

/// A result in the layout of `like`, contiguous without one.
fn push_pooled(c: &Call<'_>, x: &Tensor, like: &[In], dtype: DType, sizes: &[i64], outs: &mut Outs) -> Result<()> {
    if like.is_empty() { outs.push(dtype, x.device(), sizes) } else { push_image(c, like, dtype, sizes, outs) }
}

fn max_windows(c: &Call<'_>) -> Result<SmallVec<[MaxPoolAxis; 4]>> {
    let (kernel, stride) = (c.ints(native_max_pool::KERNEL_SIZE)?, c.ints(native_max_pool::STRIDE)?);
    let (padding, dilation) = (c.ints(native_max_pool::PADDING)?, c.ints(native_max_pool::DILATION)?);
    let axis = |d| MaxPoolAxis { kernel: kernel[d], stride: stride[d], padding: padding[d], dilation: dilation[d] };
    Ok((0..kernel.len()).map(axis).collect())
}

pub static MAX: OpDef = OpDef {
    sig: Sig::parse(
        "native_max_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output_size) -> (Tensor output, Tensor indices)",
    ),
    doc: "Maxima of windows and where they are; a kernel of zero means adaptive windows.",
    traits: Traits::FLAT,
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(native_max_pool::INPUT)?;
        let sizes = with_size(x, c.ints(native_max_pool::OUTPUT_SIZE)?);
        if x.dtype() == DType::Bool || x.dtype().is_complex() {
            return Err(Error::not_implemented(format!(
                "\"max_pool\" not implemented for '{}'",
                x.dtype().scalar_type_name()
            )));
        }
        let like: &[In] = if follows_input(c)? { &[native_max_pool::INPUT] } else { &[] };
        push_pooled(c, x, like, x.dtype(), &sizes, outs)?;
        push_pooled(c, x, like, DType::I64, &sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &MAX_POOL,
        lower: |c, _, l| {
            l.input(native_max_pool::INPUT)
                .output(native_max_pool::OUTPUT)
                .output(native_max_pool::INDICES)
                .with(MaxPoolParams { axes: max_windows(c)? });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(native_max_pool::INPUT)?;
        let axes = max_axes(c)?;
        let spatial = axes.len();
        let (mut columns, mut place, mut valid) = (x.clone(), None::<Tensor>, None::<Tensor>);
        let mut split = Dims::from_slice(&x.sizes()[..2]);
        for (d, axis) in axes.iter().enumerate() {
            let (start, end) = axis.bounds(x)?;
            let reach = axis.reach();
            let tap = x.new_ones_with(&[reach], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64)?.unsqueeze(0)?;
            let at = start.add(&tap.mul(axis.dilation)?)?;
            let inside = at.ge(0i64)?.logical_and(&at.lt(axis.input)?)?.logical_and(&at.lt(&end)?)?;
            let at = at.clamp(Some(Scalar::Int(0)), Some(Scalar::Int(axis.input - 1)))?;
            columns = columns.index_select(d as i64 + 2, &at.reshape(&[-1])?)?;
            split.extend([axis.output, reach]);
            // [1, 1, ..., out, reach, ...]: this dimension's part of the position and of the mask.
            let mut shape: Dims = SmallVec::from_elem(1, 2 + 2 * spatial);
            (shape[2 + 2 * d], shape[3 + 2 * d]) = (axis.output, reach);
            let (at, inside) = (at.reshape(&shape)?, inside.reshape(&shape)?);
            place = Some(match place {
                Some(p) => p.mul(axis.input)?.add(&at)?,
                None => at,
            });
            valid = Some(match valid {
                Some(v) => v.logical_and(&inside)?,
                None => inside,
            });
        }
        let (Some(place), Some(valid)) = (place, valid) else {
            return Err(Error::runtime("max_pool: no spatial dimension"));
        };
        let order: Vec<i64> = [0, 1]
            .into_iter()
            .chain((0..spatial as i64).map(|d| 2 + 2 * d))
            .chain((0..spatial as i64).map(|d| 3 + 2 * d))
            .collect();
        let taps: i64 = axes.iter().map(Axis::reach).product();
        let sizes = with_size(x, c.ints(native_max_pool::OUTPUT_SIZE)?);
        let rows = |t: &Tensor, lead: &[i64]| -> Result<Tensor> {
            let mut shape = Dims::from_slice(lead);
            shape.extend_from_slice(&sizes[2..]);
            shape.push(taps);
            t.permute(&order)?.reshape(&shape)
        };
        let columns = rows(&columns.reshape(&split)?, &sizes[..2])?;
        let (place, valid) = (rows(&place, &[1, 1])?, rows(&valid, &[1, 1])?);
        let least = match x.dtype() {
            d if d.is_float() => Scalar::Float(f64::NEG_INFINITY),
            DType::U8 => Scalar::Int(0),
            d => Scalar::Int(-1 << (8 * d.size() - 1)),
        };
        let columns = columns.masked_fill(&valid.logical_not()?, least)?;
        let [values, tap] = columns.max_dim(-1, true)?;
        let indices = place.expand(columns.sizes())?.gather(-1, &tap)?;
        let like: &[&Tensor] = if follows_input(c)? { &[x] } else { &[] };
        outs.give(laid_out(values.squeeze_dim(&[-1])?, like)?);
        outs.give(laid_out(indices.squeeze_dim(&[-1])?, like)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::out(native_max_pool::INDICES, &[native_max_pool::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(native_max_pool::INPUT)?;
            out.set(native_max_pool::INPUT, || c.g()?.max_pool_backward(c.y(native_max_pool::INDICES)?, &m.sizes[2..]))
        },
    },
    differentiable: OutMask::of(&[native_max_pool::OUTPUT]),
    sbp: SbpRule::of(Rows::Batch { not_axes: spatial_axes }),
    samples: || {
        let t = |x: &[i64], k: i64, s: i64, p: i64, d: i64, o: &[i64]| {
            let all = |v: i64| SampleArg::Ints(vec![v; o.len()]);
            Sample::new(vec![SampleArg::f32(x), all(k), all(s), all(p), all(d), SampleArg::Ints(o.to_vec())])
        };
        vec![
            t(&[4, 4, 6, 7], 3, 2, 1, 1, &[3, 4]),
            t(&[4, 4, 9], 2, 1, 0, 3, &[6]),
            t(&[4, 4, 5, 7], 0, 1, 0, 1, &[3, 4]),
        ]
    },
    ..OpDef::BASE
};

pub static MAX_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("max_pool_backward(Tensor grad_output, Tensor indices, int[] input_size) -> Tensor"),
    doc: "Gradients of windows' maxima, brought to where they are in planes of `input_size`.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (g, size) = (c.t(max_pool_backward::GRAD_OUTPUT)?, c.ints(max_pool_backward::INPUT_SIZE)?);
        if g.ndim() != size.len() + 2 {
            return Err(Error::runtime(format!("max_pool_backward(): planes of {size:?} from {:?}", g.sizes())));
        }
        has_planes(c, g)?;
        fits::sized(c, max_pool_backward::INDICES, g.sizes())?;
        fits::typed(c, max_pool_backward::INDICES, DType::I64)?;
        push_image(
            c,
            &[max_pool_backward::GRAD_OUTPUT, max_pool_backward::INDICES],
            g.dtype(),
            &with_size(g, size),
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &MAX_POOL_BACKWARD,
        lower: |c, _, l| {
            if !c.t(max_pool_backward::GRAD_OUTPUT)?.dtype().is_float() {
                return Err(Error::not_implemented("max_pool_backward: only floats"));
            }
            l.input(max_pool_backward::GRAD_OUTPUT).input(max_pool_backward::INDICES).output(max_pool_backward::RESULT);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, indices, size) = (
            c.t(max_pool_backward::GRAD_OUTPUT)?,
            c.t(max_pool_backward::INDICES)?,
            c.ints(max_pool_backward::INPUT_SIZE)?,
        );
        let (n, channels) = (g.sizes()[0], g.sizes()[1]);
        let per: i64 = g.sizes()[2..].iter().product();
        let flat = |t: &Tensor| t.reshape(&[n, channels, per]);
        let zeros = g.new_zeros(&[n, channels, size.iter().product()])?;
        let gx = zeros.scatter_add(-1, &flat(indices)?, &flat(g)?)?.reshape(&with_size(g, size))?;
        outs.give(laid_out(gx, &[g, indices])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(max_pool_backward::INDICES, &[max_pool_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(max_pool_backward::GRAD_OUTPUT)?;
            out.set(max_pool_backward::GRAD_OUTPUT, || {
                let (g, indices) = (c.g()?, c.x(max_pool_backward::INDICES)?);
                let (n, channels) = (m.sizes[0], m.sizes[1]);
                let plane: i64 = g.sizes()[2..].iter().product();
                let per: i64 = m.sizes[2..].iter().product();
                let taken = g.reshape(&[n, channels, plane])?.gather(-1, &indices.reshape(&[n, channels, per])?)?;
                taken.reshape(&m.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: spatial_axes }),
    samples: || {
        let t = |g: &[i64], size: &[i64]| {
            let n = size.iter().product();
            let size = SampleArg::Ints(size.to_vec());
            Sample::new(vec![SampleArg::f32(g), SampleArg::i64(g, 0, n), size])
        };
        vec![t(&[4, 4, 3, 2], &[5, 4]), t(&[2, 4, 5], &[7])]
    },
    ..OpDef::BASE
};

fn avg_axes(c: &Call<'_>, input: &[i64], output: &[i64]) -> Result<SmallVec<[Axis; 3]>> {
    let (k, s, p) =
        (c.ints(native_avg_pool::KERNEL_SIZE)?, c.ints(native_avg_pool::STRIDE)?, c.ints(native_avg_pool::PADDING)?);
    let axis =
        |i: usize| Axis { input: input[i], output: output[i], kernel: k[i], stride: s[i], padding: p[i], dilation: 1 };
    Ok((0..output.len()).map(axis).collect())
}

/// The matrices of an average pooling; the whole divisor, where it is given, is in the first.
fn avg_matrices(c: &Call<'_>, like: &Tensor, axes: &[Axis]) -> Result<Vec<Tensor>> {
    let (include_pad, divisor) = (c.bool(native_avg_pool::COUNT_INCLUDE_PAD), c.int(native_avg_pool::DIVISOR)?);
    let mut all: Vec<Tensor> =
        axes.iter().map(|a| averages(like, a, include_pad, divisor != 0)).collect::<Result<_>>()?;
    if let (Some(first), true) = (all.first_mut(), divisor != 0) {
        *first = first.div(divisor as f64)?;
    }
    Ok(all)
}

fn lower_avg(c: &Call<'_>, l: &mut Lowered) -> Result<()> {
    let kernel = c.ints(native_avg_pool::KERNEL_SIZE)?;
    let (stride, padding) = (c.ints(native_avg_pool::STRIDE)?, c.ints(native_avg_pool::PADDING)?);
    let axis = |d| AvgPoolAxis { kernel: kernel[d], stride: stride[d], padding: padding[d] };
    l.with(AvgPoolParams {
        count_include_pad: c.bool(native_avg_pool::COUNT_INCLUDE_PAD),
        divisor: c.int(native_avg_pool::DIVISOR)?,
        axes: (0..kernel.len()).map(axis).collect(),
    });
    Ok(())
}

fn avg_samples(forward: bool) -> Vec<Sample> {
    let t = |x: &[i64], [k, s, p]: [i64; 3], pad: bool, divisor: i64, o: &[i64]| {
        let all = |v: i64| SampleArg::Ints(vec![v; o.len()]);
        let (from, to) = if forward { (x.to_vec(), o.to_vec()) } else { ([&x[..2], o].concat(), x[2..].to_vec()) };
        Sample::new(vec![
            SampleArg::f32(&from),
            all(k),
            all(s),
            all(p),
            SampleArg::Bool(pad),
            SampleArg::Int(divisor),
            SampleArg::Ints(to),
        ])
    };
    vec![
        t(&[4, 4, 6, 7], [3, 2, 1], true, 0, &[3, 4]),
        t(&[4, 4, 6, 7], [3, 2, 1], false, 0, &[3, 4]),
        t(&[4, 4, 9], [2, 2, 0], true, 3, &[4]),
        t(&[4, 4, 5, 7], [0, 1, 0], true, 0, &[3, 4]),
    ]
}

pub static AVG: OpDef = OpDef {
    sig: Sig::parse(
        "native_avg_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int divisor, int[] output_size) -> Tensor",
    ),
    doc: "Means of windows; a kernel of zero means adaptive windows, a divisor of zero the number of elements.",
    traits: Traits::FLAT,
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(native_avg_pool::INPUT)?;
        let like: &[In] = if mean_is_contiguous(c)? { &[] } else { &[native_avg_pool::INPUT] };
        push_pooled(c, x, like, x.dtype(), &with_size(x, c.ints(native_avg_pool::OUTPUT_SIZE)?), outs)
    },
    kernel: Kernel::Prim {
        prim: &AVG_POOL,
        lower: |c, _, l| {
            l.input(native_avg_pool::INPUT).output(native_avg_pool::RESULT);
            lower_avg(c, l)
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(native_avg_pool::INPUT)?;
        let axes = avg_axes(c, &x.sizes()[2..], c.ints(native_avg_pool::OUTPUT_SIZE)?)?;
        let y = along_dims(x, &avg_matrices(c, x, &axes)?, false)?;
        outs.give(if mean_is_contiguous(c)? { y.contiguous()? } else { laid_out(y, &[x])? });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(native_avg_pool::INPUT)?;
            let ints = |at: At<[i64]>| c.arg(at).ints().unwrap_or(&[]);
            let divisor = c.arg(native_avg_pool::DIVISOR).int().unwrap_or(0);
            out.set(native_avg_pool::INPUT, || {
                c.g()?.avg_pool_backward(
                    ints(native_avg_pool::KERNEL_SIZE),
                    ints(native_avg_pool::STRIDE),
                    ints(native_avg_pool::PADDING),
                    c.arg(native_avg_pool::COUNT_INCLUDE_PAD).bool(),
                    divisor,
                    &m.sizes[2..],
                )
            })
        },
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: spatial_axes }),
    samples: || avg_samples(true),
    ..OpDef::BASE
};

pub static AVG_BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "avg_pool_backward(Tensor grad_output, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int divisor, int[] input_size) -> Tensor",
    ),
    doc: "Gradients of windows' means, spread over planes of `input_size`.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let g = c.t(avg_pool_backward::GRAD_OUTPUT)?;
        has_planes(c, g)?;
        push_image(
            c,
            &[avg_pool_backward::GRAD_OUTPUT],
            g.dtype(),
            &with_size(g, c.ints(avg_pool_backward::INPUT_SIZE)?),
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &AVG_POOL_BACKWARD,
        lower: |c, _, l| {
            l.input(avg_pool_backward::GRAD_OUTPUT).output(avg_pool_backward::RESULT);
            lower_avg(c, l)
        },
    },
    compose: Some(|c, outs| {
        let g = c.t(avg_pool_backward::GRAD_OUTPUT)?;
        let axes = avg_axes(c, c.ints(avg_pool_backward::INPUT_SIZE)?, &g.sizes()[2..])?;
        let gx = along_dims(g, &avg_matrices(c, g, &axes)?, true)?;
        outs.give(laid_out(gx, &[g])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(avg_pool_backward::GRAD_OUTPUT)?;
            let ints = |at: At<[i64]>| c.arg(at).ints().unwrap_or(&[]);
            let divisor = c.arg(avg_pool_backward::DIVISOR).int().unwrap_or(0);
            out.set(avg_pool_backward::GRAD_OUTPUT, || {
                c.g()?.native_avg_pool(
                    ints(avg_pool_backward::KERNEL_SIZE),
                    ints(avg_pool_backward::STRIDE),
                    ints(avg_pool_backward::PADDING),
                    c.arg(avg_pool_backward::COUNT_INCLUDE_PAD).bool(),
                    divisor,
                    &m.sizes[2..],
                )
            })
        },
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: spatial_axes }),
    samples: || avg_samples(false),
    ..OpDef::BASE
};
