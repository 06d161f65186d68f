//! The frame of a pooling's backward: gradients are summed in the compute dtype, plane by plane, and then stored.

use crate::geometry::Image;
use crate::pool::{by_channel, positions};
use crate::stored::Stored;
use oneflow_kernels_gemm::micro::{Slot, with_scratch};
use oneflow_kernels_prim::rows::split;

pub struct Gradient {
    pub g: Image,
    /// The result.
    pub gx: Image,
}

/// Sums of some channels of one image: [position, channel].
pub struct Sink<T: Stored> {
    sums: *mut T::Acc,
    pub channels: usize,
}

impl<T: Stored> Sink<T> {
    /// # Safety
    /// The position lies in the plane.
    #[inline(always)]
    pub unsafe fn add(&mut self, position: usize, channel: usize, v: T::Acc) {
        // SAFETY: by the caller.
        unsafe {
            let to = self.sums.add(position * self.channels + channel);
            *to = *to + v;
        }
    }
}

impl Gradient {
    /// Calls `f(image, first channel, sink)` for runs of channels of every image. `ns` is the rough cost of one channel.
    ///
    /// # Safety
    /// The images hold `T` and are valid.
    pub unsafe fn run<T: Stored>(&self, ns: f64, f: &(dyn Fn(usize, usize, &mut Sink<T>) + Sync)) {
        let gx = &self.gx;
        let (spatial, channels) = (gx.spatial(), gx.sizes[1]);
        let plane: usize = spatial.iter().product();
        // Channels that lie side by side go together, a cache line at a time.
        let run = if by_channel(&[&self.g, gx]) { (64 / size_of::<T>()).min(channels) } else { 1 };
        let runs = channels.div_ceil(run.max(1));
        split(gx.sizes[0] * runs, (ns + plane as f64) * run as f64, &|r| {
            with_scratch(Slot::A, plane * run * size_of::<T::Acc>(), |sums| {
                for i in r {
                    let (n, c) = (i / runs, i % runs * run);
                    let k = run.min(channels - c);
                    let mut sink = Sink::<T> { sums: sums.cast(), channels: k };
                    // SAFETY: the scratch holds a plane of `run` channels; the positions lie in the image.
                    unsafe {
                        std::ptr::write_bytes(sink.sums, 0, plane * k);
                        f(n, c, &mut sink);
                        positions(spatial, |p, at| {
                            for i in 0..k {
                                *gx.at::<T>(n, c + i, at) = T::narrow(*sink.sums.add(p * k + i));
                            }
                        });
                    }
                }
            })
        });
    }
}
