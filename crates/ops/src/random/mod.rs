//! Random numbers. The value of an element depends on the generator's key and position and the element's global index only.

pub mod draw;
pub mod dropout;

use crate::prelude::*;

/// Parameters that end every random launch: no window, the tensor is whole.
pub fn push_whole(l: &mut Lowered) {
    l.param(0i64);
}
