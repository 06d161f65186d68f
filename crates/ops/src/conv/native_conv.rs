//! The convolution and its two gradients. Each is linear in either operand, so each one's gradients are the other two, with
//! the conjugate of the other operand.

use super::*;
use crate::matmul::conj;
use crate::named::{conv_backward_input, conv_backward_weight, native_conv};

/// The window of a convolution.
pub struct Window<'a> {
    pub stride: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
    pub groups: i64,
}

/// Where a call has its window.
#[derive(Clone, Copy)]
pub struct WindowAt {
    stride: At<[i64]>,
    padding: At<[i64]>,
    dilation: At<[i64]>,
    groups: At<i64>,
}

pub const CONV_WINDOW: WindowAt = WindowAt {
    stride: native_conv::STRIDE,
    padding: native_conv::PADDING,
    dilation: native_conv::DILATION,
    groups: native_conv::GROUPS,
};
const INPUT_WINDOW: WindowAt = WindowAt {
    stride: conv_backward_input::STRIDE,
    padding: conv_backward_input::PADDING,
    dilation: conv_backward_input::DILATION,
    groups: conv_backward_input::GROUPS,
};
const WEIGHT_WINDOW: WindowAt = WindowAt {
    stride: conv_backward_weight::STRIDE,
    padding: conv_backward_weight::PADDING,
    dilation: conv_backward_weight::DILATION,
    groups: conv_backward_weight::GROUPS,
};

impl<'a> Window<'a> {
    pub fn of(c: &Call<'a>, at: WindowAt) -> Result<Window<'a>> {
        Ok(Window {
            stride: c.ints(at.stride)?,
            padding: c.ints(at.padding)?,
            dilation: c.ints(at.dilation)?,
            groups: c.int(at.groups)?,
        })
    }

    fn of_grad(c: &GradCall<'a>, at: WindowAt) -> Window<'a> {
        let ints = |at: At<[i64]>| c.arg(at).ints().unwrap_or(&[]);
        let groups = c.arg(at.groups).int().unwrap_or(1);
        Window { stride: ints(at.stride), padding: ints(at.padding), dilation: ints(at.dilation), groups }
    }

    pub fn check(&self) -> Result<()> {
        let bad = |text: &str| Err(Error::runtime(text));
        if self.groups <= 0 {
            return bad("non-positive groups is not supported");
        }
        if self.padding.iter().any(|p| *p < 0) {
            return bad("negative padding is not supported");
        }
        if self.stride.iter().any(|s| *s <= 0) {
            return bad("non-positive stride is not supported");
        }
        if self.dilation.iter().any(|d| *d <= 0) {
            return bad("dilation should be greater than zero");
        }
        size::near("conv: padding", self.padding)?;
        size::near("conv: dilation", self.dilation)
    }

    /// Sizes of the output's spatial dimensions; may be less than one.
    fn out(&self, input: &[i64], kernel: &[i64]) -> Result<Dims> {
        let size = |d: usize| {
            let extent = size::extent(kernel[d], self.dilation[d]);
            size::fits("conv", size::count(input[d], self.padding[d], extent, self.stride[d], false))
        };
        (0..kernel.len()).map(size).collect()
    }

    /// Whether a gradient of this shape can be one of such a convolution's result. It may be smaller: what a transposed
    /// convolution adds at its end is not read.
    fn check_gradient(&self, name: &str, image: &[i64], weight: &[i64], g: &[i64]) -> Result<()> {
        let fits = g.len() == image.len()
            && weight.len() == image.len()
            && image.iter().chain(weight).all(|n| *n >= 0)
            && g[0] == image[0]
            && g[1] == weight[0]
            && Some(image[1]) == weight[1].checked_mul(self.groups)
            && self.out(&image[2..], &weight[2..])?.iter().zip(&g[2..]).all(|(out, n)| n <= out);
        if fits {
            return Ok(());
        }
        Err(Error::runtime(format!(
            "{name}(): a gradient of shape {g:?} is not one of the convolution of {image:?} with a weight {weight:?}"
        )))
    }

    /// `input` are the spatial sizes of what the convolution reads.
    pub fn params(&self, input: &[i64]) -> Result<ConvParams> {
        if size::is_mostly_padding(input, self.padding) {
            return Err(Error::not_implemented("conv: padding far wider than the image"));
        }
        let axis = |d| ConvAxis { stride: self.stride[d], padding: self.padding[d], dilation: self.dilation[d] };
        Ok(ConvParams { groups: self.groups, axes: (0..self.stride.len()).map(axis).collect() })
    }
}

fn joined(v: impl IntoIterator<Item = i128>) -> String {
    v.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" x ")
}

pub fn check_dtypes(c: &Call<'_>) -> Result<()> {
    let x = c.t(native_conv::INPUT)?;
    for (at, what) in [(native_conv::WEIGHT, "weight"), (native_conv::BIAS, "bias")] {
        if let Some(t) = c.opt(at).filter(|t| t.dtype() != x.dtype()) {
            return Err(Error::runtime(format!(
                "Input type ({}) and {what} type ({}) should be the same",
                x.dtype().scalar_type_name(),
                t.dtype().scalar_type_name()
            )));
        }
    }
    Ok(())
}

fn check_weight(x: &Tensor, w: &Tensor, groups: i64) -> Result<()> {
    let (xs, ws) = (x.sizes(), w.sizes());
    if xs.len() != ws.len() {
        return Err(Error::runtime(format!(
            "Expected {}-dimensional input for {}-dimensional weight {ws:?}, but got {}-dimensional input of size {xs:?} instead",
            ws.len(),
            ws.len(),
            xs.len()
        )));
    }
    if ws[0] < groups {
        return Err(Error::runtime(format!(
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {ws:?} instead"
        )));
    }
    if ws[0] % groups != 0 {
        return Err(Error::runtime(format!(
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {ws:?} instead"
        )));
    }
    Ok(())
}

fn check_bias(bias: Option<&Tensor>, n: i64, w: &Tensor) -> Result<()> {
    match bias {
        Some(b) if b.sizes() != [n] => Err(Error::runtime(format!(
            "Given weight of size {:?}, expected bias to be 1-dimensional with {n} elements, but got bias of size {:?} instead",
            w.sizes(),
            b.sizes()
        ))),
        _ => Ok(()),
    }
}

/// Sizes [n, o, out...] of the convolution, with torch's errors.
fn conv_sizes(c: &Call<'_>, w: &Window<'_>) -> Result<Dims> {
    let (x, weight) = (c.t(native_conv::INPUT)?, c.t(native_conv::WEIGHT)?);
    w.check()?;
    check_weight(x, weight, w.groups)?;
    let (xs, ws) = (x.sizes(), weight.sizes());
    if Some(xs[1]) != ws[1].checked_mul(w.groups) {
        return Err(Error::runtime(format!(
            "Given groups={}, weight of size {ws:?}, expected input{xs:?} to have {} channels, but got {} channels instead",
            w.groups,
            ws[1].saturating_mul(w.groups),
            xs[1]
        )));
    }
    check_bias(c.opt(native_conv::BIAS), ws[0], weight)?;
    let spatial = ws.len() - 2;
    let padded = |d: usize| size::padded(xs[d + 2], w.padding[d]);
    let extent = |d: usize| size::extent(ws[d + 2], w.dilation[d]);
    if ws[2..].contains(&0) {
        return Err(Error::runtime(format!("conv: kernel size should be greater than zero, but got {:?}", &ws[2..])));
    }
    if (0..spatial).any(|d| padded(d) < extent(d)) {
        return Err(Error::runtime(format!(
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
            joined((0..spatial).map(padded)),
            joined((0..spatial).map(extent)),
        )));
    }
    check_dtypes(c)?;
    let mut sizes = Dims::from_slice(&[xs[0], ws[0]]);
    sizes.extend(w.out(&xs[2..], &ws[2..])?);
    Ok(sizes)
}

fn only_numbers(c: &Call<'_>) -> Result<()> {
    let dtype = c.t(native_conv::INPUT)?.dtype();
    if dtype == DType::Bool {
        return Err(Error::not_implemented(format!("\"conv\" not implemented for '{}'", dtype.scalar_type_name())));
    }
    Ok(())
}

/// Two operations a product: `products` for each element of `of`.
fn cost(c: &Call<'_>, outs: &[Meta], of: f64, per: f64) -> Cost {
    Cost { flops: 2.0 * of * per, products: true, ..Cost::bytes_only(c, outs) }
}

/// Products an output element sums up.
fn per_element(weight: &[i64]) -> f64 {
    weight[1..].iter().map(|n| *n as f64).product()
}

fn row(ins: &[Sbp], n: usize, out: Sbp) -> Row {
    Row { ins: SmallVec::from_slice(&ins[..n]), outs: SmallVec::from_slice(&[out]) }
}

/// Splits of batches, of channels of results and of summed channels.
pub fn conv_rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let (n, s, b, p) = (c.ins.iter().flatten().count(), Sbp::S, Sbp::B, Sbp::P_SUM);
    rows.push(row(&[s(0), b, b], n, s(0)));
    if c.int(native_conv::GROUPS)? == 1 {
        rows.push(row(&[b, s(0), s(0)], n, s(1)));
        rows.push(row(&[s(1), s(1), p], n, p));
    }
    if n == 2 {
        rows.push(row(&[p, b], n, p));
        rows.push(row(&[b, p], n, p));
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_conv(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    ),
    doc: "Convolution of a batch over as many spatial dimensions as there are.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let sizes = conv_sizes(c, &Window::of(c, CONV_WINDOW)?)?;
        only_numbers(c)?;
        push_image(c, &[native_conv::INPUT, native_conv::WEIGHT], c.t(native_conv::INPUT)?.dtype(), &sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &CONV,
        lower: |c, _, l| {
            l.input(native_conv::INPUT)
                .input(native_conv::WEIGHT)
                .opt_input(native_conv::BIAS, c.opt(native_conv::BIAS).is_some())
                .output(native_conv::RESULT);
            l.with(Window::of(c, CONV_WINDOW)?.params(&c.t(native_conv::INPUT)?.sizes()[2..])?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, weight, w) = (c.t(native_conv::INPUT)?, c.t(native_conv::WEIGHT)?, Window::of(c, CONV_WINDOW)?);
        let sizes = conv_sizes(c, &w)?;
        let (xs, ws) = (x.sizes(), weight.sizes());
        let (n, g, k) = (xs[0], w.groups, ws[1..].iter().product::<i64>());
        let positions: i64 = sizes[2..].iter().product();
        let columns =
            windows(x, &ws[2..], &sizes[2..], w.stride, w.padding, w.dilation)?.reshape(&[n, g, k, positions])?;
        let rows = weight.reshape(&[1, g, ws[0] / g, k])?;
        let mut y = rows.matmul(&columns)?.reshape(&sizes)?;
        if let Some(b) = c.opt(native_conv::BIAS) {
            let mut shape: Dims = SmallVec::from_elem(1, sizes.len() - 1);
            shape[0] = sizes[1];
            y = y.add(&b.reshape(&shape)?)?;
        }
        outs.give(laid_out(y, &[x, weight])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(native_conv::INPUT, &[native_conv::WEIGHT]),
            Save::of(native_conv::WEIGHT, &[native_conv::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (g, w) = (c.g()?, Window::of_grad(c, CONV_WINDOW));
            let (xm, wm) = (c.in_meta(native_conv::INPUT)?, c.in_meta(native_conv::WEIGHT)?);
            out.set(native_conv::INPUT, || {
                g.conv_backward_input(
                    &conj(c.x(native_conv::WEIGHT)?)?,
                    None,
                    &xm.sizes,
                    w.stride,
                    w.padding,
                    w.dilation,
                    w.groups,
                )
            })?;
            out.set(native_conv::WEIGHT, || {
                g.conv_backward_weight(
                    &conj(c.x(native_conv::INPUT)?)?,
                    &wm.sizes,
                    w.stride,
                    w.padding,
                    w.dilation,
                    w.groups,
                )
            })?;
            out.set(native_conv::BIAS, || sum_to_channels(g))
        },
    },
    sbp: SbpRule::of(Rows::Custom(conv_rows)),
    cost: |c, outs| {
        let weight = c.opt(native_conv::WEIGHT).map_or(0.0, |w| per_element(w.sizes()));
        cost(c, outs, outs[native_conv::RESULT.index()].numel() as f64, weight)
    },
    amp: Amp::LOWER,
    samples: || {
        let t = |x: &[i64], w: &[i64], bias: bool, [s, p, d, g]: [i64; 4]| {
            let all = |v: i64| SampleArg::Ints(vec![v; x.len() - 2]);
            let b = if bias { SampleArg::f32(&w[..1]) } else { SampleArg::None };
            Sample::new(vec![SampleArg::f32(x), SampleArg::f32(w), b, all(s), all(p), all(d), SampleArg::Int(g)])
        };
        vec![
            t(&[4, 4, 6], &[8, 4, 3], true, [1, 1, 1, 1]),
            t(&[4, 4, 5, 6], &[8, 4, 3, 2], false, [2, 1, 1, 1]),
            t(&[2, 4, 7, 7], &[4, 2, 3, 3], true, [1, 2, 2, 2]),
            t(&[2, 4, 3, 4, 3], &[4, 4, 2, 1, 3], true, [1, 1, 1, 1]),
            t(&[0, 4, 6], &[4, 4, 3], true, [1, 0, 1, 1]),
        ]
    },
    batch: Batching::Folded,
    ..OpDef::BASE
};

pub static BACKWARD_INPUT: OpDef = OpDef {
    sig: Sig::parse(
        "conv_backward_input(Tensor grad_output, Tensor weight, Tensor? bias, int[] input_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    ),
    doc: "The gradient of a convolution for its input; with a bias a transposed convolution.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (g, weight, sizes, w) = (
            c.t(conv_backward_input::GRAD_OUTPUT)?,
            c.t(conv_backward_input::WEIGHT)?,
            c.ints(conv_backward_input::INPUT_SIZE)?,
            Window::of(c, INPUT_WINDOW)?,
        );
        w.check()?;
        check_weight(g, weight, w.groups)?;
        check_bias(c.opt(conv_backward_input::BIAS), size::channels(c.name(), weight.sizes()[1], w.groups)?, weight)?;
        check_dtypes(c)?;
        w.check_gradient("conv_backward_input", sizes, weight.sizes(), g.sizes())?;
        only_numbers(c)?;
        push_image(c, &[conv_backward_input::GRAD_OUTPUT, conv_backward_input::WEIGHT], g.dtype(), sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &CONV_BACKWARD_INPUT,
        lower: |c, _, l| {
            l.input(conv_backward_input::GRAD_OUTPUT)
                .input(conv_backward_input::WEIGHT)
                .opt_input(conv_backward_input::BIAS, c.opt(conv_backward_input::BIAS).is_some())
                .output(conv_backward_input::RESULT);
            l.with(Window::of(c, INPUT_WINDOW)?.params(&c.ints(conv_backward_input::INPUT_SIZE)?[2..])?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        // A convolution of the stretched gradient with the flipped weight, input and output channels changing places.
        let (g, weight, sizes, w) = (
            c.t(conv_backward_input::GRAD_OUTPUT)?,
            c.t(conv_backward_input::WEIGHT)?,
            c.ints(conv_backward_input::INPUT_SIZE)?,
            Window::of(c, INPUT_WINDOW)?,
        );
        let (ws, spatial) = (weight.sizes(), weight.ndim() - 2);
        let around: Dims = (0..spatial).map(|d| w.dilation[d] * (ws[d + 2] - 1)).collect();
        let before: Dims = (0..spatial).map(|d| around[d] - w.padding[d]).collect();
        let total: Dims = (0..spatial).map(|d| sizes[d + 2] + around[d]).collect();
        let stretched = place(g, &before, w.stride, &total)?;
        let dims: Vec<i64> = (2..ws.len() as i64).collect();
        let mut grouped = Dims::from_slice(&[w.groups, ws[0] / w.groups]);
        grouped.extend_from_slice(&ws[1..]);
        let mut turned = Dims::from_slice(&[w.groups * ws[1], ws[0] / w.groups]);
        turned.extend_from_slice(&ws[2..]);
        let flipped = weight.flip(&dims)?.reshape(&grouped)?.transpose(1, 2)?.reshape(&turned)?;
        let (one, zero): (Dims, Dims) = (SmallVec::from_elem(1, spatial), SmallVec::from_elem(0, spatial));
        let gx =
            stretched.native_conv(&flipped, c.opt(conv_backward_input::BIAS), &one, &zero, w.dilation, w.groups)?;
        outs.give(laid_out(gx.contiguous()?, &[g, weight])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(conv_backward_input::GRAD_OUTPUT, &[conv_backward_input::WEIGHT]),
            Save::of(conv_backward_input::WEIGHT, &[conv_backward_input::GRAD_OUTPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (g, w) = (c.g()?, Window::of_grad(c, INPUT_WINDOW));
            let wm = c.in_meta(conv_backward_input::WEIGHT)?;
            out.set(conv_backward_input::GRAD_OUTPUT, || {
                // The size asked for may have room for windows beyond the last.
                let mut gg = g.native_conv(
                    &conj(c.x(conv_backward_input::WEIGHT)?)?,
                    None,
                    w.stride,
                    w.padding,
                    w.dilation,
                    w.groups,
                )?;
                for (d, n) in c.in_meta(conv_backward_input::GRAD_OUTPUT)?.sizes.iter().enumerate().skip(2) {
                    if gg.sizes()[d] > *n {
                        gg = gg.narrow(d as i64, 0, *n)?;
                    }
                }
                Ok(gg)
            })?;
            out.set(conv_backward_input::WEIGHT, || {
                conj(c.x(conv_backward_input::GRAD_OUTPUT)?)?
                    .conv_backward_weight(g, &wm.sizes, w.stride, w.padding, w.dilation, w.groups)
            })?;
            out.set(conv_backward_input::BIAS, || sum_to_channels(g))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (n, s, b, p) = (c.ins.iter().flatten().count(), Sbp::S, Sbp::B, Sbp::P_SUM);
        rows.push(row(&[s(0), b, b], n, s(0)));
        if c.int(conv_backward_input::GROUPS)? == 1 {
            rows.push(row(&[b, s(1), s(0)], n, s(1)));
            rows.push(row(&[s(1), s(0), p], n, p));
        }
        if n == 2 {
            rows.push(row(&[p, b], n, p));
            rows.push(row(&[b, p], n, p));
        }
        Ok(())
    }))
    .with(Localize::Sizes(conv_backward_input::INPUT_SIZE)),
    cost: |c, outs| {
        let weight = c.opt(conv_backward_input::WEIGHT).map_or(0.0, |w| per_element(w.sizes()));
        cost(c, outs, c.opt(conv_backward_input::GRAD_OUTPUT).map_or(0.0, |g| g.numel() as f64), weight)
    },
    amp: Amp::LOWER,
    samples: || {
        let t = |g: &[i64], w: &[i64], size: &[i64], bias: bool, [s, p, d, groups]: [i64; 4]| {
            let all = |v: i64| SampleArg::Ints(vec![v; g.len() - 2]);
            let b = if bias { SampleArg::f32(&[w[1] * groups]) } else { SampleArg::None };
            let (g, w, size) = (SampleArg::f32(g), SampleArg::f32(w), SampleArg::Ints(size.to_vec()));
            Sample::new(vec![g, w, b, size, all(s), all(p), all(d), SampleArg::Int(groups)])
        };
        vec![
            t(&[4, 8, 6], &[8, 4, 3], &[4, 4, 6], true, [1, 1, 1, 1]),
            t(&[4, 8, 3, 4], &[8, 4, 3, 2], &[4, 4, 5, 6], false, [2, 1, 1, 1]),
            t(&[2, 4, 7, 7], &[4, 2, 3, 3], &[2, 4, 7, 7], true, [1, 2, 2, 2]),
        ]
    },
    batch: Batching::Folded,
    ..OpDef::BASE
};

pub static BACKWARD_WEIGHT: OpDef = OpDef {
    sig: Sig::parse(
        "conv_backward_weight(Tensor grad_output, Tensor input, int[] weight_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    ),
    doc: "The gradient of a convolution for its weight.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (g, x, w) =
            (c.t(conv_backward_weight::GRAD_OUTPUT)?, c.t(conv_backward_weight::INPUT)?, Window::of(c, WEIGHT_WINDOW)?);
        w.check()?;
        check_dtypes(c)?;
        w.check_gradient("conv_backward_weight", x.sizes(), c.ints(conv_backward_weight::WEIGHT_SIZE)?, g.sizes())?;
        only_numbers(c)?;
        outs.push(g.dtype(), g.device(), c.ints(conv_backward_weight::WEIGHT_SIZE)?)
    },
    kernel: Kernel::Prim {
        prim: &CONV_BACKWARD_WEIGHT,
        lower: |c, _, l| {
            l.input(conv_backward_weight::GRAD_OUTPUT)
                .input(conv_backward_weight::INPUT)
                .output(conv_backward_weight::RESULT);
            l.with(Window::of(c, WEIGHT_WINDOW)?.params(&c.t(conv_backward_weight::INPUT)?.sizes()[2..])?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, ws, w) = (
            c.t(conv_backward_weight::GRAD_OUTPUT)?,
            c.t(conv_backward_weight::INPUT)?,
            c.ints(conv_backward_weight::WEIGHT_SIZE)?,
            Window::of(c, WEIGHT_WINDOW)?,
        );
        let (gs, n) = (g.sizes(), x.sizes()[0]);
        let (groups, k, positions) = (w.groups, ws[1..].iter().product::<i64>(), gs[2..].iter().product::<i64>());
        let columns = windows(x, &ws[2..], &gs[2..], w.stride, w.padding, w.dilation)?;
        let columns = columns.reshape(&[n, groups, k, positions])?.permute(&[1, 0, 3, 2])?.reshape(&[
            groups,
            n * positions,
            k,
        ])?;
        let rows = g.reshape(&[n, groups, ws[0] / groups, positions])?.permute(&[1, 2, 0, 3])?;
        let rows = rows.reshape(&[groups, ws[0] / groups, n * positions])?;
        outs.give(rows.matmul(&columns)?.reshape(ws)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(conv_backward_weight::GRAD_OUTPUT, &[conv_backward_weight::INPUT]),
            Save::of(conv_backward_weight::INPUT, &[conv_backward_weight::GRAD_OUTPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (g, w) = (c.g()?, Window::of_grad(c, WEIGHT_WINDOW));
            let xm = c.in_meta(conv_backward_weight::INPUT)?;
            out.set(conv_backward_weight::GRAD_OUTPUT, || {
                conj(c.x(conv_backward_weight::INPUT)?)?.native_conv(g, None, w.stride, w.padding, w.dilation, w.groups)
            })?;
            out.set(conv_backward_weight::INPUT, || {
                conj(c.x(conv_backward_weight::GRAD_OUTPUT)?)?
                    .conv_backward_input(g, None, &xm.sizes, w.stride, w.padding, w.dilation, w.groups)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (s, b, p) = (Sbp::S, Sbp::B, Sbp::P_SUM);
        rows.push(row(&[s(0), s(0)], 2, p));
        if c.int(conv_backward_weight::GROUPS)? == 1 {
            rows.push(row(&[s(1), b], 2, s(0)));
            rows.push(row(&[b, s(1)], 2, s(1)));
        }
        rows.push(row(&[p, b], 2, p));
        rows.push(row(&[b, p], 2, p));
        Ok(())
    }))
    .with(Localize::Sizes(conv_backward_weight::WEIGHT_SIZE)),
    cost: |c, outs| {
        cost(
            c,
            outs,
            c.opt(conv_backward_weight::GRAD_OUTPUT).map_or(0.0, |g| g.numel() as f64),
            per_element(&outs[conv_backward_weight::RESULT.index()].sizes),
        )
    },
    amp: Amp::LOWER,
    samples: || {
        let t = |g: &[i64], x: &[i64], size: &[i64], [s, p, d, groups]: [i64; 4]| {
            let all = |v: i64| SampleArg::Ints(vec![v; g.len() - 2]);
            let size = SampleArg::Ints(size.to_vec());
            Sample::new(vec![
                SampleArg::f32(g),
                SampleArg::f32(x),
                size,
                all(s),
                all(p),
                all(d),
                SampleArg::Int(groups),
            ])
        };
        vec![
            t(&[4, 8, 6], &[4, 4, 6], &[8, 4, 3], [1, 1, 1, 1]),
            t(&[4, 8, 3, 4], &[4, 4, 5, 6], &[8, 4, 3, 2], [2, 1, 1, 1]),
            t(&[2, 4, 7, 7], &[2, 4, 7, 7], &[4, 2, 3, 3], [1, 2, 2, 2]),
        ]
    },
    ..OpDef::BASE
};
