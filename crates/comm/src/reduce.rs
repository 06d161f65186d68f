//! Element-wise reduction of raw bytes, always in rank order and with one rounding for half types.
//!
//! The order does not depend on the backend or on how the data was cut into pieces, so all backends agree bit for bit.

use oneflow_base::{Bool, DType, bf16, by_dtype, f16};

use crate::request::ReduceOp;

/// Elements handled at a time: accumulators stay in the first-level cache.
const TILE: usize = 512;

/// `own` = the reduction over all ranks. `parts[i]` is rank `i`'s contribution; this rank's stands in `own` itself and
/// `parts[rank]` is not read. All have the same length; `ReduceOp::check` has passed.
pub(crate) fn in_rank_order(own: &mut [u8], rank: usize, parts: &[&[u8]], dtype: DType, op: ReduceOp) {
    match dtype {
        // Only sum and avg are defined for complex numbers: both act on each part alone.
        DType::C64 => run::<f32>(own, rank, parts, op),
        DType::C128 => run::<f64>(own, rank, parts, op),
        // `ReduceOp::check` refused the rest.
        _ => by_dtype!(dtype, reals, E => run::<E>(own, rank, parts, op), _ => {}),
    }
}

/// Sums of `n` ranks become averages.
pub(crate) fn divide(sums: &mut [u8], n: usize, dtype: DType) {
    match dtype {
        DType::C64 => over::<f32>(sums, n),
        DType::C128 => over::<f64>(sums, n),
        _ => by_dtype!(dtype, reals, E => over::<E>(sums, n), _ => {}),
    }
}

fn over<E: Elem>(sums: &mut [u8], n: usize) {
    fold::<E>(sums, 0, &[&[]], E::Acc::add, |x| x.over(n));
}

fn run<E: Elem>(own: &mut [u8], rank: usize, parts: &[&[u8]], op: ReduceOp) {
    let n = parts.len();
    let keep = |x: E::Acc| x;
    match op {
        ReduceOp::Sum => fold::<E>(own, rank, parts, E::Acc::add, keep),
        ReduceOp::Avg => fold::<E>(own, rank, parts, E::Acc::add, |x| x.over(n)),
        ReduceOp::Product => fold::<E>(own, rank, parts, E::Acc::mul, keep),
        ReduceOp::Min => fold::<E>(own, rank, parts, E::Acc::min, keep),
        ReduceOp::Max => fold::<E>(own, rank, parts, E::Acc::max, keep),
        ReduceOp::BitAnd => fold::<E>(own, rank, parts, E::Acc::and, keep),
        ReduceOp::BitOr => fold::<E>(own, rank, parts, E::Acc::or, keep),
        ReduceOp::BitXor => fold::<E>(own, rank, parts, E::Acc::xor, keep),
    }
}

fn fold<E: Elem>(
    own: &mut [u8],
    rank: usize,
    parts: &[&[u8]],
    f: impl Fn(E::Acc, E::Acc) -> E::Acc,
    finish: impl Fn(E::Acc) -> E::Acc,
) {
    if let [first, second] = parts {
        let other = if rank == 0 { second } else { first };
        return fold_two::<E>(own, other, |own, other| finish(if rank == 0 { f(own, other) } else { f(other, own) }));
    }
    let width = size_of::<E>();
    let mut raw = [E::default(); TILE];
    let mut acc = [E::Acc::default(); TILE];
    for start in (0..own.len()).step_by(TILE * width) {
        let range = start..own.len().min(start + TILE * width);
        let n = range.len() / width;
        for (i, part) in parts.iter().enumerate() {
            let bytes = if i == rank { &own[range.clone()] } else { &part[range.clone()] };
            // SAFETY: `bytes` holds `n` elements of `E`, `raw` has room for `TILE >= n`, and `Elem` types are valid for
            // every bit pattern. The two cannot overlap: `raw` is a local.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), raw.as_mut_ptr().cast::<u8>(), n * width) };
            if i == 0 {
                acc[..n].iter_mut().zip(&raw[..n]).for_each(|(a, x)| *a = x.up());
            } else {
                acc[..n].iter_mut().zip(&raw[..n]).for_each(|(a, x)| *a = f(*a, x.up()));
            }
        }
        raw[..n].iter_mut().zip(&acc[..n]).for_each(|(x, a)| *x = E::down(finish(*a)));
        let bytes = &mut own[range];
        // SAFETY: as above, in the other direction; `E` has no padding.
        unsafe { std::ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), bytes.as_mut_ptr(), n * width) };
    }
}

/// As `fold`, of two ranks, in place: what comes from memory is touched once.
fn fold_two<E: Elem>(own: &mut [u8], other: &[u8], f: impl Fn(E::Acc, E::Acc) -> E::Acc) {
    let n = own.len().min(other.len()) / size_of::<E>();
    let (own, other) = (own.as_mut_ptr().cast::<E>(), other.as_ptr().cast::<E>());
    for i in 0..n {
        // SAFETY: both slices hold `n` elements of `E`, of which all bit patterns are values, at any address; they are not the same
        // memory, since one of them is borrowed to be written.
        unsafe {
            let (a, b) = (own.add(i).read_unaligned(), other.add(i).read_unaligned());
            own.add(i).write_unaligned(E::down(f(a.up(), b.up())));
        }
    }
}

/// A stored element. Every bit pattern is a value and there is no padding.
trait Elem: Copy + Default {
    type Acc: Acc;
    fn up(self) -> Self::Acc;
    fn down(acc: Self::Acc) -> Self;
}

/// What elements are accumulated in.
trait Acc: Copy + Default {
    fn add(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
    fn max(self, o: Self) -> Self;
    fn over(self, n: usize) -> Self;
    /// Bit operations are refused for floats by `ReduceOp::check`; the default keeps them total.
    fn and(self, _: Self) -> Self {
        self
    }
    fn or(self, _: Self) -> Self {
        self
    }
    fn xor(self, _: Self) -> Self {
        self
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Elem for $t {
            type Acc = $t;
            fn up(self) -> $t { self }
            fn down(acc: $t) -> $t { acc }
        }
    )*};
}
plain!(u8, i8, i16, i32, i64, f32, f64);

macro_rules! int_acc {
    ($($t:ty),*) => {$(
        impl Acc for $t {
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            fn min(self, o: Self) -> Self { Ord::min(self, o) }
            fn max(self, o: Self) -> Self { Ord::max(self, o) }
            // In 128 bits: the number of ranks need not fit the element.
            fn over(self, n: usize) -> Self { (self as i128 / n as i128) as $t }
            fn and(self, o: Self) -> Self { self & o }
            fn or(self, o: Self) -> Self { self | o }
            fn xor(self, o: Self) -> Self { self ^ o }
        }
    )*};
}
int_acc!(u8, i8, i16, i32, i64);

macro_rules! float_acc {
    ($($t:ty),*) => {$(
        impl Acc for $t {
            fn add(self, o: Self) -> Self { self + o }
            fn mul(self, o: Self) -> Self { self * o }
            // A NaN of any rank stays.
            fn min(self, o: Self) -> Self { if self < o || self.is_nan() { self } else { o } }
            fn max(self, o: Self) -> Self { if self > o || self.is_nan() { self } else { o } }
            fn over(self, n: usize) -> Self { self / n as $t }
        }
    )*};
}
float_acc!(f32, f64);

impl Elem for f16 {
    type Acc = f32;
    fn up(self) -> f32 {
        self.to_f32()
    }
    fn down(acc: f32) -> f16 {
        f16::from_f32(acc)
    }
}

impl Elem for bf16 {
    type Acc = f32;
    fn up(self) -> f32 {
        self.to_f32()
    }
    fn down(acc: f32) -> bf16 {
        bf16::from_f32(acc)
    }
}

/// Any non-zero byte is true on the way in; 0 or 1 on the way out.
impl Elem for Bool {
    type Acc = bool;
    fn up(self) -> bool {
        self.0 != 0
    }
    fn down(acc: bool) -> Bool {
        Bool(acc as u8)
    }
}

impl Acc for bool {
    fn add(self, o: bool) -> bool {
        self | o
    }
    fn mul(self, o: bool) -> bool {
        self & o
    }
    fn min(self, o: bool) -> bool {
        self & o
    }
    fn max(self, o: bool) -> bool {
        self | o
    }
    fn over(self, _: usize) -> bool {
        self
    }
    fn and(self, o: bool) -> bool {
        self & o
    }
    fn or(self, o: bool) -> bool {
        self | o
    }
    fn xor(self, o: bool) -> bool {
        self ^ o
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Kind;

    fn bytes<T: Copy>(v: &[T]) -> Vec<u8> {
        // SAFETY: plain numbers without padding, read as bytes.
        unsafe { std::slice::from_raw_parts(v.as_ptr().cast(), size_of_val(v)) }.to_vec()
    }

    /// Rank 1 of 3 reduces; all ranks bring one vector each.
    fn check_op<T: Copy>(dtype: DType, op: ReduceOp, ranks: [&[T]; 3], expected: &[T]) {
        op.check(Kind::AllReduce, dtype).unwrap();
        let parts = ranks.map(bytes);
        let mut own = parts[1].clone();
        in_rank_order(&mut own, 1, &[&parts[0], &[], &parts[2]], dtype, op);
        assert_eq!(own, bytes(expected), "{dtype} {op}");
    }

    #[test]
    fn every_op_has_its_meaning() {
        use ReduceOp::*;
        check_op(DType::F32, Sum, [&[1.0f32, 1e8], &[2.0, 1.0], &[3.0, -1e8]], &[6.0, (1e8f32 + 1.0) - 1e8]);
        check_op(DType::F32, Avg, [&[1.0f32], &[2.0], &[6.0]], &[3.0]);
        check_op(DType::F64, Product, [&[2.0f64], &[3.0], &[4.0]], &[24.0]);
        check_op(DType::F64, Min, [&[2.0f64], &[-3.0], &[4.0]], &[-3.0]);
        check_op(DType::I64, Max, [&[2i64], &[-3], &[4]], &[4]);
        check_op(DType::I32, Avg, [&[-2i32], &[-3], &[-3]], &[-2]);
        check_op(DType::U8, Sum, [&[200u8], &[100], &[0]], &[44]);
        check_op(DType::I8, BitXor, [&[1i8], &[2], &[4]], &[7]);
        check_op(DType::Bool, Sum, [&[0u8, 0], &[0, 7], &[0, 0]], &[0, 1]);
        check_op(DType::Bool, Product, [&[1u8, 1], &[0, 7], &[1, 1]], &[0, 1]);
        check_op(DType::C64, Sum, [&[1.0f32, 2.0], &[3.0, 4.0], &[5.0, 6.0]], &[9.0, 12.0]);
    }

    #[test]
    fn half_types_round_once() {
        let h = |x: f32| bf16::from_f32(x);
        // One after the other in bfloat16, 256 + 1 + 1 would stay 256.
        check_op(DType::BF16, ReduceOp::Sum, [&[h(256.0)], &[h(1.0)], &[h(1.0)]], &[h(258.0)]);
        let h = |x: f32| f16::from_f32(x);
        check_op(DType::F16, ReduceOp::Sum, [&[h(2048.0)], &[h(1.0)], &[h(1.0)]], &[h(2050.0)]);
    }

    #[test]
    fn nan_of_any_rank_stays() {
        for at in 0..3 {
            for op in [ReduceOp::Min, ReduceOp::Max] {
                let mut parts = [1.0f32, 2.0, 3.0].map(|x| bytes(&[x]));
                parts[at] = bytes(&[f32::NAN]);
                let mut own = parts[1].clone();
                in_rank_order(&mut own, 1, &[&parts[0], &parts[1], &parts[2]], DType::F32, op);
                assert!(f32::from_ne_bytes(own.try_into().unwrap()).is_nan(), "rank {at} {op}");
            }
        }
    }

    #[test]
    fn long_data_crosses_tiles() {
        let n = TILE * 3 + 17;
        let v: Vec<i32> = (0..n as i32).collect();
        let mut own = bytes(&v);
        let part = bytes(&v);
        in_rank_order(&mut own, 0, &[&[], &part], DType::I32, ReduceOp::Sum);
        assert_eq!(own, bytes(&v.iter().map(|x| x * 2).collect::<Vec<_>>()));
    }

    #[test]
    fn ops_without_meaning_are_refused() {
        assert!(ReduceOp::BitAnd.check(Kind::AllReduce, DType::F32).is_err());
        assert!(ReduceOp::Max.check(Kind::AllReduce, DType::C64).is_err());
        assert!(ReduceOp::Avg.check(Kind::AllReduce, DType::Bool).is_err());
    }
}
