//! Random numbers. The value of an element depends on the generator's key and position and the element's global index only.

pub mod distributions;
pub mod draw;
pub mod dropout;

use crate::prelude::*;

/// Parameters that end every random launch: the window of a shard in the whole tensor, or none.
pub fn push_window(l: &mut Lowered, rng: Arg<'_>) {
    let window = rng.window();
    l.param((window.len() / 2) as i64);
    window.iter().for_each(|w| {
        l.param(*w);
    });
}
