//! Convolutions with one channel in and one out a group, or few: forward, the gradient for the input and that for the weight.
//!
//! Planes are copied once with what pads them, every stride-th element side by side; then a tap is a shifted load, and a row
//! that is loaded serves all taps that see it. Channels side by side: a register of channels at a time, where a group has only
//! one. Every sum has a fixed order.

mod channels_first;
mod channels_last;
mod gradient;
mod layout;
mod rows;

pub use gradient::Gradient;
pub use layout::Layout;

use crate::algorithm::Correlation;
use crate::geometry::{Image, Three};
use crate::pool::by_channel;
use oneflow_kernels_gemm::micro::GemmFloat;

/// Channels a group may have of each kind: from more on registers of channels are full.
pub const FEW: usize = 8;
/// Numbers that may be read or written behind the end of a line.
const SLACK: usize = 16;

/// Correlations over one source whose results are every `every`-th position of one image.
pub struct Depthwise<'a> {
    pub src: Image,
    pub dst: Image,
    pub every: [usize; 3],
    /// One for each remainder by `every`, the last dimension fastest.
    pub phases: &'a [Correlation<'a>],
}

/// A group is one channel of each, or few channels of planes.
pub fn fits(c: &Correlation<'_>) -> bool {
    let (n, channels) = (c.weight.n, c.weight.channels);
    let few = n <= FEW && channels <= FEW && !by_channel(&[&c.src, &c.dst]);
    let fits = c.groups > 1 && (few || (n == 1 && channels == 1));
    fits && Depthwise::of(c).layout().is_small()
}

impl<'a> Depthwise<'a> {
    pub fn of(c: &'a Correlation<'a>) -> Depthwise<'a> {
        Depthwise { src: c.src, dst: c.dst, every: [1; 3], phases: std::slice::from_ref(c) }
    }

    fn layout(&self) -> Layout {
        let shifts: Vec<Three> = self.phases.iter().flat_map(|p| p.weight.taps).map(|t| t.shift).collect();
        let outputs = std::array::from_fn(|d| self.dst.sizes[2 + d].div_ceil(self.every[d]));
        Layout::of(&shifts, self.phases[0].step, outputs, self.src.spatial())
    }

    /// Whether the planes of several phases are as small as each by itself.
    pub fn is_small(&self) -> bool {
        self.layout().is_small()
    }

    /// # Safety
    /// As `Correlation::run`, for each phase.
    pub unsafe fn run<T: GemmFloat>(&self) {
        // SAFETY: the contract is the same.
        unsafe {
            match by_channel(&[&self.src, &self.dst]) {
                true => self.phases.iter().for_each(|c| channels_last::run::<T>(c)),
                false => channels_first::Planes::new(self).run::<T>(),
            }
        }
    }
}
