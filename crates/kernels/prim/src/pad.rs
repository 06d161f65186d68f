//! What lies where in a padded dimension.

use crate::PadMode;
use smallvec::SmallVec;
use std::ops::Range;

/// Neighbours of the padded dimension, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub at: i64,
    pub len: i64,
    /// The element of the first one, and the step from one to the next; nothing where a constant stands.
    pub source: Option<(i64, i64)>,
}

impl Piece {
    /// The part within a range of the padded dimension.
    pub fn within(mut self, range: &Range<i64>) -> Piece {
        let skipped = (range.start - self.at).clamp(0, self.len);
        self.at += skipped;
        self.len = (self.len - skipped).min(range.end - self.at).max(0);
        if let Some((from, step)) = &mut self.source {
            *from += skipped * *step;
        }
        self
    }
}

/// The pieces of a dimension of `n` elements that becomes one of `padded`, `before` of them in front: the elements that are
/// kept first. A negative number is cut off.
pub fn pieces(mode: PadMode, n: i64, before: i64, padded: i64) -> SmallVec<[Piece; 3]> {
    let (start, first) = (before.max(0), (-before).max(0));
    let kept = (n - first).min(padded - start).max(0);
    let behind = start + kept;
    let cut = (padded - n - before).min(0);
    let (left, right) = match mode {
        PadMode::Constant => (None, None),
        PadMode::Reflect => (Some((before, -1)), Some((2 * (n - 1) - (behind - before), -1))),
        PadMode::Replicate => (Some((0, 0)), Some((n - 1, 0))),
        PadMode::Circular => (Some((n + cut - before, 1)), Some((first, 1))),
        PadMode::Roll => (Some((n - before, 1)), None),
    };
    let all = [
        Piece { at: start, len: kept, source: Some((first, 1)) },
        Piece { at: 0, len: start.min(padded), source: left },
        Piece { at: behind, len: padded - behind, source: right },
    ];
    all.into_iter().filter(|p| p.len > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sources of a dimension in order; -1 for the constant.
    fn sources(mode: PadMode, n: i64, before: i64, after: i64) -> Vec<i64> {
        let padded = n + before + after;
        let mut all = vec![-2; padded as usize];
        for p in pieces(mode, n, before, padded) {
            (0..p.len).for_each(|i| all[(p.at + i) as usize] = p.source.map_or(-1, |(from, step)| from + i * step));
        }
        all
    }

    #[test]
    fn every_place_has_a_source() {
        use PadMode::*;
        for (mode, before, after, want) in [
            (Constant, 2, 1, vec![-1, -1, 0, 1, 2, 3, -1]),
            (Constant, -1, 2, vec![1, 2, 3, -1, -1]),
            (Constant, 6, -5, vec![-1, -1, -1, -1, -1]),
            (Reflect, 2, 3, vec![2, 1, 0, 1, 2, 3, 2, 1, 0]),
            (Reflect, -2, 1, vec![2, 3, 2]),
            (Replicate, 2, 1, vec![0, 0, 0, 1, 2, 3, 3]),
            (Replicate, 1, -2, vec![0, 0, 1]),
            (Circular, 1, 2, vec![3, 0, 1, 2, 3, 0, 1]),
            (Circular, -1, 2, vec![1, 2, 3, 1, 2]),
            (Circular, 2, -1, vec![1, 2, 0, 1, 2]),
            (Roll, 1, -1, vec![3, 0, 1, 2]),
            (Roll, 0, 0, vec![0, 1, 2, 3]),
        ] {
            assert_eq!(sources(mode, 4, before, after), want, "{mode:?} {before} {after}");
        }
    }

    #[test]
    fn a_range_of_a_piece_goes_on_where_the_last_one_ended() {
        let whole = Piece { at: 2, len: 5, source: Some((9, -1)) };
        let parts: Vec<Piece> = [0..4, 4..5, 5..9].iter().map(|r| whole.within(r)).collect();
        let of = |at, len, from| Piece { at, len, source: Some((from, -1)) };
        assert_eq!(parts, [of(2, 2, 9), of(4, 1, 7), of(5, 2, 6)]);
        assert_eq!(whole.within(&(7..9)).len, 0);
    }
}
