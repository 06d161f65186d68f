//! MATMUL: cuBLASLt with cached plans; what it does not take goes through contiguous copies, integers through a tiled kernel.
//!
//! A bias that is a vector, ReLU, and a residual that the library can walk (its beta is one then) are done by the product's own
//! launch; others by a kernel behind it.

use crate::elementwise::{copy_views, zero};
use crate::launch::{Family, Key, Number, Scratch, address, args, ceil_div, cuda, linear, run};
use crate::nest::Nest;
use crate::text::{Builder, c_type};
use oneflow_base::{DType, Dims, Error, Result, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_ep::cuda::lt::{self, Lt, Owned, Product};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{Activation, Launch, MatmulParams, View};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

pub fn tiled_text(dtype: DType) -> Result<Text> {
    let b = Builder::new("matmul").compute("C", dtype.compute())?.dtype("T", dtype)?;
    Ok(b.push(include_str!("text/matmul.cu")).finish())
}

pub fn epilogue_text(dtype: DType, act: Activation) -> Result<Text> {
    let b = Builder::new("matmul epilogue").variant("ACT", act as u64);
    let b = b.compute("C", dtype.compute())?.dtype("T", dtype)?;
    Ok(b.push(include_str!("text/epilogue.cu")).finish())
}

pub unsafe fn matmul(l: &Launch<'_>) -> Result<()> {
    let (a, b, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let (bias, residual) = (l.opt_input(2), l.opt_input(3));
    let MatmulParams { activation: act, alpha } = l.read()?;
    c_type("matmul", out.dtype)?;
    for v in [Some(b), Some(out), bias, residual].iter().flatten() {
        if v.dtype != a.dtype {
            return Err(Error::not_implemented(format!("matmul: CUDA kernels multiply {} by {}", a.dtype, v.dtype)));
        }
    }
    if l.opt_output(1).is_some() {
        return Err(Error::not_implemented("matmul: no CUDA kernel keeps what the activation was given"));
    }
    if out.numel() == 0 {
        return Ok(());
    }
    // SAFETY: the launch's contract.
    unsafe {
        let done = if a.sizes[a.ndim() - 1] == 0 {
            zero(l.outs, l.queue)?;
            false
        } else if out.dtype.is_float() {
            product(l.queue, &a, &b, &out, alpha, &After { bias: vector(&bias, &out), act, residual })?
        } else {
            tiled(l.queue, &a, &b, &out, alpha)?;
            false
        };
        if done || (bias.is_none() && residual.is_none() && act == Activation::None) {
            return Ok(());
        }
        epilogue(l.queue, &out, bias, residual, act)
    }
}

/// A product and the sums of a's rows, by an epilogue of the library; declined, with nothing done, where it has none for the operands.
pub unsafe fn matmul_row_sums(l: &Launch<'_>) -> Result<()> {
    // SAFETY: the launch's contract.
    unsafe {
        with_row_sums("matmul_row_sums", l.queue, [l.input(0)?, l.input(1)?, l.output(0)?], l.opt_output(1), false)
    }
}

/// A product that is added to what is there, by the library's beta, and the sums of a's rows where they are wanted.
pub unsafe fn matmul_accumulate(l: &Launch<'_>) -> Result<()> {
    let operands = [l.input(0)?, l.input(1)?, l.output(0)?];
    // SAFETY: the launch's contract.
    unsafe { with_row_sums("matmul_accumulate", l.queue, operands, l.opt_output(1), true) }
}

/// `out = a @ b`, or `out += a @ b`.
unsafe fn with_row_sums(
    name: &str,
    queue: Queue,
    [a, b, out]: [View<'_>; 3],
    sums: Option<View<'_>>,
    adds: bool,
) -> Result<()> {
    let declined = || Error::not_implemented(format!("{name}: cuBLASLt takes no such operands of {}", a.dtype));
    let with_sums = matches!(a.dtype, DType::F32 | DType::BF16 | DType::F16);
    let is_taken = b.dtype == a.dtype && out.dtype == a.dtype && (with_sums || sums.is_none() && a.dtype == DType::F64);
    let (Some(am), Some(bm), Some(dm)) = (Mat::of(&a), Mat::of(&b), Mat::of(&out)) else { return Err(declined()) };
    let (m, n, k) = (out.sizes[0], out.sizes[1], a.sizes[1]);
    let is_vector = |v: View<'_>| (m == 1 || v.strides[0] == 1) && (v.ptr as usize).is_multiple_of(16);
    if !is_taken || !dm.row_major || !sums.is_none_or(is_vector) || m * n * k == 0 {
        return Err(declined());
    }
    let key = PlanKey {
        device: queue.device.index,
        dtype: a.dtype,
        m,
        n,
        k,
        a: am,
        b: bm,
        ldd: dm.ld,
        ldc: dm.ld,
        has_residual: adds,
        batch: [1, 0, 0, 0, 0],
        alignment: [a.ptr, b.ptr, out.ptr, out.ptr].map(alignment_of),
        epilogue: if sums.is_some() { lt::EPILOGUE_BGRAD_B } else { lt::EPILOGUE_DEFAULT },
    };
    let (vector, residual) = (sums.map(|v| v.ptr), adds.then_some(out.ptr));
    // SAFETY: the pointers and layouts are the views'; the sums have room for a number a row.
    let done = unsafe { call(queue, key, [out.ptr, a.ptr, b.ptr], 1.0, vector, residual)? };
    if done { Ok(()) } else { Err(declined()) }
}

/// `out = act(out + bias) + residual`, where bias and residual have the output's sizes.
///
/// # Safety
/// The views are valid on the queue's device.
pub unsafe fn epilogue(
    queue: Queue,
    out: &View<'_>,
    bias: Option<View<'_>>,
    residual: Option<View<'_>>,
    act: Activation,
) -> Result<()> {
    let none = vec![0; out.ndim()];
    let strides = |v: &Option<View<'_>>| v.map_or(none.clone(), |v| v.strides.to_vec());
    let geo = Nest::new(out.sizes, &[out.strides, &strides(&bias), &strides(&residual)]).ordered().geo("matmul")?;
    let key = Key::new(Family::Epilogue).dtype(out.dtype).small(act as u64);
    let (b, r) = (address(bias), address(residual));
    // SAFETY: the arguments are the template's.
    unsafe { run(queue, key, || epilogue_text(out.dtype, act), linear(geo.n()), args![out.ptr, b, r, geo]) }
}

/// The bias as a vector over the columns, which cuBLASLt can add.
fn vector<'a>(bias: &Option<View<'a>>, out: &View<'_>) -> Option<Option<View<'a>>> {
    let Some(b) = bias else { return Some(None) };
    let last = out.ndim() - 1;
    let rows_repeat = b.strides[..last].iter().zip(out.sizes).all(|(s, n)| *s == 0 || *n == 1);
    let aligned = (b.ptr as usize).is_multiple_of(16);
    (rows_repeat && aligned && (b.strides[last] == 1 || out.sizes[last] == 1)).then_some(Some(*b))
}

/// Any strides and real dtypes.
unsafe fn tiled(queue: Queue, a: &View<'_>, b: &View<'_>, out: &View<'_>, alpha: f64) -> Result<()> {
    let nd = out.ndim();
    let (m, n, k) = (out.sizes[nd - 2], out.sizes[nd - 1], a.sizes[nd - 1]);
    let at = |v: &View<'_>| (v.strides[nd - 2], v.strides[nd - 1]);
    let ((ar, ac), (br, bc), (dr, dc)) = (at(a), at(b), at(out));
    let batch = Nest::new(&out.sizes[..nd - 2], &[&out.strides[..nd - 2], &a.strides[..nd - 2], &b.strides[..nd - 2]]);
    let batch = batch.geo("matmul")?;
    let tiles = ceil_div(m, 16).saturating_mul(ceil_div(n, 16)).clamp(1, 1 << 30) as u32;
    let grid = Grid { blocks: [tiles, 1, batch.n().min(65535) as u32], threads: [16, 16, 1], shared: 0 };
    let (key, alpha) = (Key::new(Family::Matmul).dtype(out.dtype), Number::new(out.dtype.compute(), alpha));
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            queue,
            key,
            || tiled_text(out.dtype),
            grid,
            args![a.ptr, b.ptr, out.ptr, m, n, k, ar, ac, br, bc, dr, dc, alpha, batch],
        )
    }
}

/// A matrix in memory as the library sees it: rows or columns contiguous, and the distance between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Mat {
    row_major: bool,
    ld: i64,
}

impl Mat {
    /// Of the last two dimensions; none where neither is contiguous.
    fn of(v: &View<'_>) -> Option<Mat> {
        let nd = v.ndim();
        let (rows, cols, rs, cs) = (v.sizes[nd - 2], v.sizes[nd - 1], v.strides[nd - 2], v.strides[nd - 1]);
        let row_ld = if rows == 1 { cols } else { rs };
        let col_ld = if cols == 1 { rows } else { cs };
        if (cols == 1 || cs == 1) && row_ld >= cols {
            Some(Mat { row_major: true, ld: row_ld })
        } else if (rows == 1 || rs == 1) && col_ld >= rows {
            Some(Mat { row_major: false, ld: col_ld })
        } else {
            None
        }
    }
}

/// What follows the sums: a bias that is a vector or none (or not one of these), an activation, and a residual.
struct After<'a> {
    bias: Option<Option<View<'a>>>,
    act: Activation,
    residual: Option<View<'a>>,
}

impl After<'_> {
    /// The library's epilogue, where it does all of this. The residual is not the epilogue's: it is added before an activation.
    fn epilogue(&self, dtype: DType) -> Option<c_int> {
        let bias = self.bias?.is_some();
        let is_plain = self.act == Activation::None;
        if self.residual.is_some_and(|r| !is_plain || r.dtype != dtype) {
            return None;
        }
        let has_epilogues = matches!(dtype, DType::F32 | DType::BF16 | DType::F16);
        match (bias, self.act) {
            (false, Activation::None) => Some(lt::EPILOGUE_DEFAULT),
            (true, Activation::None) if has_epilogues => Some(lt::EPILOGUE_BIAS),
            (bias, Activation::Relu) if has_epilogues => {
                Some(lt::EPILOGUE_RELU | if bias { lt::EPILOGUE_BIAS } else { 0 })
            }
            _ => None,
        }
    }
}

/// Everything a plan depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PlanKey {
    device: u16,
    dtype: DType,
    m: i64,
    n: i64,
    k: i64,
    a: Mat,
    b: Mat,
    ldd: i64,
    /// Of a residual; as `ldd` where there is none.
    ldc: i64,
    has_residual: bool,
    /// Count, strides of d, a, b and c.
    batch: [i64; 5],
    /// Bytes that the addresses of a, b, c and d are multiples of, at most 16.
    alignment: [u32; 4],
    epilogue: c_int,
}

struct Plan {
    desc: Owned,
    a: Owned,
    b: Owned,
    c: Option<Owned>,
    d: Owned,
    /// None: the library has no algorithm.
    algo: Option<[u64; 8]>,
}

/// Per device: the library's handle. Per queue: its workspace. Per problem: the plan.
#[derive(Default)]
struct Cache {
    handles: HashMap<u16, usize>,
    workspaces: HashMap<(u16, usize), (usize, usize)>,
    plans: HashMap<PlanKey, Arc<Mutex<Plan>>>,
}

fn cache() -> MutexGuard<'static, Cache> {
    static CACHE: std::sync::LazyLock<Mutex<Cache>> = std::sync::LazyLock::new(Default::default);
    CACHE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Plans kept before all are forgotten.
const MAX_PLANS: usize = 4096;

/// Through cuBLASLt. True where everything that follows the sums is done too.
unsafe fn product(
    queue: Queue,
    a: &View<'_>,
    b: &View<'_>,
    out: &View<'_>,
    alpha: f64,
    after: &After<'_>,
) -> Result<bool> {
    let nd = out.ndim();
    // Operands that the library cannot walk are copied first.
    let (mut held_a, mut held_b, mut held_out) = (None, None, None);
    let (sa, sb, so) = (contiguous_strides(a.sizes), contiguous_strides(b.sizes), contiguous_strides(out.sizes));
    let batch_dims = |a: &View<'_>, b: &View<'_>, out: &View<'_>| {
        let c = after.residual.as_ref().unwrap_or(out);
        let strides = [out, a, b, c].map(|v| &v.strides[..nd - 2]);
        Nest::new(&out.sizes[..nd - 2], &strides).merged()
    };
    let many =
        |batch: &Nest| batch.sizes().len() > 1 && batch.sizes()[..batch.sizes().len() - 1].iter().product::<i64>() > 16;
    // SAFETY: the copies have the operands' sizes; they live until the launches are issued.
    unsafe {
        let (mut a, mut b, mut target) = (*a, *b, *out);
        let scattered = many(&batch_dims(&a, &b, &target));
        if scattered || Mat::of(&a).is_none() {
            a = contiguous(queue, &a, &sa, &mut held_a)?;
        }
        if scattered || Mat::of(&b).is_none() {
            b = contiguous(queue, &b, &sb, &mut held_b)?;
        }
        let row_major = Mat::of(&target).is_some_and(|m| m.row_major) && !scattered;
        if !row_major {
            let memory = Scratch::new(queue, target.numel() as i64, target.dtype.size())?;
            target = View { ptr: memory.ptr(), strides: &so, ..target };
            held_out = Some(memory);
        }
        let done = dispatch(queue, &a, &b, &target, &batch_dims(&a, &b, &target), alpha, after)?;
        if held_out.is_some() {
            copy_views(queue, out, &target)?;
        }
        drop((held_a, held_b, held_out));
        Ok(done)
    }
}

unsafe fn contiguous<'a>(
    queue: Queue,
    v: &View<'a>,
    strides: &'a Dims,
    held: &mut Option<Scratch>,
) -> Result<View<'a>> {
    let memory = Scratch::new(queue, v.numel() as i64, v.dtype.size())?;
    let view = View { ptr: memory.ptr(), strides, ..*v };
    *held = Some(memory);
    // SAFETY: both views are valid and of equal sizes.
    unsafe { copy_views(queue, &view, v)? };
    Ok(view)
}

/// One or several calls of the library.
unsafe fn dispatch(
    queue: Queue,
    a: &View<'_>,
    b: &View<'_>,
    out: &View<'_>,
    batch: &Nest,
    alpha: f64,
    after: &After<'_>,
) -> Result<bool> {
    let nd = out.ndim();
    let (mut m, n, k) = (out.sizes[nd - 2], out.sizes[nd - 1], a.sizes[nd - 1]);
    let (Some(am), Some(bm), Some(dm)) = (Mat::of(a), Mat::of(b), Mat::of(out)) else {
        return Err(Error::runtime("matmul: operands cannot be walked by cuBLASLt"));
    };
    // Everything in one launch, if the library has the epilogue and walks the residual.
    let residual = after.residual.as_ref().map(Mat::of);
    let walked = residual.is_none_or(|c| c.is_some_and(|c| c.row_major));
    let fused = after.epilogue(out.dtype).filter(|_| walked);
    let cm = residual.flatten().filter(|_| fused.is_some());
    let (mut outer, mut inner) = (batch.clone(), [1i64, 0, 0, 0, 0]);
    if !outer.sizes().is_empty() {
        let (size, strides) = outer.take(outer.sizes().len() - 1);
        inner = [size, strides[0], strides[1], strides[2], strides[3]];
    }
    // One b for a batch of a that lies row below row: one tall product.
    let is_tall = am.row_major && inner[2] == m * am.ld && inner[1] == m * dm.ld;
    if inner[0] > 1 && inner[3] == 0 && is_tall && cm.is_none_or(|c| inner[4] == m * c.ld) {
        m *= inner[0];
        inner = [1, 0, 0, 0, 0];
    }
    let size = out.dtype.size() as i64;
    let mut all_done = fused.is_some();
    for position in 0..outer.n() {
        let mut at = [0i64; 4];
        let mut rest = position;
        for d in (0..outer.sizes().len()).rev() {
            let c = rest % outer.sizes()[d];
            rest /= outer.sizes()[d];
            (0..4).for_each(|o| at[o] += c * outer.strides(o)[d] * size);
        }
        let place = |v: &View<'_>, o: usize| v.ptr.wrapping_offset(at[o] as isize);
        let pointers = [place(out, 0), place(a, 1), place(b, 2)];
        let [d, pa, pb] = pointers;
        let c = after.residual.as_ref().filter(|_| cm.is_some()).map(|c| place(c, 3));
        let key = |epilogue, c: Option<(Mat, *mut u8)>| PlanKey {
            device: queue.device.index,
            dtype: out.dtype,
            m,
            n,
            k,
            a: am,
            b: bm,
            ldd: dm.ld,
            ldc: c.map_or(dm.ld, |c| c.0.ld),
            has_residual: c.is_some(),
            batch: if c.is_some() { inner } else { [inner[0], inner[1], inner[2], inner[3], inner[1]] },
            alignment: [pa, pb, c.map_or(d, |c| c.1), d].map(alignment_of),
            epilogue,
        };
        let vector = after.bias.flatten().map(|v| v.ptr);
        // SAFETY: the pointers and layouts are the views'.
        unsafe {
            if let Some(epilogue) = fused {
                if call(queue, key(epilogue, cm.zip(c)), pointers, alpha, vector, c)? {
                    continue;
                }
                if position > 0 {
                    // The answer is the same for every part of a batch, alignment aside; parts must not differ in what is done.
                    return Err(Error::runtime("matmul: cuBLASLt takes the epilogue for a part of the batch only"));
                }
                all_done = false;
            }
            if !call(queue, key(lt::EPILOGUE_DEFAULT, None), pointers, alpha, None, None)? {
                tiled(queue, a, b, out, alpha)?;
                return Ok(false);
            }
        }
    }
    Ok(all_done)
}

/// Bytes that an address is a multiple of, at most those of the widest access.
fn alignment_of(p: *mut u8) -> u32 {
    1 << (p as usize).trailing_zeros().min(4)
}

/// Enqueues one product; false where the library has no algorithm for it. `vector`: the epilogue's bias, or its room for sums.
unsafe fn call(
    queue: Queue,
    key: PlanKey,
    [d, a, b]: [*mut u8; 3],
    alpha: f64,
    vector: Option<*mut u8>,
    residual: Option<*mut u8>,
) -> Result<bool> {
    let (cuda, lt) = (cuda()?, cuda()?.lt());
    cuda.device(queue.device.index)?;
    let captured;
    let (handle, workspace, plan) = {
        let mut cache = cache();
        let handle = match cache.handles.get(&key.device) {
            Some(h) => *h,
            None => *cache.handles.entry(key.device).or_insert(lt.create()? as usize),
        };
        // Hopper's algorithms want more.
        let hopper = cuda.device(key.device)?.compute_capability.0 >= 9;
        let bytes = if hopper { 32 << 20 } else { 4 << 20 };
        let stream = (key.device, queue.raw as usize);
        let workspace = match cache.workspaces.get(&stream) {
            // A graph may be replayed on another stream while this one works: it has its own, of its pool.
            _ if cuda.is_capturing(queue) => {
                captured = Scratch::new(queue, bytes as i64, 1)?;
                (captured.ptr() as usize, bytes)
            }
            Some(w) => *w,
            None => {
                // One a stream, kept: work on a stream runs in order.
                let block = cuda.alloc_on(queue, bytes)?;
                *cache.workspaces.entry(stream).or_insert((block.ptr as usize, bytes))
            }
        };
        let plan = match cache.plans.get(&key) {
            Some(p) => p.clone(),
            None => {
                if cache.plans.len() >= MAX_PLANS {
                    cache.plans.clear();
                }
                // SAFETY: the handle came from `create`.
                let plan = unsafe { plan(lt, handle as *mut c_void, &key, workspace.1)? };
                cache.plans.entry(key).or_insert(Arc::new(Mutex::new(plan))).clone()
            }
        };
        (handle as *mut c_void, workspace, plan)
    };
    let mut plan = plan.lock().unwrap_or_else(|e| e.into_inner());
    let Some(algo) = plan.algo else { return Ok(false) };
    if let Some(vector) = vector {
        plan.desc.set(lt::DESC_BIAS_POINTER, vector)?;
    }
    let beta = if residual.is_some() { 1.0 } else { 0.0 };
    let single = [alpha as f32, beta as f32];
    let double = [alpha, beta];
    let scale = |i: usize| -> *const c_void {
        if key.dtype == DType::F64 { (&raw const double[i]).cast() } else { (&raw const single[i]).cast() }
    };
    // Row-major D = A B is column-major D' = B' A'.
    let c = plan.c.as_ref().zip(residual.map(|c| c.cast_const()));
    let p = Product { desc: &plan.desc, a: (&plan.b, b), b: (&plan.a, a), c, d: (&plan.d, d) };
    let workspace = (workspace.0 as *mut u8, workspace.1);
    // SAFETY: the plan's layouts are those of the pointers; the workspace belongs to the stream.
    unsafe { lt.matmul(handle, &p, scale(0), scale(1), &algo, workspace, queue.raw)? };
    Ok(true)
}

/// # Safety
/// `handle` came from `Lt::create`.
unsafe fn plan(lt: &Lt, handle: *mut c_void, key: &PlanKey, workspace: usize) -> Result<Plan> {
    let (dtype, compute, scale) = match key.dtype {
        DType::F64 => (lt::R_64F, lt::COMPUTE_64F, lt::R_64F),
        DType::BF16 => (lt::R_16BF, lt::COMPUTE_32F, lt::R_32F),
        DType::F16 => (lt::R_16F, lt::COMPUTE_32F, lt::R_32F),
        _ => (lt::R_32F, lt::COMPUTE_32F, lt::R_32F),
    };
    // The library's first operand is our b: column-major n x k, which row-major k x n is.
    let layout = |mat: Mat, rows: i64, cols: i64| {
        let (r, c) = if mat.row_major { (cols, rows) } else { (rows, cols) };
        lt.layout(dtype, r as u64, c as u64, mat.ld)
    };
    let mut a = layout(key.a, key.m, key.k)?;
    let mut b = layout(key.b, key.k, key.n)?;
    let mut d = lt.layout(dtype, key.n as u64, key.m as u64, key.ldd)?;
    let mut c = key.has_residual.then(|| lt.layout(dtype, key.n as u64, key.m as u64, key.ldc)).transpose()?;
    let [count, sd, sa, sb, sc] = key.batch;
    if count > 1 {
        let count = i32::try_from(count).map_err(|_| Error::runtime("matmul: more than 2^31 products in a batch"))?;
        for (layout, stride) in
            [(&mut d, sd), (&mut a, sa), (&mut b, sb)].into_iter().chain(c.as_mut().map(|c| (c, sc)))
        {
            layout.set(lt::LAYOUT_BATCH_COUNT, count)?;
            layout.set(lt::LAYOUT_BATCH_STRIDE, stride)?;
        }
    }
    let mut desc = lt.desc(compute, scale)?;
    desc.set(lt::DESC_TRANS_A, !key.b.row_major as i32)?;
    desc.set(lt::DESC_TRANS_B, !key.a.row_major as i32)?;
    desc.set(lt::DESC_EPILOGUE, key.epilogue)?;
    if key.epilogue & (lt::EPILOGUE_BIAS | lt::EPILOGUE_BGRAD_B) != 0 {
        desc.set(lt::DESC_BIAS_TYPE, dtype)?;
    }
    let mut preference = lt.preference()?;
    preference.set(lt::PREFERENCE_WORKSPACE, workspace as u64)?;
    let [pa, pb, pc, pd] = key.alignment;
    for (i, bytes) in [pb, pa, pc, pd].into_iter().enumerate() {
        preference.set(lt::PREFERENCE_ALIGNMENT + i as c_int, bytes)?;
    }
    let null = std::ptr::null_mut::<u8>();
    let at_null = |c| (c, null.cast_const());
    let p = Product { desc: &desc, a: (&b, null), b: (&a, null), c: c.as_ref().map(at_null), d: (&d, null) };
    // SAFETY: by the contract.
    let algo = unsafe { lt.heuristic(handle, &p, &preference)? }.map(|h| h.algo);
    Ok(Plan { desc, a, b, c, d, algo })
}
