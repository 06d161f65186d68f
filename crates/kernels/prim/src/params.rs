//! The parameters of the primitives: a struct each, which an op's lowering fills in and a kernel of any device reads.
//!
//! Between the two they are words (`Params`), which programs keep and patch. What a word means stands in the struct alone:
//! it is encoded and decoded here, field by field in the order of the declaration. What a primitive does with its
//! parameters stands at the primitive.

use crate::{
    Activation, BagMode, Expr, GridBorder, GridMode, Library, MAX_PARAMS, PadMode, Params, RandomByKind, RandomKind,
    ReduceKind, ResampleMode, RnnMode, ScatterKind, SingularCheck, Word, register_expr,
};
use oneflow_base::{DType, Error, Result};
use smallvec::SmallVec;

/// What decoding gives.
pub type Decoded<T> = Result<T>;

/// What is kept as words.
pub trait Encode: Sized {
    fn encode(&self, to: &mut Params);
    fn decode(from: &mut Words<'_>) -> Result<Self>;
}

/// The words that are still to be decoded.
pub struct Words<'a> {
    left: &'a [Word],
}

impl<'a> Words<'a> {
    #[inline]
    pub fn new(words: &'a [Word]) -> Words<'a> {
        Words { left: words }
    }

    #[inline]
    fn next(&mut self) -> Result<Word> {
        let (first, left) = self.left.split_first().ok_or_else(too_few)?;
        self.left = left;
        Ok(*first)
    }

    /// The number of entries of a list, of which each has words.
    fn length(&mut self) -> Result<usize> {
        let n = self.next()?.usize();
        if n > self.left.len() { Err(too_few()) } else { Ok(n) }
    }

    /// All parameters, and nothing behind them.
    #[inline]
    pub fn all<P: Encode>(mut self) -> Result<P> {
        let params = P::decode(&mut self)?;
        if self.left.is_empty() { Ok(params) } else { Err(too_many(self.left.len())) }
    }
}

#[cold]
fn too_few() -> Error {
    Error::runtime("kernel launch: a parameter is missing")
}

#[cold]
fn too_many(n: usize) -> Error {
    Error::runtime(format!("kernel launch: {n} parameters too many"))
}

/// The words of these parameters.
pub fn words(params: &impl Encode) -> Params {
    let mut words = Params::new();
    params.encode(&mut words);
    words
}

macro_rules! words {
    ($($ty:ty, $read:ident;)*) => {$(
        impl Encode for $ty {
            #[inline]
            fn encode(&self, to: &mut Params) {
                to.push(Word::from(*self));
            }
            #[inline]
            fn decode(from: &mut Words<'_>) -> Result<$ty> {
                from.next().map(Word::$read)
            }
        }
    )*};
}
words! { i64, i64; usize, usize; f64, f64; bool, bool; u64, u64; DType, dtype; }

/// An integer or a float, as another field says.
impl Encode for Word {
    #[inline]
    fn encode(&self, to: &mut Params) {
        to.push(*self);
    }
    #[inline]
    fn decode(from: &mut Words<'_>) -> Result<Word> {
        from.next()
    }
}

macro_rules! kinds {
    ($($ty:ident),*) => {$(
        impl Encode for $ty {
            #[inline]
            fn encode(&self, to: &mut Params) {
                to.push(Word(*self as u64));
            }
            #[inline]
            fn decode(from: &mut Words<'_>) -> Result<$ty> {
                let word = from.next()?.0;
                $ty::from_u64(word).ok_or_else(|| unknown(stringify!($ty), word))
            }
        }
    )*};
}
kinds! {
    Activation, BagMode, GridBorder, GridMode, Library, PadMode, RandomByKind, RandomKind, ReduceKind, ResampleMode, RnnMode, ScatterKind,
    SingularCheck
}

#[cold]
fn unknown(kind: &str, word: u64) -> Error {
    Error::runtime(format!("kernel launch: {word} is no {kind}"))
}

/// What may be left out at the end.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, to: &mut Params) {
        if let Some(value) = self {
            value.encode(to);
        }
    }
    fn decode(from: &mut Words<'_>) -> Result<Option<T>> {
        if from.left.is_empty() { Ok(None) } else { T::decode(from).map(Some) }
    }
}

/// A list after its length.
impl<T: Encode, const N: usize> Encode for SmallVec<[T; N]>
where
    [T; N]: smallvec::Array<Item = T>,
{
    fn encode(&self, to: &mut Params) {
        self.len().encode(to);
        self.iter().for_each(|v| v.encode(to));
    }
    fn decode(from: &mut Words<'_>) -> Result<Self> {
        (0..from.length()?).map(|_| T::decode(from)).collect()
    }
}

/// A list that ends the parameters, without its length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest<T>(pub SmallVec<[T; 8]>);

impl<T: Encode> Encode for Rest<T> {
    fn encode(&self, to: &mut Params) {
        self.0.iter().for_each(|v| v.encode(to));
    }
    fn decode(from: &mut Words<'_>) -> Result<Self> {
        let mut all = SmallVec::new();
        while !from.left.is_empty() {
            all.push(T::decode(from)?);
        }
        Ok(Rest(all))
    }
}

impl<T> FromIterator<T> for Rest<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Rest<T> {
        Rest(all.into_iter().collect())
    }
}

/// An expression by its id.
impl Encode for &'static Expr {
    fn encode(&self, to: &mut Params) {
        to.push(Word::from(register_expr(self) as u64));
    }
    fn decode(from: &mut Words<'_>) -> Result<&'static Expr> {
        let id = from.next()?.0;
        u32::try_from(id).ok().and_then(Expr::by_id).ok_or_else(|| unknown("expression", id))
    }
}

/// One expression of a chain. A slot is an input of the launch, then an output, then a temporary.
#[derive(Clone, Debug)]
pub struct ChainStep {
    pub expr: &'static Expr,
    pub scalars: SmallVec<[Word; 2]>,
    /// The slots that it reads, as many as the expression has inputs.
    pub operands: SmallVec<[usize; 4]>,
    /// The slot that it writes.
    pub dest: usize,
}

impl PartialEq for ChainStep {
    fn eq(&self, other: &ChainStep) -> bool {
        let same = (&self.scalars, &self.operands, self.dest) == (&other.scalars, &other.operands, other.dest);
        std::ptr::eq(self.expr, other.expr) && same
    }
}

impl Encode for ChainStep {
    fn encode(&self, to: &mut Params) {
        self.expr.encode(to);
        self.scalars.encode(to);
        self.operands.iter().for_each(|slot| slot.encode(to));
        self.dest.encode(to);
    }
    fn decode(from: &mut Words<'_>) -> Result<ChainStep> {
        let expr = <&'static Expr>::decode(from)?;
        let scalars = SmallVec::<[Word; 2]>::decode(from)?;
        if scalars.len() > MAX_PARAMS {
            return Err(too_many(scalars.len() - MAX_PARAMS));
        }
        let operands = (0..expr.arity).map(|_| usize::decode(from)).collect::<Result<_>>()?;
        Ok(ChainStep { expr, scalars, operands, dest: usize::decode(from)? })
    }
}

/// Where the shard that a random launch fills lies in the whole tensor: the sizes of the whole, then the shard's first
/// indices. Empty where the tensor is whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shard(pub SmallVec<[i64; 8]>);

impl Shard {
    pub fn new(sizes: &[i64], starts: &[i64]) -> Shard {
        Shard(sizes.iter().chain(starts).copied().collect())
    }
    pub fn n_dims(&self) -> usize {
        self.0.len() / 2
    }
    pub fn sizes(&self) -> &[i64] {
        &self.0[..self.n_dims()]
    }
    pub fn starts(&self) -> &[i64] {
        &self.0[self.n_dims()..]
    }
}

impl Encode for Shard {
    fn encode(&self, to: &mut Params) {
        self.n_dims().encode(to);
        self.0.iter().for_each(|v| v.encode(to));
    }
    fn decode(from: &mut Words<'_>) -> Result<Shard> {
        // A launch that nobody splits may leave it out.
        let n = if from.left.is_empty() { 0 } else { from.length()? };
        Ok(Shard((0..2 * n).map(|_| i64::decode(from)).collect::<Result<_>>()?))
    }
}

/// Declares structs of parameters, which are encoded field by field: `params! { Name { field: type } }`.
#[macro_export]
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $ty,)*
        }
        impl $crate::Encode for $name {
            #[inline]
            fn encode(&self, to: &mut $crate::Params) {
                $($crate::Encode::encode(&self.$field, to);)*
            }
            #[inline]
            fn decode(from: &mut $crate::Words<'_>) -> $crate::Decoded<$name> {
                Ok($name { $($field: $crate::Encode::decode(from)?,)* })
            }
        }
    )*};
}

params! {
    /// Of `FILL`.
    FillParams {
        is_float: bool,
        value: Word,
        /// The imaginary part of a complex number.
        imaginary: Option<f64>,
    }
    /// Of `ELEMENTWISE_CHAIN`: expressions that run in sequence, all in one dtype.
    ChainParams { compute: DType, steps: SmallVec<[ChainStep; 8]> }
    /// Of `ARANGE`.
    ArangeParams { is_float: bool, start: Word, step: Word }
    /// Of `LINSPACE`.
    LinspaceParams { start: f64, end: f64 }
    /// Of `REDUCE`.
    ReduceParams { kind: ReduceKind }
    /// Of `SQUARE_DEVIATIONS`: what the sums are divided by, and whether the root is taken.
    DeviationsParams { divisor: f64, root: bool }
    /// Of `ARG_REDUCE`.
    ArgReduceParams { is_max: bool, dim: usize }
    /// Of `SCAN`.
    ScanParams { kind: ReduceKind, dim: usize }
    /// Of `RUNNING_EXTREME`.
    RunningExtremeParams { is_max: bool, dim: usize }
    /// Of primitives that work along one dimension: `LOGCUMSUMEXP`, `INDEX_SELECT`, `GATHER`, `CONCAT`.
    DimParams { dim: usize }
    /// Of `MATMUL`.
    MatmulParams { activation: Activation, alpha: f64 }
    /// Of `SOFTMAX` and its backward.
    SoftmaxParams { dim: usize, log: bool }
    /// Of `LAYER_NORM` and its backward, which reads no `eps`.
    LayerNormParams {
        /// How many trailing dimensions are normalized.
        normalized_dims: usize,
        eps: f64,
        /// No mean is subtracted.
        rms: bool,
    }
    /// Of `CROSS_ENTROPY` and its backward.
    CrossEntropyParams { ignore_index: i64, label_smoothing: f64 }
    /// Of `CROSS_ENTROPY_REDUCED`.
    CrossEntropyReducedParams { rows: CrossEntropyParams, mean: bool }
    /// Of `BATCH_NORM`.
    BatchNormParams { training: bool, momentum: f64, eps: f64 }
    /// Of `BATCH_NORM_BACKWARD`.
    BatchNormBackwardParams { training: bool }
    /// Of `GROUP_NORM`.
    GroupNormParams { groups: usize, eps: f64 }
    /// Of `GROUP_NORM_BACKWARD`.
    GroupNormBackwardParams { groups: usize }
    /// Of `RESAMPLE`.
    ResampleParams {
        mode: ResampleMode,
        align_corners: bool,
        antialias: bool,
        /// The adjoint map.
        transposed: bool,
        /// Input elements an output element, for each resized dimension; zero: by the sizes.
        scales: SmallVec<[f64; 4]>,
    }
    /// Of `PAD`.
    PadParams {
        mode: PadMode,
        /// Before and after each dimension, the first one first.
        widths: SmallVec<[i64; 8]>,
        /// Of `PadMode::Constant`.
        value: FillParams,
    }
    /// Of `PAD_BACKWARD`.
    PadBackwardParams { mode: PadMode, widths: SmallVec<[i64; 8]> }
    /// Of `GRID_SAMPLE` and its backward.
    GridSampleParams { mode: GridMode, border: GridBorder, align_corners: bool }
    /// Of `PAIR_DISTANCES`: the norm.
    PairDistancesParams { p: f64 }
    /// Of `CTC_LOSS`.
    CtcLossParams { blank: i64 }
    /// Of `CTC_LOSS_BACKWARD`.
    CtcLossBackwardParams { blank: i64, zero_infinity: bool }
    /// Of `EMBEDDING`: the first row of this part of the table, and the rows of the whole table.
    EmbeddingParams { start: i64, total: i64 }
    /// Of `EMBEDDING_BACKWARD`.
    EmbeddingBackwardParams {
        start: i64,
        total: i64,
        /// The row that gets no gradient; -1: none.
        padding: i64,
    }
    /// Of `EMBEDDING_BAG`.
    EmbeddingBagParams {
        mode: BagMode,
        /// The row that takes no part; -1: none.
        padding: i64,
        last_offset_is_end: bool,
        start: i64,
        total: i64,
    }
    /// Of `ATTENTION` and its backward.
    AttentionParams { scale: f64, causal: bool, p: f64, seed: u64, offset: u64, library: Library, shard: Shard }
    /// Of `RNN` and its backward.
    RnnParams {
        mode: RnnMode,
        reverse: bool,
        /// The rows of each step, where the sequence is packed.
        packed: Rest<i64>,
    }
    /// Of `RNN_STACK` and its backward.
    RnnStackParams {
        mode: RnnMode,
        hidden: i64,
        layers: i64,
        bidirectional: bool,
        bias: bool,
        /// The steps of a row lie side by side in memory.
        batch_first: bool,
        /// Whether products may round float32 operands to TF32.
        allow_tf32: bool,
        /// The rows of each step, where the sequence is packed.
        packed: Rest<i64>,
    }
    /// One dimension of a convolution.
    ConvAxis { stride: i64, padding: i64, dilation: i64 }
    /// Of `CONV_ACTIVATION`.
    ConvActivationParams { activation: Activation, conv: ConvParams }
    /// Of `CONV_PREPARE`.
    ConvPrepareParams { at_points: bool }
    /// Of `CONV_PREPARED`.
    ConvPreparedParams { activation: Activation, weight: PreparedWeight, conv: ConvParams }
    /// One dimension of a window of `MAX_POOL`.
    MaxPoolAxis { kernel: i64, stride: i64, padding: i64, dilation: i64 }
    /// Of `MAX_POOL`.
    MaxPoolParams { axes: SmallVec<[MaxPoolAxis; 4]> }
    /// One dimension of a window of `AVG_POOL`.
    AvgPoolAxis { kernel: i64, stride: i64, padding: i64 }
    /// Of `RANDOM`. What `a` and `b` are depends on the kind.
    RandomParams { kind: RandomKind, seed: u64, offset: u64, a: Word, b: Word, shard: Shard }
    /// Of `RANDOM_BY`.
    RandomByParams { kind: RandomByKind, seed: u64, offset: u64, shard: Shard }
    /// Of `DROPOUT`.
    DropoutParams { p: f64, seed: u64, offset: u64, shard: Shard }
    /// Of `SCATTER`.
    ScatterParams { dim: usize, kind: ScatterKind }
    /// Of `INDEX`: where the dimensions of the indices stand in the result, and how many there are.
    IndexParams { position: usize, n_dims: usize }
    /// Of `INDEX_PUT`.
    IndexPutParams { index: IndexParams, accumulate: bool }
    /// Of `SORT`.
    SortParams { dim: usize, descending: bool }
    /// Of `TOPK`.
    TopkParams { k: usize, dim: usize, largest: bool, sorted: bool }
    /// Of `SEARCHSORTED`.
    SearchsortedParams { right: bool }
    /// Of `IS_MEMBER`.
    IsMemberParams { invert: bool }
    /// Of `TRIANGLE`.
    TriangleParams { diagonal: i64, upper: bool }
    /// Of `UPDATE`.
    UpdateParams {
        rule: u64,
        /// How many tensors are updated.
        n: usize,
        maximize: bool,
        hyper: Rest<f64>,
    }
    /// Of `UNSCALE`: how many tensors there are.
    UnscaleParams { n: usize }
    /// Of `NORMS`.
    NormsParams { order: f64 }
    /// Of `CHOLESKY`: a failure that is checked is an error.
    CholeskyParams { upper: bool, check: bool }
    /// Of `LU_FACTOR`.
    LuFactorParams { pivot: bool, check: SingularCheck }
    /// Of `TRIANGULAR_SOLVE`.
    TriangularSolveParams { upper: bool, unitriangular: bool }
    /// Of `EIGH`.
    EighParams { upper: bool }
    /// Of `FFT`.
    FftParams { inverse: bool, scale: f64, dims: SmallVec<[usize; 4]> }
}

/// Of `CONV` and its gradients: the number of dimensions leads, the groups follow it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvParams {
    pub groups: i64,
    pub axes: SmallVec<[ConvAxis; 4]>,
}

impl Encode for ConvParams {
    fn encode(&self, to: &mut Params) {
        self.axes.len().encode(to);
        self.groups.encode(to);
        self.axes.iter().for_each(|axis| axis.encode(to));
    }
    fn decode(from: &mut Words<'_>) -> Result<ConvParams> {
        let (n, groups) = (from.length()?, i64::decode(from)?);
        Ok(ConvParams { groups, axes: (0..n).map(|_| ConvAxis::decode(from)).collect::<Result<_>>()? })
    }
}

/// A weight of a convolution in two dimensions, of one group, in the order that `CONV_PREPARE` gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreparedWeight {
    /// [outputs, channels, height, width].
    pub sizes: [i64; 4],
    /// At the points of Winograd's algorithm in place of its taps: windows of 2 x 2 to 5 x 5, for strides of one.
    pub at_points: bool,
}

impl PreparedWeight {
    /// Points of Winograd's algorithm, and what the outputs are filled up to.
    const POINTS: i64 = 36;
    const FILLED: i64 = 16;

    /// Numbers of an output.
    pub fn rows(&self) -> i64 {
        let [_, channels, height, width] = self.sizes;
        channels.saturating_mul(if self.at_points { Self::POINTS } else { height.saturating_mul(width) })
    }

    /// All of its numbers; none for sizes of no weight, or no weight that has the points.
    pub fn numbers(&self) -> Option<i64> {
        let [n, _, height, width] = self.sizes;
        let square = height == width && (2..=5).contains(&height);
        let fits = self.sizes.iter().all(|n| *n > 0) && (square || !self.at_points);
        let outputs = n.checked_add(Self::FILLED - 1)? / Self::FILLED * Self::FILLED;
        let bytes = self.rows().checked_mul(outputs)?.checked_mul(4)?;
        fits.then_some(bytes / 4)
    }
}

impl Encode for PreparedWeight {
    fn encode(&self, to: &mut Params) {
        self.sizes.iter().for_each(|n| n.encode(to));
        self.at_points.encode(to);
    }
    fn decode(from: &mut Words<'_>) -> Result<PreparedWeight> {
        let mut sizes = [0; 4];
        for n in &mut sizes {
            *n = i64::decode(from)?;
        }
        Ok(PreparedWeight { sizes, at_points: bool::decode(from)? })
    }
}

/// Of `AVG_POOL` and its backward: the number of dimensions leads.
#[derive(Clone, Debug, PartialEq)]
pub struct AvgPoolParams {
    pub count_include_pad: bool,
    /// Zero: the number of elements.
    pub divisor: i64,
    pub axes: SmallVec<[AvgPoolAxis; 4]>,
}

impl Encode for AvgPoolParams {
    fn encode(&self, to: &mut Params) {
        self.axes.len().encode(to);
        self.count_include_pad.encode(to);
        self.divisor.encode(to);
        self.axes.iter().for_each(|axis| axis.encode(to));
    }
    fn decode(from: &mut Words<'_>) -> Result<AvgPoolParams> {
        let (n, count_include_pad, divisor) = (from.length()?, bool::decode(from)?, i64::decode(from)?);
        let axes = (0..n).map(|_| AvgPoolAxis::decode(from)).collect::<Result<_>>()?;
        Ok(AvgPoolParams { count_include_pad, divisor, axes })
    }
}

/// A window without dilation.
impl From<&AvgPoolAxis> for MaxPoolAxis {
    fn from(axis: &AvgPoolAxis) -> MaxPoolAxis {
        MaxPoolAxis { kernel: axis.kernel, stride: axis.stride, padding: axis.padding, dilation: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn same<P: Encode + PartialEq + std::fmt::Debug>(params: P, n: usize) {
        let words = words(&params);
        assert_eq!(words.len(), n, "{params:?}");
        assert_eq!(Words::new(&words).all::<P>().unwrap(), params);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        same(LayerNormParams { normalized_dims: 2, eps: 1e-5, rms: true }, 3);
        same(ConvParams { groups: 2, axes: smallvec![ConvAxis { stride: 1, padding: -2, dilation: 3 }; 2] }, 8);
        let axes = smallvec![AvgPoolAxis { kernel: 2, stride: 2, padding: 1 }; 3];
        same(AvgPoolParams { count_include_pad: true, divisor: 5, axes }, 12);
        same(
            ResampleParams {
                mode: ResampleMode::Cubic,
                align_corners: true,
                antialias: false,
                transposed: true,
                scales: smallvec![0.0, 0.5],
            },
            7,
        );
        let value = FillParams { is_float: true, value: Word::from(1.5), imaginary: None };
        same(PadParams { mode: PadMode::Reflect, widths: smallvec![0, 0, 1, -2], value }, 8);
        let shard = Shard::new(&[6, 5], &[2, 3]);
        assert_eq!((shard.sizes(), shard.starts()), (&[6, 5][..], &[2, 3][..]));
        same(DropoutParams { p: 0.5, seed: u64::MAX, offset: 7, shard }, 8);
        same(DropoutParams { p: 0.5, seed: 1, offset: 7, shard: Shard::default() }, 4);
        same(UpdateParams { rule: 3, n: 2, maximize: false, hyper: [0.9, 0.999].into_iter().collect() }, 5);
        let value = Word::from(1.5);
        same(FillParams { is_float: true, value, imaginary: Some(-2.0) }, 3);
        same(FillParams { is_float: true, value, imaginary: None }, 2);
    }

    #[test]
    fn words_of_something_else_are_refused() {
        let refused = |words: &[u64]| {
            let words: Vec<Word> = words.iter().map(|w| Word(*w)).collect();
            Words::new(&words).all::<ConvActivationParams>().unwrap_err().to_string()
        };
        assert!(refused(&[9, 1, 1, 1, 0, 1]).contains("9 is no Activation"));
        assert!(refused(&[0, 1, 1, 1, 0, 1, 5]).contains("1 parameters too many"));
        assert!(refused(&[0, u64::MAX, 1, 1, 0, 1]).contains("missing"));
        assert!(refused(&[0, 2, 1, 1, 0, 1]).contains("missing"));
    }
}
