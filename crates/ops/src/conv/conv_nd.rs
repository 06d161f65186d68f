//! conv1d, conv2d, conv3d: unbatched inputs, numbers for lists and named paddings, over the one convolution.

use super::*;
use crate::named::{conv1d, conv1d_padding};

fn give(c: &Call<'_>, outs: &mut Outs, spatial: usize, named: bool) -> Result<()> {
    let (x, added) = batched(c, spatial)?;
    let w = c.t(conv1d::WEIGHT)?;
    let name = c.name();
    let stride = expand(name, "stride", c.ints(conv1d::STRIDE)?, spatial)?;
    let dilation = expand(name, "dilation", c.ints(conv1d::DILATION)?, spatial)?;
    let groups = c.int(conv1d::GROUPS)?;
    let (x, padding) = match named {
        false => (x, expand(name, "padding", c.ints(conv1d::PADDING)?, spatial)?),
        true => padded(x, w, c.str(conv1d_padding::PADDING)?, &stride, &dilation)?,
    };
    let y = x.native_conv(w, c.opt(conv1d::BIAS), &stride, &padding, &dilation, groups)?;
    outs.give(unbatched(y, added)?);
    Ok(())
}

/// What "same" and "valid" mean. Where "same" needs one more on the right, the input itself is padded.
fn padded(x: Tensor, w: &Tensor, name: &str, stride: &[i64], dilation: &[i64]) -> Result<(Tensor, Dims)> {
    let spatial = stride.len();
    match name {
        "valid" => return Ok((x, SmallVec::from_elem(0, spatial))),
        "same" => {}
        other => return Err(Error::runtime(format!("Invalid padding string: '{other}'"))),
    }
    if stride.iter().any(|s| *s != 1) {
        return Err(Error::runtime("padding='same' is not supported for strided convolutions"));
    }
    if w.ndim() != spatial + 2 {
        return Ok((x, SmallVec::from_elem(0, spatial)));
    }
    size::near("conv: dilation", dilation)?;
    let around = |d: usize| size::fits("conv", size::extent(w.sizes()[d + 2], dilation[d]) - 1);
    let around: Dims = (0..spatial).map(around).collect::<Result<_>>()?;
    let half: Dims = around.iter().map(|a| a / 2).collect();
    if around.iter().all(|a| a % 2 == 0) {
        return Ok((x, half));
    }
    // Zeros on the right where the sides differ; the rest by the convolution.
    let (none, ones): (Dims, Dims) = (SmallVec::from_elem(0, spatial), SmallVec::from_elem(1, spatial));
    let total: Dims = (0..spatial).map(|d| x.sizes()[d + 2] + around[d] % 2).collect();
    Ok((place(&x, &none, &ones, &total)?, half))
}

fn samples(spatial: usize, named: bool) -> Vec<Sample> {
    let x = |lead: &[i64]| SampleArg::f32(&[lead, &[7, 6, 5][..spatial]].concat());
    let w = SampleArg::f32(&[&[4, 3], &[3, 2, 3][..spatial]].concat());
    let padding = |n: i64| if named { SampleArg::Str("same") } else { SampleArg::Int(n) };
    let t = |x: SampleArg, bias: bool, s: i64, p: i64| {
        let b = if bias { SampleArg::f32(&[4]) } else { SampleArg::None };
        Sample::new(vec![x, w.clone(), b, SampleArg::Int(if named { 1 } else { s }), padding(p)])
    };
    vec![t(x(&[2, 3]), true, 1, 1), t(x(&[2, 3]), false, 2, 0), t(x(&[3]), true, 1, 1)]
}

/// What all of them share.
const CONV: OpDef =
    OpDef { faces: Faces::FN, grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), amp: Amp::LOWER, ..OpDef::BASE };

pub static CONV1D: OpDef = OpDef {
    sig: Sig::parse("conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, int groups=1) -> Tensor"),
    doc: "Convolution over sequences: input (n, c, l) or (c, l), weight (o, c / groups, k), bias (o). `padding` may be \"same\" or \"valid\".

Example::

    >>> oneflow.conv1d(oneflow.ones(1, 1, 4), oneflow.ones(1, 1, 3))
    tensor([[[3., 3.]]])",
    compose: Some(|c, outs| give(c, outs, 1, false)),
    samples: || samples(1, false),
    ..CONV
};

pub static CONV1D_NAMED: OpDef = OpDef {
    sig: Sig::parse("conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding=\"valid\", int[1] dilation=1, int groups=1) -> Tensor"),
    doc: "Convolution over sequences: input (n, c, l) or (c, l), weight (o, c / groups, k), bias (o). `padding` may be \"same\" or \"valid\".

Example::

    >>> oneflow.conv1d(oneflow.ones(1, 1, 4), oneflow.ones(1, 1, 3))
    tensor([[[3., 3.]]])",
    compose: Some(|c, outs| give(c, outs, 1, true)),
    samples: || samples(1, true),
    ..CONV
};

pub static CONV2D: OpDef = OpDef {
    sig: Sig::parse("conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor"),
    doc: "Convolution over images: input (n, c, h, w) or (c, h, w), weight (o, c / groups, kh, kw), bias (o). `padding` may be
\"same\" or \"valid\".

Example::

    >>> oneflow.conv2d(oneflow.ones(1, 1, 3, 3), oneflow.ones(1, 1, 3, 3), padding=1)[0, 0]
    tensor([[4., 6., 4.],
            [6., 9., 6.],
            [4., 6., 4.]])",
    compose: Some(|c, outs| give(c, outs, 2, false)),
    samples: || samples(2, false),
    ..CONV
};

pub static CONV2D_NAMED: OpDef = OpDef {
    sig: Sig::parse("conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding=\"valid\", int[2] dilation=1, int groups=1) -> Tensor"),
    doc: "Convolution over images: input (n, c, h, w) or (c, h, w), weight (o, c / groups, kh, kw), bias (o). `padding` may be
\"same\" or \"valid\".

Example::

    >>> oneflow.conv2d(oneflow.ones(1, 1, 3, 3), oneflow.ones(1, 1, 3, 3), padding=1)[0, 0]
    tensor([[4., 6., 4.],
            [6., 9., 6.],
            [4., 6., 4.]])",
    compose: Some(|c, outs| give(c, outs, 2, true)),
    samples: || samples(2, true),
    ..CONV
};

pub static CONV3D: OpDef = OpDef {
    sig: Sig::parse("conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] dilation=1, int groups=1) -> Tensor"),
    doc: "Convolution over volumes: input (n, c, d, h, w) or (c, d, h, w), weight (o, c / groups, kd, kh, kw), bias (o). `padding` may
be \"same\" or \"valid\".

Example::

    >>> oneflow.conv3d(oneflow.ones(1, 1, 3, 3, 3), oneflow.ones(1, 1, 3, 3, 3)).item()
    27.0",
    compose: Some(|c, outs| give(c, outs, 3, false)),
    samples: || samples(3, false),
    ..CONV
};

pub static CONV3D_NAMED: OpDef = OpDef {
    sig: Sig::parse("conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding=\"valid\", int[3] dilation=1, int groups=1) -> Tensor"),
    doc: "Convolution over volumes: input (n, c, d, h, w) or (c, d, h, w), weight (o, c / groups, kd, kh, kw), bias (o). `padding` may
be \"same\" or \"valid\".

Example::

    >>> oneflow.conv3d(oneflow.ones(1, 1, 3, 3, 3), oneflow.ones(1, 1, 3, 3, 3)).item()
    27.0",
    compose: Some(|c, outs| give(c, outs, 3, true)),
    samples: || samples(3, true),
    ..CONV
};
