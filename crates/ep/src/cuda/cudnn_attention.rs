//! Scaled dot-product attention and its backward by cuDNN: graphs of products, pointwise operations and reductions, which its
//! engines for attention recognise as a whole.
//!
//! Every release of cuDNN 9 knows these graphs; the descriptors of a whole attention are newer and have no backward with a mask.
//! Weights are dropped by a mask in memory, so that they are those of other kernels and devices. Operands that lie otherwise, and what
//! no engine takes, are the caller's to handle.

use super::cudnn::*;
use oneflow_base::{DType, Error, ErrorKind, Result};
use std::ffi::c_int;

// Values of the vendor's enums: descriptors,
const POINTWISE: c_int = 0;
const OPERATION_POINTWISE: c_int = 13;
const MATMUL: c_int = 18;
const OPERATION_MATMUL: c_int = 19;
const REDUCTION: c_int = 21;
const OPERATION_REDUCTION: c_int = 22;
const OPERATION_RESHAPE: c_int = 31;
// types of attributes,
const T_BOOLEAN: c_int = 2;
const T_POINTWISE_MODE: c_int = 14;
const T_REDUCTION: c_int = 18;
// attributes,
const POINTWISE_MODE: c_int = 0;
const POINTWISE_PRECISION: c_int = 1;
const POINTWISE_AXIS: c_int = 9;
const OPERATION_POINTWISE_DESC: c_int = 750;
const OPERATION_POINTWISE_X: c_int = 751;
const OPERATION_POINTWISE_B: c_int = 752;
const OPERATION_POINTWISE_Y: c_int = 753;
const OPERATION_POINTWISE_T: c_int = 758;
const TENSOR_IS_VIRTUAL: c_int = 907;
const TENSOR_IS_BY_VALUE: c_int = 908;
const MATMUL_COMPUTE_TYPE: c_int = 1500;
/// Behind it b, c and the product's descriptor.
const OPERATION_MATMUL_A: c_int = 1520;
const REDUCTION_OPERATOR: c_int = 1600;
const REDUCTION_COMPUTE_TYPE: c_int = 1601;
/// Behind it y and the reduction's descriptor.
const OPERATION_REDUCTION_X: c_int = 1610;
/// Behind it y.
const OPERATION_RESHAPE_X: c_int = 2200;
// modes of pointwise operations,
const ADD: c_int = 0;
const MUL: c_int = 1;
const DIV: c_int = 6;
const SUB: c_int = 9;
const EXP: c_int = 13;
const LOG: c_int = 15;
const IDENTITY: c_int = 21;
const GREATER_OR_EQUAL: c_int = 303;
const INDEX: c_int = 501;
const SELECT: c_int = 601;
// reductions,
const SUM: c_int = 0;
const MAX: c_int = 3;
// and types of elements.
const FLOAT: c_int = 0;
const INT32: c_int = 4;
const BOOLEAN: c_int = 11;

/// Older releases want the sum of the query's gradient zeroed, and know fewer layouts.
const OLDEST: usize = 90600;
/// Up to here the backward is wrong for numbers of keys that are no multiple of 128.
const EVEN_KEYS: usize = 91500;
/// From here on, what is hidden is minus infinity; before, the lowest finite number.
const INFINITE: usize = 91000;

/// Operands by number; those of values lie on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i64)]
pub enum Operand {
    Query = 1,
    Key,
    Value,
    Out,
    Statistics,
    Bias,
    /// 0 or 1 for every weight.
    Kept,
    GradOut,
    GradQuery,
    GradKey,
    GradValue,
    GradBias,
    /// Of the backward's own: sums of a row of grad_out * out, and of the query's gradient, float32 in order.
    RowSums,
    QuerySums,
}

const SCALE: i64 = 40;
const KEPT_SCALE: i64 = 41;
const KEPT_INVERSE: i64 = 42;
const HIDDEN: i64 = 43;
const FIRST_VIRTUAL: i64 = 100;

/// Attention without its numbers. Layouts are of [batch, heads, rows, width], key and value with heads that divide the query's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    pub dtype: DType,
    pub causal: bool,
    pub query: Layout,
    pub key: Layout,
    pub value: Layout,
    pub out: Layout,
    /// Added to the scores: its dtype, and [batch or 1, heads or 1, rows or 1, keys].
    pub bias: Option<(DType, Layout)>,
    /// Whether weights are dropped, by a mask of the scores' sizes in order.
    pub drops: bool,
    pub backward: Option<Backward>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backward {
    pub grad_out: Layout,
    pub grad_query: Layout,
    pub grad_key: Layout,
    pub grad_value: Layout,
    /// Whether the scores' gradient is wanted, in order.
    pub grad_bias: bool,
}

/// The numbers of a launch.
pub struct Numbers {
    pub scale: f32,
    /// The probability that a weight stays.
    pub kept: f32,
}

impl Attention {
    /// Batch, heads, rows, keys.
    fn scores(&self) -> [i64; 4] {
        let (q, k) = (&self.query.sizes, &self.key.sizes);
        [q[0], q[1], q[2], k[2]]
    }

    /// Why the library is not asked.
    fn refusal(&self, version: usize) -> Option<String> {
        let width = self.query.sizes[3];
        let keys = self.key.sizes[2];
        match () {
            () if version < OLDEST => Some(format!("cuDNN {version} is too old, {OLDEST} or newer is needed")),
            () if !matches!(self.dtype, DType::F16 | DType::BF16) => {
                Some(format!("it computes attention of float16 and bfloat16, not of {}", self.dtype))
            }
            () if self.value.sizes[3] != width || width % 8 != 0 || width > 128 => Some(format!(
                "query and value have {width} and {} columns; one number of at most 128 that 8 divides is needed",
                self.value.sizes[3]
            )),
            () if self.backward.is_some() && version <= EVEN_KEYS && keys % 128 != 0 => {
                Some(format!("the backward of cuDNN {version} takes multiples of 128 keys, not {keys}"))
            }
            () => None,
        }
    }
}

/// A tensor or operation of a graph that is being described.
#[derive(Clone, Copy)]
struct At(usize);

struct Builder {
    cudnn: &'static Cudnn,
    io: c_int,
    scores: [i64; 4],
    /// The next number of a tensor without memory.
    next: i64,
    parts: Vec<Descriptor>,
    operations: Vec<At>,
}

fn in_order([_, b, c, d]: [i64; 4]) -> [i64; 4] {
    [b * c * d, c * d, d, 1]
}

fn transposed([a, b, c, d]: [i64; 4]) -> [i64; 4] {
    [a, b, d, c]
}

fn four(values: &[i64]) -> Result<[i64; 4]> {
    values.try_into().map_err(|_| Error::runtime(format!("attention: four dimensions are needed, got {values:?}")))
}

impl Builder {
    fn keep(&mut self, part: Descriptor) -> At {
        self.parts.push(part);
        At(self.parts.len() - 1)
    }

    fn tensor(&mut self, id: i64, kind: c_int, sizes: [i64; 4], strides: [i64; 4], flag: Option<c_int>) -> Result<At> {
        let d = self.cudnn.descriptor(TENSOR)?;
        d.set(TENSOR_DATA_TYPE, T_DATA_TYPE, &[kind])?;
        d.set(TENSOR_DIMENSIONS, T_INT64, &sizes)?;
        d.set(TENSOR_STRIDES, T_INT64, &strides)?;
        d.set(TENSOR_ID, T_INT64, &[id])?;
        d.set(TENSOR_ALIGNMENT, T_INT64, &[ALIGNMENT])?;
        if let Some(flag) = flag {
            d.set(flag, T_BOOLEAN, &[true])?;
        }
        let d = d.finished()?;
        Ok(self.keep(d))
    }

    /// An operand in memory.
    fn operand(&mut self, id: Operand, layout: &Layout) -> Result<At> {
        self.tensor(id as i64, self.io, four(&layout.sizes)?, four(&layout.strides)?, None)
    }

    /// One whose last two dimensions change places.
    fn operand_transposed(&mut self, id: Operand, layout: &Layout) -> Result<At> {
        let (sizes, strides) = (four(&layout.sizes)?, four(&layout.strides)?);
        self.tensor(id as i64, self.io, transposed(sizes), transposed(strides), None)
    }

    /// An operand in order.
    fn plain(&mut self, id: Operand, kind: c_int, sizes: [i64; 4]) -> Result<At> {
        self.tensor(id as i64, kind, sizes, in_order(sizes), None)
    }

    fn value(&mut self, id: i64) -> Result<At> {
        self.tensor(id, FLOAT, [1; 4], [1; 4], Some(TENSOR_IS_BY_VALUE))
    }

    /// One without memory.
    fn inner(&mut self, kind: c_int, sizes: [i64; 4], strides: [i64; 4]) -> Result<At> {
        self.next += 1;
        self.tensor(self.next, kind, sizes, strides, Some(TENSOR_IS_VIRTUAL))
    }

    /// Numbers of the scores' sizes.
    fn inner_scores(&mut self, kind: c_int) -> Result<At> {
        self.inner(kind, self.scores, in_order(self.scores))
    }

    /// A number a row.
    fn inner_rows(&mut self) -> Result<At> {
        let sizes = self.row_sizes();
        self.inner(FLOAT, sizes, in_order(sizes))
    }

    fn row_sizes(&self) -> [i64; 4] {
        let [b, h, rows, _] = self.scores;
        [b, h, rows, 1]
    }

    fn operation(&mut self, operation: Descriptor, operands: &[(c_int, At)]) -> Result<()> {
        for (attribute, operand) in operands {
            operation.set_all(*attribute, &[&self.parts[operand.0]])?;
        }
        let operation = operation.finished()?;
        let at = self.keep(operation);
        self.operations.push(at);
        Ok(())
    }

    fn product(&mut self, a: At, b: At, c: At) -> Result<At> {
        let d = self.cudnn.descriptor(MATMUL)?;
        d.set(MATMUL_COMPUTE_TYPE, T_DATA_TYPE, &[FLOAT])?;
        let d = d.finished()?;
        let d = self.keep(d);
        let operation = self.cudnn.descriptor(OPERATION_MATMUL)?;
        self.operation(operation, &(OPERATION_MATMUL_A..).zip([a, b, c, d]).collect::<Vec<_>>())?;
        Ok(c)
    }

    /// `kind`: the type that it computes in.
    fn pointwise(&mut self, (mode, kind, axis): (c_int, c_int, Option<i64>), operands: &[(c_int, At)]) -> Result<()> {
        let d = self.cudnn.descriptor(POINTWISE)?;
        d.set(POINTWISE_MODE, T_POINTWISE_MODE, &[mode])?;
        d.set(POINTWISE_PRECISION, T_DATA_TYPE, &[kind])?;
        if let Some(axis) = axis {
            d.set(POINTWISE_AXIS, T_INT64, &[axis])?;
        }
        let d = d.finished()?;
        let d = self.keep(d);
        let operation = self.cudnn.descriptor(OPERATION_POINTWISE)?;
        self.operation(operation, &[&[(OPERATION_POINTWISE_DESC, d)], operands].concat())
    }

    fn unary(&mut self, mode: c_int, x: At, y: At) -> Result<At> {
        self.pointwise((mode, FLOAT, None), &[(OPERATION_POINTWISE_X, x), (OPERATION_POINTWISE_Y, y)])?;
        Ok(y)
    }

    fn binary(&mut self, mode: c_int, x: At, b: At, y: At) -> Result<At> {
        let operands = [(OPERATION_POINTWISE_X, x), (OPERATION_POINTWISE_B, b), (OPERATION_POINTWISE_Y, y)];
        self.pointwise((mode, FLOAT, None), &operands)?;
        Ok(y)
    }

    fn reduce(&mut self, operator: c_int, x: At, y: At) -> Result<At> {
        let d = self.cudnn.descriptor(REDUCTION)?;
        d.set(REDUCTION_OPERATOR, T_REDUCTION, &[operator])?;
        d.set(REDUCTION_COMPUTE_TYPE, T_DATA_TYPE, &[FLOAT])?;
        let d = d.finished()?;
        let d = self.keep(d);
        let operation = self.cudnn.descriptor(OPERATION_REDUCTION)?;
        self.operation(operation, &(OPERATION_REDUCTION_X..).zip([x, y, d]).collect::<Vec<_>>())?;
        Ok(y)
    }

    fn reshape(&mut self, x: At, y: At) -> Result<At> {
        let operation = self.cudnn.descriptor(OPERATION_RESHAPE)?;
        self.operation(operation, &[(OPERATION_RESHAPE_X, x), (OPERATION_RESHAPE_X + 1, y)])?;
        Ok(y)
    }

    /// `query @ key^T * scale + bias`.
    fn scores(&mut self, query: At, key: At, bias: Option<&(DType, Layout)>) -> Result<At> {
        let products = self.inner_scores(FLOAT)?;
        let products = self.product(query, key, products)?;
        let (scale, scaled) = (self.value(SCALE)?, self.inner_scores(FLOAT)?);
        let scaled = self.binary(MUL, products, scale, scaled)?;
        let Some((dtype, layout)) = bias else { return Ok(scaled) };
        let (sizes, strides) = (four(&layout.sizes)?, four(&layout.strides)?);
        let bias = self.tensor(Operand::Bias as i64, data_type(*dtype)?, sizes, strides, None)?;
        let biased = self.inner_scores(FLOAT)?;
        self.binary(ADD, scaled, bias, biased)
    }

    /// Scores whose row sees their key; the others are hidden.
    fn causal(&mut self, scores: At) -> Result<At> {
        let indices = [2, 3].map(|axis| (axis, self.inner_scores(INT32)));
        let [rows, keys] = indices.map(|(axis, y)| {
            let y = y?;
            self.pointwise((INDEX, INT32, Some(axis)), &[(OPERATION_POINTWISE_X, scores), (OPERATION_POINTWISE_Y, y)])?;
            Ok(y)
        });
        let (rows, keys, sees): (At, At, At) = (rows?, keys?, self.inner_scores(BOOLEAN)?);
        let operands = [(OPERATION_POINTWISE_X, rows), (OPERATION_POINTWISE_B, keys), (OPERATION_POINTWISE_Y, sees)];
        self.pointwise((GREATER_OR_EQUAL, BOOLEAN, None), &operands)?;
        let (hidden, seen) = (self.value(HIDDEN)?, self.inner_scores(FLOAT)?);
        let operands = [
            (OPERATION_POINTWISE_X, scores),
            (OPERATION_POINTWISE_B, hidden),
            (OPERATION_POINTWISE_T, sees),
            (OPERATION_POINTWISE_Y, seen),
        ];
        self.pointwise((SELECT, FLOAT, None), &operands)?;
        Ok(seen)
    }

    fn forward(&mut self, p: &Attention) -> Result<()> {
        let query = self.operand(Operand::Query, &p.query)?;
        let key = self.operand_transposed(Operand::Key, &p.key)?;
        let value = self.operand(Operand::Value, &p.value)?;
        let out = self.operand(Operand::Out, &p.out)?;
        let mut scores = self.scores(query, key, p.bias.as_ref())?;
        if p.causal {
            scores = self.causal(scores)?;
        }
        let highest = self.inner_rows()?;
        let highest = self.reduce(MAX, scores, highest)?;
        let (below, weights, total) = (self.inner_scores(FLOAT)?, self.inner_scores(FLOAT)?, self.inner_rows()?);
        let below = self.binary(SUB, scores, highest, below)?;
        let weights = self.unary(EXP, below, weights)?;
        let total = self.reduce(SUM, weights, total)?;
        let log = self.inner_rows()?;
        let log = self.unary(LOG, total, log)?;
        let statistics = self.plain(Operand::Statistics, FLOAT, self.row_sizes())?;
        self.binary(ADD, highest, log, statistics)?;
        let probabilities = self.inner_scores(if p.drops { FLOAT } else { self.io })?;
        let mut probabilities = self.binary(DIV, weights, total, probabilities)?;
        if p.drops {
            let (scale, scaled) = (self.value(KEPT_SCALE)?, self.inner_scores(FLOAT)?);
            let scaled = self.binary(MUL, probabilities, scale, scaled)?;
            let kept = self.plain(Operand::Kept, self.io, self.scores)?;
            let dropped = self.inner_scores(self.io)?;
            probabilities = self.binary(MUL, scaled, kept, dropped)?;
        }
        self.product(probabilities, value, out)?;
        Ok(())
    }

    /// The gradient of key or value: a product for every head of the query, summed over those that share.
    fn shared(&mut self, weights: At, rows: At, (id, layout): (Operand, &Layout)) -> Result<()> {
        let (sizes, scores) = (four(&layout.sizes)?, self.scores);
        let grad = self.operand(id, layout)?;
        if sizes[1] == scores[1] {
            return self.product(weights, rows, grad).map(|_| ());
        }
        let all = [scores[0], scores[1], sizes[2], sizes[3]];
        let each = self.inner(self.io, all, in_order(all))?;
        let each = self.product(weights, rows, each)?;
        self.reduce(SUM, each, grad).map(|_| ())
    }

    /// The scores' rows and keys change places, as the next product wants them.
    fn scores_transposed(&mut self, x: At) -> Result<At> {
        let y = self.inner(self.io, transposed(self.scores), transposed(in_order(self.scores)))?;
        self.reshape(x, y)
    }

    fn backward(&mut self, p: &Attention, b: &Backward) -> Result<()> {
        let query = self.operand(Operand::Query, &p.query)?;
        let key = self.operand_transposed(Operand::Key, &p.key)?;
        let value = self.operand_transposed(Operand::Value, &p.value)?;
        let out = self.operand(Operand::Out, &p.out)?;
        let statistics = self.plain(Operand::Statistics, FLOAT, self.row_sizes())?;
        let grad_out = self.operand(Operand::GradOut, &b.grad_out)?;
        let grad_query = self.operand(Operand::GradQuery, &b.grad_query)?;
        let kept = match p.drops {
            true => Some((self.plain(Operand::Kept, self.io, self.scores)?, self.value(KEPT_SCALE)?)),
            false => None,
        };
        // The sum of a row of grad_out * out.
        let wide = four(&p.query.sizes)?;
        let (each, sums) = (self.inner(FLOAT, wide, in_order(wide))?, self.inner_rows()?);
        let each = self.binary(MUL, grad_out, out, each)?;
        let sums = self.reduce(SUM, each, sums)?;
        let row_sums = self.plain(Operand::RowSums, FLOAT, self.row_sizes())?;
        let inverse = self.value(KEPT_INVERSE)?;
        let row_sums = self.binary(MUL, sums, inverse, row_sums)?;
        // The weights again, and value's gradient.
        let scores = self.scores(query, key, p.bias.as_ref())?;
        let below = self.inner_scores(FLOAT)?;
        let mut below = self.binary(SUB, scores, statistics, below)?;
        if p.causal {
            below = self.causal(below)?;
        }
        let weights = self.inner_scores(FLOAT)?;
        let weights = self.unary(EXP, below, weights)?;
        let mut dropped = weights;
        if let Some((kept, scale)) = kept {
            let (masked, scaled) = (self.inner_scores(FLOAT)?, self.inner_scores(FLOAT)?);
            let masked = self.binary(MUL, weights, kept, masked)?;
            dropped = self.binary(MUL, masked, scale, scaled)?;
        }
        let dropped = self.scores_transposed(dropped)?;
        self.shared(dropped, grad_out, (Operand::GradValue, &b.grad_value))?;
        // The scores' gradient, and key's.
        let grads = self.inner_scores(FLOAT)?;
        let mut grads = self.product(grad_out, value, grads)?;
        if let Some((kept, _)) = kept {
            let masked = self.inner_scores(FLOAT)?;
            grads = self.binary(MUL, grads, kept, masked)?;
        }
        let (centred, weighted) = (self.inner_scores(FLOAT)?, self.inner_scores(FLOAT)?);
        let centred = self.binary(SUB, grads, row_sums, centred)?;
        let mut grads = self.binary(MUL, centred, weights, weighted)?;
        if let Some((_, scale)) = kept {
            let scaled = self.inner_scores(FLOAT)?;
            grads = self.binary(MUL, grads, scale, scaled)?;
        }
        if b.grad_bias {
            let grad_bias = self.plain(Operand::GradBias, self.io, self.scores)?;
            self.reduce(SUM, grads, grad_bias)?;
        }
        let (scale, scaled) = (self.value(SCALE)?, self.inner_scores(self.io)?);
        let grads = self.binary(MUL, grads, scale, scaled)?;
        let across = self.scores_transposed(grads)?;
        self.shared(across, query, (Operand::GradKey, &b.grad_key))?;
        // Query's gradient: summed in float32 by whoever has a part, unless the scores' gradient passes through memory.
        let keys = self.inner(self.io, four(&p.key.sizes)?, four(&p.key.strides)?)?;
        let keys = self.reshape(key, keys)?;
        if b.grad_bias {
            self.product(grads, keys, grad_query)?;
            return Ok(());
        }
        let sums = self.plain(Operand::QuerySums, FLOAT, four(&p.query.sizes)?)?;
        let sums = self.product(grads, keys, sums)?;
        self.unary(IDENTITY, sums, grad_query)?;
        Ok(())
    }
}

impl Handle {
    /// The plan that the library thinks fastest. `Err` inside: why there is none.
    pub fn attention(&mut self, problem: &Attention) -> Result<std::result::Result<Plan, String>> {
        let cudnn = self.cudnn();
        if let Some(why) = problem.refusal(cudnn.version()) {
            return Ok(Err(why));
        }
        let none = || Ok(Err(format!("no engine of cuDNN {} takes it", cudnn.version())));
        let mut b = Builder {
            cudnn,
            io: data_type(problem.dtype)?,
            scores: problem.scores(),
            next: FIRST_VIRTUAL,
            parts: vec![],
            operations: vec![],
        };
        let made = match &problem.backward {
            None => b.forward(problem),
            Some(backward) => b.backward(problem, backward),
        };
        let graph = made.and_then(|()| {
            let operations: Vec<&Descriptor> = b.operations.iter().map(|at| &b.parts[at.0]).collect();
            self.graph_of(&operations)
        });
        let graph = match graph {
            Ok(graph) => graph,
            Err(e) if e.kind() == ErrorKind::NotImplemented => return none(),
            Err(e) => return Err(e),
        };
        match self.plan_of(graph, b.parts, |_| true)? {
            Some(plan) => Ok(Ok(plan)),
            None => none(),
        }
    }

    /// Enqueues a plan of this handle.
    ///
    /// # Safety
    /// The addresses hold the operands of the plan's problem, all of them, aligned to `ALIGNMENT`; the workspace has the plan's bytes
    /// and is used by no other work outside of `stream`, for which this handle is.
    pub unsafe fn launch_attention(
        &mut self,
        (plan, problem): (&Plan, &Attention),
        operands: &[(Operand, *mut u8)],
        numbers: Numbers,
        workspace: *mut u8,
        stream: *mut std::ffi::c_void,
    ) -> Result<()> {
        let hidden = if self.cudnn().version() < INFINITE { f32::MIN } else { f32::NEG_INFINITY };
        let values = [
            (SCALE, numbers.scale, true),
            (KEPT_SCALE, 1.0 / numbers.kept, problem.drops),
            (KEPT_INVERSE, numbers.kept, problem.backward.is_some()),
            (HIDDEN, hidden, problem.causal),
        ];
        let (mut ids, mut addresses): (Vec<i64>, Vec<*mut u8>) =
            operands.iter().map(|(id, address)| (*id as i64, *address)).unzip();
        for (id, value, is_used) in &values {
            if *is_used {
                ids.push(*id);
                addresses.push((&raw const *value).cast_mut().cast());
            }
        }
        // SAFETY: by the contract; the values live until the call returns.
        unsafe { self.execute(plan, &ids, &addresses, workspace, stream) }
    }
}
