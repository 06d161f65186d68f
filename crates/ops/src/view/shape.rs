//! Shapes made of other views: t, flatten, movedim, expand_as, view_as, reshape_as, unflatten, detach.

use super::COMPOSED;
use crate::named::{expand_as, flatten, movedim, reshape_as, t, unflatten, view_as};
use crate::prelude::*;

pub static T: OpDef = OpDef {
    sig: Sig::parse("t(Tensor(a) input) -> Tensor(a)"),
    doc: "The transpose of a matrix; vectors and numbers stay as they are.

Example::

    >>> oneflow.t(oneflow.zeros(2, 3)).shape
    oneflow.Size([3, 2])",
    compose: Some(|c, outs| {
        let x = c.t(t::INPUT)?;
        if x.ndim() > 2 {
            return Err(Error::runtime(format!(
                "t() expects a tensor with <= 2 dimensions, but self is {}D",
                x.ndim()
            )));
        }
        outs.give(if x.ndim() == 2 { x.transpose(0, 1)? } else { x.view(x.sizes())? });
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])]), Sample::new(vec![SampleArg::f32(&[3])])],
    sparse: Sparse::Transpose,
    ..COMPOSED
};

pub static FLATTEN: OpDef = OpDef {
    sig: Sig::parse("flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)"),
    doc: "The dimensions from `start_dim` to `end_dim` as one.

Example::

    >>> oneflow.flatten(oneflow.zeros(2, 3, 4), 1).shape
    oneflow.Size([2, 12])",
    compose: Some(|c, outs| {
        let x = c.t(flatten::INPUT)?;
        let (a, b) = (wrap_dim(c.int(flatten::START_DIM)?, x.ndim())?, wrap_dim(c.int(flatten::END_DIM)?, x.ndim())?);
        if a > b {
            return Err(Error::runtime("flatten() has invalid args: start_dim cannot come after end_dim"));
        }
        if x.ndim() == 0 {
            outs.give(x.reshape(&[1])?);
            return Ok(());
        }
        if a == b {
            outs.give(x.clone());
            return Ok(());
        }
        let mut sizes = Dims::from_slice(&x.sizes()[..a]);
        sizes.push(x.sizes()[a..=b].iter().product());
        sizes.extend_from_slice(&x.sizes()[b + 1..]);
        outs.give(x.reshape(&sizes)?);
        Ok(())
    }),
    samples: || {
        let t = |s: &[i64], a, b| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(a), SampleArg::Int(b)]);
        vec![t(&[2, 3, 4], 0, -1), t(&[2, 3, 4], 1, 2), t(&[], 0, -1), t(&[0, 3], 0, 1)]
    },
    ..COMPOSED
};

pub static UNFLATTEN: OpDef = OpDef {
    sig: Sig::parse("unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)"),
    doc: "One dimension as several.

Example::

    >>> oneflow.unflatten(oneflow.zeros(2, 6), 1, (2, 3)).shape
    oneflow.Size([2, 2, 3])",
    compose: Some(|c, outs| {
        let (x, parts) = (c.t(unflatten::INPUT)?, c.ints(unflatten::SIZES)?);
        let d = wrap_dim(c.int(unflatten::DIM)?, x.ndim())?;
        if x.ndim() == 0 || parts.is_empty() {
            return Err(Error::runtime("unflatten: sizes must be non-empty"));
        }
        let parts = super::infer_sizes("unflatten", parts, x.sizes()[d], &x.sizes()[d..=d])?;
        let mut sizes = Dims::from_slice(&x.sizes()[..d]);
        sizes.extend_from_slice(&parts);
        sizes.extend_from_slice(&x.sizes()[d + 1..]);
        outs.give(x.view(&sizes)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 6]), SampleArg::Int(1), SampleArg::Ints(vec![2, -1])])],
    ..COMPOSED
};

pub static MOVEDIM: OpDef = OpDef {
    sig: Sig::parse("movedim(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)"),
    doc: "Dimensions moved to other positions, the others keeping their order.

Example::

    >>> oneflow.movedim(oneflow.zeros(2, 3, 4), 0, -1).shape
    oneflow.Size([3, 4, 2])",
    compose: Some(|c, outs| {
        let (x, from, to) = (c.t(movedim::INPUT)?, c.ints(movedim::SOURCE)?, c.ints(movedim::DESTINATION)?);
        let n = x.ndim();
        if from.len() != to.len() {
            return Err(Error::runtime(format!(
                "movedim: Invalid source or destination dims: source ({from:?} dims) should contain the same number of dims as destination ({to:?} dims)"
            )));
        }
        let mut order: Vec<Option<usize>> = vec![None; n];
        let mut used = vec![false; n];
        for (s, d) in from.iter().zip(to) {
            let (s, d) = (wrap_dim(*s, n)?, wrap_dim(*d, n)?);
            if n > 0 && (used[s] || order[d].is_some()) {
                return Err(Error::runtime("movedim: repeated dim in `source` or `destination`"));
            }
            if n > 0 {
                used[s] = true;
                order[d] = Some(s);
            }
        }
        let mut rest = (0..n).filter(|i| !used[*i]).collect::<Vec<_>>().into_iter();
        let order: Dims = order.into_iter().map(|o| o.or_else(|| rest.next()).unwrap_or(0) as i64).collect();
        outs.give(x.permute(&order)?);
        Ok(())
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[2, 3, 4]), SampleArg::Ints(vec![0]), SampleArg::Ints(vec![-1])])]
    },
    ..COMPOSED
};

pub static EXPAND_AS: OpDef = OpDef {
    sig: Sig::parse("expand_as(Tensor(a) input, Tensor other) -> Tensor(a)"),
    doc: "The tensor expanded to the other's size.

Example::

    >>> oneflow.ones(1).expand_as(oneflow.zeros(3)).shape
    oneflow.Size([3])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        outs.give(c.t(expand_as::INPUT)?.expand(c.t(expand_as::OTHER)?.sizes())?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 1]), SampleArg::f32(&[3, 4])])],
    ..COMPOSED
};

pub static VIEW_AS: OpDef = OpDef {
    sig: Sig::parse("view_as(Tensor(a) input, Tensor other) -> Tensor(a)"),
    doc: "The tensor seen with the other's size.

Example::

    >>> oneflow.ones(4).view_as(oneflow.zeros(2, 2)).shape
    oneflow.Size([2, 2])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        outs.give(c.t(view_as::INPUT)?.view(c.t(view_as::OTHER)?.sizes())?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

pub static RESHAPE_AS: OpDef = OpDef {
    sig: Sig::parse("reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)"),
    doc: "The tensor reshaped to the other's size.

Example::

    >>> oneflow.ones(4).reshape_as(oneflow.zeros(2, 2)).shape
    oneflow.Size([2, 2])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        outs.give(c.t(reshape_as::INPUT)?.reshape(c.t(reshape_as::OTHER)?.sizes())?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};
