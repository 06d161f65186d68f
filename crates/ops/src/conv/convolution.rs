//! The convolution and its two gradients. Each is linear in either operand, so each one's gradients are the other two.

use super::*;

/// The window of a call whose arguments from `first` on are stride, padding, dilation and groups.
pub struct Window<'a> {
    pub stride: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
    pub groups: i64,
}

impl<'a> Window<'a> {
    fn of(c: &Call<'a>, first: usize) -> Result<Window<'a>> {
        Ok(Window {
            stride: c.ints(first)?,
            padding: c.ints(first + 1)?,
            dilation: c.ints(first + 2)?,
            groups: c.int(first + 3)?,
        })
    }

    fn of_grad(c: &GradCall<'a>, first: usize) -> Window<'a> {
        let ints = |i| c.arg(i).ints().unwrap_or(&[]);
        let groups = c.arg(first + 3).int().unwrap_or(1);
        Window { stride: ints(first), padding: ints(first + 1), dilation: ints(first + 2), groups }
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
    fn lower(&self, input: &[i64], l: &mut Lowered) -> Result<()> {
        if size::is_mostly_padding(input, self.padding) {
            return Err(Error::not_implemented("conv: padding far wider than the image"));
        }
        l.param(self.stride.len() as i64).param(self.groups);
        for d in 0..self.stride.len() {
            l.param(self.stride[d]).param(self.padding[d]).param(self.dilation[d]);
        }
        Ok(())
    }
}

fn joined(v: impl IntoIterator<Item = i128>) -> String {
    v.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" x ")
}

pub fn check_dtypes(c: &Call<'_>) -> Result<()> {
    let x = c.t(0)?;
    for (i, what) in [(1, "weight"), (2, "bias")] {
        if let Some(t) = c.opt(i).filter(|t| t.dtype() != x.dtype()) {
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
    let (x, weight) = (c.t(0)?, c.t(1)?);
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
    check_bias(c.opt(2), ws[0], weight)?;
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
    let dtype = c.t(0)?.dtype();
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

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_conv(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    ),
    doc: "Convolution of a batch over as many spatial dimensions as there are.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let sizes = conv_sizes(c, &Window::of(c, 0)?)?;
        only_numbers(c)?;
        push_image(c, &[0, 1], c.t(0)?.dtype(), &sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &CONV,
        lower: |c, _, l| {
            l.input(0).input(1).opt_input(2, c.opt(2).is_some()).output(0);
            Window::of(c, 0)?.lower(&c.t(0)?.sizes()[2..], l)
        },
    },
    compose: Some(|c, outs| {
        let (x, weight, w) = (c.t(0)?, c.t(1)?, Window::of(c, 0)?);
        let sizes = conv_sizes(c, &w)?;
        let (xs, ws) = (x.sizes(), weight.sizes());
        let (n, g, k) = (xs[0], w.groups, ws[1..].iter().product::<i64>());
        let positions: i64 = sizes[2..].iter().product();
        let columns =
            windows(x, &ws[2..], &sizes[2..], w.stride, w.padding, w.dilation)?.reshape(&[n, g, k, positions])?;
        let rows = weight.reshape(&[1, g, ws[0] / g, k])?;
        let mut y = rows.matmul(&columns)?.reshape(&sizes)?;
        if let Some(b) = c.opt(2) {
            let mut shape: Dims = SmallVec::from_elem(1, sizes.len() - 1);
            shape[0] = sizes[1];
            y = y.add(&b.reshape(&shape)?)?;
        }
        outs.give(laid_out(y, &[x, weight])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 0b010), Save::In(1, 0b001)],
        fix: Fix::None,
        f: |c, out| {
            let (g, w) = (c.g()?, Window::of_grad(c, 0));
            let (xm, wm) = (c.in_meta(0)?, c.in_meta(1)?);
            out.set(0, || g.conv_backward_input(c.x(1)?, None, &xm.sizes, w.stride, w.padding, w.dilation, w.groups))?;
            out.set(1, || g.conv_backward_weight(c.x(0)?, &wm.sizes, w.stride, w.padding, w.dilation, w.groups))?;
            out.set(2, || sum_to_channels(g))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (n, s, b, p) = (c.ins.iter().flatten().count(), Sbp::S, Sbp::B, Sbp::P_SUM);
        rows.push(row(&[s(0), b, b], n, s(0)));
        if c.int(3)? == 1 {
            rows.push(row(&[b, s(0), s(0)], n, s(1)));
            rows.push(row(&[s(1), s(1), p], n, p));
        }
        if n == 2 {
            rows.push(row(&[p, b], n, p));
            rows.push(row(&[b, p], n, p));
        }
        Ok(())
    })),
    cost: |c, outs| {
        let weight = c.opt(1).map_or(0.0, |w| per_element(w.sizes()));
        cost(c, outs, outs[0].numel() as f64, weight)
    },
    amp: Amp::Lower,
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
        let (g, weight, sizes, w) = (c.t(0)?, c.t(1)?, c.ints(0)?, Window::of(c, 1)?);
        w.check()?;
        check_weight(g, weight, w.groups)?;
        check_bias(c.opt(2), size::channels(c.name(), weight.sizes()[1], w.groups)?, weight)?;
        check_dtypes(c)?;
        w.check_gradient("conv_backward_input", sizes, weight.sizes(), g.sizes())?;
        only_numbers(c)?;
        push_image(c, &[0, 1], g.dtype(), sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &CONV_BACKWARD_INPUT,
        lower: |c, _, l| {
            l.input(0).input(1).opt_input(2, c.opt(2).is_some()).output(0);
            Window::of(c, 1)?.lower(&c.ints(0)?[2..], l)
        },
    },
    compose: Some(|c, outs| {
        // A convolution of the stretched gradient with the flipped weight, input and output channels changing places.
        let (g, weight, sizes, w) = (c.t(0)?, c.t(1)?, c.ints(0)?, Window::of(c, 1)?);
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
        let gx = stretched.native_conv(&flipped, c.opt(2), &one, &zero, w.dilation, w.groups)?;
        outs.give(laid_out(gx.contiguous()?, &[g, weight])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 0b010), Save::In(1, 0b001)],
        fix: Fix::None,
        f: |c, out| {
            let (g, w) = (c.g()?, Window::of_grad(c, 1));
            let wm = c.in_meta(1)?;
            out.set(0, || {
                // The size asked for may have room for windows beyond the last.
                let mut gg = g.native_conv(c.x(1)?, None, w.stride, w.padding, w.dilation, w.groups)?;
                for (d, n) in c.in_meta(0)?.sizes.iter().enumerate().skip(2) {
                    if gg.sizes()[d] > *n {
                        gg = gg.narrow(d as i64, 0, *n)?;
                    }
                }
                Ok(gg)
            })?;
            out.set(1, || c.x(0)?.conv_backward_weight(g, &wm.sizes, w.stride, w.padding, w.dilation, w.groups))?;
            out.set(2, || sum_to_channels(g))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (n, s, b, p) = (c.ins.iter().flatten().count(), Sbp::S, Sbp::B, Sbp::P_SUM);
        rows.push(row(&[s(0), b, b], n, s(0)));
        if c.int(4)? == 1 {
            rows.push(row(&[b, s(1), s(0)], n, s(1)));
            rows.push(row(&[s(1), s(0), p], n, p));
        }
        if n == 2 {
            rows.push(row(&[p, b], n, p));
            rows.push(row(&[b, p], n, p));
        }
        Ok(())
    }))
    .with(Localize::Sizes(0)),
    cost: |c, outs| {
        let weight = c.opt(1).map_or(0.0, |w| per_element(w.sizes()));
        cost(c, outs, c.opt(0).map_or(0.0, |g| g.numel() as f64), weight)
    },
    amp: Amp::Lower,
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
        let (g, x, w) = (c.t(0)?, c.t(1)?, Window::of(c, 1)?);
        w.check()?;
        check_dtypes(c)?;
        w.check_gradient("conv_backward_weight", x.sizes(), c.ints(0)?, g.sizes())?;
        only_numbers(c)?;
        outs.push(g.dtype(), g.device(), c.ints(0)?)
    },
    kernel: Kernel::Prim {
        prim: &CONV_BACKWARD_WEIGHT,
        lower: |c, _, l| {
            l.input(0).input(1).output(0);
            Window::of(c, 1)?.lower(&c.t(1)?.sizes()[2..], l)
        },
    },
    compose: Some(|c, outs| {
        let (g, x, ws, w) = (c.t(0)?, c.t(1)?, c.ints(0)?, Window::of(c, 1)?);
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
        save: &[Save::In(0, 0b010), Save::In(1, 0b001)],
        fix: Fix::None,
        f: |c, out| {
            let (g, w) = (c.g()?, Window::of_grad(c, 1));
            let xm = c.in_meta(1)?;
            out.set(0, || c.x(1)?.native_conv(g, None, w.stride, w.padding, w.dilation, w.groups))?;
            out.set(1, || c.x(0)?.conv_backward_input(g, None, &xm.sizes, w.stride, w.padding, w.dilation, w.groups))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (s, b, p) = (Sbp::S, Sbp::B, Sbp::P_SUM);
        rows.push(row(&[s(0), s(0)], 2, p));
        if c.int(4)? == 1 {
            rows.push(row(&[s(1), b], 2, s(0)));
            rows.push(row(&[b, s(1)], 2, s(1)));
        }
        rows.push(row(&[p, b], 2, p));
        rows.push(row(&[b, p], 2, p));
        Ok(())
    }))
    .with(Localize::Sizes(0)),
    cost: |c, outs| cost(c, outs, c.opt(0).map_or(0.0, |g| g.numel() as f64), per_element(&outs[0].sizes)),
    amp: Amp::Lower,
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
