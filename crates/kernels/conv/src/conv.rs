//! CONV, CONV_ACTIVATION, CONV_BACKWARD_INPUT and CONV_BACKWARD_WEIGHT: from views to correlations.

use crate::algorithm::Correlation;
use crate::col2im::Spread;
use crate::depthwise::{self, Depthwise};
use crate::geometry::{Image, Three, Window};
use crate::implicit_gemm::Direct;
use crate::merged_groups::{Merged, is_finite};
use crate::packed_weights::{Tap, Weight};
use crate::weight_grad::WeightGrad;
use oneflow_base::{Error, Result, by_float};
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::{Activation, ConvActivationParams, ConvParams, Launch, View};

/// All operands of one dtype.
pub fn one_dtype(views: &[Option<View>]) -> Result<()> {
    let mut dtypes = views.iter().flatten().map(|v| v.dtype);
    let first = dtypes.next();
    match dtypes.find(|d| Some(*d) != first) {
        Some(other) => Err(Error::not_implemented(format!("conv: no CPU kernel mixes {first:?} and {other:?}"))),
        None => Ok(()),
    }
}

pub fn bias(v: Option<View>) -> Option<(*const u8, isize)> {
    v.map(|v| (v.ptr.cast_const(), v.strides.first().map_or(0, |s| *s as isize)))
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    // SAFETY: the contract is the same.
    unsafe { convolve(l, &l.read()?, Activation::None) }
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn forward_activation(l: &Launch<'_>) -> Result<()> {
    let ConvActivationParams { activation, conv } = l.read()?;
    // SAFETY: the contract is the same.
    unsafe { convolve(l, &conv, activation) }
}

/// # Safety
/// The contract of `prim::KernelFn`.
unsafe fn convolve(l: &Launch<'_>, params: &ConvParams, activation: Activation) -> Result<()> {
    one_dtype(&[l.opt_input(0), l.opt_input(1), l.opt_input(2), l.opt_output(0)])?;
    let (x, w, y) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let weight = Image::new(&w, w.ndim() - 2)?;
    let (spatial, mut window) = Window::of_conv(params, &weight)?;
    let (mut src, dst) = (Image::new(&x, spatial)?, Image::new(&y, spatial)?);
    if dst.numel() == 0 {
        return Ok(());
    }
    window.skip_lines(&mut src, dst.spatial());
    let last = (bias(l.opt_input(2)), activation);
    by_float!("conv", x.dtype, T => {
        let merged = Merged::<T>::new(&weight, &window, [&src, &dst]);
        // SAFETY: the views are valid by the launch's contract, and the op has checked that the sizes fit.
        unsafe {
            let mut merged = merged.filter(|_| is_finite::<T>(&src));
            match &mut merged {
                Some(merged) => {
                    let (weight, window) = merged.merge(&weight, &window);
                    correlate::<T>(src, dst, &weight, &window, last);
                }
                None => correlate::<T>(src, dst, &weight, &window, last),
            }
        }
        Ok(())
    })
}

/// # Safety
/// Images, weight and bias hold `T` and are valid for their sizes, which fit.
unsafe fn correlate<T: GemmFloat>(
    src: Image,
    dst: Image,
    weight: &Image,
    window: &Window,
    (bias, activation): (Option<(*const u8, isize)>, Activation),
) {
    let taps: Vec<Tap> = window.taps().map(|k| Tap { shift: window.shift(k), weight: tap_offset(weight, k) }).collect();
    let per_group = weight.sizes[0] / window.groups;
    let correlation = Correlation {
        src,
        dst,
        weight: Weight {
            ptr: weight.ptr,
            n: per_group,
            n_stride: weight.strides[0],
            channels: weight.sizes[1],
            c_stride: weight.strides[1],
            taps: &taps,
        },
        group_stride: per_group as isize * weight.strides[0],
        groups: window.groups,
        step: window.stride,
        bias,
        activation,
    };
    // SAFETY: by the caller.
    unsafe { correlation.run::<T>() }
}

pub fn tap_offset(weight: &Image, k: Three) -> isize {
    (0..3).map(|d| k[d] * weight.strides[2 + d]).sum()
}

/// The taps that reach positions `phase + stride * j`, in terms of j, in the order they read.
fn phase_taps(window: &Window, weight: &Image, phase: Three) -> Vec<Tap> {
    window
        .taps()
        .rev()
        .filter_map(|k| {
            let at: Three = std::array::from_fn(|d| phase[d] + window.padding[d] - k[d] * window.dilation[d]);
            let reaches = (0..3).all(|d| at[d].rem_euclid(window.stride[d]) == 0);
            reaches.then(|| Tap {
                shift: std::array::from_fn(|d| at[d].div_euclid(window.stride[d])),
                weight: tap_offset(weight, k),
            })
        })
        .collect()
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn backward_input(l: &Launch<'_>) -> Result<()> {
    one_dtype(&[l.opt_input(0), l.opt_input(1), l.opt_input(2), l.opt_output(0)])?;
    let (g, w, gx) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let weight = Image::new(&w, w.ndim() - 2)?;
    let (spatial, window) = Window::of_conv(&l.read()?, &weight)?;
    let (src, dst) = (Image::new(&g, spatial)?, Image::new(&gx, spatial)?);
    if dst.numel() == 0 {
        return Ok(());
    }
    let bias = bias(l.opt_input(2));
    by_float!("conv_backward_input", g.dtype, T => {
        let merged = Merged::<T>::new(&weight, &window, [&src, &dst]);
        // SAFETY: the views are valid by the launch's contract, and the op has checked that the sizes fit.
        unsafe {
            let mut merged = merged.filter(|_| is_finite::<T>(&src));
            match &mut merged {
                Some(merged) => {
                    let (weight, window) = merged.merge(&weight, &window);
                    correlate_back::<T>(src, dst, &weight, &window, bias);
                }
                None => correlate_back::<T>(src, dst, &weight, &window, bias),
            }
        }
        Ok(())
    })
}

/// A correlation of step one with the weight's roles exchanged.
fn turned<'a>(
    src: Image,
    dst: Image,
    weight: &Image,
    groups: usize,
    taps: &'a [Tap],
    bias: Option<(*const u8, isize)>,
) -> Correlation<'a> {
    let channels = weight.sizes[0] / groups;
    Correlation {
        src,
        dst,
        weight: Weight {
            ptr: weight.ptr,
            n: weight.sizes[1],
            n_stride: weight.strides[1],
            channels,
            c_stride: weight.strides[0],
            taps,
        },
        group_stride: channels as isize * weight.strides[0],
        groups,
        step: [1; 3],
        bias,
        activation: Activation::None,
    }
}

/// Positions of one remainder by the stride are a correlation of their own.
///
/// # Safety
/// As `correlate`.
unsafe fn correlate_back<T: GemmFloat>(
    src: Image,
    dst: Image,
    weight: &Image,
    window: &Window,
    bias: Option<(*const u8, isize)>,
) {
    let merge = Spread { grad: &src, dst: &dst, weight, window, bias };
    if merge.fits::<T>() {
        // SAFETY: by the caller.
        return unsafe { merge.run::<T>() };
    }
    // Remainders beyond the image have no position.
    let phases: [usize; 3] = std::array::from_fn(|d| (window.stride[d] as usize).min(dst.sizes[2 + d]));
    let phase_of = |i: usize| [i / (phases[1] * phases[2]), i / phases[2] % phases[1], i % phases[2]];
    let n_phases = phases.iter().product();
    let taps: Vec<Vec<Tap>> =
        (0..n_phases).map(|i| phase_taps(window, weight, phase_of(i).map(|p| p as isize))).collect();
    let correlation = |i: usize| {
        // Every stride-th position, from the phase on.
        let (mut part, phase) = (dst, phase_of(i));
        part.ptr = part.at::<T>(0, 0, phase).cast();
        for d in 0..3 {
            part.sizes[2 + d] = (dst.sizes[2 + d] - phase[d]).div_ceil(window.stride[d] as usize);
            // Of a single position the stride is never used.
            part.strides[2 + d] = part.strides[2 + d].saturating_mul(window.stride[d]);
        }
        turned(src, part, weight, window.groups, &taps[i], bias)
    };
    let correlations: Vec<Correlation> = (0..n_phases).map(correlation).collect();
    // SAFETY: by the caller.
    unsafe {
        let depthwise = Depthwise { src, dst, every: phases, phases: &correlations };
        if correlations.iter().all(depthwise::fits) && depthwise.is_small() {
            depthwise.run::<T>();
        } else if correlations.iter().all(|c| c.is_special::<T>()) {
            correlations.iter().for_each(|c| c.run::<T>());
        } else {
            Direct { src, dst, every: phases, phases: &correlations, prepared: None }.run::<T>();
        }
    }
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn backward_weight(l: &Launch<'_>) -> Result<()> {
    one_dtype(&[l.opt_input(0), l.opt_input(1), l.opt_output(0)])?;
    let (g, x, gw) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let weight = Image::new(&gw, gw.ndim() - 2)?;
    let (spatial, mut window) = Window::of_conv(&l.read()?, &weight)?;
    let (grad, mut src) = (Image::new(&g, spatial)?, Image::new(&x, spatial)?);
    window.skip_lines(&mut src, grad.spatial());
    by_float!("conv_backward_weight", g.dtype, T => {
        // SAFETY: the views are valid by the launch's contract, and the op has checked that the sizes fit.
        unsafe {
            match Merged::<T>::new(&weight, &window, [&src, &grad]) {
                Some(mut merged) => {
                    let (whole, window) = merged.empty(&window);
                    WeightGrad { grad, src, weight: whole, window }.run::<T>();
                    merged.gather(&weight);
                }
                None => WeightGrad { grad, src, weight, window }.run::<T>(),
            }
        }
        Ok(())
    })
}
