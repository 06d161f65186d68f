//! What the compiler puts in place of a convolution whose weight is prepared before the run.

use super::conv_prepare_weight::prepared;
use super::native_conv::{CONV_WINDOW, Window};
use super::*;
use crate::matmul::linear::activation_named;
use crate::named::native_conv_prepared as at;

const NAME: &str = "native_conv_prepared";

fn activation(c: &Call<'_>) -> Result<Activation> {
    match c.str(at::ACTIVATION)? {
        "none" => Ok(Activation::None),
        name => activation_named(NAME, name),
    }
}

fn weight(c: &Call<'_>) -> Result<PreparedWeight> {
    Ok(prepared(NAME, c.ints(at::WEIGHT_SIZE)?, c.bool(at::AT_POINTS))?.0)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_conv_prepared(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, str activation, int[] weight_size, bool at_points) -> Tensor",
    ),
    doc: "A convolution in two dimensions, of one group, by a weight that `conv_prepare_weight` gave, with an activation as of `native_conv_activation`, or \"none\".",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        activation(c)?;
        let (x, given) = (c.t(at::INPUT)?, c.t(at::WEIGHT)?);
        let (prepared, len) = prepared(NAME, c.ints(at::WEIGHT_SIZE)?, c.bool(at::AT_POINTS))?;
        // The sizes are those of a convolution by the weight that was prepared.
        let plain = Tensor::shell(
            given.dtype(),
            given.device(),
            Dims::from_slice(&prepared.sizes),
            contiguous_strides(&prepared.sizes),
        )?;
        let ins = [Some(x), Some(&plain), c.opt(at::BIAS)];
        (super::native_conv::OP.infer)(&Call::new(c.op, &ins, c.args), outs)?;
        let window = Window::of(c, CONV_WINDOW)?;
        let at_points =
            !prepared.at_points || [window.stride, window.dilation].iter().all(|v| v.iter().all(|n| *n == 1));
        let fits = x.dtype() == DType::F32 && given.sizes() == [len] && given.is_contiguous() && window.groups == 1;
        if !fits || !at_points {
            return Err(Error::runtime(format!(
                "{NAME}(): a weight of shape {:?} in {len} numbers of float32 serves one group, and strides of one where it is at points",
                prepared.sizes
            )));
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &CONV_PREPARED,
        lower: |c, _, l| {
            l.input(at::INPUT).input(at::WEIGHT).opt_input(at::BIAS, c.opt(at::BIAS).is_some()).output(at::RESULT);
            let conv = Window::of(c, CONV_WINDOW)?.params(&c.t(at::INPUT)?.sizes()[2..])?;
            l.with(ConvPreparedParams { activation: activation(c)?, weight: weight(c)?, conv });
            Ok(())
        },
    },
    cost: |c, outs| {
        let terms: f64 = c.ints(at::WEIGHT_SIZE).map_or(0.0, |w| w.iter().skip(1).map(|n| *n as f64).product());
        let flops = 2.0 * outs[at::RESULT.index()].numel() as f64 * terms;
        Cost { flops, products: true, ..Cost::bytes_only(c, outs) }
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "the compiler makes it after every rank has its own part" }),
    ..OpDef::BASE
};
