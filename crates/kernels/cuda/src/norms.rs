//! NORMS: norms of many tensors, 64 a launch. The block that comes last to a tensor joins what its blocks have found.

use crate::chunks::{CHUNK, CHUNKS, MAX_TENSORS, Runs, is_dense};
use crate::elementwise::copy_views;
use crate::launch::{Family, Key, Scratch, Tickets, args, run};
use crate::text::{Builder, float};
use oneflow_base::{DType, Error, Result, contiguous_strides};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{Launch, NormsParams, View};

/// `kind` 0: roots of sums of squares, 1: sums, 2: maxima of absolute values.
pub fn text(kind: u8, dtype: DType) -> Result<Text> {
    let b = Builder::new("norms").variant("KIND", kind).define("MAX_TENSORS", MAX_TENSORS).define("CHUNK", CHUNK);
    let b = b.compute("C", float("norms", dtype)?.compute())?.dtype("P", dtype)?;
    Ok(b.push(CHUNKS).push(include_str!("text/norms.cu")).finish())
}

pub unsafe fn norms(l: &Launch<'_>) -> Result<()> {
    let (out, NormsParams { order }) = (l.output(0)?, l.read()?);
    let kind = match order {
        2.0 => 0,
        1.0 => 1,
        f64::INFINITY => 2,
        _ => return Err(Error::not_implemented(format!("norms: no CUDA kernel for norms of order {order}"))),
    };
    let mut views: Vec<View<'_>> = l.ins.iter().flatten().copied().collect();
    if views.iter().any(|v| v.numel() == 0) {
        return Err(Error::not_implemented("norms: CUDA kernels take no tensors without elements"));
    }
    // What has gaps goes through contiguous copies.
    let strides: Vec<_> = views.iter().map(|v| contiguous_strides(v.sizes)).collect();
    let mut copies = Vec::new();
    for (v, strides) in views.iter_mut().zip(&strides) {
        if !is_dense(v) {
            let memory = Scratch::new(l.queue, v.numel() as i64, v.dtype.size())?;
            let flat = View { ptr: memory.ptr(), strides, ..*v };
            // SAFETY: both views are valid and of equal sizes.
            unsafe { copy_views(l.queue, &flat, v)? };
            *v = flat;
            copies.push(memory);
        }
    }
    for (k, part) in views.chunks(MAX_TENSORS).enumerate() {
        let (table, dtype) = (Runs::of(part)?, part[0].dtype);
        let n_chunks = table.chunks.first[part.len()] as i64;
        let partial = Scratch::new(l.queue, n_chunks, dtype.compute().size())?;
        let tickets = Tickets::new(l.queue, part.len() as i64)?;
        let to = out.ptr.wrapping_offset((k * MAX_TENSORS) as isize * out.strides[0] as isize * dtype.size() as isize);
        let (grid, key) = (table.chunks.grid(), Key::new(Family::Norms).small(kind as u64).dtype(dtype));
        let (step, partial_at, tickets_at) = (out.strides[0], partial.ptr(), tickets.ptr());
        let args = args![table, to, step, partial_at, tickets_at];
        // SAFETY: the arguments are the template's; the scratch holds a number a chunk, there is a ticket a tensor.
        unsafe { run(l.queue, key, || text(kind, dtype), grid, args)? };
    }
    Ok(())
}
