//! What the compiler puts in place of a convolution followed by an activation, where nobody needs the value in between.

use super::native_conv::{self, CONV_WINDOW, Window};
use super::*;
use crate::matmul::linear::{activate, activation_named};
use crate::named::native_conv_activation as at;

fn activation(c: &Call<'_>) -> Result<Activation> {
    activation_named("native_conv_activation", c.str(at::ACTIVATION)?)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_conv_activation(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, str activation) -> Tensor",
    ),
    doc: "A convolution whose results go through `activation` before they are stored: \"relu\", \"gelu\", \"gelu_tanh\", \"silu\", \"hardswish\" or \"relu6\".",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        activation(c)?;
        (native_conv::OP.infer)(c, outs)?;
        let dtype = c.t(at::INPUT)?.dtype();
        if !dtype.is_float() {
            return Err(Error::not_implemented(format!(
                "\"native_conv_activation\" not implemented for '{}'",
                dtype.scalar_type_name()
            )));
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &CONV_ACTIVATION,
        lower: |c, _, l| {
            l.input(at::INPUT).input(at::WEIGHT).opt_input(at::BIAS, c.opt(at::BIAS).is_some()).output(at::RESULT);
            let conv = Window::of(c, CONV_WINDOW)?.params(&c.t(at::INPUT)?.sizes()[2..])?;
            l.with(ConvActivationParams { activation: activation(c)?, conv });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let w = Window::of(c, CONV_WINDOW)?;
        let before = c.t(at::INPUT)?.native_conv(
            c.t(at::WEIGHT)?,
            c.opt(at::BIAS),
            w.stride,
            w.padding,
            w.dilation,
            w.groups,
        )?;
        outs.give(activate(&before, activation(c)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        native_conv::conv_rows(c, rows)?;
        // An activation is not linear: no partial sums through it.
        rows.retain(|r| !r.outs[0].is_partial());
        Ok(())
    })),
    cost: native_conv::OP.cost,
    amp: Amp::LOWER,
    samples: || {
        let names = ["relu", "silu", "hardswish", "relu6", "gelu", "gelu_tanh"];
        let with = |(mut sample, name): (Sample, &'static str)| {
            sample.args.push(SampleArg::Str(name));
            sample
        };
        (native_conv::OP.samples)().into_iter().zip(names).map(with).collect()
    },
    batch: Batching::Folded,
    ..OpDef::BASE
};
