//! CONCAT: inputs of one size and one layout, as those of a stack, in one launch; others by a copy each.

use crate::elementwise::copy_views;
use crate::launch::{Argument, Family, Key, args, ceil_div, run};
use crate::nest::Nest;
use crate::text::Builder;
use oneflow_base::{Dims, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{DimParams, Launch, View};
use smallvec::SmallVec;

/// Inputs of a launch.
const MAX_INPUTS: usize = 64;

/// The device's type for accesses of so many bytes.
pub fn unit(bytes: usize) -> &'static str {
    match bytes {
        1 => "u8",
        2 => "unsigned short",
        4 => "u32",
        8 => "u64",
        _ => "struct __align__(16) { u64 low, high; }",
    }
}

/// Moves accesses of so many bytes.
pub fn text(bytes: usize) -> Text {
    let b = Builder::new("concat").variant("BYTES", bytes).define("MAX_INPUTS", MAX_INPUTS).alias("U", unit(bytes));
    b.push(include_str!("text/concat.cu")).finish()
}

/// Addresses of inputs.
#[repr(C)]
struct Inputs {
    at: [*const u8; MAX_INPUTS],
}
impl Argument for Inputs {}

pub unsafe fn concat(l: &Launch<'_>) -> Result<()> {
    let (out, DimParams { dim }) = (l.output(0)?, l.read()?);
    // An empty input takes no room and may have any rank.
    let inputs: SmallVec<[View<'_>; 8]> = l.ins.iter().flatten().filter(|x| x.numel() > 0).copied().collect();
    let mut start = 0;
    for alike in inputs.chunk_by(|a, b| a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype) {
        for some in alike.chunks(MAX_INPUTS) {
            let first = &some[0];
            let step = first.sizes[dim] * out.strides[dim];
            let at = start as isize * out.strides[dim] as isize * out.dtype.size() as isize;
            let part = View { ptr: out.ptr.wrapping_offset(at), sizes: first.sizes, ..out };
            start += first.sizes[dim] * some.len() as i64;
            // SAFETY: the output's dimension is the sum of the inputs', so the parts lie inside it.
            unsafe {
                if some.len() == 1 || first.dtype != out.dtype || !side_by_side(l.queue, &part, step, some)? {
                    for (k, x) in some.iter().enumerate() {
                        let at = k as isize * step as isize * out.dtype.size() as isize;
                        copy_views(l.queue, &View { ptr: part.ptr.wrapping_offset(at), ..part }, x)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Copies inputs of one layout to places `step` elements from each other. Returns false, with nothing done, where no kernel walks them.
unsafe fn side_by_side(queue: Queue, part: &View<'_>, step: i64, inputs: &[View<'_>]) -> Result<bool> {
    let size = part.dtype.size() as i64;
    let bytes = |strides: &[i64]| strides.iter().map(|s| s * size).collect::<Dims>();
    // In bytes, with the element as the innermost dimension.
    let mut sizes: Dims = part.sizes.iter().copied().collect();
    let (mut to, mut from) = (bytes(part.strides), bytes(inputs[0].strides));
    sizes.push(size);
    to.push(1);
    from.push(1);
    let mut nest = Nest::new(&sizes, &[&to, &from]).ordered().merged();
    // Single bytes are no more than what copies are.
    let Some(last) = nest.sizes().len().checked_sub(1) else { return Ok(false) };
    if nest.all_strides().any(|s| s[last] != 1) {
        return Ok(false);
    }
    // The widest access that divides everything.
    let apart = nest.all_strides().flat_map(|s| s[..last].iter().copied()).chain([nest.sizes()[last], step * size]);
    let addresses = inputs.iter().map(|x| x.ptr as i64).chain([part.ptr as i64]);
    let together = apart.chain(addresses).fold(16, |all: i64, n| all | n);
    let unit = 1i64 << together.trailing_zeros().min(4);
    nest.in_units_of(unit);
    let n = nest.n();
    let Ok(geo) = nest.geo("concat") else { return Ok(false) };
    let mut table = Inputs { at: [std::ptr::null(); MAX_INPUTS] };
    for (at, x) in table.at.iter_mut().zip(inputs) {
        *at = x.ptr;
    }
    let step = step * size / unit;
    let grid = Grid {
        blocks: [ceil_div(n, 256).clamp(1, 1 << 30) as u32, inputs.len() as u32, 1],
        threads: [256, 1, 1],
        shared: 0,
    };
    let key = Key::new(Family::Concat).small(unit.ilog2() as u64);
    // SAFETY: by the contract; the arguments are the template's.
    unsafe { run(queue, key, || Ok(text(unit as usize)), grid, args![table, part.ptr, step, geo])? };
    Ok(true)
}
