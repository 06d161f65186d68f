//! The primitives and their contracts: inputs, outputs, parameters (as words, in this order).
//!
//! An operand that is called an extra is one that a device may not take; a kernel for it says so where it is registered
//! (`Primitive::provide_with_extras`), and other launches go without. Sizes agree as the contract says (the op's `infer` has checked them); strides are free unless said otherwise.
//! Values that are wrong (an index out of range) are errors, raised before an output is written.

use crate::{Elements, Extras, Primitive};

macro_rules! primitive {
    ($text:literal) => {
        Primitive::new($text)
    };
    ($text:literal $elements:ident) => {
        Primitive::of($text, Elements::$elements)
    };
    ($text:literal extras($ins:expr, $outs:expr)) => {
        Primitive::new($text).with_extras(Extras { ins: $ins, outs: $outs })
    };
}

macro_rules! primitives {
    ($($(#[$doc:meta])* $name:ident = $text:literal $($elements:ident $(($($extras:tt)*))?)?;)*) => {
        $($(#[$doc])* pub static $name: Primitive = primitive!($text $($elements $(($($extras)*))?)?);)*
        /// Every primitive, for listings and for tests that a provider is complete.
        pub static ALL: &[&Primitive] = &[$(&$name),*];
    };
}

primitives! {
    /// `out[0] = expr(ins...)`. Inputs have the output's sizes (broadcast by zero strides) and any dtype; each is cast to
    /// the compute dtype, the result is stored as the output's dtype (bool: `!= 0`; a real of a complex: its real part).
    /// params: compute dtype (F32, F64, I64, C64 or C128), then the expression's scalars (f64 bits for floats, i64 for I64,
    /// two f64 for complex numbers).
    ELEMENTWISE = "elementwise" Any;
    /// Several expressions in sequence over tiles that stay in the first cache. ins and outs have the first output's sizes
    /// (inputs broadcast by zero strides) and any dtype, cast on loading and storing. params: compute dtype (F32, F64 or I64), number of steps;
    /// then for each step: expression id (`register_expr`), number of scalars, the scalars, one operand for each input of the
    /// expression, destination. Operands and destinations are slots: first the ins, then the outs, then temporaries.
    /// A step reads its operands before it writes; ins are not written.
    ELEMENTWISE_CHAIN = "elementwise_chain";
    /// `out[0] = ins[0]` with cast; the input has the output's sizes (broadcast by zero strides).
    COPY = "copy" Any;
    /// `out[0] = value`. params: is_float (bool), value (f64 or i64), and for a complex number its imaginary part (f64).
    FILL = "fill" Any;
    /// `out[0][i] = start + i * step`, 1-D. params: is_float (bool), start, step (f64 or i64).
    ARANGE = "arange";
    /// `out[0]`'s n real numbers from start to end, 1-D: counted from the nearer end, in F64; both ends are rounded to the output's
    /// dtype first. params: start, end (f64).
    LINSPACE = "linspace";
    /// Reduction. `out[0]` has the input's rank with reduced dimensions of size one. params: `ReduceKind`.
    /// Floats accumulate in f32 by blocks (pairwise), f64 in f64, integers in i64. max/min propagate NaN. An empty
    /// reduction gives the identity (sum 0, prod 1, any false, all true; mean NaN); infer refuses it for max and min.
    /// The result does not depend on the number of threads.
    REDUCE = "reduce";
    /// Sums of squared deviations from the mean. ins: x (F32 or F64). `out[0]` as REDUCE's, of x's dtype. Memory is read once: blocks'
    /// means and deviations are joined in f64. The result does not depend on the number of threads.
    SQUARE_DEVIATIONS = "square_deviations";
    /// Max or min along one dimension with the index of the first extreme (NaN wins). `out[0]`: values or absent,
    /// `out[1]`: I64 indices or absent, both with size one at the dimension. params: is_max (bool), dim.
    ARG_REDUCE = "arg_reduce";
    /// Inclusive scan along a dimension; output dtype is the accumulation's. params: `ReduceKind` (Sum, Prod, Max, Min), dim.
    SCAN = "scan";
    /// `out[0] = act(alpha * a @ b + bias) + residual`. ins: a [..., m, k], b [..., k, n], bias? (broadcast to out by
    /// zero strides), residual? (the output's sizes). Batch dimensions equal the output's (broadcast by zero strides). Half types accumulate in f32.
    /// `out[1]`, where it is asked for, holds what the activation was given; an extra.
    /// The outputs do not overlap an input. uint8 by int8, and int8 by int8, give I32. params: `Activation`, alpha (f64).
    MATMUL = "matmul" extras(0, 1 << 1);
    /// `out[0] = a @ b`, and `out[1]` the sums of a's rows. ins: a [m, k], b [k, n], of one floating dtype. outs: [m, n], [m], contiguous.
    /// For providers whose library does both in one launch; there is no other.
    MATMUL_ROW_SUMS = "matmul_row_sums";
    /// `out[0] += a @ b`, and `out[1]`, where it is there, the sums of a's rows. ins: a [m, k], b [k, n], of one floating dtype.
    /// outs: [m, n], [m]?, contiguous and apart from the ins. For providers that do it in one launch; a product with a residual and a
    /// sum do the same.
    MATMUL_ACCUMULATE = "matmul_accumulate";
    /// ins: x. params: dim, log (bool: log_softmax).
    SOFTMAX = "softmax";
    /// ins: grad_output, output. params: dim, log (bool).
    SOFTMAX_BACKWARD = "softmax_backward";
    /// ins: x, weight?, bias? (contiguous, normalised shape), residual? (contiguous, as x). outs: y, mean?, rstd? ([outer] of
    /// the compute dtype, contiguous), sum? (contiguous, as x). With a residual `sum = x + residual`, rounded to x's dtype, is
    /// what is normalised; both are extras. params: number of normalised (trailing) dims, eps (f64), rms (bool: no mean is subtracted).
    LAYER_NORM = "layer_norm" extras(1 << 3, 1 << 3);
    /// ins: grad_output, x, mean?, rstd, weight?, residual? (contiguous, as x: added to grad_x; an extra). outs: grad_x?,
    /// grad_weight?, grad_bias?. A kernel that says so (`provide_mixed`) reads a grad_output of half type beside float32.
    /// params as LAYER_NORM.
    LAYER_NORM_BACKWARD = "layer_norm_backward" extras(1 << 5, 0);
    /// Per-row cross entropy without holding the probabilities. ins: logits [n, c], target I64 [n], weight? [c].
    /// outs: loss [n] (logits' dtype; zero on ignored rows), logsumexp [n] (compute dtype). params: ignore_index (i64),
    /// label_smoothing (f64). A target outside [0, c) that is not ignore_index is an IndexError.
    CROSS_ENTROPY = "cross_entropy";
    /// ins: grad_loss [n], logits, target, weight?, logsumexp. outs: grad_logits [n, c]. params as CROSS_ENTROPY.
    CROSS_ENTROPY_BACKWARD = "cross_entropy_backward";
    /// CROSS_ENTROPY summed over the rows. ins as there. outs: loss (0-dim, logits' dtype), logsumexp [n], total weight of the rows
    /// that count (0-dim, compute dtype). params as there, then mean (bool: the loss is divided by the total weight).
    CROSS_ENTROPY_REDUCED = "cross_entropy_reduced";
    /// Normalises each channel. ins: x [n, c, ...], weight?, bias?, running_mean?, running_var? ([c], any float dtype). outs: y, mean? [c],
    /// rstd? [c] (compute dtype, contiguous), new running_mean?, new running_var? ([c]). params: training (bool), momentum (f64),
    /// eps (f64). In training mean and biased variance are those of x, and the new running values mix `momentum` parts of mean
    /// and unbiased variance with the old ones; otherwise the running values normalise.
    BATCH_NORM = "batch_norm";
    /// ins: grad_output, x, mean, rstd (contiguous), weight?. outs: grad_x?, grad_weight?, grad_bias?. params: training (bool).
    BATCH_NORM_BACKWARD = "batch_norm_backward";
    /// Normalises groups of channels. ins: x [n, c, ...], weight? [c], bias? [c]. outs: y, mean [n, groups], rstd [n, groups]
    /// (compute dtype, contiguous). params: groups, eps (f64).
    GROUP_NORM = "group_norm";
    /// ins: grad_output, x, mean, rstd, weight?. outs: grad_x, grad_weight?, grad_bias?. params: groups.
    GROUP_NORM_BACKWARD = "group_norm_backward";
    /// Resizes the trailing dims, one after another, by weighted neighbours. ins: x. outs: y (same dtype). params: `ResampleMode`,
    /// align_corners (bool), antialias (bool), transposed (bool: y receives the adjoint map's values, x is a gradient of the result),
    /// number of resized dims k, then k scales (f64, input elements an output element; 0: by the sizes).
    RESAMPLE = "resample";
    /// Dimensions made wider or narrower. ins: x. outs: y (same dtype), each dimension by `before + after` larger; element i holds x's
    /// element i - before, and one beyond x's borders what the mode says. params: `PadMode`, a list of before and after for each
    /// dimension, then as FILL the value of `PadMode::Constant`.
    PAD = "pad";
    /// The adjoint of PAD but for constants and rolls. ins: a gradient of y. outs: x's (same dtype). params: `PadMode`, the list.
    PAD_BACKWARD = "pad_backward";
    /// Values of images at positions. ins: x [n, c, in...], grid [n, out..., k] of its dtype with positions in [-1, 1], the last dimension's
    /// first; k is 2 or 3. outs: [n, c, out...]. params: `GridMode`, `GridBorder`, align_corners (bool).
    GRID_SAMPLE = "grid_sample";
    /// ins: grad_output [n, c, out...], x, grid. outs: grad_x?, grad_grid? (f32, f64). params: of GRID_SAMPLE.
    GRID_SAMPLE_BACKWARD = "grid_sample_backward";
    /// Norms of the differences of all pairs of rows. ins: a [..., p, m], b [..., r, m] of one dtype and batch. outs: [..., p, r].
    /// params: p (f64): finite, 0 counts what is not zero.
    PAIR_DISTANCES = "pair_distances";
    /// Connectionist temporal classification. ins: log_probs [t, n, c], targets I64 [n, s] or concatenated [sum], input lengths I64 [n],
    /// target lengths I64 [n]. outs: loss [n], log_alpha [n, t, 2 max + 1] (log_probs' dtype). params: blank.
    CTC_LOSS = "ctc_loss";
    /// ins: grad_loss [n], log_probs, targets, input lengths, target lengths, loss [n], log_alpha. outs: grad_log_probs.
    /// params: blank, zero_infinity (bool).
    CTC_LOSS_BACKWARD = "ctc_loss_backward";
    /// ins: weight [v, d], indices (I32 or I64, any shape). outs: [..., d]. params: start (i64): row of the weight =
    /// index - start; total (i64): number of rows of the whole table. Rows outside this part give zeros; an index outside
    /// [0, total) is an IndexError.
    EMBEDDING = "embedding";
    /// ins: grad_output [..., d], indices. outs: grad_weight [v, d], written whole. params: start, total, padding_idx (i64, -1: none).
    /// Sums in index order: the same result for any number of threads.
    EMBEDDING_BACKWARD = "embedding_backward";
    /// Bags of rows reduced. ins: weight [v, d], indices (I32 or I64; [b, n], or [total] with offsets), offsets? (I32 or I64, the starts
    /// of the bags), factors? (of the rows; the indices' sizes, the weight's dtype; sums only). outs: [b, d], chosen? (max only, I64 [b, d]:
    /// the index whose row gave the maximum, -1 in an empty bag). params: `BagMode`, padding_idx (i64, -1: none; its row takes no part),
    /// whether the last offset is an end (bool), start, total as EMBEDDING (max: start is 0). Empty bags give zeros; the mean counts
    /// rows of other parts.
    EMBEDDING_BAG = "embedding_bag";
    /// Scaled dot-product attention without holding the weights. ins: query [b, h, l, e], key [b, g, s, e], value [b, g, s, v] (g
    /// divides h: query head i reads head i / (h / g)), mask? [b, h, l, s] (bool: true takes part; float of the query's dtype or F32:
    /// added to the scores). outs: out [b, h, l, v], logsumexp [b, h, l] of the compute dtype. params: scale (f64), causal (bool: row
    /// i sees keys 0..=i), p (f64: dropout), seed, offset, then the window of [b, h, l, s] as RANDOM. Weights are dropped as DROPOUT
    /// drops elements. A row that sees nothing gives zeros and the logsumexp +infinity.
    ATTENTION = "attention";
    /// ins: grad_out, query, key, value, mask?, out, logsumexp. outs: grad_query, grad_key, grad_value, grad_mask? ([b, h, l, s]
    /// contiguous, the query's dtype: the scores' gradient). params as ATTENTION.
    ATTENTION_BACKWARD = "attention_backward";
    /// One direction of a recurrent layer over a sequence. What is said to be [t, b, width] has these sizes with neighbouring columns, or,
    /// packed, [n, width]: the rows of step 0, then those of step 1 and so on; a step has at most as many rows as the one before it.
    /// ins: gates_x [t, b, g * h] (the input's part of the gates, biases in it), h_0 [b, r], c_0? [b, h] (LSTM), w_hh [g * h, r],
    /// b_hh? [g * h], w_hr? [r, h] (LSTM with a projection). outs: y [t, b, r], h_n [b, r], c_n? [b, h], gates [t, b, k * h] (after their
    /// activation, what the backward reads; k = g, for GRU 4 with h's part of the new gate last), cells? [t, b, h]. All floats of one
    /// dtype, F32 or F64. Gates stand in torch's order. params: `RnnMode`, reverse (bool), then the rows of each step where it is packed.
    RNN = "rnn";
    /// ins: grad_y? [t, b, r] (any strides), grad_h_n?, grad_c_n?, h_0, c_0?, w_hh, w_hr?, y, gates, cells?. outs: grad_gates_x [t, b, g * h],
    /// grad_gates_h? (the same sizes; GRU: the gradient of h's part of the gates), grad_h_0, grad_c_0?, and, of LSTM with a projection,
    /// grad_h? [t, b, r] (what reaches every h) and projected? [t, b, h] (what was projected to it). params as RNN.
    RNN_BACKWARD = "rnn_backward";
    /// All layers and directions of a recurrent network, for a device whose library runs them as one; others run RNN by layer. ins:
    /// x [t, b, i], or packed [n, i]; h_0 [layers * directions, b, r]; c_0? [.., b, h] (LSTM); weights [n]: w_ih, w_hh and, projected,
    /// w_hr of each layer and direction, behind them all b_ih and b_hh. outs: y [t, b, directions * r], h_n, c_n?, reserved? (bytes that
    /// the library keeps for the backward). Floats of one dtype. params: `RnnStackParams`.
    RNN_STACK = "rnn_stack";
    /// ins: grad_y?, grad_h_n?, grad_c_n?, x, h_0, c_0?, weights, y, reserved. outs: grad_x, grad_h_0, grad_c_0?, grad_weights. params
    /// as RNN_STACK. A launch without reserved bytes is declined.
    RNN_STACK_BACKWARD = "rnn_stack_backward";
    /// Convolution (cross-correlation) over 1 to 3 spatial dimensions. ins: x [n, c, in...], weight [o, c / groups, kernel...],
    /// bias? [o]. out: [n, o, out...]; `out[j]` reads `x[j * stride - padding + tap * dilation]`, zero outside of x.
    /// params: number of spatial dimensions, groups, then for each dimension stride, padding, dilation. Half types accumulate in
    /// f32. The result does not depend on the number of threads.
    CONV = "conv";
    /// CONV with an activation of every result. params: `Activation`, then those of CONV.
    CONV_ACTIVATION = "conv_activation";
    /// A weight in the order in which CONV_PREPARED multiplies it. ins: weight [o, c, height, width], F32. out: a row of
    /// `PreparedWeight::numbers`. params: whether at Winograd's points.
    CONV_PREPARE = "conv_prepare";
    /// CONV_ACTIVATION of one group in two dimensions. ins: x, what CONV_PREPARE gave, bias? [o]. params: `Activation`, the
    /// weight, then those of CONV.
    CONV_PREPARED = "conv_prepared";
    /// The gradient of CONV for x, and the transposed convolution. ins: grad_output [n, o, out...], weight, bias? [c] (of the
    /// transposed convolution). out: [n, c, in...], written whole. params as CONV.
    CONV_BACKWARD_INPUT = "conv_backward_input";
    /// The gradient of CONV for the weight. ins: grad_output, x. out: [o, c / groups, kernel...], written whole. params as CONV.
    CONV_BACKWARD_WEIGHT = "conv_backward_weight";
    /// Maxima of windows. ins: x [n, c, in...]. outs: values, indices? I64 (row-major position among the spatial dimensions of x,
    /// the first maximum, the last NaN). params: number of spatial dimensions, then for each kernel, stride, padding, dilation.
    /// Windows are cut at the borders. A kernel of zero means adaptive windows: output i covers floor(i * in / out) up to
    /// ceil((i + 1) * in / out).
    MAX_POOL = "max_pool";
    /// ins: grad_output, indices. out: grad_x [n, c, in...], written whole: sums in the order of the outputs.
    MAX_POOL_BACKWARD = "max_pool_backward";
    /// Means of windows. ins: x [n, c, in...]. out: [n, c, out...]. params: number of spatial dimensions, count_include_pad (bool),
    /// divisor (i64, 0: the number of elements), then for each dimension kernel (0: adaptive), stride, padding.
    AVG_POOL = "avg_pool";
    /// ins: grad_output. out: grad_x, written whole. params as AVG_POOL.
    AVG_POOL_BACKWARD = "avg_pool_backward";
    /// Fills `out[0]` with random values. params: `RandomKind`, seed (u64), offset (u64), a (f64), b (f64; for
    /// Integers: low and high as i64), then the window: ndim, global sizes..., starts... (ndim 0: the tensor is whole).
    /// The value of an element depends only on (seed, offset, its global row-major index).
    RANDOM = "random";
    /// Fills `out[0]` with random values whose parameters are tensors. ins: a, b? (the output's sizes by zero strides, any real
    /// dtype). params: `RandomByKind`, seed, offset, window as RANDOM, whose rule for the value of an element holds.
    RANDOM_BY = "random_by";
    /// ins: x. outs: y, mask (BOOL, true = kept). params: p (f64), seed, offset, window as RANDOM. y = x * mask / (1 - p).
    /// An element is dropped where `philox::packed(seed, offset, its global index) >> 8 < philox::threshold(p)`.
    DROPOUT = "dropout";
    /// ins: x, index I32/I64 [n]. out: x with dim's size n. params: dim.
    INDEX_SELECT = "index_select" Bytes;
    /// ins: x, index I64. out: index's sizes. params: dim.
    GATHER = "gather" Bytes;
    /// `out[0]` (already holding the input's values) receives src at index along dim. ins: index I64, src. params: dim, `ScatterKind`.
    SCATTER = "scatter" Bytes;
    /// Advanced indexing. ins: x, then one optional I64 index a dimension of x (all of one broadcast shape, by zero strides).
    /// Indexed dims come first in the output when they are not adjacent, in place of the first otherwise: params: position of the
    /// index dimensions in the output, number of index dimensions. Negative indices count from the end.
    INDEX = "index" Bytes;
    /// `out[0]` (already holding the values) receives `ins[0]` (of the shape INDEX would give, broadcast by zero strides) at the indices
    /// `ins[1..]`. params: as INDEX, then accumulate (bool). Accumulation is in index order.
    INDEX_PUT = "index_put" Bytes;
    /// Concatenates the present inputs along a dimension, casting. params: dim.
    CONCAT = "concat" Any;
    /// Sorts along a dimension, stable. outs: values, indices I64. params: dim, descending (bool). NaN counts as the greatest.
    SORT = "sort";
    /// outs: values, indices I64 with size k at dim. params: k, dim, largest (bool), sorted (bool).
    TOPK = "topk";
    /// Positions of values in sorted rows. ins: sorted [..., n] (or [n]: one row for all), values [..., m] (any shape with one row),
    /// sorter? I64 (the sorted's sizes): position in order -> place in the row. out: I64 or I32, the values' sizes.
    /// params: right (bool): the first position whose element is greater than the value; otherwise the first not less.
    /// NaN counts as the greatest.
    SEARCHSORTED = "searchsorted";
    /// Whether elements are among others. ins: x, others (any sizes, x's dtype, real). out: BOOL, x's sizes. params: invert (bool).
    /// NaN is equal to nothing.
    IS_MEMBER = "is_member";
    /// The greatest (smallest) element so far along a dimension, and the place of the last one that is as great; NaN wins.
    /// ins: x. outs: values, places I64, both of x's sizes. params: is_max (bool), dim.
    RUNNING_EXTREME = "running_extreme";
    /// Running `log(sum(exp(x)))` along a dimension; floats accumulate in f64. ins: x. out: x's sizes. params: dim.
    LOGCUMSUMEXP = "logcumsumexp";
    /// ins: x. out: I64 0-dim, the number of non-zero elements.
    COUNT_NONZERO = "count_nonzero";
    /// ins: x. out: I64 [n, ndim], n from COUNT_NONZERO.
    NONZERO = "nonzero";
    /// Keeps the lower (upper) triangle of the last two dimensions, zero elsewhere. ins: x. params: diagonal (i64), upper (bool).
    TRIANGLE = "triangle" Bytes;
    /// One step of an optimizer over many tensors, in place, by a registered `Rule`. `outs`: n params, then n tensors of each state.
    /// `ins`: n grads, then the rule's numbers (0-dim, any float dtype), grad_scale?, found_inf? (0-dim), hyper? (F64, contiguous).
    /// params: rule id, n, maximize (bool), then the rule's hyper-parameters (f64), in whose place come those in `hyper`. Gradients
    /// are divided by grad_scale. Nothing changes where found_inf is non-zero.
    UPDATE = "update";
    /// `outs`: n tensors, multiplied in place by `ins[0]` (0-dim), then found_inf (0-dim F32), which becomes one where some element is
    /// not finite and else keeps its value. params: n.
    UNSCALE = "unscale";
    /// Norms of many tensors at once. ins: n tensors of one float dtype, of any sizes. outs: [n] of that dtype, each tensor's norm over
    /// all of its elements, summed in the compute dtype. params: the order (f64): 1, 2 or infinity.
    NORMS = "norms";
    /// Cholesky factor of symmetric (Hermitian) matrices, of which one triangle is read. ins: a [..., n, n]. outs: the factor, zeros
    /// in the other triangle, info I32 [...] (0, or the order of the first minor that is not positive). params: upper, check (bools: a
    /// failure is a LinAlgError).
    CHOLESKY = "cholesky";
    /// LU factorisation with partial pivoting. ins: a [..., m, n]. outs: lu [..., m, n] (unit lower and upper triangle in one matrix),
    /// pivots I32 [..., min(m, n)] (row exchanged with each, from one), info I32 [...] (0, or the first zero on the diagonal from one).
    /// params: pivot (bool: false exchanges no rows), `SingularCheck`.
    LU_FACTOR = "lu_factor";
    /// The order of rows that exchanges bring about. ins: pivots I32 [..., k]. outs: I64 [..., m].
    LU_PERMUTATION = "lu_permutation";
    /// `out = inverse(a) @ b` with a triangular matrix. ins: a [..., n, n] (the other triangle is not read), b [..., n, k].
    /// params: upper, unitriangular (bools).
    TRIANGULAR_SOLVE = "triangular_solve";
    /// QR factorisation in Householder form. ins: a [..., m, n]. outs: packed [..., m, n] (R above, reflectors below), tau [..., min(m, n)].
    GEQRF = "geqrf";
    /// The first columns of a product of reflectors, as many as `out` has. ins: packed [..., m, n], tau [..., k]. outs: [..., m, c].
    HOUSEHOLDER_PRODUCT = "householder_product";
    /// Eigenvalues (ascending, real) and vectors of symmetric (Hermitian) matrices, of which one triangle is read. ins: a [..., n, n].
    /// outs: w [..., n], v? [..., n, n] (vectors in columns). params: upper (bool).
    EIGH = "eigh";
    /// Eigenvalues and vectors of general matrices. ins: a [..., n, n]. outs: w [..., n], v? [..., n, n], complex.
    EIG = "eig";
    /// Singular values (descending, real) and vectors. ins: a [..., m, n]. outs: u? [..., m, k or m], s [..., k], vh? [..., k or n, n].
    SVD = "svd";
    /// Matrix exponential. ins: a [..., n, n]. outs: [..., n, n].
    MATRIX_EXP = "matrix_exp";
    /// Discrete Fourier transform over some dimensions. ins: x. outs: y. Complex to complex, real to complex (half of the last
    /// dimension named, or all of it, as the output's size says), or complex to real (the half there is; the output has the size).
    /// params: inverse (bool), scale (f64), number of dimensions, the dimensions.
    FFT = "fft";
}

/// `REDUCE` and `SCAN` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum ReduceKind {
    Sum = 0,
    Prod,
    Max,
    Min,
    Mean,
    Any,
    All,
    /// The sum of what is not NaN, of floats. CPU alone.
    NanSum,
}

impl ReduceKind {
    pub fn from_u64(v: u64) -> Option<ReduceKind> {
        use ReduceKind::*;
        [Sum, Prod, Max, Min, Mean, Any, All, NanSum].get(v as usize).copied()
    }
}

/// What `LU_FACTOR` makes of a singular matrix, in whose words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum SingularCheck {
    /// Only `info` says it.
    None = 0,
    LuFactor,
    Inv,
    Solve,
}

impl SingularCheck {
    pub fn from_u64(v: u64) -> Option<SingularCheck> {
        use SingularCheck::*;
        [None, LuFactor, Inv, Solve].get(v as usize).copied()
    }
}

/// What `MATMUL` and `CONV_ACTIVATION` apply to a finished sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Activation {
    None = 0,
    Relu,
    Gelu,
    GeluTanh,
    Silu,
    Hardswish,
    Relu6,
}

impl Activation {
    pub fn from_u64(v: u64) -> Option<Activation> {
        use Activation::*;
        [None, Relu, Gelu, GeluTanh, Silu, Hardswish, Relu6].get(v as usize).copied()
    }
}

/// `RESAMPLE` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum ResampleMode {
    Nearest = 0,
    NearestExact,
    Linear,
    Cubic,
    /// Mean of the input elements that an output element covers (adaptive average pooling).
    Area,
}

impl ResampleMode {
    pub fn from_u64(v: u64) -> Option<ResampleMode> {
        use ResampleMode::*;
        [Nearest, NearestExact, Linear, Cubic, Area].get(v as usize).copied()
    }
}

/// What `PAD` puts beyond the borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PadMode {
    Constant = 0,
    /// The elements before the border, which is not repeated.
    Reflect,
    /// The border's element.
    Replicate,
    /// The other end of what is kept.
    Circular,
    /// The other end: the size stays, `after` is `-before`, which is not negative.
    Roll,
}

impl PadMode {
    pub fn from_u64(v: u64) -> Option<PadMode> {
        use PadMode::*;
        [Constant, Reflect, Replicate, Circular, Roll].get(v as usize).copied()
    }
}

/// `GRID_SAMPLE` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum GridMode {
    Nearest = 0,
    Linear,
    Cubic,
}

impl GridMode {
    pub fn from_u64(v: u64) -> Option<GridMode> {
        use GridMode::*;
        [Nearest, Linear, Cubic].get(v as usize).copied()
    }
}

/// What lies around the images of `GRID_SAMPLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum GridBorder {
    Zeros = 0,
    /// The nearest element.
    Clamp,
    Reflect,
}

impl GridBorder {
    pub fn from_u64(v: u64) -> Option<GridBorder> {
        use GridBorder::*;
        [Zeros, Clamp, Reflect].get(v as usize).copied()
    }
}

/// `RANDOM` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RandomKind {
    /// [a, b)
    Uniform = 0,
    /// mean a, standard deviation b
    Normal,
    /// 1 with probability a
    Bernoulli,
    /// integers in [a, b)
    Integers,
    /// exponential with rate a
    Exponential,
    /// The rest is drawn in order alone (`mt19937`); by position these are compositions, except for permutations, which the CPU
    /// makes of whole tensors. Integers of the dtype's own range.
    AnyInteger = 16,
    /// exp of a normal number
    LogNormal,
    /// median a, scale b
    Cauchy,
    /// trials until a success of probability a
    Geometric,
    /// 0 .. n-1 in a random order
    Permutation,
}

impl RandomKind {
    pub fn from_u64(v: u64) -> Option<RandomKind> {
        use RandomKind::*;
        let in_order = [AnyInteger, LogNormal, Cauchy, Geometric, Permutation];
        [Uniform, Normal, Bernoulli, Integers, Exponential]
            .get(v as usize)
            .or(in_order.get(v.wrapping_sub(16) as usize))
            .copied()
    }
    /// Whether only an engine that draws in order has such numbers.
    pub fn is_in_order_only(self) -> bool {
        self as u64 >= RandomKind::AnyInteger as u64 && self != RandomKind::Permutation
    }
    /// Whether dtypes of integers hold such numbers.
    pub fn is_of_integers(self) -> bool {
        use RandomKind::*;
        matches!(self, Bernoulli | Integers | AnyInteger | Geometric | Permutation)
    }
}

/// `RANDOM_BY` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RandomByKind {
    /// rate a
    Poisson = 0,
    /// successes of a trials with probability b
    Binomial,
    /// shape a, scale one
    Gamma,
}

impl RandomByKind {
    pub fn from_u64(v: u64) -> Option<RandomByKind> {
        use RandomByKind::*;
        [Poisson, Binomial, Gamma].get(v as usize).copied()
    }
}

/// `SCATTER` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum ScatterKind {
    Set = 0,
    Add,
    Mul,
    Max,
    Min,
}

impl ScatterKind {
    pub fn from_u64(v: u64) -> Option<ScatterKind> {
        use ScatterKind::*;
        [Set, Add, Mul, Max, Min].get(v as usize).copied()
    }
}

/// `EMBEDDING_BAG` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum BagMode {
    Sum = 0,
    Mean,
    Max,
}

impl BagMode {
    pub fn from_u64(v: u64) -> Option<BagMode> {
        use BagMode::*;
        [Sum, Mean, Max].get(v as usize).copied()
    }
}

/// Whether a vendor's library computes something that has a kernel of ours, where a device has such a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Our kernel does.
    Own = 0,
    /// The library does what it takes.
    First,
    /// The library does; what it does not take is an error.
    Only,
}

impl Library {
    pub fn from_u64(v: u64) -> Option<Library> {
        [Library::Own, Library::First, Library::Only].get(v as usize).copied()
    }
}

/// `RNN` kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RnnMode {
    Tanh = 0,
    Relu,
    Lstm,
    Gru,
}

impl RnnMode {
    pub fn from_u64(v: u64) -> Option<RnnMode> {
        use RnnMode::*;
        [Tanh, Relu, Lstm, Gru].get(v as usize).copied()
    }

    /// Gates of a unit.
    pub fn n_gates(self) -> usize {
        match self {
            RnnMode::Tanh | RnnMode::Relu => 1,
            RnnMode::Lstm => 4,
            RnnMode::Gru => 3,
        }
    }

    /// Numbers of a unit and row that the forward keeps for the backward.
    pub fn n_kept(self) -> usize {
        if self == RnnMode::Gru { 4 } else { self.n_gates() }
    }
}
