//! CONV_PREPARE and CONV_PREPARED: weights brought into the order in which they are multiplied, once for many runs.
//!
//! Panels of `PANEL` output channels follow one another, the last one filled up to a multiple of `FILLED`: [tap, input channel,
//! output channel], or with Winograd's points in place of taps. The order is that of no machine in particular, so that a
//! program may be saved with it. One group of float32.

use crate::algorithm::Correlation;
use crate::conv::{bias, one_dtype, tap_offset};
use crate::geometry::{Image, Window};
use crate::packed_weights::{Tap, Weight};
use crate::winograd::{Winograd, panel_at_points};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_gemm::micro::{Slot, with_scratch};
use oneflow_kernels_gemm::{FILLED, PANEL, Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{ConvPrepareParams, ConvPreparedParams, Launch, PreparedWeight, isa};

fn refused(why: &str) -> Error {
    Error::not_implemented(format!("conv: a prepared weight {why}"))
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn prepare(l: &Launch<'_>) -> Result<()> {
    let (w, out) = (l.input(0)?, l.output(0)?);
    let ConvPrepareParams { at_points } = l.read()?;
    let weight = Image::new(&w, w.ndim() - 2)?;
    let taps = (0..weight.spatial().iter().product()).map(|i| {
        let [_, h, w] = weight.spatial();
        let at = [i / (h * w), i / w % h, i % w].map(|k: usize| k as isize);
        Tap { shift: at, weight: tap_offset(&weight, at) }
    });
    let taps: Vec<Tap> = taps.collect();
    let sizes: [i64; 4] = [0, 1, 3, 4].map(|d| weight.sizes[d] as i64);
    let prepared = PreparedWeight { sizes, at_points };
    let fits = w.dtype == DType::F32 && out.dtype == DType::F32 && weight.sizes[2] == 1 && out.strides == [1];
    if !fits || prepared.numbers().is_none_or(|n| out.sizes != [n]) {
        return Err(refused("is a row of float32 of as many numbers as its panels have"));
    }
    let (n, k) = (weight.sizes[0], weight.sizes[1] * taps.len());
    let to = Shared::<f32>::new(out.ptr);
    let rows = prepared.rows() as usize;
    let panel = |i: usize| {
        let col = i * PANEL;
        let part = Weight {
            ptr: weight.at::<f32>(col, 0, [0; 3]).cast_const().cast(),
            n: PANEL.min(n - col),
            n_stride: weight.strides[0],
            channels: weight.sizes[1],
            c_stride: weight.strides[1],
            taps: &taps,
        };
        let width = part.n.next_multiple_of(FILLED);
        // The packing may write beyond a panel, and the result has no spare room behind it.
        with_scratch(Slot::B, (k + if at_points { rows } else { 0 }) * width * 4 + crate::region::SPARE, |room| {
            let packed: *mut f32 = room.cast();
            // SAFETY: the launch's weight; the room holds the panels, the result the one that is copied.
            unsafe {
                let from = match at_points {
                    true => {
                        let made = packed.add(k * width);
                        panel_at_points::<f32>(&part, FILLED, isa(), (made, packed));
                        made
                    }
                    false => {
                        part.pack_panels::<f32>(isa(), Shared::new(room), width, FILLED);
                        packed
                    }
                };
                std::ptr::copy_nonoverlapping(from, to.at((col * rows) as isize), rows * width);
            }
        })
    };
    Pool.run(n.div_ceil(PANEL), &panel);
    Ok(())
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    one_dtype(&[l.opt_input(0), l.opt_input(1), l.opt_input(2), l.opt_output(0)])?;
    let (x, w, y) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let ConvPreparedParams { activation, weight, conv } = l.read()?;
    let (mut src, dst) = (Image::new(&x, 2)?, Image::new(&y, 2)?);
    let [n, channels, height, width] = weight.sizes.map(|n| n as usize);
    let sizes = Image { ptr: w.ptr, sizes: [n, channels, 1, height, width], strides: [0; 5] };
    let (spatial, mut window) = Window::of_conv(&conv, &sizes)?;
    let one_group = spatial == 2 && window.groups == 1 && src.sizes[1] == channels && dst.sizes[1] == n;
    if x.dtype != DType::F32 || !one_group || w.strides != [1] || weight.numbers().is_none_or(|n| w.sizes != [n]) {
        return Err(refused("serves one group of float32, in two dimensions, and has as many numbers as its panels"));
    }
    if dst.numel() == 0 {
        return Ok(());
    }
    window.skip_lines(&mut src, dst.spatial());
    // Where taps lie in memory is known by the panels.
    let taps: Vec<Tap> = window.taps().map(|k| Tap { shift: window.shift(k), weight: 0 }).collect();
    let correlation = Correlation {
        src,
        dst,
        weight: Weight { ptr: w.ptr, n, n_stride: 0, channels, c_stride: 0, taps: &taps },
        group_stride: 0,
        groups: 1,
        step: window.stride,
        bias: bias(l.opt_input(2)),
        activation,
    };
    let panels = Shared::<f32>::new(w.ptr);
    // SAFETY: the views are valid by the launch's contract, and the op has checked that the sizes fit.
    unsafe {
        if !weight.at_points {
            correlation.run_panels(panels);
            return Ok(());
        }
        match Winograd::<f32>::prepared(&correlation, panels) {
            Some(winograd) => winograd.run(),
            None => return Err(refused("at Winograd's points serves square windows with stride one")),
        }
    }
    Ok(())
}
