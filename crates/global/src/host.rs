//! Reading a global tensor on the host: the whole value, on every rank that reads together with the others.

use crate::boxing::boxed;
use crate::tensor::{Spread, global_of};
use oneflow_base::{Error, Result};
use oneflow_core::Tensor;

/// The elements of any tensor on the host, row-major. Of a global one the whole: a collective call of all ranks.
pub fn copy_to_host(t: &Tensor) -> Result<Tensor> {
    let Some(g) = global_of(t) else {
        return oneflow_core::copy_to_host(t);
    };
    let home = g.spread.placement;
    let whole = boxed(t, Spread::broadcast(g.spread.placement_id)?)?;
    match global_of(&whole).and_then(|g| g.local.as_ref()) {
        Some(t) => oneflow_core::copy_to_host(t),
        None => Err(Error::runtime(format!(
            "this rank is outside {home} and cannot read the tensor; bring it here with `to_global`"
        ))),
    }
}
