//! Rewrites of the logical graph, in one ordered list. Each is a plain function in a file of its own.
//!
//! To write one, read `ir.rs`, then `fusion/bag.rs` as the shortest example of a pattern; `fusion/pattern.rs` has what patterns are
//! found and replaced with. A pass makes nodes of ops and leaves memory and order to `lowering` and `straighten`.

mod common;
mod dead_code;
pub(crate) mod fold;
mod fusion;
mod pipeline;
mod precompute;
mod split_update;
pub(crate) mod straighten;

use crate::Config;
use crate::ir::Graph;
use oneflow_base::Result;

/// A pass; gives back whether it changed anything.
pub type Pass = fn(&mut Graph, &Config) -> Result<bool>;

pub static PASSES: &[(&str, Pass)] = &[
    ("pipeline", pipeline::run),
    ("fold", fold::run),
    ("dead_code", dead_code::run),
    ("common", common::run),
    ("fold_batch_norm", fusion::batch_norm::run),
    ("channels_last", fusion::channels_last::run),
    ("precompute", precompute::run),
    ("fuse_attention", fusion::attention::run),
    ("fuse_bag", fusion::bag::run),
    ("fuse_loss", fusion::loss::run),
    ("fuse_update", fusion::update::run),
    ("fuse_cast", fusion::cast::run),
    ("fuse_residual", fusion::residual::run),
    ("fuse_linear", fusion::linear::run),
    ("fuse_norm", fusion::norm::run),
    ("fuse_chain", fusion::chain::run),
    ("split_update", split_update::run),
];

/// What has to run while forward and backward are one graph still: of attention both are replaced, or neither. Constants are
/// computed before, as masks are found by them.
pub fn run_before_split(g: &mut Graph, config: &Config) -> Result<()> {
    fold::run(g, config)?;
    fusion::attention::run(g, config)?;
    Ok(())
}

/// Runs all passes. `ONEFLOW_DEBUG_PASS=name` (or `ALL`) prints the graph before and after.
pub fn run_all(g: &mut Graph, config: &Config) -> Result<()> {
    let shown = std::env::var("ONEFLOW_DEBUG_PASS").unwrap_or_default();
    for (name, pass) in PASSES {
        let show = shown == "ALL" || shown.split(',').any(|s| s == *name);
        if show {
            eprintln!("before {name}:\n{g}");
        }
        pass(g, config)?;
        if show {
            eprintln!("after {name}:\n{g}");
        }
    }
    Ok(())
}
