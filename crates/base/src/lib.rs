//! The words everything else is written in: dtypes, scalars, shapes, devices, placements, arguments and errors.
//!
//! Knows nothing: no memory, no kernel, no tensor, no op.

mod arg;
mod attrs;
mod device;
mod dims;
mod dtype;
mod elements;
mod error;
mod float8;
mod intern;
mod meta;
mod placement;
mod sbp;
mod scalar;

pub use arg::{Arg, Args};
pub use attrs::Attrs;
pub use device::{Device, DeviceType};
pub use dims::{Dims, broadcast_shapes, contiguous_strides, is_contiguous, numel, wrap_dim};
pub use dtype::{Category, DType, promote};
pub use elements::{Bool, no_kernel_for};
pub use error::{Error, ErrorKind, Result};
pub use float8::{F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, f32_to_float8, float8_to_f32};
pub use half::{bf16, f16};
pub use intern::{Sym, intern, sym_name};
pub use meta::Meta;
pub use placement::{Parts, Placement, PlacementId};
pub use sbp::{NdSbp, NdSbpId, PKind, Sbp, balanced_split};
pub use scalar::Scalar;
