//! Parts of convolutions and pools by themselves: windows, blocks of positions, Winograd's transforms.

use oneflow_kernels_conv::parts::{Axis, Block, Blocks, Data, Image, Outputs, Span, Taps, Transform};

/// Outputs of a window of `N` taps by products at the points, and by the sum they stand for.
fn check<const N: usize, const M: usize>() {
    let d: [f64; 6] = [0.3, -1.0, 2.0, 0.7, -0.2, 1.1];
    let g: [f64; N] = std::array::from_fn(|i| 0.5 - 0.3 * i as f64);
    let (u, v) = (Taps::apply(g), Data::apply(d));
    let y: [f64; M] = Outputs::apply(std::array::from_fn(|i| u[i] * v[i]));
    for (k, y) in y.iter().enumerate() {
        let want: f64 = (0..N).map(|j| d[k + j] * g[j]).sum();
        assert!((y - want).abs() < 1e-14, "{y} {want}");
    }
}

#[test]
fn products_at_points_are_windows() {
    check::<2, 5>();
    check::<3, 4>();
    check::<4, 3>();
    check::<5, 2>();
}

#[test]
fn spans() {
    let axis = Axis { input: 7, output: 4, kernel: 3, stride: 2, padding: 1, dilation: 1 };
    let all: Vec<_> = (0..4).map(|o| (axis.span(o).start, axis.span(o).end, axis.padded_len(o))).collect();
    assert_eq!(all, [(0, 2, 3), (1, 4, 3), (3, 6, 3), (5, 7, 3)]);
    let wide = Axis { dilation: 2, padding: 3, ..axis };
    assert_eq!(wide.span(0), Span { start: 1, end: 2 });
    let far = Axis { input: 3, output: 1, kernel: 1 << 30, stride: 1 << 30, padding: 1 << 29, dilation: 1 };
    assert!(far.is_far() && !axis.is_far());
    assert_eq!((far.span(0), far.most_taps()), (Span { start: 0, end: 3 }, 3));
    let adaptive = Axis { kernel: 0, output: 3, ..axis };
    let all: Vec<_> = (0..3).map(|o| adaptive.span(o)).collect();
    assert_eq!(all, [Span { start: 0, end: 3 }, Span { start: 2, end: 5 }, Span { start: 4, end: 7 }]);
}

#[test]
fn blocks_cover_every_position_once() {
    for (sizes, target) in [([2, 1, 7, 5], 10), ([3, 2, 2, 2], 8), ([1, 1, 1, 1000], 256), ([64, 1, 4, 4], 224)] {
        let blocks = Blocks::new(sizes, target);
        let mut hits = vec![0; sizes.iter().product()];
        for i in 0..blocks.len() {
            let block = blocks.get(i);
            assert!(block.n_positions() <= target);
            block.each(|_, at| {
                let p: [usize; 4] = std::array::from_fn(|d| block.start[d] + at[d]);
                hits[((p[0] * sizes[1] + p[1]) * sizes[2] + p[2]) * sizes[3] + p[3]] += 1;
            });
        }
        assert!(hits.iter().all(|&h| h == 1));
    }
}

#[test]
fn runs_join_whole_rows() {
    let image = Image { ptr: std::ptr::null_mut(), sizes: [2, 3, 1, 4, 5], strides: [60, 20, 0, 5, 1] };
    let runs = |block: Block| {
        let mut seen = vec![];
        block.runs(&image, |i, at, len| seen.push((i, at, len)));
        seen
    };
    assert_eq!(runs(Block { start: [0; 4], len: [2, 1, 4, 5] }), [(0, [0; 4], 20), (20, [1, 0, 0, 0], 20)]);
    assert_eq!(runs(Block { start: [0, 0, 2, 0], len: [1, 1, 2, 5] }), [(0, [0, 0, 2, 0], 10)]);
    assert_eq!(runs(Block { start: [0, 0, 0, 1], len: [1, 1, 2, 2] }), [(0, [0, 0, 0, 1], 2), (2, [0, 0, 1, 1], 2)]);
}
