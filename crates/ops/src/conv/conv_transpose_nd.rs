//! conv_transpose1d, 2d, 3d: the gradient of a convolution for its input, as a map of its own.

use super::*;
use crate::named::conv_transpose1d as at;

fn joined(v: &[i64]) -> String {
    v.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" x ")
}

fn give(c: &Call<'_>, outs: &mut Outs, spatial: usize) -> Result<()> {
    let (x, added) = batched(c, spatial)?;
    let w = c.t(at::WEIGHT)?;
    let name = c.name();
    let stride = expand(name, "stride", c.ints(at::STRIDE)?, spatial)?;
    let padding = expand(name, "padding", c.ints(at::PADDING)?, spatial)?;
    let extra = expand(name, "output_padding", c.ints(at::OUTPUT_PADDING)?, spatial)?;
    let groups = c.int(at::GROUPS)?;
    let dilation = expand(name, "dilation", c.ints(at::DILATION)?, spatial)?;
    let window = native_conv::Window { stride: &stride, padding: &padding, dilation: &dilation, groups };
    window.check()?;
    size::near("conv_transpose: stride", &stride)?;
    if extra.iter().any(|p| *p < 0) {
        return Err(Error::runtime("negative output_padding is not supported"));
    }
    let (xs, ws) = (x.sizes(), w.sizes());
    if ws.len() == xs.len() && xs[1] != ws[0] {
        return Err(Error::runtime(format!(
            "Given transposed=1, weight of size {ws:?}, expected input{xs:?} to have {} channels, but got {} channels instead",
            ws[0], xs[1]
        )));
    }
    if ws.len() != xs.len() {
        return Err(Error::runtime(format!(
            "Expected {}-dimensional input for {}-dimensional weight {ws:?}, but got {}-dimensional input of size {xs:?} instead",
            ws.len(),
            ws.len(),
            xs.len()
        )));
    }
    if (0..spatial).any(|d| extra[d] >= stride[d] && extra[d] >= dilation[d]) {
        return Err(Error::runtime(format!(
            "output padding must be smaller than either stride or dilation, but got output_padding {:?}, stride {:?}, dilation {:?}",
            extra.as_slice(),
            stride.as_slice(),
            dilation.as_slice()
        )));
    }
    let mut sizes = Dims::from_slice(&[xs[0], size::channels(name, ws[1], groups)?]);
    for d in 0..spatial {
        let extent = size::extent(ws[d + 2], dilation[d]);
        sizes.push(size::fits(name, size::transposed(xs[d + 2], stride[d], padding[d], extent, extra[d]))?);
    }
    if sizes[2..].iter().any(|n| *n < 1) {
        return Err(Error::runtime(format!(
            "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
            joined(&xs[2..]),
            joined(&sizes[2..])
        )));
    }
    let y = x.conv_backward_input(w, c.opt(at::BIAS), &sizes, &stride, &padding, &dilation, groups)?;
    outs.give(unbatched(y, added)?);
    Ok(())
}

fn samples(spatial: usize) -> Vec<Sample> {
    let x = |lead: &[i64]| SampleArg::f32(&[lead, &[4, 3, 2][..spatial]].concat());
    let w = SampleArg::f32(&[&[3, 4], &[3, 2, 3][..spatial]].concat());
    let t = |x: SampleArg, bias: bool, s: i64, p: i64, extra: i64| {
        let b = if bias { SampleArg::f32(&[4]) } else { SampleArg::None };
        Sample::new(vec![x, w.clone(), b, SampleArg::Int(s), SampleArg::Int(p), SampleArg::Int(extra)])
    };
    vec![t(x(&[2, 3]), true, 1, 0, 0), t(x(&[2, 3]), false, 2, 1, 1), t(x(&[3]), true, 2, 0, 0)]
}

/// What all of them share.
const TRANSPOSE: OpDef =
    OpDef { faces: Faces::FN, grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), amp: Amp::LOWER, ..OpDef::BASE };

pub static TRANSPOSE1D: OpDef = OpDef {
    sig: Sig::parse(
        "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor",
    ),
    doc: "Transposed convolution over sequences: input (n, c, l) or (c, l), weight (c, o / groups, k), bias (o).

Example::

    >>> oneflow.conv_transpose1d(oneflow.ones(1, 1, 2), oneflow.ones(1, 1, 3))
    tensor([[[1., 2., 2., 1.]]])",
    compose: Some(|c, outs| give(c, outs, 1)),
    samples: || samples(1),
    ..TRANSPOSE
};

pub static TRANSPOSE2D: OpDef = OpDef {
    sig: Sig::parse(
        "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor",
    ),
    doc:
        "Transposed convolution over images: input (n, c, h, w) or (c, h, w), weight (c, o / groups, kh, kw), bias (o).

Example::

    >>> oneflow.conv_transpose2d(oneflow.ones(1, 1, 1, 1), oneflow.ones(1, 1, 2, 2), stride=2)[0, 0]
    tensor([[1., 1.],
            [1., 1.]])",
    compose: Some(|c, outs| give(c, outs, 2)),
    samples: || samples(2),
    ..TRANSPOSE
};

pub static TRANSPOSE3D: OpDef = OpDef {
    sig: Sig::parse("conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor"),
    doc: "Transposed convolution over volumes: input (n, c, d, h, w) or (c, d, h, w), weight (c, o / groups, kd, kh, kw), bias (o).

Example::

    >>> oneflow.conv_transpose3d(oneflow.ones(1, 1, 1, 1, 1), oneflow.ones(1, 1, 2, 2, 2)).sum().item()
    8.0",
    compose: Some(|c, outs| give(c, outs, 3)),
    samples: || samples(3),
    ..TRANSPOSE
};
