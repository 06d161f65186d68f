//! CONV and its gradients by cuDNN: operands are brought into one of its two layouts, channels first or last, where they are not; a
//! bias is added behind it. Plans are kept by problem.
//!
//! Without the library, and for what no engine of it takes, the kernels of `conv` and `conv_mma` do it; a missing or mismatched
//! library is said once.

use crate::conv_geometry::{FORWARD, INPUT};
use crate::elementwise::copy_views;
use crate::host;
use crate::launch::{Scratch, cuda};
use crate::matmul;
use crate::per_queue::PerQueue;
use oneflow_base::{DType, Dims, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::cudnn::{ALIGNMENT, Convolution, Handle, Layout, Part, Plan};
use oneflow_kernels_prim::{Activation, ConvParams, Launch, View};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Plans kept before all are forgotten.
const MAX_PLANS: usize = 1024;

static ENABLED: AtomicBool = AtomicBool::new(true);
static TF32: AtomicBool = AtomicBool::new(true);

/// Whether convolutions and recurrent networks may go to cuDNN, and whether engines of the first may round float32 operands to TF32.
pub fn set(enabled: bool, tf32: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
    TF32.store(tf32, Ordering::Relaxed);
}

/// Whether anything may go to cuDNN.
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Handles and plans of a stream: plans belong to a handle.
struct OfQueue {
    handle: Handle,
    /// `None`: no engine takes it.
    plans: HashMap<Convolution, Option<Arc<Plan>>>,
}

impl OfQueue {
    /// The kept plan; `None` where no engine takes the problem.
    fn plan(&mut self, problem: Convolution) -> Result<Option<Arc<Plan>>> {
        if let Some(plan) = self.plans.get(&problem) {
            return Ok(plan.clone());
        }
        if self.plans.len() >= MAX_PLANS {
            self.plans.clear();
        }
        // It may compile, load kernels and allocate.
        let made = cuda()?.outside_of_captures(|| self.handle.plan(&problem))?.map(Arc::new);
        self.plans.insert(problem, made.clone());
        Ok(made)
    }
}

/// An operand with two or three spatial dimensions, in one of the library's layouts.
struct Image {
    ptr: *mut u8,
    copy: Option<Scratch>,
    sizes: Dims,
    strides: Dims,
    /// Those of the operand itself.
    own: Dims,
    dtype: DType,
}

/// Dense strides of sizes whose channels are the innermost or the second dimension.
fn dense(sizes: &[i64], last: bool) -> Dims {
    let mut strides: Dims = sizes.iter().map(|_| 0).collect();
    let mut step = 1;
    let spatial = (2..sizes.len()).rev();
    let order: Vec<usize> =
        if last { [1].into_iter().chain(spatial).chain([0]).collect() } else { (0..sizes.len()).rev().collect() };
    for d in order {
        strides[d] = step;
        step *= sizes[d].max(1);
    }
    strides
}

impl Image {
    fn new(v: &View<'_>, last: bool) -> Image {
        let (mut sizes, mut own): (Dims, Dims) = (v.sizes.into(), v.strides.into());
        if sizes.len() == 3 {
            // One spatial dimension is two, the first of size one.
            sizes.insert(2, 1);
            own.insert(2, 0);
        }
        Image { ptr: v.ptr, copy: None, strides: dense(&sizes, last), sizes, own, dtype: v.dtype }
    }

    /// Takes memory for a copy where the operand lies otherwise, and fills it if it is read.
    unsafe fn settle(&mut self, queue: Queue, read: bool) -> Result<()> {
        let pairs = self.own.iter().zip(&self.strides);
        let fits = self.sizes.iter().zip(pairs).all(|(n, (a, b))| *n == 1 || a == b);
        if fits && (self.ptr as usize).is_multiple_of(ALIGNMENT as usize) {
            return Ok(());
        }
        let copy = Scratch::new(queue, self.sizes.iter().product(), self.dtype.size())?;
        let from = View { ptr: self.ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.own };
        let to = View { ptr: copy.ptr(), strides: &self.strides, ..from };
        if read {
            // SAFETY: the scratch has room for the operand, which is valid by the launch's contract.
            unsafe { copy_views(queue, &to, &from)? };
        }
        self.ptr = copy.ptr();
        self.copy = Some(copy);
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { ptr: self.ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides }
    }

    fn layout(&self) -> Layout {
        Layout { sizes: self.sizes.to_vec(), strides: self.strides.to_vec() }
    }

    /// Brings a result that was written to a copy to its place.
    unsafe fn finish(&self, queue: Queue, place: *mut u8) -> Result<()> {
        if self.copy.is_none() {
            return Ok(());
        }
        let to = View { ptr: place, strides: &self.own, ..self.view() };
        // SAFETY: the copy has the operand's elements; the operand is valid by the launch's contract.
        unsafe { copy_views(queue, &to, &self.view()) }
    }
}

fn lies_last(v: &View<'_>) -> bool {
    v.sizes[1] > 1 && v.strides[1] == 1 && v.sizes[2..].iter().any(|n| *n > 1)
}

/// Runs a part by cuDNN, if it takes it; false where others have to, and nothing was issued.
///
/// # Safety
/// As the launch that it serves: `x`, `w` and `y` are its operands in the roles of the forward.
pub unsafe fn conv(
    l: &Launch<'_>,
    part: u8,
    params: &ConvParams,
    [x, w, y]: [&View<'_>; 3],
    bias: Option<View<'_>>,
) -> Result<bool> {
    let is_float = matches!(x.dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
    let is_empty = [x, w, y].iter().any(|v| v.numel() == 0);
    if !is_enabled() || !is_float || is_empty || [w, y].iter().any(|v| v.dtype != x.dtype) {
        return Ok(false);
    }
    let cuda = cuda()?;
    let cudnn = match cuda.cudnn() {
        Ok(cudnn) => cudnn,
        Err(e) => {
            host::say_once("convolution", || format!("{}; it runs kernels of this package's own", e.text()))?;
            return Ok(false);
        }
    };
    let last = lies_last(x) || lies_last(y);
    let with_one = |mut all: Vec<i64>, one: i64| {
        if all.len() == 1 {
            all.insert(0, one);
        }
        all
    };
    let axes = &params.axes;
    let [mut x_image, mut w_image, mut y_image] = [x, w, y].map(|v| Image::new(v, last));
    let problem = Convolution {
        part: match part {
            FORWARD => Part::Forward,
            INPUT => Part::Input,
            _ => Part::Weight,
        },
        dtype: x.dtype,
        tf32: TF32.load(Ordering::Relaxed),
        x: x_image.layout(),
        w: w_image.layout(),
        y: y_image.layout(),
        stride: with_one(axes.iter().map(|a| a.stride).collect(), 1),
        padding: with_one(axes.iter().map(|a| a.padding).collect(), 0),
        dilation: with_one(axes.iter().map(|a| a.dilation).collect(), 1),
    };
    // SAFETY: the launch's contract; copies live until the launches are issued.
    unsafe {
        static QUEUES: PerQueue<OfQueue> = PerQueue::new();
        let make = || Ok(OfQueue { handle: cudnn.create()?, plans: HashMap::new() });
        let done = QUEUES.with(l.queue, make, |of| {
            let Some(plan) = of.plan(problem)? else { return Ok(false) };
            x_image.settle(l.queue, part != INPUT)?;
            w_image.settle(l.queue, part == FORWARD || part == INPUT)?;
            y_image.settle(l.queue, part != FORWARD)?;
            let workspace = Scratch::new(l.queue, plan.workspace.max(1) as i64, 1)?;
            cuda.device(l.queue.device.index)?;
            of.handle.launch(&plan, [x_image.ptr, w_image.ptr, y_image.ptr], workspace.ptr(), l.queue.raw)?;
            Ok(true)
        })?;
        if !done {
            return Ok(false);
        }
        let (image, out) = match part {
            FORWARD => (&y_image, y),
            INPUT => (&x_image, x),
            _ => (&w_image, w),
        };
        if let Some(bias) = bias {
            let strides: Dims = (0..image.sizes.len()).map(|d| if d == 1 { bias.strides[0] } else { 0 }).collect();
            let bias = View { sizes: &image.sizes, strides: &strides, ..bias };
            matmul::epilogue(l.queue, &image.view(), Some(bias), None, Activation::None)?;
        }
        image.finish(l.queue, out.ptr)?;
    }
    Ok(true)
}
