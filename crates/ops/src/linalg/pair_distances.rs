//! Distances of all pairs of rows. What calls mean for users is checked by the function above this op.

use super::*;
use crate::named::pair_distances as at;

fn p(c: &Call<'_>) -> Result<f64> {
    c.float(at::P)
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (a, b) = (c.t(at::X1)?, c.t(at::X2)?);
    let n = a.ndim();
    if n < 2 || b.ndim() != n || a.sizes()[..n - 2] != b.sizes()[..n - 2] || a.sizes()[n - 1] != b.sizes()[n - 1] {
        return Err(Error::runtime(format!(
            "{}(): rows of {:?} and of {:?} do not fit each other",
            c.name(),
            a.sizes(),
            b.sizes()
        )));
    }
    if !a.dtype().is_float() || a.dtype() != b.dtype() {
        return Err(Error::runtime(format!("{}(): {} and {}", c.name(), a.dtype(), b.dtype())));
    }
    let sizes: Dims = a.sizes()[..n - 1].iter().chain([&b.sizes()[n - 2]]).copied().collect();
    outs.push(a.dtype(), a.device(), &sizes)
}

/// The p-norm along the last dimension; its gradient at zero is zero.
fn norm(x: &Tensor, p: f64) -> Result<Tensor> {
    let size = x.abs()?;
    if p == 0.0 {
        // A count, with the gradient of a constant.
        let all = x.ones_like_with(Some(DType::Bool), None, false, None)?;
        let ones = x.ne(0.0)?.to_copy_with(Some(x.dtype()), None)?;
        let count = ones.masked_fill(&x.isnan()?, f64::NAN)?.sum(&[-1], false)?;
        return count.add(&x.masked_fill(&all, 0.0)?.sum(&[-1], false)?);
    }
    if p == 1.0 {
        return size.sum(&[-1], false);
    }
    let powers = if p == 2.0 {
        x.mul(x)?
    } else if p < 1.0 {
        // The slope of a power below one is infinite at zero.
        let zero = size.eq(0.0)?;
        size.masked_fill(&zero, 1.0)?.pow(p)?.masked_fill(&zero, 0.0)?
    } else {
        size.pow(p)?
    };
    let powers = powers.sum(&[-1], false)?;
    let zero = powers.eq(0.0)?;
    powers.masked_fill(&zero, 1.0)?.pow(1.0 / p)?.masked_fill(&zero, 0.0)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("pair_distances(Tensor x1, Tensor x2, float p) -> Tensor"),
    doc: "p-norm distances between the rows of `x1` (*, P, M) and of `x2` (*, R, M): (*, P, R).",
    faces: Faces::PRIVATE,
    infer,
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::PAIR_DISTANCES,
        lower: |c, _, l| {
            l.input(at::X1).input(at::X2).output(at::RESULT).with(PairDistancesParams { p: p(c)? });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        infer(c, &mut Outs::new())?;
        outs.give(norm(&c.t(at::X1)?.unsqueeze(-2)?.sub(&c.t(at::X2)?.unsqueeze(-3)?)?, p(c)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let n = c.t(at::X1)?.ndim() as u8;
        let row = |a: Sbp, b: Sbp, o: Sbp| Row { ins: SmallVec::from_slice(&[a, b]), outs: SmallVec::from_slice(&[o]) };
        rows.extend((0..n - 2).map(|d| row(Sbp::S(d), Sbp::S(d), Sbp::S(d))));
        rows.push(row(Sbp::S(n - 2), Sbp::B, Sbp::S(n - 2)));
        rows.push(row(Sbp::B, Sbp::S(n - 2), Sbp::S(n - 1)));
        Ok(())
    })),
    traits: Traits::NEEDS_CONTIGUOUS,
    samples: || {
        let t = |a: &[i64], b: &[i64], p| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b), SampleArg::Float(p)]);
        vec![
            t(&[5, 3], &[4, 3], 2.0),
            t(&[2, 5, 7], &[2, 6, 7], 1.0),
            t(&[5, 20], &[4, 20], 3.0),
            t(&[5, 3], &[4, 3], 0.0),
        ]
    },
    ..OpDef::BASE
};
