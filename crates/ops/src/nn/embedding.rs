//! Rows of a table by index, and the gradient of the table.

use crate::named::{embedding, embedding_backward};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False, int start=0, int total=-1) -> Tensor",
    ),
    doc: "Rows `indices` of a table [v, d]. `start` and `total` make this part of a table split by rows: indices outside give zeros.

Example::

    >>> table = oneflow.tensor([[1., 2.], [3., 4.]])
    >>> oneflow.nn.functional.embedding(oneflow.tensor([1, 0]), table)
    tensor([[3., 4.],
            [1., 2.]])",
    faces: Faces::NN,
    infer: |c, outs| {
        let (w, i) = (c.t(embedding::WEIGHT)?, c.t(embedding::INDICES)?);
        if w.ndim() != 2 {
            return Err(Error::runtime(format!("embedding(): 'weight' must be 2-D, got {:?}", w.sizes())));
        }
        if i.dtype() != DType::I64 && i.dtype() != DType::I32 {
            return Err(Error::runtime(format!(
                "embedding(): Expected tensor for argument 'indices' to have one of the following scalar types: Long, Int; but got {} instead",
                i.dtype().scalar_type_name()
            )));
        }
        let mut sizes = Dims::from_slice(i.sizes());
        sizes.push(w.sizes()[1]);
        outs.push(w.dtype(), w.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &EMBEDDING,
        lower: |c, _, l| {
            let total = if c.int(embedding::TOTAL)? < 0 { c.t(embedding::WEIGHT)?.sizes()[0] } else { c.int(embedding::TOTAL)? };
            l.input(embedding::WEIGHT).input(embedding::INDICES).output(embedding::RESULT).with(EmbeddingParams { start: c.int(embedding::START)?, total });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::of(embedding::INDICES, &[embedding::WEIGHT])],
        fix: Fix::None,
        f: |c, out| {
            let rows = c.in_meta(embedding::WEIGHT)?.sizes[0];
            let int = |at: At<i64>, default| c.arg(at).int().unwrap_or(default);
            let total = if int(embedding::TOTAL, -1) < 0 { rows } else { int(embedding::TOTAL, -1) };
            out.set(embedding::WEIGHT, || {
                let g = if c.arg(embedding::SCALE_GRAD_BY_FREQ).bool() { by_frequency(c.g()?, c.x(embedding::INDICES)?, total)? } else { c.g()?.clone() };
                if c.arg(embedding::SPARSE).bool() {
                    return sparse_gradient(&g, c.x(embedding::INDICES)?, &c.in_meta(embedding::WEIGHT)?.sizes, int(embedding::PADDING_IDX, -1));
                }
                g.embedding_backward(c.x(embedding::INDICES)?, rows, int(embedding::PADDING_IDX, -1), int(embedding::START, 0), total)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let mut row = |w: Sbp, i: Sbp, out: Sbp| {
            rows.push(Row { ins: SmallVec::from_slice(&[w, i]), outs: SmallVec::from_slice(&[out]) })
        };
        let n = c.t(embedding::INDICES)?.ndim();
        for k in 0..n {
            row(Sbp::B, Sbp::S(k as u8), Sbp::S(k as u8));
        }
        row(Sbp::S(1), Sbp::B, Sbp::S(n as u8));
        row(Sbp::S(0), Sbp::B, Sbp::P_SUM);
        row(Sbp::P_SUM, Sbp::B, Sbp::P_SUM);
        Ok(())
    }))
    .with(Localize::Custom(|c, mesh, attrs| {
        let (start, _, rows) = window(mesh, embedding::WEIGHT, c.t(embedding::WEIGHT)?.sizes()[0]);
        let whole = c.t(embedding::WEIGHT)?.sizes()[0];
        if rows != whole {
            *attrs = attrs.with(embedding::START.index(), Arg::Int(start)).with(embedding::TOTAL.index(), Arg::Int(whole));
        }
        Ok(())
    })),
    samples: || {
        let t = |v: &[i64], i: &[i64]| Sample::new(vec![SampleArg::f32(v), SampleArg::i64(i, 0, v[0])]);
        vec![t(&[8, 4], &[6]), t(&[8, 4], &[2, 3]), t(&[8, 2], &[]), t(&[3, 4], &[0])]
    },
    batch: Batching::Second,
    ..OpDef::BASE
};

/// Gradients of looked up rows [indices..., d] divided by how often their index occurs.
pub(super) fn by_frequency(g: &Tensor, indices: &Tensor, total: i64) -> Result<Tensor> {
    let at = indices.reshape(&[-1])?.to_copy_with(Some(DType::I64), None)?;
    let counts = g.new_zeros(&[total])?.index_add(0, &at, &g.new_ones(&[at.numel()])?)?;
    g.div(&counts.index_select(0, &at)?.reshape(indices.sizes())?.unsqueeze(-1)?)
}

/// The gradient of the table as its used rows, without those at `padding_idx`.
pub(super) fn sparse_gradient(g: &Tensor, indices: &Tensor, sizes: &[i64], padding_idx: i64) -> Result<Tensor> {
    let mut at = indices.reshape(&[-1])?.to_copy_with(Some(DType::I64), None)?;
    let mut rows = g.reshape(&[at.numel(), sizes[1]])?;
    if padding_idx >= 0 {
        let kept = at.ne(padding_idx)?.nonzero()?.reshape(&[-1])?;
        rows = rows.index_select(0, &kept)?;
        at = at.index_select(0, &kept)?;
    }
    make_sparse(&at.unsqueeze(0)?, &rows, sizes)
}

/// This rank's part (start, end, length) of dimension 0 of an input, which has `n` rows in all.
pub(super) fn window(mesh: &Mesh<'_>, at: In, n: i64) -> (i64, i64, i64) {
    let (mut start, mut len) = (0, n);
    if let Some(Some(sbp)) = mesh.ins.get(at.index()) {
        for (axis, s) in sbp.iter().enumerate() {
            if *s == Sbp::S(0) {
                let (s, l) = mesh.parts.part(len, mesh.sizes[axis], mesh.coords[axis]);
                start += s;
                len = l;
            }
        }
    }
    (start, start + len, len)
}

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "embedding_backward(Tensor grad_output, Tensor indices, int num_rows, int padding_idx, int start, int total) -> Tensor",
    ),
    doc: "Gradient of the table: rows of the gradient added up by index.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let g = c.t(embedding_backward::GRAD_OUTPUT)?;
        let (d, rows) = g.sizes().split_last().unwrap_or((&1, &[]));
        fits::sized(c, embedding_backward::INDICES, rows)?;
        outs.push(g.dtype(), g.device(), &[c.int(embedding_backward::NUM_ROWS)?, *d])
    },
    kernel: Kernel::Prim {
        prim: &EMBEDDING_BACKWARD,
        lower: |c, _, l| {
            l.input(embedding_backward::GRAD_OUTPUT)
                .input(embedding_backward::INDICES)
                .output(embedding_backward::RESULT)
                .with(EmbeddingBackwardParams {
                    start: c.int(embedding_backward::START)?,
                    total: c.int(embedding_backward::TOTAL)?,
                    padding: c.int(embedding_backward::PADDING_IDX)?,
                });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::of(embedding_backward::INDICES, &[embedding_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            let int = |at: At<i64>, default| c.arg(at).int().unwrap_or(default);
            out.set(embedding_backward::GRAD_OUTPUT, || {
                let rows = c.g()?.embedding(
                    c.x(embedding_backward::INDICES)?,
                    -1,
                    false,
                    false,
                    int(embedding_backward::START, 0),
                    int(embedding_backward::TOTAL, -1),
                )?;
                match int(embedding_backward::PADDING_IDX, -1) {
                    p if p < 0 => Ok(rows),
                    p => rows.masked_fill(&c.x(embedding_backward::INDICES)?.eq(p)?.unsqueeze(-1)?, 0.0),
                }
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let mut row = |g: Sbp, i: Sbp, out: Sbp| {
            rows.push(Row { ins: SmallVec::from_slice(&[g, i]), outs: SmallVec::from_slice(&[out]) })
        };
        let n = c.t(embedding_backward::INDICES)?.ndim();
        for k in 0..n {
            row(Sbp::S(k as u8), Sbp::S(k as u8), Sbp::P_SUM);
        }
        row(Sbp::S(n as u8), Sbp::B, Sbp::S(1));
        row(Sbp::B, Sbp::B, Sbp::S(0));
        row(Sbp::P_SUM, Sbp::B, Sbp::P_SUM);
        Ok(())
    }))
    .with(Localize::Custom(|c, mesh, attrs| {
        // A table split by rows: this rank's rows only.
        let total = c.int(embedding_backward::TOTAL)?;
        let (mut start, mut len, mut split) = (0, total, false);
        for (axis, s) in mesh.outs.first().copied().unwrap_or(&[]).iter().enumerate() {
            if *s == Sbp::S(0) {
                let (s, l) = mesh.parts.part(len, mesh.sizes[axis], mesh.coords[axis]);
                start += s;
                len = l;
                split = true;
            }
        }
        if split {
            *attrs = attrs
                .with(embedding_backward::NUM_ROWS.index(), Arg::Int(len))
                .with(embedding_backward::START.index(), Arg::Int(start));
        }
        Ok(())
    })),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[2, 3, 4]), SampleArg::i64(&[2, 3], 0, 8), i(8), i(-1), i(0), i(8)])]
    },
    ..OpDef::BASE
};
