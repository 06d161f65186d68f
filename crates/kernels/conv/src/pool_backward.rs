//! The frame of max pooling's backward: gradients are summed in the compute dtype, plane by plane, and then stored.

use crate::geometry::Image;
use crate::pool::{by_channel, positions};
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::rows::split;
use std::any::TypeId;

pub struct Gradient {
    pub g: Image,
    /// The result.
    pub gx: Image,
}

/// Sums of some channels of one image: channels are neighbours, positions lie `step` apart.
pub struct Sink<T: GemmFloat> {
    sums: *mut T::Acc,
    step: usize,
    pub channels: usize,
}

impl<T: GemmFloat> Sink<T> {
    /// # Safety
    /// The position lies in the plane.
    #[inline(always)]
    pub unsafe fn add(&mut self, position: usize, channel: usize, v: T::Acc) {
        // SAFETY: by the caller.
        unsafe {
            let to = self.sums.add(position * self.step + channel);
            *to = *to + v;
        }
    }
}

impl Gradient {
    /// Calls `f(image, first channel, sink)` for runs of channels of every image. `ns` is the rough cost of one channel.
    ///
    /// # Safety
    /// The images hold `T` and are valid.
    pub unsafe fn run<T: GemmFloat>(&self, ns: f64, f: &(dyn Fn(usize, usize, &mut Sink<T>) + Sync)) {
        let gx = &self.gx;
        let (spatial, channels) = (gx.spatial(), gx.sizes[1]);
        let plane: usize = spatial.iter().product();
        // Where sums are what is stored, they are taken in the result.
        let same = TypeId::of::<T>() == TypeId::of::<T::Acc>();
        let direct = gx.position_step().filter(|step| same && *step > 0).map(|step| step as usize);
        // Channels that lie side by side go together: all in the result, else a cache line at a time.
        let all = direct.is_some() && gx.sizes[0] >= Pool.threads();
        let run = match by_channel(&[&self.g, gx]) {
            true if all => channels,
            true => (64 / size_of::<T>()).min(channels),
            false => 1,
        };
        let runs = channels.div_ceil(run.max(1));
        let room = if direct.is_some() { 0 } else { plane * run };
        split(gx.sizes[0] * runs, (ns + plane as f64) * run as f64, &|r| {
            with_scratch(Slot::A, room * size_of::<T::Acc>(), |sums| {
                for i in r {
                    let (n, c) = (i / runs, i % runs * run);
                    let k = run.min(channels - c);
                    let (sums, step) = match direct {
                        Some(step) => (gx.at::<T::Acc>(n, c, [0; 3]), step),
                        None => (sums.cast(), k),
                    };
                    let mut sink = Sink::<T> { sums, step, channels: k };
                    // SAFETY: the scratch holds a plane of `run` channels; the positions lie in the image.
                    unsafe {
                        if step == k {
                            std::ptr::write_bytes(sums, 0, plane * k);
                        } else {
                            (0..plane).for_each(|p| std::ptr::write_bytes(sums.add(p * step), 0, k));
                        }
                        f(n, c, &mut sink);
                        if direct.is_none() {
                            positions(spatial, |p, at| {
                                let to = gx.at::<T>(n, c, at);
                                for i in 0..k {
                                    *to.offset(i as isize * gx.strides[1]) = T::narrow(*sums.add(p * k + i));
                                }
                            });
                        }
                    }
                }
            })
        });
    }
}
