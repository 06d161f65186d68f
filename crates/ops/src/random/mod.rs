//! Random numbers. The value of an element depends on the generator's key and position and the element's global index only;
//! with the engine `mt19937` it depends on all draws before, in the order that PyTorch's own algorithms take them.

pub mod bernoulli;
pub mod binomial;
pub mod cauchy;
pub mod distributions;
pub mod draw;
pub mod dropout;
pub mod exponential;
pub mod geometric;
pub mod log_normal;
pub mod multinomial;
pub mod normal;
pub mod poisson;
pub mod rand;
pub mod randint;
pub mod randn;
#[allow(clippy::module_inception)]
pub mod random;
pub mod randperm;
pub mod standard_gamma;
pub mod uniform;

use crate::prelude::*;

/// Whether a call draws one number after the other (`mt19937`), which some compositions must follow.
pub fn is_in_order(rng: Arg<'_>) -> bool {
    matches!(rng.rng(), Ok((_, mt19937::IN_ORDER)))
}

/// The part of the whole tensor that a call on a shard fills.
pub fn shard_of(rng: Arg<'_>) -> Shard {
    Shard(SmallVec::from_slice(rng.window()))
}
