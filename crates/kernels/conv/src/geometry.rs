//! What a convolution or a pooling looks like: images of five dimensions, windows, and blocks of output positions.
//!
//! One and two spatial dimensions are three with sizes of one in front. Reads no element.

use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{ConvParams, View};

/// Three spatial numbers: depth, height, width.
pub type Three = [isize; 3];

/// A batch of images [n, c, d, h, w] in memory; strides count elements.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    pub ptr: *mut u8,
    pub sizes: [usize; 5],
    pub strides: [isize; 5],
}

// SAFETY: whoever dereferences the pointer promises that tasks write disjoint elements.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// A view with `spatial` dimensions behind the first two.
    pub fn new(v: &View, spatial: usize) -> Result<Image> {
        if v.ndim() != spatial + 2 || !(1..=3).contains(&spatial) {
            return Err(Error::runtime(format!("conv: {} dimensions where {} belong", v.ndim(), spatial + 2)));
        }
        let (mut sizes, mut strides) = ([1; 5], [0; 5]);
        for d in 0..v.ndim() {
            let at = if d < 2 { d } else { d + 3 - spatial };
            sizes[at] = v.sizes[d] as usize;
            strides[at] = if v.sizes[d] == 1 { 0 } else { v.strides[d] as isize };
        }
        // A single channel or a single pixel is next to itself.
        if sizes[1] == 1 {
            strides[1] = 1;
        }
        Ok(Image { ptr: v.ptr, sizes, strides })
    }

    pub fn spatial(&self) -> [usize; 3] {
        [self.sizes[2], self.sizes[3], self.sizes[4]]
    }

    /// Distance of an element from the first.
    #[inline(always)]
    pub fn offset(&self, n: usize, c: usize, [d, h, w]: [usize; 3]) -> isize {
        let s = &self.strides;
        n as isize * s[0] + c as isize * s[1] + d as isize * s[2] + h as isize * s[3] + w as isize * s[4]
    }

    /// The element, as a pointer.
    #[inline(always)]
    pub fn at<T>(&self, n: usize, c: usize, pos: [usize; 3]) -> *mut T {
        self.ptr.cast::<T>().wrapping_offset(self.offset(n, c, pos))
    }

    /// The step from position to position where a plane's positions are evenly spaced.
    pub fn position_step(&self) -> Option<isize> {
        let ([_, _, d, h, w], [_, _, sd, sh, sw]) = (self.sizes, self.strides);
        let one = |n: usize, stride: isize, want: isize| n == 1 || stride == want;
        let step = match (w, h) {
            (1, 1) => sd,
            (1, _) => sh,
            _ => sw,
        };
        let whole = one(h, sh, step * w as isize) && one(d, sd, step * (w * h) as isize);
        whole.then_some(step)
    }

    pub fn numel(&self) -> usize {
        self.sizes.iter().product()
    }
}

/// Kernel, stride, padding and dilation of a window, and the groups of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub groups: usize,
    pub kernel: [usize; 3],
    pub stride: Three,
    pub padding: Three,
    pub dilation: Three,
}

impl Window {
    /// From `CONV`'s parameters and the weight.
    pub fn of_conv(params: &ConvParams, weight: &Image) -> Result<(usize, Window)> {
        let spatial = params.axes.len();
        if spatial > 3 {
            return Err(Error::runtime(format!("conv: {spatial} dimensions")));
        }
        let mut w = Window {
            groups: params.groups as usize,
            kernel: weight.spatial(),
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        for (d, axis) in params.axes.iter().enumerate() {
            let at = d + 3 - spatial;
            w.stride[at] = axis.stride as isize;
            w.padding[at] = axis.padding as isize;
            w.dilation[at] = axis.dilation as isize;
        }
        Ok((spatial, w))
    }

    /// Leaves out the lines of the source that no window of width one reaches: they need not be brought near. Along a line
    /// neighbours are cheaper to read than every other element.
    pub fn skip_lines(&mut self, src: &mut Image, outputs: [usize; 3]) {
        for d in 0..2 {
            if self.kernel[d] == 1 && self.padding[d] == 0 {
                src.sizes[2 + d] = outputs[d];
                src.strides[2 + d] = src.strides[2 + d].saturating_mul(self.stride[d]);
                self.stride[d] = 1;
            }
        }
    }

    /// Where a tap reads, seen from the output position times the stride.
    #[inline(always)]
    pub fn shift(&self, tap: Three) -> Three {
        std::array::from_fn(|d| tap[d] * self.dilation[d] - self.padding[d])
    }

    /// Positions of the window, the last dimension fastest.
    pub fn taps(&self) -> impl DoubleEndedIterator<Item = Three> + use<> {
        let [d, h, w] = self.kernel;
        (0..d * h * w).map(move |i| [(i / (h * w)) as isize, (i / w % h) as isize, (i % w) as isize])
    }
}

/// A box of output positions [n, d, h, w].
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub start: [usize; 4],
    pub len: [usize; 4],
}

impl Block {
    pub fn n_positions(&self) -> usize {
        self.len.iter().product()
    }

    /// Calls `f(i, position relative to the block)` in order.
    #[inline(always)]
    pub fn each(&self, mut f: impl FnMut(usize, [usize; 4])) {
        let mut i = 0;
        for n in 0..self.len[0] {
            for d in 0..self.len[1] {
                for h in 0..self.len[2] {
                    for w in 0..self.len[3] {
                        f(i, [n, d, h, w]);
                        i += 1;
                    }
                }
            }
        }
    }

    /// Calls `f(i, first position, length)` for runs of positions that lie `step` apart in the image.
    pub fn runs(&self, image: &Image, mut f: impl FnMut(usize, [usize; 4], usize)) {
        let s = &image.strides;
        let mut len = self.len[3];
        // Whole rows that follow each other, then whole planes, are one run.
        let mut dims = 3;
        for dim in (1..3).rev() {
            let whole = self.len[dim + 1] == image.sizes[dim + 2];
            if !(whole && (self.len[dim] == 1 || s[dim + 1] == len as isize * s[4])) {
                break;
            }
            len *= self.len[dim];
            dims = dim;
        }
        let mut outer = *self;
        outer.len[dims..].fill(1);
        outer.each(|i, at| f(i * len, std::array::from_fn(|d| self.start[d] + at[d]), len));
    }
}

/// The output positions [n, d, h, w] cut into blocks of about `target` of them.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    sizes: [usize; 4],
    chunk: [usize; 4],
    counts: [usize; 4],
}

impl Blocks {
    pub fn new(sizes: [usize; 4], target: usize) -> Blocks {
        let (mut chunk, mut room) = ([1; 4], target.max(1));
        for d in (0..4).rev() {
            // All but equal parts.
            let parts = sizes[d].div_ceil(room).max(1);
            chunk[d] = sizes[d].div_ceil(parts).max(1);
            room = if parts == 1 { (room / chunk[d]).max(1) } else { 1 };
        }
        Blocks { sizes, chunk, counts: std::array::from_fn(|d| sizes[d].div_ceil(chunk[d])) }
    }

    pub fn len(&self) -> usize {
        self.counts.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, mut i: usize) -> Block {
        let (mut start, mut len) = ([0; 4], [0; 4]);
        for d in (0..4).rev() {
            start[d] = i % self.counts[d] * self.chunk[d];
            len[d] = self.chunk[d].min(self.sizes[d] - start[d]);
            i /= self.counts[d];
        }
        Block { start, len }
    }

    /// Most positions a block has.
    pub fn largest(&self) -> usize {
        self.chunk.iter().product()
    }

    /// The sizes of the largest block.
    pub fn chunk(&self) -> [usize; 4] {
        self.chunk
    }
}
