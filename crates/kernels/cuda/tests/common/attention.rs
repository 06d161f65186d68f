//! ATTENTION and its backward on the device against the CPU, by shape and options.

use super::*;
use oneflow_kernels_prim as prim;

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

/// Batch, heads, heads of key and value, rows, keys, width.
pub type Shape = [i64; 6];

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub causal: bool,
    pub mask: Option<DType>,
    pub p: f64,
    /// Rows of heads side by side, as a layer's projection leaves them.
    pub heads_inside: bool,
    pub negative: bool,
    /// `Library`.
    pub library: u64,
}

/// [batch, heads, rows, width], rows of heads side by side where `inside`.
fn operand(d: DType, sizes: &[i64], inside: bool, seed: u64) -> Arr {
    let [b, h, n, e] = [sizes[0], sizes[1], sizes[2], sizes[3]];
    let plain = Arr::random(d, &[b, h, n, e], Lay::Rows, seed);
    if !inside {
        return plain;
    }
    let mut out = Arr { strides: vec![n * h * e, e, h * e, 1], ..plain.clone() };
    (0..plain.numel()).for_each(|i| out.set(i, plain.get(i)));
    out
}

/// Runs forward and backward on both sides; returns the dynamic shared memory that the device was asked for.
pub fn check(d: DType, shape: Shape, o: Options) -> i64 {
    let [b, h, g, rows, keys, e] = shape;
    let before = emulator::shared_bytes();
    let scores = [b, h, rows, keys];
    let mask = o.mask.map(|m| {
        let mut r = Rng::new(3);
        // One row sees nothing.
        let values = Arr::empty(m, &[1, 1, rows, keys], Lay::Rows).fill(|i| match (i as i64 / keys == 2, m) {
            (hidden, DType::Bool) => (r.below(3) > 0 && !hidden) as i64 as f64,
            (true, _) => f64::NEG_INFINITY,
            _ => r.real(),
        });
        Arr { sizes: scores.into(), strides: vec![0, 0, keys, 1], ..values }
    });
    let scale = if o.negative { -0.7 } else { 1.0 } / (e as f64).sqrt();
    let window = [4, b + 1, h + 2, rows + 3, keys + 1, 1, 0, 2, 1].map(|n: i64| w(n));
    let params = [&[w(scale), w(o.causal), w(o.p), w(5u64), w(9u64), w(o.library)][..], &window].concat();
    let arr = |sizes: &[i64], seed| operand(d, sizes, o.heads_inside, seed);
    let (q, k, out) = ([b, h, rows, e], [b, g, keys, e], [b, h, rows, e]);
    let stat = || Arr::empty(d.compute(), &[b, h, rows], Lay::Rows);
    let name = format!("{d} {shape:?} {o:?}");
    let mut case = Case::new(&prim::ATTENTION, vec![arr(&out, 9), stat()], vec![], &params);
    case.ins = vec![Some(arr(&q, 1)), Some(arr(&k, 2)), Some(arr(&k, 3)), mask.clone()];
    let mut forward = Case {
        outs: case.outs.clone(),
        ins: case.ins.clone(),
        params: params.clone(),
        ..Case::new(&prim::ATTENTION, vec![], vec![], &[])
    };
    // A result is a mean of numbers below two; its weights are rounded to the dtype.
    let unit = if d == BF16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
    let kept = if o.p > 0.0 { 1.0 / (1.0 - o.p) } else { 1.0 };
    case.within(4.0 * unit * kept).named(&name).check();
    // What the backward reads is the forward's.
    forward.on_cpu().unwrap();
    let mut back = Case::new(&prim::ATTENTION_BACKWARD, vec![], vec![], &params);
    let grad_mask = mask.as_ref().is_some_and(|m| m.dtype != BOOL).then(|| Arr::empty(d, &scores, Lay::Rows));
    back.outs = vec![Some(arr(&q, 7)), Some(arr(&k, 7)), Some(arr(&k, 7)), grad_mask];
    back.ins = [vec![Some(arr(&out, 4))], forward.ins, forward.outs].concat();
    // Sums of as many terms as there are rows or keys, each rounded.
    back.within(16.0 * unit * kept).named(&name).check();
    emulator::shared_bytes() - before
}

pub const PLAIN: Options =
    Options { causal: false, mask: None, p: 0.0, heads_inside: false, negative: false, library: 0 };
