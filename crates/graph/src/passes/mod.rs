//! Rewrites of the logical graph, in one ordered list. Each is a plain function in a file of its own.
//!
//! To write one, read `ir.rs`, then `fusion/bag.rs` as the shortest example of a pattern; `fusion/pattern.rs` has what patterns are
//! found and replaced with. A pass makes nodes of ops and leaves memory and order to `lowering` and `order`.

mod common;
mod dead_code;
pub(crate) mod fold;
mod fuse_collectives;
mod fusion;
mod merge_reductions;
pub(crate) mod order;
mod overlap;
pub(crate) mod pipeline;
mod precompute;
mod split_update;

use crate::Config;
use crate::ir::Graph;
use oneflow_base::Result;

/// When passes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before a trace is cut into forward and backward, for what has to see both: of attention both are replaced, or neither.
    BeforeSplit,
    /// On every graph.
    Rewrite,
    /// On a copy of a graph that could run as it is; the order that needs less memory is kept, if memory is what matters.
    Order,
    /// On the graph in its order, for the work that collectives hide behind.
    Overlap,
}

/// One rewrite: what it is called, the stages it belongs to, and a function that returns whether it changed anything.
pub struct Pass {
    pub name: &'static str,
    pub stages: &'static [Stage],
    pub run: fn(&mut Graph, &Config) -> Result<bool>,
}

const fn rewrite(name: &'static str, run: fn(&mut Graph, &Config) -> Result<bool>) -> Pass {
    Pass { name, stages: &[Stage::Rewrite], run }
}

const fn also_before_split(name: &'static str, run: fn(&mut Graph, &Config) -> Result<bool>) -> Pass {
    Pass { name, stages: &[Stage::BeforeSplit, Stage::Rewrite], run }
}

/// Everything that changes a graph, in the order in which it runs.
pub static PASSES: &[Pass] = &[
    // Positions of micro-batches are still those of the trace.
    rewrite("merge_reductions", merge_reductions::run),
    rewrite("fuse_collectives", fuse_collectives::run),
    rewrite("pipeline", pipeline::run),
    // Masks of attention are found by their constants.
    also_before_split("fold", fold::run),
    rewrite("dead_code", dead_code::run),
    rewrite("common", common::run),
    rewrite("fold_batch_norm", fusion::batch_norm::run),
    rewrite("channels_last", fusion::channels_last::run),
    rewrite("prepare_weights", fusion::prepared_weights::run),
    rewrite("precompute", precompute::run),
    also_before_split("fuse_attention", fusion::attention::run),
    also_before_split("unfold_constants", fold::unfold),
    rewrite("fuse_bag", fusion::bag::run),
    rewrite("fuse_loss", fusion::loss::run),
    rewrite("fuse_update", fusion::update::run),
    rewrite("fuse_cast", fusion::cast::run),
    rewrite("fuse_residual", fusion::residual::run),
    rewrite("fuse_activation", fusion::activation::run),
    rewrite("fuse_norm", fusion::norm::run),
    rewrite("fuse_chain", fusion::chain::run),
    rewrite("split_update", split_update::run),
    Pass { name: "straighten", stages: &[Stage::Order], run: order::run },
    Pass { name: "overlap", stages: &[Stage::Overlap], run: overlap::run },
];

/// Runs the passes of a stage and returns whether one changed the graph. `ONEFLOW_DEBUG_PASS=name` (or `ALL`) reports the
/// graph before and after.
pub fn run(g: &mut Graph, config: &Config, stage: Stage) -> Result<bool> {
    let shown = std::env::var("ONEFLOW_DEBUG_PASS").unwrap_or_default();
    let mut changed = false;
    for pass in PASSES.iter().filter(|p| p.stages.contains(&stage)) {
        let name = pass.name;
        let show = shown == "ALL" || shown.split(',').any(|s| s == name);
        if show {
            tracing::info!("before {name}:\n{g}");
        }
        changed |= (pass.run)(g, config)?;
        if show {
            tracing::info!("after {name}:\n{g}");
        }
    }
    Ok(changed)
}
