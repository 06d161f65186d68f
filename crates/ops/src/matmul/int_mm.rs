//! Products of bytes, summed in 32 bits: what quantised layers are made of.

use super::*;
use crate::named::_int_mm as at;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("_int_mm(Tensor input, Tensor mat2) -> Tensor"),
    doc: "Matrix product of int8 matrices (n, k) and (k, m), exact in int32: (n, m).

Example::

    >>> a = oneflow.tensor([[100, 100]], dtype=oneflow.int8)
    >>> oneflow._int_mm(a, a.t())
    tensor([[20000]], dtype=oneflow.int32)",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let (a, b) = (c.t(at::INPUT)?, c.t(at::MAT2)?);
        for (name, t) in [("self", a), ("mat2", b)] {
            if t.ndim() != 2 {
                return Err(Error::runtime(format!(
                    "_int_mm: Expected {name} to be of dimension 2 but got {}",
                    t.ndim()
                )));
            }
            if t.dtype() != DType::I8 {
                return Err(Error::runtime(format!(
                    "_int_mm: Expected {name} dtype to be of type int8 but got {}",
                    t.dtype().scalar_type_name()
                )));
            }
        }
        let (sizes, _) = product_sizes("_int_mm", a, b)?;
        outs.push(DType::I32, a.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &MATMUL,
        lower: |c, outs, l| {
            lower_product(l, c.t(at::INPUT)?, c.t(at::MAT2)?, &outs[at::RESULT], &[])?;
            l.ins.extend([None, None]);
            l.with(MatmulParams { activation: Activation::None, alpha: 1.0 });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let wide = |at: In| c.t(at)?.to_copy_with(Some(DType::I32), None);
        outs.give(wide(at::INPUT)?.matmul(&wide(at::MAT2)?)?);
        Ok(())
    }),
    grad: Grad::Never,
    sbp: SbpRule::of(Rows::Custom(rows)),
    cost,
    samples: || {
        let t = |sizes: &[i64]| SampleArg::Tensor { dtype: DType::I8, sizes: sizes.to_vec(), low: -128.0, high: 128.0 };
        vec![Sample::new(vec![t(&[4, 6]), t(&[6, 8])]), Sample::new(vec![t(&[1, 33]), t(&[33, 2])])]
    },
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};

/// Those of a product, but for partial bytes: their sum may leave the type.
fn rows(_: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let (split, sum) = (Sbp::S, Sbp::P(PKind::Sum));
    for (a, b, out) in [(split(0), Sbp::B, split(0)), (Sbp::B, split(1), split(1)), (split(1), split(0), sum)] {
        rows.push(Row { ins: SmallVec::from_slice(&[a, b]), outs: SmallVec::from_slice(&[out]) });
    }
    Ok(())
}
