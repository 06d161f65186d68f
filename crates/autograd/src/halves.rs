//! A backward in two halves: first the gradients of some inputs, later those of everything else.
//!
//! Pipelines hand the gradients of a stage's inputs on at once and leave those of its parameters for when the rank would
//! wait. An op on the way to the inputs runs its rule twice, each time for the inputs of one half; what a rule computes is
//! chosen by them, so nothing is computed twice. A function of the user, and a node with hooks, run once, in the first half.

use crate::engine::{Engine, Root};
use crate::left::Left;
use crate::running::Keys;
use oneflow_base::Result;
use oneflow_core::Tensor;

/// The second half of a backward. It holds what is needed of the graph; dropping it gives those gradients up.
pub struct SecondHalf {
    left: Left,
    /// Nodes of the first half.
    first: Keys,
}

impl SecondHalf {
    /// Adds the gradients to the `.grad` of the leaves.
    pub fn run(self) -> Result<()> {
        Engine::of_rest(self.left, self.first)?.run()
    }
}

/// The gradients of `roots` with respect to `inputs`, and the half that is left. Touches no `.grad`.
pub fn first_half(
    roots: &[Root],
    inputs: &[Root],
    grads: &[Option<Tensor>],
) -> Result<(Vec<Option<Tensor>>, SecondHalf)> {
    let mut e = Engine::new(roots, grads, false, false)?;
    let (found, left, first) = e.first_half(inputs)?;
    Ok((found, SecondHalf { left, first }))
}
