//! Matrix product with torch's rules for vectors and batches.

use super::*;
use crate::named::{fused_matmul_add, matmul};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("matmul(Tensor input, Tensor other) -> Tensor"),
    doc: "Matrix product. Vectors are rows on the left and columns on the right; leading dimensions are batches and broadcast.

Example::

    >>> oneflow.matmul(oneflow.tensor([[1., 2.]]), oneflow.tensor([[3.], [4.]]))
    tensor([[11.]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (a, b) = (c.t(matmul::INPUT)?, c.t(matmul::OTHER)?);
        let (sizes, _) = product_sizes("matmul", a, b)?;
        outs.push(a.dtype(), a.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &MATMUL,
        lower: |c, outs, l| {
            let (a, b) = (c.t(matmul::INPUT)?, c.t(matmul::OTHER)?);
            let (_, batch) = product_sizes("matmul", a, b)?;
            lower_product(l, a, b, &outs[matmul::RESULT], &batch)?;
            l.ins.extend([None, None]);
            l.with(MatmulParams { activation: Activation::None, alpha: 1.0 });
            Ok(())
        },
    },
    // Complex products are four real ones.
    compose: Some(|c, outs| {
        let (a, b) = (c.t(matmul::INPUT)?, c.t(matmul::OTHER)?);
        if !a.dtype().is_complex() || a.dtype() == DType::C32 {
            return Err(Error::not_implemented(format!(
                "\"addmm_impl_{}_\" not implemented for '{}'",
                a.device().kind.name(),
                a.dtype().scalar_type_name()
            )));
        }
        product_sizes("matmul", a, b)?;
        // Parts side by side: the packing reads them in whole registers.
        let parts = |t: &Tensor| -> Result<[Tensor; 2]> { Ok([t.real()?.contiguous()?, t.imag()?.contiguous()?]) };
        let ([ar, ai], [br, bi]) = (parts(a)?, parts(b)?);
        let re = ar.matmul(&br)?.sub(&ai.matmul(&bi)?)?;
        outs.give(re.complex(&ar.matmul(&bi)?.add(&ai.matmul(&br)?)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(matmul::OTHER, &[matmul::INPUT]), Save::of(matmul::INPUT, &[matmul::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (na, nb) = (c.in_meta(matmul::INPUT)?.sizes.len(), c.in_meta(matmul::OTHER)?.sizes.len());
            // The gradient as a matrix even where an operand was a vector.
            let g = match (na, nb) {
                (1, 1) => c.g()?.reshape(&[1, 1])?,
                (1, _) => c.g()?.unsqueeze(-2)?,
                (_, 1) => c.g()?.unsqueeze(-1)?,
                _ => c.g()?.clone(),
            };
            out.set(matmul::INPUT, || {
                let b = &conj(c.x(matmul::OTHER)?)?;
                if na <= 2 && nb > 2 {
                    // One product over all batches instead of a batch that is summed.
                    let columns = |t: &Tensor| as_rows(&t.transpose(-1, -2)?);
                    let ga = columns(&g)?.transpose(0, 1)?.matmul(&columns(b)?)?;
                    return if na == 1 { ga.squeeze_dim(&[0]) } else { Ok(ga) };
                }
                let bt = if nb == 1 { b.unsqueeze(0)? } else { b.transpose(-2, -1)? };
                let ga = g.matmul(&bt)?;
                if na == 1 { flat(&ga) } else { Ok(ga) }
            })?;
            out.set(matmul::OTHER, || {
                let a = &conj(c.x(matmul::INPUT)?)?;
                if na > 2 && nb <= 2 {
                    // One product over all rows instead of a batch that is summed.
                    let gb = as_rows(a)?.transpose(0, 1)?.matmul(&as_rows(&g)?)?;
                    return if nb == 1 { gb.squeeze_dim(&[1]) } else { Ok(gb) };
                }
                let at = if na == 1 { a.unsqueeze(1)? } else { a.transpose(-2, -1)? };
                let gb = at.matmul(&g)?;
                if nb == 1 { gb.squeeze_dim(&[-1]) } else { Ok(gb) }
            })
        },
    },
    sbp: SbpRule::of(Rows::Contract("b i k, b k j -> b i j")),
    cost,
    amp: Amp::LOWER,
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![
            t(&[4, 6], &[6, 8]),
            t(&[6], &[6]),
            t(&[6], &[6, 4]),
            t(&[4, 6], &[6]),
            t(&[2, 4, 6], &[6, 8]),
            t(&[2, 4, 6], &[2, 6, 8]),
            t(&[2, 1, 4, 6], &[3, 6, 2]),
            t(&[0, 3], &[3, 2]),
            t(&[2, 0], &[0, 3]),
        ]
    },
    traits: Traits::EXACT_OUT,
    limited: Limited::FLOAT8,
    batch: Batching::Product,
    sparse: Sparse::MatrixProduct,
    ..OpDef::BASE
};

/// A gradient `[.., 1, k]` of a vector: the row dim goes; batch dims are summed by the broadcast fix.
fn flat(g: &Tensor) -> Result<Tensor> {
    g.squeeze_dim(&[-2])
}

/// What the compiler puts in place of a product followed by an addition, where nobody needs the product alone.
pub static FUSED_ADD: OpDef = OpDef {
    sig: Sig::parse("fused_matmul_add(Tensor input, Tensor other, Tensor residual) -> Tensor"),
    doc: "`input @ other + residual` with the sum in the product's epilogue; the residual has the result's sizes.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        (OP.infer)(c, outs)?;
        check_residual(c, c.t(fused_matmul_add::RESIDUAL)?, &outs[fused_matmul_add::RESULT])
    },
    kernel: Kernel::Prim {
        prim: &MATMUL,
        lower: |c, outs, l| {
            let (a, b) = (c.t(fused_matmul_add::INPUT)?, c.t(fused_matmul_add::OTHER)?);
            let (_, batch) = product_sizes("matmul", a, b)?;
            lower_product(l, a, b, &outs[fused_matmul_add::RESULT], &batch)?;
            l.ins.push(None);
            l.with(MatmulParams { activation: Activation::None, alpha: 1.0 });
            lower_residual(l, fused_matmul_add::RESIDUAL, c.t(fused_matmul_add::RESIDUAL)?)
        },
    },
    compose: Some(|c, outs| {
        outs.give(
            c.t(fused_matmul_add::INPUT)?
                .matmul(c.t(fused_matmul_add::OTHER)?)?
                .add(c.t(fused_matmul_add::RESIDUAL)?)?,
        );
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    amp: Amp::LOWER,
    samples: || {
        let t = |a: &[i64], b: &[i64], r: &[i64]| Sample::new([a, b, r].into_iter().map(SampleArg::f32).collect());
        vec![t(&[4, 6], &[6, 8], &[4, 8]), t(&[2, 4, 6], &[6, 8], &[2, 4, 8]), t(&[2, 4, 6], &[2, 6, 8], &[2, 4, 8])]
    },
    ..OpDef::BASE
};
