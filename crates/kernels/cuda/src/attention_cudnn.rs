//! ATTENTION and its backward by cuDNN, where a program asks for it (`Library`): bfloat16 and float16, heads of up to 128 columns.
//!
//! The library draws no numbers: a mask in memory says which weights are dropped, so that results are those of our own kernels, and
//! one of the two may do the forward and the other the backward. Plans are kept by problem. Operands whose rows lie otherwise than it
//! takes them are copied. What it declines goes to our kernels, said once, or is an error where it alone is allowed.

use crate::attention_problem::{Kind, PROBLEM, Problem};
use crate::conv_cudnn;
use crate::elementwise::copy_views;
use crate::host;
use crate::launch::{Family, Key, Scratch, args, cuda, gpu, linear, run};
use crate::per_queue::PerQueue;
use crate::random::PHILOX;
use crate::text::{Builder, float};
use oneflow_base::{DType, Error, ErrorKind, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_ep::cuda::cudnn::{ALIGNMENT, Cudnn, Handle, Layout, Plan};
use oneflow_ep::cuda::cudnn_attention::{Attention, Backward, Numbers, Operand};
use oneflow_kernels_prim::{AttentionParams, Launch, Library, View};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Plans kept before all are forgotten.
const MAX_PLANS: usize = 1024;
/// The most bytes of a mask for dropout.
const MOST_SCORES: i64 = 1 << 30;

const PARTS: [&str; 2] = ["forward", "backward"];

const BIAS: u8 = 0;
const KEPT: u8 = 1;
const HIDDEN: u8 = 2;

static DETERMINISTIC: AtomicBool = AtomicBool::new(false);

/// Whether cuDNN's attention has to give the same results in every run: its backward takes memory for all scores then.
pub fn set_deterministic(deterministic: bool) {
    DETERMINISTIC.store(deterministic, Ordering::Relaxed);
}

type Planned = std::result::Result<Arc<Plan>, String>;

/// Handles and plans of a stream: plans belong to a handle.
struct OfQueue {
    handle: Handle,
    plans: HashMap<Attention, Planned>,
}

static QUEUES: PerQueue<OfQueue> = PerQueue::new();

impl OfQueue {
    fn new(cudnn: &'static Cudnn) -> Result<OfQueue> {
        Ok(OfQueue { handle: cudnn.create()?, plans: HashMap::new() })
    }

    fn plan(&mut self, problem: &Attention) -> Result<Planned> {
        if let Some(plan) = self.plans.get(problem) {
            return Ok(plan.clone());
        }
        if self.plans.len() >= MAX_PLANS {
            self.plans.clear();
        }
        // It compiles, loads kernels and allocates.
        let made = cuda()?.outside_of_captures(|| self.handle.attention(problem))?.map(Arc::new);
        self.plans.insert(problem.clone(), made.clone());
        Ok(made)
    }
}

/// `part`: see the template.
pub fn text(part: u8, dtype: DType, mask: DType) -> Result<Text> {
    let b = Builder::new("attention around cuDNN").variant("PART", part);
    let b = b.compute("C", float("attention", dtype)?.compute())?.dtype("T", dtype)?.dtype("M", mask)?;
    let b = b.define("MASK_BOOL", (mask == DType::Bool) as u8);
    Ok(b.push(PHILOX).push(PROBLEM).push(include_str!("text/attention_cudnn.cu")).finish())
}

fn launch(queue: Queue, part: u8, kind: Kind, p: &Problem, sizes: [i64; 3], n: i64, to: *mut u8) -> Result<()> {
    let Kind { dtype, mask, .. } = kind;
    let key = Key::new(Family::AttentionCudnn).small(part as u64).dtype(dtype).dtype(mask);
    let [b, h, rows] = sizes;
    // SAFETY: the arguments are the template's; the addresses are valid by the launch's contract.
    unsafe { run(queue, key, || text(part, dtype, mask), linear(n), args![*p, b, h, rows, to]) }
}

fn in_order(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// An operand as the library takes it.
struct Rows {
    id: Operand,
    at: *mut u8,
    dtype: DType,
    sizes: Vec<i64>,
    /// Those of the operand itself, and those that the library is told.
    own: Vec<i64>,
    strides: Vec<i64>,
    place: *mut u8,
    is_result: bool,
    copy: Option<Scratch>,
}

impl Rows {
    /// Rows at multiples of sixteen bytes stay where they are.
    fn new(id: Operand, v: &View<'_>, is_result: bool) -> Rows {
        let (own, dense) = (v.strides.to_vec(), in_order(v.sizes));
        // A dimension of one element has any stride.
        let told: Vec<i64> = (0..own.len()).map(|d| if v.sizes[d] == 1 { dense[d] } else { own[d] }).collect();
        let (last, outer) = (told[told.len() - 1], &told[..told.len() - 1]);
        let step = ALIGNMENT / v.dtype.size() as i64;
        let lies = last == 1 && outer.iter().all(|s| *s > 0 && s % step == 0);
        let fits = lies && (v.ptr as usize).is_multiple_of(ALIGNMENT as usize);
        let strides = if fits { told } else { dense };
        Rows {
            id,
            at: v.ptr,
            dtype: v.dtype,
            sizes: v.sizes.to_vec(),
            own,
            strides,
            place: v.ptr,
            is_result,
            copy: None,
        }
    }

    /// As `new`, always in order: numbers of rows and of scores.
    fn dense(id: Operand, v: &View<'_>, is_result: bool) -> Rows {
        let mut rows = Rows::new(id, v, is_result);
        rows.strides = in_order(v.sizes);
        rows
    }

    fn layout(&self) -> Layout {
        Layout { sizes: self.sizes.clone(), strides: self.strides.clone() }
    }

    fn is_in_place(&self) -> bool {
        let pairs = self.own.iter().zip(&self.strides);
        let same = self.sizes.iter().zip(pairs).all(|(n, (a, b))| *n == 1 || a == b);
        same && (self.at as usize).is_multiple_of(ALIGNMENT as usize)
    }

    /// Takes memory for a copy where one is needed, and fills it if it is read.
    unsafe fn settle(&mut self, queue: Queue) -> Result<()> {
        if self.is_in_place() {
            return Ok(());
        }
        let copy = Scratch::new(queue, self.sizes.iter().product(), self.dtype.size())?;
        let from = View { ptr: self.at, dtype: self.dtype, sizes: &self.sizes, strides: &self.own };
        if !self.is_result {
            let to = View { ptr: copy.ptr(), strides: &self.strides, ..from };
            // SAFETY: the scratch has room for the operand, which is valid by the launch's contract.
            unsafe { copy_views(queue, &to, &from)? };
        }
        self.place = copy.ptr();
        self.copy = Some(copy);
        Ok(())
    }

    /// Brings a result that was written to a copy to its place.
    unsafe fn finish(&self, queue: Queue) -> Result<()> {
        if !self.is_result || self.copy.is_none() {
            return Ok(());
        }
        let from = View { ptr: self.place, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides };
        let to = View { ptr: self.at, strides: &self.own, ..from };
        // SAFETY: the copy has the operand's elements; the operand is valid by the launch's contract.
        unsafe { copy_views(queue, &to, &from) }
    }
}

/// The mask as numbers that are added: its layout, and whether it has to be made of truth values.
struct Bias {
    rows: Rows,
    made: bool,
}

impl Bias {
    fn new(mask: &View<'_>, dtype: DType) -> Bias {
        // The library repeats a bias over batch, heads and rows itself.
        let sizes: Vec<i64> = (0..4).map(|d| if d < 3 && mask.strides[d] == 0 { 1 } else { mask.sizes[d] }).collect();
        let made = mask.dtype == DType::Bool;
        let view = View { sizes: &sizes, ..*mask };
        let mut rows = Rows::new(Operand::Bias, &view, false);
        if made {
            rows.dtype = dtype;
        }
        if made || mask.strides[3] != 1 || mask.strides.iter().any(|s| *s < 0) {
            rows.strides = in_order(&sizes);
        }
        Bias { rows, made }
    }

    unsafe fn settle(&mut self, queue: Queue, kind: Kind, p: &Problem) -> Result<()> {
        if !self.made {
            // SAFETY: by the contract.
            return unsafe { self.rows.settle(queue) };
        }
        let n: i64 = self.rows.sizes.iter().product();
        let copy = Scratch::new(queue, n, self.rows.dtype.size())?;
        let sizes = [self.rows.sizes[0], self.rows.sizes[1], self.rows.sizes[2]];
        launch(queue, BIAS, kind, p, sizes, n, copy.ptr())?;
        self.rows.place = copy.ptr();
        self.rows.copy = Some(copy);
        Ok(())
    }
}

/// Why the library does not do what a launch asks for.
fn declined(library: Library, part: &str, l: &Launch<'_>, at: usize, why: &str) -> Result<bool> {
    if library == Library::Only {
        let size = |at: usize| l.input(at).map(|v| format!("{:?}", v.sizes)).unwrap_or_default();
        let (q, k) = (size(at), size(at + 1));
        let dtype = l.input(at)?.dtype;
        return Err(Error::runtime(format!(
            "scaled_dot_product_attention: No available kernel. Only cuDNN's attention is allowed (sdpa_kernel, enable_cudnn_sdp), and it cannot do the {part} of {dtype} query {q} and key {k}: {why}"
        )));
    }
    host::say_once("attention", || format!("cuDNN does not do it: {why}; it runs kernels of this package's own"))?;
    Ok(false)
}

/// What our kernels refuse, cuDNN does not take either: an error where it alone is allowed, and no reason to compose.
pub fn heard<T>(l: &Launch<'_>, at: usize, made: Result<T>) -> Result<T> {
    match made {
        Err(e) if e.kind() == ErrorKind::NotImplemented => {
            let AttentionParams { library, .. } = l.read()?;
            if library == Library::Only {
                declined(library, PARTS[at], l, at, e.text())?;
            }
            Err(e)
        }
        made => made,
    }
}

/// The library, or why it does no attention on a device at all.
fn library_for(queue: Queue) -> Result<std::result::Result<&'static Cudnn, String>> {
    if !conv_cudnn::is_enabled() {
        return Ok(Err("it is switched off (oneflow.backends.cudnn.enabled)".into()));
    }
    let cudnn = match cuda()?.cudnn() {
        Ok(cudnn) => cudnn,
        Err(e) => return Ok(Err(e.text().into())),
    };
    match gpu(queue)?.compute_capability {
        (major, _) if major < 8 => Ok(Err("it needs a GPU of compute capability 8.0 or newer".into())),
        _ => Ok(Ok(cudnn)),
    }
}

/// What attention is asked about by `refusal`: sizes of query, key and value, and of the scores where there is a mask.
pub struct Question<'a> {
    pub dtype: DType,
    pub operands: [&'a [i64]; 3],
    pub has_mask: bool,
    pub causal: bool,
    pub drops: bool,
    pub trains: bool,
}

/// Why cuDNN does not take such operands, in order; `None` where it does.
pub fn refusal(queue: Queue, q: &Question<'_>) -> Result<Option<String>> {
    let cudnn = match library_for(queue)? {
        Ok(cudnn) => cudnn,
        Err(why) => return Ok(Some(why)),
    };
    let layout = |sizes: &[i64]| Layout { sizes: sizes.to_vec(), strides: in_order(sizes) };
    let [query, key, value] = q.operands.map(layout);
    let scores = [query.sizes[0], query.sizes[1], query.sizes[2], key.sizes[2]];
    let out = layout(&[scores[0], scores[1], scores[2], value.sizes[3]]);
    let bias = q.has_mask.then(|| (q.dtype, layout(&scores)));
    let (causal, drops, dtype) = (q.causal, q.drops, q.dtype);
    let mut problem = Attention { dtype, causal, query, key, value, out, bias, drops, backward: None };
    QUEUES.with(
        queue,
        || OfQueue::new(cudnn),
        |of| {
            if let Err(why) = of.plan(&problem)? {
                return Ok(Some(why));
            }
            if q.trains {
                problem.backward = Some(Backward {
                    grad_out: problem.out.clone(),
                    grad_query: problem.query.clone(),
                    grad_key: problem.key.clone(),
                    grad_value: problem.value.clone(),
                    grad_bias: DETERMINISTIC.load(Ordering::Relaxed),
                });
            }
            Ok(of.plan(&problem)?.err())
        },
    )
}

/// Runs the forward (`at`: 0) or backward (1) by cuDNN; false where our kernels have to, and nothing was issued.
///
/// # Safety
/// As the launch that it serves, whose `Problem` it is given.
pub unsafe fn attention(l: &Launch<'_>, at: usize, p: &Problem, kind: Kind) -> Result<bool> {
    let AttentionParams { library, scale, p: dropped, .. } = l.read()?;
    if library == Library::Own {
        return Ok(false);
    }
    let (q, k, v) = (l.input(at)?, l.input(at + 1)?, l.input(at + 2)?);
    let is_empty = [&q, &k, &v].iter().any(|v| v.numel() == 0);
    let decline = |why: &str| declined(library, PARTS[at], l, at, why);
    if is_empty {
        // There is nothing that it could do better.
        return Ok(false);
    }
    let cudnn = match library_for(l.queue)? {
        Ok(cudnn) => cudnn,
        Err(why) => return decline(&why),
    };
    let scores = [p.batch, p.heads, p.rows, p.keys];
    let n_scores: i64 = scores.iter().product();
    let drops = p.threshold != 0;
    if drops && n_scores * kind.dtype.size() as i64 > MOST_SCORES {
        return decline("dropout needs a mask of more than a gibibyte there");
    }
    if drops && dropped >= 1.0 {
        return decline("dropout leaves no weight");
    }
    let mut rows = vec![
        Rows::new(Operand::Query, &q, false),
        Rows::new(Operand::Key, &k, false),
        Rows::new(Operand::Value, &v, false),
    ];
    let (out, lse) = if at == 0 { (l.output(0)?, l.output(1)?) } else { (l.input(5)?, l.input(6)?) };
    rows.push(Rows::new(Operand::Out, &out, at == 0));
    if at == 1 {
        rows.push(Rows::new(Operand::GradOut, &l.input(0)?, false));
        for (id, n) in [(Operand::GradQuery, 0), (Operand::GradKey, 1), (Operand::GradValue, 2)] {
            rows.push(Rows::new(id, &l.output(n)?, true));
        }
    }
    let mut plain = vec![Rows::dense(Operand::Statistics, &lse, at == 0)];
    let grad_bias = if at == 1 { l.opt_output(3) } else { None };
    plain.extend(grad_bias.map(|v| Rows::dense(Operand::GradBias, &v, true)));
    // Where that of the scores passes through memory, the query's gradient is added in one order.
    let grad_scores = at == 1 && (grad_bias.is_some() || DETERMINISTIC.load(Ordering::Relaxed));
    let mut bias = l.opt_input(at + 3).map(|m| Bias::new(&m, kind.dtype));
    let problem = |rows: &[Rows], bias: Option<&Bias>| Attention {
        dtype: kind.dtype,
        causal: p.causal != 0,
        query: rows[0].layout(),
        key: rows[1].layout(),
        value: rows[2].layout(),
        out: rows[3].layout(),
        bias: bias.map(|b| (b.rows.dtype, b.rows.layout())),
        drops,
        backward: (at == 1).then(|| Backward {
            grad_out: rows[4].layout(),
            grad_query: rows[5].layout(),
            grad_key: rows[6].layout(),
            grad_value: rows[7].layout(),
            grad_bias: grad_scores,
        }),
    };
    let refused = QUEUES.with(
        l.queue,
        || OfQueue::new(cudnn),
        |of| {
            let mut asked = problem(&rows, bias.as_ref());
            let mut planned = of.plan(&asked)?;
            if planned.is_err() {
                // As it takes everything.
                let operands = rows.iter_mut().chain(bias.as_mut().map(|b| &mut b.rows));
                operands.for_each(|r| r.strides = in_order(&r.sizes));
                asked = problem(&rows, bias.as_ref());
                planned = of.plan(&asked)?;
            }
            let plan = match planned {
                Ok(plan) => plan,
                Err(why) => return Ok(Some(why)),
            };
            // SAFETY: the launch's contract; copies live until the launches are issued.
            unsafe {
                for r in rows.iter_mut().chain(&mut plain) {
                    r.settle(l.queue)?;
                }
                if let Some(bias) = &mut bias {
                    bias.settle(l.queue, kind, p)?;
                }
                let kept = drops.then(|| Scratch::new(l.queue, n_scores, kind.dtype.size())).transpose()?;
                let mut operands: Vec<(Operand, *mut u8)> =
                    rows.iter().chain(&plain).chain(bias.as_ref().map(|b| &b.rows)).map(|r| (r.id, r.place)).collect();
                if let Some(kept) = &kept {
                    launch(l.queue, KEPT, kind, p, [1; 3], n_scores, kept.ptr())?;
                    operands.push((Operand::Kept, kept.ptr()));
                }
                let mut own = Vec::new();
                if at == 1 {
                    let n_rows = p.batch * p.heads * p.rows;
                    own.push((Operand::RowSums, Scratch::new(l.queue, n_rows, size_of::<f32>())?));
                    if !grad_scores {
                        own.push((Operand::QuerySums, Scratch::new(l.queue, n_rows * p.width, size_of::<f32>())?));
                    } else if grad_bias.is_none() {
                        own.push((Operand::GradBias, Scratch::new(l.queue, n_scores, kind.dtype.size())?));
                    }
                }
                operands.extend(own.iter().map(|(id, scratch)| (*id, scratch.ptr())));
                let workspace = Scratch::new(l.queue, plan.workspace.max(1) as i64, 1)?;
                gpu(l.queue)?;
                let numbers = Numbers { scale: scale as f32, kept: (1.0 - dropped) as f32 };
                of.handle.launch_attention((&plan, &asked), &operands, numbers, workspace.ptr(), l.queue.raw)?;
                rows.iter().chain(&plain).try_for_each(|r| r.finish(l.queue))?;
            }
            Ok(None)
        },
    )?;
    if let Some(why) = refused {
        return decline(&why);
    }
    if at == 0 && !p.mask.is_null() {
        launch(l.queue, HIDDEN, kind, p, [1; 3], p.batch * p.heads * p.rows, p.out)?;
    }
    Ok(true)
}
