//! What the special functions share: real floats only, and the public name below `special`.

use super::unary;
use crate::prelude::*;

pub(super) const REAL: OpDef = OpDef { infer: unary::real_float, ..unary::FLOAT };

pub(super) const SPECIAL: OpDef = OpDef { faces: Faces::PRIVATE.or(Faces::OUT), ..REAL };
