//! RNN_STACK and its backward by cuDNN: one call for all layers, directions and steps. Networks are kept by problem.
//!
//! Without the library, and for what it does not take, such a launch is declined, and the layers run one by one (`rnn`); a
//! missing or mismatched library is said once.

use crate::conv_cudnn;
use crate::elementwise::copy_views;
use crate::host;
use crate::launch::{Scratch, cuda};
use crate::per_queue::PerQueue;
use oneflow_base::{DType, Dims, Error, Result, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_ep::cuda::cudnn::{ALIGNMENT, Handle};
use oneflow_ep::cuda::cudnn_rnn::{Backward, Cell, Forward, Network, Order, Problem};
use oneflow_kernels_prim::{Launch, RnnMode, RnnStackParams, View};
use std::collections::{HashMap, HashSet};
use std::ptr::null_mut;
use std::sync::{LazyLock, Mutex};

/// Networks kept before all are forgotten.
const MAX_NETWORKS: usize = 256;

/// Problems that the library took at first and refused when they ran: their backward must not run there either.
static REFUSED: LazyLock<Mutex<HashSet<Problem>>> = LazyLock::new(Default::default);

/// The handle and the networks of a stream.
struct OfQueue {
    handle: Handle,
    /// `None`: the library does not take it.
    networks: HashMap<Problem, Option<Network>>,
}

fn declined(why: &str) -> Error {
    Error::not_implemented(format!("rnn_stack: {why}"))
}

fn int(n: i64) -> Result<i32> {
    i32::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| declined("cuDNN takes no such sizes"))
}

/// What a launch says. `sizes`: those of the input; `out`: the width of h.
fn problem(p: &RnnStackParams, dtype: DType, sizes: &[i64], batch: i64, out: i64) -> Result<Problem> {
    if !matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
        return Err(declined("cuDNN has no network of this dtype"));
    }
    let packed = &p.packed.0;
    let steps = if packed.is_empty() { sizes[0] } else { packed.len() as i64 };
    let length = |row: i64| packed.partition_point(|rows| *rows > row) as i64;
    let lengths = (0..batch).map(|row| int(if packed.is_empty() { steps } else { length(row) }));
    let order = match () {
        () if !packed.is_empty() => Order::Packed,
        () if p.batch_first => Order::BatchFirst,
        () => Order::StepsFirst,
    };
    int(batch)?;
    Ok(Problem {
        cell: match p.mode {
            RnnMode::Relu => Cell::Relu,
            RnnMode::Tanh => Cell::Tanh,
            RnnMode::Lstm => Cell::Lstm,
            RnnMode::Gru => Cell::Gru,
        },
        dtype,
        tf32: p.allow_tf32,
        order,
        input: int(sizes[sizes.len() - 1])?,
        hidden: int(p.hidden)?,
        out: int(out)?,
        layers: int(p.layers)?,
        directions: 1 + p.bidirectional as i32,
        bias: p.bias,
        steps: int(steps)?,
        lengths: lengths.collect::<Result<_>>()?,
    })
}

/// Calls `run` with the network of a problem on a queue; it returns false where the library refuses what it took before.
fn with_network(
    queue: Queue,
    problem: Problem,
    weights: *mut u8,
    run: impl FnOnce(&mut Handle, &Network) -> Result<bool>,
) -> Result<()> {
    static QUEUES: PerQueue<OfQueue> = PerQueue::new();
    let cuda = cuda()?;
    let cudnn = cuda.cudnn().map_err(|e| declined(e.text()))?;
    if REFUSED.lock().unwrap_or_else(|e| e.into_inner()).contains(&problem) {
        return Err(declined("cuDNN refused to run this network"));
    }
    let make = || Ok(OfQueue { handle: cudnn.create()?, networks: HashMap::new() });
    QUEUES.with(queue, make, |of| {
        if !of.networks.contains_key(&problem) {
            if of.networks.len() >= MAX_NETWORKS {
                of.networks.clear();
            }
            // It may load kernels.
            let made = cuda.outside_of_captures(|| of.handle.network(&problem, weights))?;
            of.networks.insert(problem.clone(), made);
        }
        let Some(Some(network)) = of.networks.get(&problem) else {
            return Err(declined("cuDNN takes no such network"));
        };
        if run(&mut of.handle, network)? {
            return Ok(());
        }
        REFUSED.lock().unwrap_or_else(|e| e.into_inner()).insert(problem);
        Err(declined("cuDNN refused to run this network"))
    })
}

/// Bytes that a forward in training keeps on this queue; `None` where such a network runs by layer: the library is missing, switched
/// off, or does not take it. `sizes`: those of the input; `out`: the width of h.
pub fn reserve(
    queue: Queue,
    params: &RnnStackParams,
    dtype: DType,
    sizes: &[i64],
    batch: i64,
    out: i64,
) -> Result<Option<usize>> {
    if !conv_cudnn::is_enabled() {
        return Ok(None);
    }
    if let Err(e) = cuda()?.cudnn() {
        host::say_once("recurrent networks", || format!("{}; they run kernels of this package's own", e.text()))?;
        return Ok(None);
    }
    let mut bytes = None;
    // The library only counts from the address of weights.
    let weights = Scratch::new(queue, ALIGNMENT, 1)?;
    let asked = problem(params, dtype, sizes, batch, out).and_then(|problem| {
        with_network(queue, problem, weights.ptr(), |_, network| {
            bytes = Some(network.reserve);
            Ok(true)
        })
    });
    match asked {
        Err(e) if e.kind() == oneflow_base::ErrorKind::NotImplemented => Ok(None),
        done => done.map(|()| bytes),
    }
}

/// An operand without gaps: its own memory, or a copy.
struct Dense<'a> {
    view: View<'a>,
    strides: Dims,
    copy: Option<Scratch>,
}

impl<'a> Dense<'a> {
    /// `read`: a copy begins with the operand's values.
    unsafe fn new(queue: Queue, view: View<'a>, strides: Dims, read: bool) -> Result<Dense<'a>> {
        let fits = view.sizes.iter().zip(view.strides.iter().zip(&strides)).all(|(n, (a, b))| *n == 1 || a == b);
        let mut dense = Dense { view, strides, copy: None };
        if fits && (view.ptr as usize).is_multiple_of(ALIGNMENT as usize) {
            return Ok(dense);
        }
        let copy = Scratch::new(queue, view.numel() as i64, view.dtype.size())?;
        if read {
            // SAFETY: the scratch has room for the operand, which is valid by the launch's contract.
            unsafe { copy_views(queue, &View { ptr: copy.ptr(), strides: &dense.strides, ..view }, &view)? };
        }
        dense.copy = Some(copy);
        Ok(dense)
    }

    fn ptr(&self) -> *mut u8 {
        self.copy.as_ref().map_or(self.view.ptr, Scratch::ptr)
    }

    /// Brings a result that was written to a copy to its place.
    unsafe fn finish(&self, queue: Queue) -> Result<()> {
        let Some(copy) = &self.copy else { return Ok(()) };
        // SAFETY: as in `new`.
        unsafe { copy_views(queue, &self.view, &View { ptr: copy.ptr(), strides: &self.strides, ..self.view }) }
    }
}

/// A launch and its problem.
struct Run<'l, 'a> {
    l: &'l Launch<'a>,
    problem: Problem,
}

impl<'l, 'a> Run<'l, 'a> {
    fn new(l: &'l Launch<'a>, x: &View<'_>, h_0: &View<'_>) -> Result<Run<'l, 'a>> {
        let problem = problem(&l.read()?, x.dtype, x.sizes, h_0.sizes[1], h_0.sizes[2])?;
        Ok(Run { l, problem })
    }

    unsafe fn sequence(&self, v: View<'a>, read: bool) -> Result<Dense<'a>> {
        let strides = match (self.problem.order, v.sizes) {
            (Order::BatchFirst, [steps, _, width]) => [*width, steps * width, 1].into_iter().collect(),
            _ => contiguous_strides(v.sizes),
        };
        // SAFETY: the launch's contract.
        unsafe { Dense::new(self.l.queue, v, strides, read) }
    }

    unsafe fn state(&self, v: Option<View<'a>>, read: bool) -> Result<Option<Dense<'a>>> {
        // SAFETY: the launch's contract.
        v.map(|v| unsafe { Dense::new(self.l.queue, v, contiguous_strides(v.sizes), read) }).transpose()
    }

    fn zeros(&self, count: usize) -> Result<Scratch> {
        let bytes = count * self.problem.dtype.size();
        let zeros = Scratch::new(self.l.queue, bytes as i64, 1)?;
        // SAFETY: the scratch has these bytes.
        unsafe { cuda()?.memset(self.l.queue, zeros.ptr(), 0, bytes)? };
        Ok(zeros)
    }
}

fn ptr(dense: &Option<Dense<'_>>) -> *mut u8 {
    dense.as_ref().map_or(null_mut(), Dense::ptr)
}

/// Weights as the library lays them out: the launch's own vector where that is it.
struct Weights<'n, 'a> {
    network: &'n Network,
    own: View<'a>,
    copy: Option<Scratch>,
}

impl<'n, 'a> Weights<'n, 'a> {
    fn new(queue: Queue, network: &'n Network, own: View<'a>) -> Result<Weights<'n, 'a>> {
        let bytes = own.numel() * own.dtype.size();
        let same = network.weights == bytes && matches!(&network.pieces[..], [one] if one.to == 0);
        let in_place = same && own.strides == [1] && (own.ptr as usize).is_multiple_of(ALIGNMENT as usize);
        let copy = if in_place { None } else { Some(Scratch::new(queue, network.weights as i64, 1)?) };
        Ok(Weights { network, own, copy })
    }

    fn ptr(&self) -> *mut u8 {
        self.copy.as_ref().map_or(self.own.ptr, Scratch::ptr)
    }

    /// Copies between the launch's vector and the library's.
    unsafe fn exchange(&self, queue: Queue, to_library: bool) -> Result<()> {
        let Some(copy) = &self.copy else { return Ok(()) };
        let size = self.own.dtype.size();
        for piece in &self.network.pieces {
            let sizes = [piece.count];
            let first = piece.from as isize * self.own.strides[0] as isize * size as isize;
            let own = View { ptr: self.own.ptr.wrapping_offset(first), sizes: &sizes, ..self.own };
            let theirs = View { ptr: copy.ptr().wrapping_add(piece.to), strides: &[1], ..own };
            let (to, from) = if to_library { (&theirs, &own) } else { (&own, &theirs) };
            // SAFETY: the pieces lie in both vectors.
            unsafe { copy_views(queue, to, from)? };
        }
        Ok(())
    }
}

pub unsafe fn rnn_stack(l: &Launch<'_>) -> Result<()> {
    let (x, h_0, c_0, weights) = (l.input(0)?, l.input(1)?, l.opt_input(2), l.input(3)?);
    let run = Run::new(l, &x, &h_0)?;
    let reserve = l.opt_output(3);
    with_network(l.queue, run.problem.clone(), weights.ptr, |handle, network| {
        if reserve.is_some_and(|r| r.numel() != network.reserve) {
            return Err(declined("another number of bytes is reserved than cuDNN keeps"));
        }
        // SAFETY: the launch's contract; copies live until the work is issued.
        unsafe {
            let x = run.sequence(x, true)?;
            let y = run.sequence(l.output(0)?, false)?;
            let (h_0, c_0) = (run.state(Some(h_0), true)?, run.state(c_0, true)?);
            let (h_n, c_n) = (run.state(l.opt_output(1), false)?, run.state(l.opt_output(2), false)?);
            let weights = Weights::new(l.queue, network, weights)?;
            weights.exchange(l.queue, true)?;
            let workspace = Scratch::new(l.queue, network.workspace[reserve.is_some() as usize].max(1) as i64, 1)?;
            let forward = Forward {
                x: x.ptr(),
                y: y.ptr(),
                h: [ptr(&h_0), ptr(&h_n)],
                c: [ptr(&c_0), ptr(&c_n)],
                weights: weights.ptr(),
                workspace: workspace.ptr(),
                reserve: reserve.map_or(null_mut(), |r| r.ptr),
            };
            if !handle.run_network(network, &forward, l.queue.raw)? {
                return Ok(false);
            }
            for result in [Some(&y), h_n.as_ref(), c_n.as_ref()].into_iter().flatten() {
                result.finish(l.queue)?;
            }
        }
        Ok(true)
    })
}

pub unsafe fn rnn_stack_backward(l: &Launch<'_>) -> Result<()> {
    let (x, h_0, c_0, weights) = (l.input(3)?, l.input(4)?, l.opt_input(5), l.input(6)?);
    let run = Run::new(l, &x, &h_0)?;
    let (y, reserved) = (l.input(7)?, l.input(8)?);
    if reserved.numel() == 0 {
        return Err(declined("the forward kept nothing for a backward"));
    }
    with_network(l.queue, run.problem.clone(), weights.ptr, |handle, network| {
        if reserved.numel() != network.reserve {
            return Err(declined("another number of bytes was reserved than cuDNN keeps"));
        }
        // SAFETY: as above.
        unsafe {
            let (n_y, n_h) = (y.numel(), h_0.numel());
            let (x, y) = (run.sequence(x, true)?, run.sequence(y, true)?);
            let grad_y = l.opt_input(0).map(|v| run.sequence(v, true)).transpose()?;
            let grad_x = run.sequence(l.output(0)?, false)?;
            let n_c = c_0.map_or(0, |v| v.numel());
            let (h_0, c_0) = (run.state(Some(h_0), true)?, run.state(c_0, true)?);
            let (grad_h_n, grad_c_n) = (run.state(l.opt_input(1), true)?, run.state(l.opt_input(2), true)?);
            let (grad_h_0, grad_c_0) = (run.state(l.opt_output(1), false)?, run.state(l.opt_output(2), false)?);
            // What no gradient reaches.
            let absent = |there: bool, n: usize| (!there && n > 0).then(|| run.zeros(n)).transpose();
            let none =
                [absent(grad_y.is_some(), n_y)?, absent(grad_h_n.is_some(), n_h)?, absent(grad_c_n.is_some(), n_c)?];
            let or = |dense: &Option<Dense<'_>>, zeros: &Option<Scratch>| match zeros {
                Some(zeros) => zeros.ptr(),
                None => ptr(dense),
            };
            let weights = Weights::new(l.queue, network, weights)?;
            weights.exchange(l.queue, true)?;
            let grad_weights = Weights::new(l.queue, network, l.output(3)?)?;
            cuda()?.memset(l.queue, grad_weights.ptr(), 0, network.weights)?;
            // The library changes it, and there may be another backward.
            let reserve = Scratch::new(l.queue, network.reserve as i64, 1)?;
            let (sizes, strides) = ([network.reserve as i64], [1]);
            let kept = View { ptr: reserve.ptr(), dtype: DType::U8, sizes: &sizes, strides: &strides };
            copy_views(l.queue, &kept, &reserved)?;
            let workspace = Scratch::new(l.queue, network.workspace[1].max(1) as i64, 1)?;
            let backward = Backward {
                x: x.ptr(),
                y: y.ptr(),
                grad_y: or(&grad_y, &none[0]),
                grad_x: grad_x.ptr(),
                h: [ptr(&h_0), or(&grad_h_n, &none[1]), ptr(&grad_h_0)],
                c: [ptr(&c_0), or(&grad_c_n, &none[2]), ptr(&grad_c_0)],
                weights: weights.ptr(),
                grad_weights: grad_weights.ptr(),
                workspace: workspace.ptr(),
                reserve: reserve.ptr(),
            };
            if !handle.run_network_backward(network, &backward, l.queue.raw)? {
                return Ok(false);
            }
            grad_weights.exchange(l.queue, false)?;
            for result in [Some(&grad_x), grad_h_0.as_ref(), grad_c_0.as_ref()].into_iter().flatten() {
                result.finish(l.queue)?;
            }
        }
        Ok(true)
    })
}
