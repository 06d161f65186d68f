//! `square_deviations`, `var`, `std`: Variance over the given dimension(s), divided by the number of elements minus
//! `correction` (one by default).

use super::*;
use crate::named::{square_deviations, std_dim, std_unbiased, var, var_dim, var_unbiased};

/// How many are divided by: elements minus the correction.
fn correction(c: &Call<'_>) -> f64 {
    c.arg(var::CORRECTION).scalar().map_or(1.0, Scalar::to_f64)
}

/// The variance, or its root, in the dtype of computation.
fn variance_or_root(c: &Call<'_>, root: bool) -> Result<Tensor> {
    let x = c.t(var::INPUT)?;
    if !x.dtype().is_differentiable() {
        return Err(Error::not_implemented(format!(
            "{}(): only support floating point and complex dtypes, got {}",
            c.name(),
            x.dtype()
        )));
    }
    // Half types are too coarse for a sum of squares.
    let half = x.dtype().compute() != x.dtype();
    let x = &if half { x.to_copy_with(Some(x.dtype().compute()), None)? } else { x.clone() };
    let mask = dim_mask(c.name(), c.arg(var::DIM), x.ndim())?;
    let dims: SmallVec<[i64; 6]> = (0..x.ndim() as i64).filter(|i| mask >> i & 1 == 1).collect();
    let n: i64 = dims.iter().map(|d| x.sizes()[*d as usize]).product();
    let divisor = (n as f64 - correction(c)).max(0.0);
    if !x.dtype().is_complex() {
        return x.square_deviations(dims.as_slice(), c.bool(var::KEEPDIM), divisor, root);
    }
    // A single number has no dimension to reduce over, and its parts are none.
    let single = x.ndim() == 0;
    let (x, dims) = if single { (&x.unsqueeze(0)?, SmallVec::from_slice(&[0i64])) } else { (x, dims) };
    // The squared sizes of the deviations: those of both parts, added.
    let parts =
        x.view_as_real()?.square_deviations(dims.as_slice(), !single && c.bool(var::KEEPDIM), divisor, false)?;
    let sum = parts.sum(&[-1], false)?;
    if root { sum.sqrt() } else { Ok(sum) }
}

fn as_input(c: &Call<'_>, t: Tensor) -> Result<Tensor> {
    let dtype = c.t(var::INPUT)?.dtype().to_real();
    if t.dtype() == dtype { Ok(t) } else { t.to_copy_with(Some(dtype), None) }
}

/// Deviations of the elements from their mean over the dims.
pub fn deviations(x: &Tensor, mask: u64) -> Result<Tensor> {
    let dims: SmallVec<[i64; 6]> = (0..x.ndim() as i64).filter(|i| mask >> i & 1 == 1).collect();
    x.sub(&x.mean(dims.as_slice(), true)?)
}

/// Whether the elements that are reduced together are neighbours in memory.
fn in_runs(x: &Tensor, mask: u64) -> bool {
    let dims = x.strides().iter().zip(x.sizes()).enumerate().filter(|(_, (_, size))| **size != 1);
    let mut dims: SmallVec<[(i64, i64, bool); 6]> =
        dims.map(|(i, (stride, size))| (*stride, *size, mask >> i & 1 == 1)).collect();
    dims.sort_unstable();
    let n_reduced = dims.iter().take_while(|d| d.2).count();
    let (reduced, kept) = dims.split_at(n_reduced);
    let mut run = 1;
    for (stride, size, _) in reduced {
        if *stride != run {
            return false;
        }
        run *= size;
    }
    x.numel() > 0 && n_reduced > 0 && !kept.iter().any(|d| d.2)
}

/// Variances and their roots, rounded once: memory is read once where the elements lie in runs.
pub static SQUARE_DEVIATIONS: OpDef = OpDef {
    sig: Sig::parse(
        "square_deviations(Tensor input, int[1]? dim=None, bool keepdim=False, float divisor=1, bool root=False) -> Tensor",
    ),
    doc: "Sums of squared deviations from the mean over the given dimension(s), divided, and the root of that.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let mask = dim_mask(c.name(), c.arg(square_deviations::DIM), c.t(square_deviations::INPUT)?.ndim())?;
        push(c, c.t(square_deviations::INPUT)?.dtype(), mask, c.bool(square_deviations::KEEPDIM), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::SQUARE_DEVIATIONS,
        lower: |c, outs, l| {
            let mask = dim_mask(c.name(), c.arg(square_deviations::DIM), c.t(square_deviations::INPUT)?.ndim())?;
            if !in_runs(c.t(square_deviations::INPUT)?, mask) {
                return Err(Error::not_implemented("square_deviations: the reduced elements are no runs"));
            }
            let sizes = kept_sizes(c.t(square_deviations::INPUT)?.sizes(), mask);
            let strides = contiguous_strides(&sizes);
            l.input(square_deviations::INPUT).output_as(
                square_deviations::RESULT,
                sizes,
                strides,
                outs[square_deviations::RESULT].offset(),
            );
            l.with(DeviationsParams {
                divisor: c.arg(square_deviations::DIVISOR).float().unwrap_or(1.0),
                root: c.bool(square_deviations::ROOT),
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(square_deviations::INPUT)?;
        let mask = dim_mask(c.name(), c.arg(square_deviations::DIM), x.ndim())?;
        let (divisor, root) =
            (c.arg(square_deviations::DIVISOR).float().unwrap_or(1.0), c.bool(square_deviations::ROOT));
        let (reduced, mut order): (Dims, Dims) = (0..x.ndim() as i64).partition(|i| mask >> i & 1 == 1);
        let single = reduced.iter().all(|d| x.sizes()[*d as usize] == 1);
        if x.numel() > 0 && !single && !in_runs(x, mask) {
            // Laid out in runs, and read there in double precision: the result shall not depend on the layout.
            let n_kept = order.len() as i64;
            order.extend_from_slice(&reduced);
            let last: Dims = (n_kept..order.len() as i64).collect();
            let runs = x.permute(&order)?.clone_contiguous()?;
            let made = runs.square_deviations(last.as_slice(), false, divisor, root)?;
            outs.give(if c.bool(square_deviations::KEEPDIM) { unsqueeze_all(&made, mask)? } else { made });
            return Ok(());
        }
        let centred = deviations(x, mask)?;
        let variance =
            centred.mul(&centred)?.sum(reduced.as_slice(), c.bool(square_deviations::KEEPDIM))?.div(divisor)?;
        outs.give(if root { variance.sqrt()? } else { variance });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(square_deviations::INPUT, &[square_deviations::INPUT]),
            Save::out_if(square_deviations::RESULT, &[square_deviations::INPUT], square_deviations::ROOT),
        ],
        fix: Fix::None,
        f: |c, out| {
            out.set(square_deviations::INPUT, || {
                let x = c.x(square_deviations::INPUT)?;
                let mask = dim_mask("square_deviations", c.arg(square_deviations::DIM), x.ndim())?;
                let divisor = c.arg(square_deviations::DIVISOR).float().unwrap_or(1.0);
                let g = match c.arg(square_deviations::ROOT).bool() {
                    // The root has no slope at zero, where all elements are equal.
                    true => c
                        .y(square_deviations::RESULT)?
                        .eq(0.0)?
                        .r#where(0.0, &c.g()?.div(&c.y(square_deviations::RESULT)?.mul(divisor)?)?)?,
                    false => c.g()?.mul(2.0 / divisor)?,
                };
                deviations(&crate::elementwise::dual(x)?, mask)?.mul(&unreduce(
                    &g,
                    mask,
                    c.arg(square_deviations::KEEPDIM).bool(),
                )?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    ..super::REDUCE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"),
    doc: "Variance over the given dimension(s), divided by the number of elements minus `correction` (one by default).

Example::

    >>> oneflow.var(oneflow.tensor([1., 3.]))
    tensor(2.)",
    compose: Some(|c, outs| {
        outs.give(as_input(c, variance_or_root(c, false)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4])]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(vec![1])]),
        ]
    },
    ..super::REDUCE
};

pub static STD: OpDef = OpDef {
    sig: Sig::parse("std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"),
    doc: "Standard deviation over the given dimension(s).

Example::

    >>> oneflow.std(oneflow.tensor([1., 3.]))
    tensor(1.4142)",
    compose: Some(|c, outs| {
        outs.give(as_input(c, variance_or_root(c, true)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4])]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(vec![1])]),
        ]
    },
    ..super::REDUCE
};

/// `correction` as the older flag says it.
fn by_flag(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(unbiased as i64))
}

/// The forms with a flag: `var(x, False)`, `var(x, 0, unbiased=False)`.
const FLAG: OpDef = OpDef {
    kernel: Kernel::None,
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Bool(false)])],
    ..super::REDUCE
};

fn dim_flag_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(vec![1]), SampleArg::Bool(false)])]
}

pub static VAR_UNBIASED: OpDef = OpDef {
    sig: Sig::parse("var.unbiased(Tensor input, bool unbiased) -> Tensor"),
    compose: Some(|c, outs| {
        outs.give(c.t(var_unbiased::INPUT)?.var_with(
            None::<&[i64]>,
            by_flag(c.bool(var_unbiased::UNBIASED)),
            false,
        )?);
        Ok(())
    }),
    ..FLAG
};

pub static VAR_DIM: OpDef = OpDef {
    sig: Sig::parse("var.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    compose: Some(|c, outs| {
        outs.give(c.t(var_dim::INPUT)?.var_with(
            c.arg(var_dim::DIM).ints(),
            by_flag(c.bool(var_dim::UNBIASED)),
            c.bool(var_dim::KEEPDIM),
        )?);
        Ok(())
    }),
    samples: dim_flag_samples,
    ..FLAG
};

pub static STD_UNBIASED: OpDef = OpDef {
    sig: Sig::parse("std.unbiased(Tensor input, bool unbiased) -> Tensor"),
    compose: Some(|c, outs| {
        outs.give(c.t(std_unbiased::INPUT)?.std_with(
            None::<&[i64]>,
            by_flag(c.bool(std_unbiased::UNBIASED)),
            false,
        )?);
        Ok(())
    }),
    ..FLAG
};

pub static STD_DIM: OpDef = OpDef {
    sig: Sig::parse("std.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    compose: Some(|c, outs| {
        outs.give(c.t(std_dim::INPUT)?.std_with(
            c.arg(std_dim::DIM).ints(),
            by_flag(c.bool(std_dim::UNBIASED)),
            c.bool(std_dim::KEEPDIM),
        )?);
        Ok(())
    }),
    samples: dim_flag_samples,
    ..FLAG
};
