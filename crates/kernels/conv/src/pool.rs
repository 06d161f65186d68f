//! What poolings share: windows along a dimension, and the plane that gradients are summed in.

use crate::geometry::Image;
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::Word;

/// Windows along one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub input: usize,
    pub output: usize,
    /// Zero: adaptive windows.
    pub kernel: usize,
    pub stride: isize,
    pub padding: isize,
    pub dilation: usize,
}

/// The part of a window that lies in the image: `start`, `start + dilation`, ... below `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Axis {
    pub const WHOLE: Axis = Axis { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    #[inline]
    pub fn span(&self, o: usize) -> Span {
        if self.kernel == 0 {
            let end = ((o + 1) * self.input).div_ceil(self.output);
            return Span { start: o * self.input / self.output, end };
        }
        let first = o as isize * self.stride - self.padding;
        let d = self.dilation as isize;
        let start = if first < 0 { first + (-first + d - 1) / d * d } else { first };
        let end = (first + (self.kernel as isize - 1) * d + 1).min(self.input as isize);
        Span { start: start as usize, end: end.max(start) as usize }
    }

    /// Elements of a window with the padding it reaches into.
    #[inline]
    pub fn padded_len(&self, o: usize) -> usize {
        if self.kernel == 0 {
            let s = self.span(o);
            return s.end - s.start;
        }
        let first = o as isize * self.stride - self.padding;
        ((first + self.kernel as isize).min(self.input as isize + self.padding) - first).max(0) as usize
    }
}

/// The three axes of a pooling from `input` to `output`, whose parameters start at `first`: `fields` numbers a dimension,
/// kernel, stride, padding and perhaps dilation.
pub fn axes(
    params: &[Word],
    first: usize,
    fields: usize,
    input: &Image,
    output: &Image,
    spatial: usize,
) -> Result<[Axis; 3]> {
    let mut axes = [Axis::WHOLE; 3];
    for d in 0..spatial {
        let word = |i: usize| {
            let word = params.get(first + fields * d + i).copied();
            word.ok_or_else(|| Error::runtime("pooling: a parameter is missing"))
        };
        let at = d + 3 - spatial;
        axes[at] = Axis {
            input: input.sizes[2 + at],
            output: output.sizes[2 + at],
            kernel: word(0)?.usize(),
            stride: word(1)?.i64() as isize,
            padding: word(2)?.i64() as isize,
            dilation: if fields > 3 { word(3)?.usize() } else { 1 },
        };
    }
    Ok(axes)
}

/// Positions of an image in order, as an index and as three numbers.
#[inline(always)]
pub fn positions([d, h, w]: [usize; 3], mut f: impl FnMut(usize, [usize; 3])) {
    let mut i = 0;
    for a in 0..d {
        for b in 0..h {
            for c in 0..w {
                f(i, [a, b, c]);
                i += 1;
            }
        }
    }
}

/// Whether channels lie side by side, so that registers run over them.
pub fn by_channel(images: &[&Image]) -> bool {
    images.iter().all(|i| i.sizes[1] > 1 && i.strides[1] == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let axis = Axis { input: 7, output: 4, kernel: 3, stride: 2, padding: 1, dilation: 1 };
        let all: Vec<_> = (0..4).map(|o| (axis.span(o).start, axis.span(o).end, axis.padded_len(o))).collect();
        assert_eq!(all, [(0, 2, 3), (1, 4, 3), (3, 6, 3), (5, 7, 3)]);
        let wide = Axis { dilation: 2, padding: 3, ..axis };
        assert_eq!(wide.span(0), Span { start: 1, end: 2 });
        let adaptive = Axis { kernel: 0, output: 3, ..axis };
        let all: Vec<_> = (0..3).map(|o| adaptive.span(o)).collect();
        assert_eq!(all, [Span { start: 0, end: 3 }, Span { start: 2, end: 5 }, Span { start: 4, end: 7 }]);
    }
}
