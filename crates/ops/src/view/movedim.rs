//! `moveaxis`, `movedim`: Dimensions moved to other positions, the others keeping their order.

use super::{COMPOSED, give};
use crate::named::{moveaxis, movedim};
use crate::prelude::*;

pub static MOVEAXIS: OpDef = OpDef {
    sig: Sig::parse("moveaxis(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)"),
    doc: "Another name of `movedim`.

Example::

    >>> oneflow.moveaxis(oneflow.zeros(2, 3, 4), 0, 2).shape
    oneflow.Size([3, 4, 2])",
    compose: Some(|c, outs| {
        give(outs, c.t(moveaxis::INPUT)?.movedim(c.ints(moveaxis::SOURCE)?, c.ints(moveaxis::DESTINATION)?)?)
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[2, 3, 4]), SampleArg::Ints(vec![0, 1]), SampleArg::Ints(vec![2, 0])])]
    },
    ..COMPOSED
};

pub static OP: OpDef = OpDef {
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
            for (is_again, what, dims) in
                [(n > 0 && used[s], "source", from), (n > 0 && order[d].is_some(), "destination", to)]
            {
                if is_again {
                    return Err(Error::runtime(format!("movedim: repeated dim in `{what}` ({dims:?})")));
                }
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
