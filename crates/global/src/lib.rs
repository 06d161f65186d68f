//! Global tensors: a cluster seen as one device.
//!
//! A layer of dispatch that chooses how an op's inputs and outputs are laid over a mesh (split, broadcast, partial), boxes the
//! inputs, runs the op on the shards and wraps the results. Which layouts an op allows stands in its definition; no op is known
//! here beyond those that change layouts. Does not know how bytes travel: that is the process group's work.

mod agreement;
pub mod boxing;
mod choose;
mod create;
pub mod fingerprints;
mod generated;
mod host;
mod layer;
mod mesh;
pub mod ops;
pub mod pinned;
mod rows;
mod scalars;
mod tensor;
mod update;

pub use choose::{Choice, choices, rule};
pub(crate) use generated::named;
pub use host::copy_to_host;
pub use layer::run_row;
pub use mesh::{
    Part, adopt_axis_groups, axis_groups, close_groups, my_coords, part, reset_wire_counters, wire_counters,
};
pub use ops::{spread, to_global, to_local};
pub use rows::{Candidate, candidates};
pub use scalars::with_scalars;
pub use tensor::{GlobalTensor, Spread, global_of, make};

/// Puts the layer into the stack, its ops into the table and its rule into autograd.
pub fn register() {
    layer::register();
    oneflow_core::set_read_whole(copy_to_host);
    boxing::traced::register();
    boxing::bucket::register();
    boxing::traced_cross::register();
    oneflow_core::register_ops(ops::TABLE);
    oneflow_core::register_ops(create::TABLE);
    oneflow_autograd::set_accumulate_rule(ops::accumulate_rule);
}
