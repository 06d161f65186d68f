//! `meshgrid`: Coordinates of a grid: each vector along its own dimension, repeated along the others. With
//! `indexing` "xy" the first two dimensions are exchanged.

use super::{COMPOSED, give_all};
use crate::named::meshgrid;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]"),
    doc: "Coordinates of a grid: each vector along its own dimension, repeated along the others. With `indexing` \"xy\" the
first two dimensions are exchanged.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let n = c.ins.len();
        let Some(first) = c.opt(meshgrid::TENSORS.first()) else {
            return Err(Error::runtime("meshgrid expects a non-empty TensorList"));
        };
        for t in c.ins.iter().flatten() {
            if t.ndim() > 1 {
                return Err(Error::runtime(format!(
                    "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {:?}",
                    t.sizes()
                )));
            }
            if t.dtype() != first.dtype() {
                return Err(Error::runtime("torch.meshgrid expects all tensors to have the same dtype"));
            }
        }
        let swap = match c.arg(meshgrid::INDEXING).str().unwrap_or("ij") {
            "ij" => false,
            "xy" => n >= 2,
            other => {
                return Err(Error::runtime(format!(
                    "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
                )));
            }
        };
        let mut list: Vec<&Tensor> = c.ins.iter().flatten().copied().collect();
        if swap {
            list.swap(0, 1);
        }
        let sizes: Dims = list.iter().map(|t| t.numel()).collect();
        let mut grids = Vec::with_capacity(n);
        for (i, t) in list.iter().enumerate() {
            let mut own: Dims = SmallVec::from_elem(1, n);
            own[i] = -1;
            grids.push(t.reshape(&own)?.expand(&sizes)?);
        }
        if swap {
            grids.swap(0, 1);
        }
        give_all(outs, grids)
    }),
    samples: || super::broadcast_tensors::pair(&[3], &[2]),
    ..COMPOSED
};
