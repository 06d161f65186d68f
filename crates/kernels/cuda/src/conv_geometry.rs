//! What the kernels of CONV and its gradients are given, whichever units multiply.

use crate::launch::Argument;
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{ConvParams, View};

pub const FORWARD: u8 = 0;
pub const INPUT: u8 = 1;
pub const WEIGHT: u8 = 2;

/// The template's parameter: one and two spatial dimensions are three with sizes of one in front.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    pub n: i64,
    pub c: i64,
    pub o: i64,
    pub groups: i64,
    pub parts: i64,
    pub bias_stride: i64,
    pub input: [i64; 3],
    pub output: [i64; 3],
    pub kernel: [i64; 3],
    pub stride: [i64; 3],
    pub padding: [i64; 3],
    pub dilation: [i64; 3],
    pub tap_step: [i64; 3],
    pub out_step: [i64; 3],
    pub x: [i64; 5],
    pub w: [i64; 5],
    pub y: [i64; 5],
    pub last: i64,
}
impl Argument for Conv {}

/// Sizes and strides with the spatial ones as three.
pub fn image(v: &View<'_>, spatial: usize) -> Result<([i64; 5], [i64; 5])> {
    if v.ndim() != spatial + 2 || !(1..=3).contains(&spatial) {
        return Err(Error::runtime(format!("conv: {} dimensions where {} belong", v.ndim(), spatial + 2)));
    }
    let (mut sizes, mut strides) = ([1; 5], [0; 5]);
    for d in 0..v.ndim() {
        let at = if d < 2 { d } else { d + 3 - spatial };
        (sizes[at], strides[at]) = (v.sizes[d], v.strides[d]);
    }
    Ok((sizes, strides))
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Conv {
    /// `x`, weight and `y` as in the forward, whatever their roles.
    pub fn new(params: &ConvParams, x: &View<'_>, w: &View<'_>, y: &View<'_>, bias: Option<View<'_>>) -> Result<Conv> {
        if let Some(other) = [Some(*w), Some(*y), bias].iter().flatten().find(|v| v.dtype != x.dtype) {
            return Err(Error::not_implemented(format!("conv: no CUDA kernel mixes {} and {}", x.dtype, other.dtype)));
        }
        let spatial = params.axes.len();
        let ((xs, x_strides), (ws, w_strides), (ys, y_strides)) =
            (image(x, spatial)?, image(w, spatial)?, image(y, spatial)?);
        let mut g = Conv {
            n: xs[0],
            c: xs[1],
            o: ys[1],
            groups: params.groups,
            parts: 1,
            bias_stride: bias.and_then(|b| b.strides.first().copied()).unwrap_or(0),
            input: [xs[2], xs[3], xs[4]],
            output: [ys[2], ys[3], ys[4]],
            kernel: [ws[2], ws[3], ws[4]],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
            tap_step: [1; 3],
            out_step: [1; 3],
            x: x_strides,
            w: w_strides,
            y: y_strides,
            last: 0,
        };
        for (d, axis) in params.axes.iter().enumerate() {
            let at = d + 3 - spatial;
            g.stride[at] = axis.stride;
            g.padding[at] = axis.padding;
            g.dilation[at] = axis.dilation;
            g.tap_step[at] = g.stride[at] / gcd(g.dilation[at], g.stride[at]);
            g.out_step[at] = g.tap_step[at] * g.dilation[at] / g.stride[at];
        }
        let reach = |sizes: [i64; 3], of: i64| sizes.iter().fold(of, |n, s| n.saturating_mul(*s));
        let channels = g.c.max(g.o);
        let most = [reach(g.input, g.n), reach(g.output, g.n), reach(g.kernel, channels)];
        if most.iter().any(|n| *n > i32::MAX as i64) {
            return Err(Error::not_implemented("conv: CUDA kernels take at most 2^31 - 1 positions of all images"));
        }
        Ok(g)
    }

    pub fn places(&self) -> i64 {
        self.n * self.output.iter().product::<i64>()
    }
    pub fn taps(&self) -> i64 {
        self.kernel.iter().product()
    }
    /// Input and output channels of a group.
    pub fn per_group(&self) -> (i64, i64) {
        (self.c / self.groups, self.o / self.groups)
    }
}
