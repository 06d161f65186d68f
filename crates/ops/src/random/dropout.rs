//! Dropout. The mask depends on the global index of an element: the same for every layout and thread count.

use crate::named::native_dropout as at;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_dropout(Tensor input, float p, *, Generator? generator=None) -> (Tensor output, Tensor mask)",
    ),
    doc: "Zeroes elements with probability `p` and scales the others by `1 / (1 - p)`; also gives the mask of kept elements.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let p = c.float(at::P)?;
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
            let (seed, offset) = c.arg(at::GENERATOR).rng()?;
            l.input(at::INPUT).output(at::OUTPUT).output(at::MASK).with(DropoutParams {
                p: c.float(at::P)?,
                seed,
                offset,
                shard: super::shard_of(c.arg(at::GENERATOR)),
            });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(at::MASK, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let p = c.arg(at::P).float().unwrap_or(0.0);
            let scale = match super::is_in_order(c.arg(at::GENERATOR)) {
                true => mt19937::dropout_scale(p, c.g()?.dtype()),
                false if p < 1.0 => 1.0 / (1.0 - p),
                false => 0.0,
            };
            out.set(at::INPUT, || c.g()?.mul(c.y(at::MASK)?)?.mul(scale))
        },
    },
    // Every rank draws its window of the one mask; the same mask on every rank keeps a partial sum partial.
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        for i in 0..c.t(at::INPUT)?.ndim() {
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
