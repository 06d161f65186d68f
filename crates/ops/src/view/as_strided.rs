//! Any layout of a storage, and writing into one: the two ops in-place on views is made of.
//!
//! The public ops count offsets from the start of the storage. Their gradients cannot know where the input lay in it, so each
//! is recorded as a private op whose offset counts from the input's first element. Gradients come in layouts of their own; the
//! rules bring them to the layout of the input before sizes and strides are applied.

use super::{VIEW, give};
use crate::named::{_as_strided, _as_strided_scatter, as_strided, as_strided_scatter};
use crate::prelude::*;

/// Whether two indices may name the same element.
fn overlapping(size: &[i64], stride: &[i64]) -> bool {
    let mut dims: SmallVec<[(i64, i64); 6]> =
        stride.iter().copied().zip(size.iter().copied()).filter(|(_, n)| *n > 1).collect();
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|(s, n)| {
        let meets = *s <= reach;
        reach += (n - 1) * s;
        meets
    })
}

/// Size, stride and offset of a layout that lies inside `n` elements.
fn checked(c: &Call<'_>, offset: i64, n: Option<i64>) -> Result<(Dims, Dims)> {
    let (size, stride) = (c.ints(as_strided::SIZE)?, c.ints(as_strided::STRIDE)?);
    let name = c.name();
    if size.len() != stride.len() {
        return Err(Error::runtime(format!(
            "{name}(): mismatch in length of strides and shape: size {size:?}, stride {stride:?}"
        )));
    }
    if stride.iter().any(|s| *s < 0) {
        return Err(Error::runtime(format!(
            "{name}(): Negative strides are not supported at the moment, got strides: {stride:?}"
        )));
    }
    if size.iter().any(|s| *s < 0) {
        return Err(Error::runtime(format!("{name}(): Trying to create tensor with negative dimension: {size:?}")));
    }
    let end = size.iter().zip(stride).try_fold(offset, |end, (n, s)| end.checked_add((n - 1).checked_mul(*s)?));
    let empty = size.contains(&0);
    let inside = offset >= 0 && (empty || end.is_some_and(|e| n.is_none_or(|n| e < n)));
    if !inside {
        return Err(Error::runtime(format!(
            "{name}(): size {size:?}, stride {stride:?}, storage offset {offset} are out of bounds for storage of {} elements",
            n.unwrap_or(i64::MAX)
        )));
    }
    Ok((Dims::from_slice(size), Dims::from_slice(stride)))
}

/// One past the furthest element of a layout.
fn end(size: &[i64], stride: &[i64], offset: i64) -> i64 {
    if size.contains(&0) { 0 } else { offset + size.iter().zip(stride).map(|(n, s)| (n - 1) * s).sum::<i64>() + 1 }
}

/// Whether both strides lay elements of this size in the same way.
fn alike(size: &[i64], a: &[i64], b: &[i64]) -> bool {
    size.iter().zip(a.iter().zip(b)).all(|(n, (a, b))| *n <= 1 || a == b)
}

/// `t` with the strides of `like`.
fn laid_out_as(t: &Tensor, like: &Meta) -> Result<Tensor> {
    if alike(&like.sizes, t.strides(), &like.strides) {
        return Ok(t.clone());
    }
    if like.is_contiguous() {
        return t.contiguous();
    }
    let memory = t.new_zeros(&[end(&like.sizes, &like.strides, 0)])?;
    memory._as_strided_scatter(t, &like.sizes, &like.strides, 0)?._as_strided(&like.sizes, &like.strides, 0)
}

/// Numbers of a memory's elements in the order of a layout, made from `of`: they live where it does (device, ranks).
fn places(of: &Tensor, n: i64, size: &[i64], stride: &[i64], offset: i64) -> Result<Tensor> {
    let all = of.new_ones_with(&[n], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64)?;
    all._as_strided(size, stride, offset)?.reshape(&[size.iter().product()])
}

/// The gradient of a layout's base: `g` at its places in the memory of the base, zero elsewhere. Places that the layout names
/// several times get the sum; where the base itself names a place several times, each of its elements gets an equal part.
fn into_base(g: &Tensor, size: &[i64], stride: &[i64], offset: i64, base: &Meta) -> Result<Tensor> {
    if size.contains(&0) || base.numel() == 0 {
        return g.new_zeros(&base.sizes);
    }
    let first = offset.min(0);
    let offset = offset - first;
    let n = end(size, stride, offset).max(end(&base.sizes, &base.strides, -first));
    let whole = base.is_contiguous() && n == base.numel();
    let zeros = if whole { g.new_zeros(&base.sizes)? } else { g.new_zeros(&[n])? };
    let memory = if overlapping(size, stride) {
        let at = places(g, n, size, stride, offset)?;
        zeros.reshape(&[n])?.index_add(0, &at, &g.reshape(&[size.iter().product()])?)?
    } else {
        zeros._as_strided_scatter(g, size, stride, offset)?
    };
    if whole {
        return memory.reshape(&base.sizes);
    }
    let memory = if overlapping(&base.sizes, &base.strides) {
        let at = places(g, n, &base.sizes, &base.strides, -first)?;
        let ones = g.new_ones(&[base.numel()])?;
        memory.div(&g.new_zeros(&[n])?.index_add(0, &at, &ones)?)?
    } else {
        memory
    };
    memory._as_strided(&base.sizes, &base.strides, -first)
}

fn layout_samples() -> Vec<Sample> {
    let t = |s: &[i64], n: &[i64], st: &[i64], o: i64| {
        let o = SampleArg::Int(o);
        let layout = [SampleArg::Ints(n.to_vec()), SampleArg::Ints(st.to_vec()), o];
        Sample::new(std::iter::once(SampleArg::f32(s)).chain(layout).collect())
    };
    vec![t(&[6], &[2, 2], &[3, 1], 0), t(&[4, 3], &[3, 2], &[1, 3], 2), t(&[3], &[], &[], 1)]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)"),
    doc: "A view of the input's storage with the given size, stride and offset (in elements).

Example::

    >>> oneflow.as_strided(oneflow.arange(6), (2, 2), (3, 1))
    tensor([[0, 1],
            [3, 4]])",
    infer: |c, outs| {
        let x = c.t(as_strided::INPUT)?;
        view(c, outs, c.arg(as_strided::STORAGE_OFFSET).int().unwrap_or(x.offset()))
    },
    compose: Some(|c, outs| {
        let x = c.t(as_strided::INPUT)?;
        let offset = c.arg(as_strided::STORAGE_OFFSET).int().map_or(0, |o| o - x.offset());
        give(outs, x._as_strided(c.ints(as_strided::SIZE)?, c.ints(as_strided::STRIDE)?, offset)?)
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: layout_samples,
    ..VIEW
};

pub static FROM_FIRST: OpDef = OpDef {
    sig: Sig::parse("_as_strided(Tensor(a) input, int[] size, int[] stride, int offset) -> Tensor(a)"),
    doc: "`as_strided` whose offset counts from the input's first element.",
    faces: Faces::PRIVATE,
    infer: |c, outs| view(c, outs, c.t(_as_strided::INPUT)?.offset() + c.int(_as_strided::OFFSET)?),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (size, stride) =
                (c.arg(_as_strided::SIZE).ints().unwrap_or(&[]), c.arg(_as_strided::STRIDE).ints().unwrap_or(&[]));
            let base = c.in_meta(_as_strided::INPUT)?;
            out.set(_as_strided::INPUT, || {
                into_base(c.g()?, size, stride, c.arg(_as_strided::OFFSET).int().unwrap_or(0), base)
            })
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: layout_samples,
    ..VIEW
};

fn view(c: &Call<'_>, outs: &mut Outs, offset: i64) -> Result<()> {
    let x = c.t(as_strided::INPUT)?;
    let n = x.storage().map(|s| (s.bytes() / x.dtype().size()) as i64);
    let (size, stride) = checked(c, offset, n)?;
    outs.view(as_strided::INPUT, x, size, stride, offset)
}

fn scatter_samples() -> Vec<Sample> {
    let layout = [SampleArg::Ints(vec![2, 2]), SampleArg::Ints(vec![3, 1]), SampleArg::Int(1)];
    let tensors = [SampleArg::f32(&[6]), SampleArg::f32(&[2, 2])];
    vec![Sample::new(tensors.into_iter().chain(layout).collect())]
}

pub static SCATTER: OpDef = OpDef {
    sig: Sig::parse(
        "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    ),
    doc:
        "A copy of `input`, with its strides, in which the elements of the given layout come from `src`. Strides and offset are
those of `input`'s own storage.

Example::

    >>> oneflow.as_strided_scatter(oneflow.zeros(4), oneflow.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let x = c.t(as_strided_scatter::INPUT)?;
        let offset = c.arg(as_strided_scatter::STORAGE_OFFSET).int().map_or(0, |o| o - x.offset());
        give(outs, x._as_strided_scatter(c.t(as_strided_scatter::SRC)?, c.ints(as_strided_scatter::SIZE)?, c.ints(as_strided_scatter::STRIDE)?, offset)?)
    }),
    infer: |c, outs| scattered(c, outs, c.arg(as_strided_scatter::STORAGE_OFFSET).int().map_or(0, |o| o - c.t(as_strided_scatter::INPUT).map_or(0, Tensor::offset))),
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |c, _, l| lower_scatter(c, l, c.arg(as_strided_scatter::STORAGE_OFFSET).int().map_or(0, |o| o - c.t(as_strided_scatter::INPUT).map_or(0, Tensor::offset))),
    },
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: scatter_samples,
    ..OpDef::BASE
};

pub static SCATTER_FROM_FIRST: OpDef = OpDef {
    sig: Sig::parse("_as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int offset) -> Tensor"),
    doc: "`as_strided_scatter` whose offset counts from the input's first element.",
    faces: Faces::PRIVATE,
    infer: |c, outs| scattered(c, outs, c.int(_as_strided_scatter::OFFSET)?),
    kernel: Kernel::Prim { prim: &COPY, lower: |c, _, l| lower_scatter(c, l, c.int(_as_strided_scatter::OFFSET)?) },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (size, stride) = (
                c.arg(_as_strided_scatter::SIZE).ints().unwrap_or(&[]),
                c.arg(_as_strided_scatter::STRIDE).ints().unwrap_or(&[]),
            );
            let offset = c.arg(_as_strided_scatter::OFFSET).int().unwrap_or(0);
            let g = laid_out_as(c.g()?, c.out_meta(_as_strided_scatter::RESULT))?;
            out.set(_as_strided_scatter::SRC, || g._as_strided(size, stride, offset))?;
            out.set(_as_strided_scatter::INPUT, || g._as_strided_scatter(&g.new_zeros(size)?, size, stride, offset))
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: scatter_samples,
    ..OpDef::BASE
};

/// The result of a scatter has the strides of its input; contiguous ones where the input names an element twice.
fn scattered(c: &Call<'_>, outs: &mut Outs, offset: i64) -> Result<()> {
    let (x, src, size) =
        (c.t(as_strided_scatter::INPUT)?, c.t(as_strided_scatter::SRC)?, c.ints(as_strided_scatter::SIZE)?);
    if src.sizes() != size {
        return Err(Error::runtime(format!(
            "as_strided_scatter(): expected src to have a size equal to the slice: src {:?}, slice {size:?}",
            src.sizes()
        )));
    }
    let strides =
        if overlapping(x.sizes(), x.strides()) { contiguous_strides(x.sizes()) } else { Dims::from_slice(x.strides()) };
    checked(c, offset, Some(end(x.sizes(), &strides, 0)))?;
    outs.push_strided(x.dtype(), x.device(), Dims::from_slice(x.sizes()), strides)
}

fn lower_scatter(c: &Call<'_>, l: &mut Lowered, offset: i64) -> Result<()> {
    l.starts_as(as_strided_scatter::INPUT);
    l.input(as_strided_scatter::SRC).output_as(
        as_strided_scatter::RESULT,
        Dims::from_slice(c.ints(as_strided_scatter::SIZE)?),
        Dims::from_slice(c.ints(as_strided_scatter::STRIDE)?),
        offset,
    );
    Ok(())
}
