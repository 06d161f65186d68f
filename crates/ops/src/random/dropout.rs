//! Dropout. The mask depends on the global index of an element: the same for every layout and thread count.

use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_dropout(Tensor input, float p, *, Generator? generator=None) -> (Tensor output, Tensor mask)",
    ),
    doc: "Zeroes elements with probability `p` and scales the others by `1 / (1 - p)`; also gives the mask of kept elements.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(0)?;
        let p = c.float(0)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::value(format!("dropout probability has to be between 0 and 1, but got {p}")));
        }
        if !x.dtype().is_float() {
            return Err(Error::runtime(format!("dropout(): expected a floating point tensor, got {}", x.dtype())));
        }
        crate::elementwise::push_like(x, x.dtype(), x.device(), None, outs)?;
        crate::elementwise::push_like(x, DType::Bool, x.device(), None, outs)
    },
    kernel: Kernel::Prim {
        prim: &DROPOUT,
        lower: |c, _, l| {
            let (seed, offset) = c.arg(1).rng()?;
            l.input(0).output(0).output(1).param(c.float(0)?).param(seed).param(offset);
            super::push_window(l, c.arg(1));
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::Out(1, 1)],
        fix: Fix::None,
        f: |c, out| {
            let p = c.arg(0).float().unwrap_or(0.0);
            let scale = match super::is_in_order(c.arg(1)) {
                true => mt19937::dropout_scale(p, c.g()?.dtype()),
                false if p < 1.0 => 1.0 / (1.0 - p),
                false => 0.0,
            };
            out.set(0, || c.g()?.mul(c.y(1)?)?.mul(scale))
        },
    },
    // Every rank draws its window of the one mask; the same mask on every rank keeps a partial sum partial.
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        for i in 0..c.t(0)?.ndim() {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_slice(&[s]), outs: SmallVec::from_slice(&[s, s]) });
        }
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::P_SUM]), outs: SmallVec::from_slice(&[Sbp::P_SUM, Sbp::B]) });
        Ok(())
    })),
    traits: Traits::RANDOM,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.25)])],
    ..OpDef::BASE
};
