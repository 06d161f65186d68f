//! Calls on dtypes that most kernels do not support (`DType::is_limited`).
//!
//! Says whether an elementwise kernel takes them, and what runs in place of a kernel that declined them. Computes nothing: the
//! way through a wider dtype is composed of ops, so the crate that has them installs it.

use crate::{Call, Outs, Tensor};
use oneflow_base::{Category, DType, Error, Result};
use std::sync::OnceLock;

/// The replacement of an op, composed of other ops.
pub type Composition = fn(&Call<'_>, &mut Outs) -> Result<()>;

static WIDEN: OnceLock<Composition> = OnceLock::new();

/// Installs what runs a call in the wide dtypes of its limited ones; once, by the op table.
pub fn set_widen(f: Composition) {
    let _ = WIDEN.set(f);
}

/// Runs if no kernel takes a call: the detour through wider dtypes if the op computes all of its limited ones, else
/// its composition.
pub fn instead(c: &Call<'_>) -> Option<Composition> {
    let given = c.ins.iter().flatten().map(|t| t.dtype());
    let mut limited = given.chain(c.args.iter().filter_map(|a| a.dtype())).filter(|d| d.is_limited()).peekable();
    if limited.peek().is_some() && limited.all(|d| c.op.limited.covers(d)) {
        return WIDEN.get().copied();
    }
    c.op.compose
}

/// Returns true if an elementwise kernel takes these operands as they are. It reads limited dtypes into its compute dtype,
/// so the op decides: what PyTorch has no kernel for is refused. Combined with another dtype of no lower category, that one
/// counts.
#[cold]
pub fn elementwise_takes(c: &Call<'_>, out: DType) -> Result<()> {
    let ins = || c.ins.iter().flatten().map(|t: &&Tensor| t.dtype());
    let known = ins().chain([out]).filter(|d| !d.is_limited()).map(DType::category).max().unwrap_or(Category::Bool);
    for d in ins().chain([out]).filter(|d| d.is_limited()) {
        // Elements of uint64 come as the same bits with a sign.
        let is_unordered = d != DType::U64 || !c.op.limited.is_order();
        let is_lifted = known >= d.category() && !out.is_limited();
        if !(is_lifted || c.op.limited.covers(d) && is_unordered) {
            let text = format!("\"{}\" not implemented for '{}'", c.op.name(), d.scalar_type_name());
            return Err(Error::not_implemented(text));
        }
    }
    Ok(())
}
