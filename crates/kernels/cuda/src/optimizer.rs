//! ADAM and SGD over many tensors: a table of pointers a launch, numbers that change each step read on the device.

use crate::elementwise::copy_views;
use crate::launch::{Argument, Family, Key, Scratch, args, ceil_div, run};
use crate::text::{Builder, float};
use oneflow_base::{DType, Error, Result, contiguous_strides};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{Launch, View};

/// Tensors a launch takes: five tables of eight bytes each stay well below the four kilobytes of parameters.
const MAX_TENSORS: usize = 64;

pub fn text(adam: bool, param: DType, state: DType, grad: DType) -> Result<Text> {
    let b =
        Builder::new(if adam { "adam" } else { "sgd" }).define("ADAM", adam as u8).define("MAX_TENSORS", MAX_TENSORS);
    let b = b.compute("C", float("optimizer update", param)?.compute())?.dtype("P", param)?;
    Ok(b.dtype("S", state)?.dtype("G", grad)?.push(include_str!("text/optimizer.cu")).finish())
}

#[repr(C)]
struct Table {
    p: [*mut u8; MAX_TENSORS],
    m: [*mut u8; MAX_TENSORS],
    v: [*mut u8; MAX_TENSORS],
    g: [*const u8; MAX_TENSORS],
    n: [i64; MAX_TENSORS],
}
impl Argument for Table {}

/// A 0-dim number on the device; null where it is absent.
#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceNumber {
    at: *const u8,
    dtype: i64,
}
impl Argument for DeviceNumber {}

fn number(v: Option<View<'_>>) -> Result<DeviceNumber> {
    match v {
        None => Ok(DeviceNumber { at: std::ptr::null(), dtype: 0 }),
        Some(v) => Ok(DeviceNumber { at: v.ptr, dtype: float("optimizer update", v.dtype)? as i64 }),
    }
}

/// The scalars of a rule, as the template reads them.
struct Rule {
    adam: bool,
    a: f64,
    b: f64,
    weight_decay: f64,
    eps: f64,
    maximize: i32,
    flag: i32,
    first_step: i32,
}

pub unsafe fn adam(l: &Launch<'_>) -> Result<()> {
    let (n, f) = (l.param(0)?.usize(), |i| l.param(i).map(|w| w.f64()));
    let rule = Rule {
        adam: true,
        a: f(1)?,
        b: f(2)?,
        weight_decay: f(3)?,
        eps: f(4)?,
        maximize: l.param(5)?.bool() as i32,
        flag: l.param(6)?.bool() as i32,
        first_step: 0,
    };
    let numbers = [n, n + 1, n + 2, n + 3].map(|i| number(l.opt_input(i)));
    // SAFETY: the launch's contract.
    unsafe { update(l, n, &rule, numbers, 2) }
}

pub unsafe fn sgd(l: &Launch<'_>) -> Result<()> {
    let (n, f) = (l.param(0)?.usize(), |i| l.param(i).map(|w| w.f64()));
    let rule = Rule {
        adam: false,
        a: f(1)?,
        b: f(2)?,
        weight_decay: f(3)?,
        eps: 0.0,
        maximize: l.param(5)?.bool() as i32,
        flag: l.param(4)?.bool() as i32,
        first_step: l.param(6)?.bool() as i32,
    };
    let numbers = [number(l.opt_input(n)), number(None), number(l.opt_input(n + 1)), number(l.opt_input(n + 2))];
    let n_states = (rule.a != 0.0) as usize;
    // SAFETY: the launch's contract.
    unsafe { update(l, n, &rule, numbers, n_states) }
}

/// Whether a view fills one run of memory without gaps or overlaps.
fn is_dense(v: &View<'_>) -> bool {
    let mut dims: Vec<(i64, i64)> =
        v.strides.iter().copied().zip(v.sizes.iter().copied()).filter(|d| d.1 != 1).collect();
    dims.sort_unstable();
    dims.iter().try_fold(1, |next, (stride, size)| (*stride == next).then_some(next * size)).is_some()
}

fn same_strides(a: &View<'_>, b: &View<'_>) -> bool {
    (0..a.ndim()).all(|d| a.sizes[d] == 1 || a.strides[d] == b.strides[d])
}

unsafe fn update(
    l: &Launch<'_>,
    n: usize,
    rule: &Rule,
    numbers: [Result<DeviceNumber>; 4],
    n_states: usize,
) -> Result<()> {
    let [lr, step, scale, found_inf] = numbers;
    let numbers = [lr?, step?, scale?, found_inf?];
    let mut ready: Vec<[Option<View<'_>>; 4]> = Vec::with_capacity(n);
    for i in 0..n {
        let p = l.output(i)?;
        let state = |k: usize| if k < n_states { l.output((k + 1) * n + i).map(Some) } else { Ok(None) };
        let operands = [Some(p), state(0)?, state(1)?, Some(l.input(i)?)];
        for v in operands.iter().flatten() {
            float("optimizer update", v.dtype)?;
            if v.sizes != p.sizes {
                return Err(Error::runtime(format!("optimizer update: sizes {:?} and {:?}", p.sizes, v.sizes)));
            }
        }
        let flat = is_dense(&p) && operands.iter().flatten().all(|v| same_strides(&p, v));
        if p.numel() == 0 {
            continue;
        }
        if flat {
            ready.push(operands);
        } else {
            // SAFETY: the launch's contract.
            unsafe { one_strided(l, rule, &numbers, &operands)? };
        }
    }
    // Neighbours of equal dtypes share a launch.
    let dtypes = |o: &[Option<View<'_>>; 4]| [0, 1, 2, 3].map(|k| o[k].map(|v| v.dtype));
    for group in ready.chunk_by(|a, b| dtypes(a) == dtypes(b)) {
        for part in group.chunks(MAX_TENSORS) {
            // SAFETY: the launch's contract.
            unsafe { launch(l, rule, &numbers, part)? };
        }
    }
    Ok(())
}

/// A tensor whose operands lie differently: through contiguous copies.
unsafe fn one_strided(
    l: &Launch<'_>,
    rule: &Rule,
    numbers: &[DeviceNumber; 4],
    operands: &[Option<View<'_>>; 4],
) -> Result<()> {
    let Some(p) = operands[0] else { return Ok(()) };
    let strides = contiguous_strides(p.sizes);
    let mut copies: [Option<(Scratch, View<'_>)>; 4] = [const { None }; 4];
    for (copy, v) in copies.iter_mut().zip(operands) {
        let Some(v) = v else { continue };
        let memory = Scratch::new(l.queue, p.numel() as i64, v.dtype.size())?;
        let view = View { ptr: memory.ptr(), strides: &strides, ..*v };
        // SAFETY: both views are valid and of equal sizes.
        unsafe { copy_views(l.queue, &view, v)? };
        *copy = Some((memory, view));
    }
    let flat = [0, 1, 2, 3].map(|k: usize| copies[k].as_ref().map(|c| c.1));
    // SAFETY: the copies live until the launches are issued, on this queue.
    unsafe {
        launch(l, rule, numbers, &[flat])?;
        for k in 0..3 {
            if let (Some(v), Some(copy)) = (operands[k], flat[k]) {
                copy_views(l.queue, &v, &copy)?;
            }
        }
    }
    Ok(())
}

unsafe fn launch(
    l: &Launch<'_>,
    rule: &Rule,
    numbers: &[DeviceNumber; 4],
    tensors: &[[Option<View<'_>>; 4]],
) -> Result<()> {
    let null = std::ptr::null_mut();
    let mut table = Table {
        p: [null; MAX_TENSORS],
        m: [null; MAX_TENSORS],
        v: [null; MAX_TENSORS],
        g: [null; MAX_TENSORS],
        n: [0; MAX_TENSORS],
    };
    let (mut longest, mut dtypes) = (0, [DType::F32; 3]);
    for (i, [p, m, v, g]) in tensors.iter().enumerate() {
        let (Some(p), Some(g)) = (p, g) else { continue };
        let at = |v: &Option<View<'_>>| v.map_or(null, |v| v.ptr);
        (table.p[i], table.m[i], table.v[i], table.g[i]) = (p.ptr, at(m), at(v), g.ptr);
        table.n[i] = p.numel() as i64;
        longest = longest.max(table.n[i]);
        dtypes = [p.dtype, m.map_or(p.dtype, |m| m.dtype), g.dtype];
        if v.is_some_and(|v| v.dtype != dtypes[1]) {
            return Err(Error::not_implemented("adam: CUDA kernels need both states in one dtype"));
        }
    }
    let [p, s, g] = dtypes;
    let key = Key::new(Family::Optimizer).small(rule.adam as u64).dtype(p).dtype(s).dtype(g);
    let blocks = ceil_div(longest, 1024).clamp(1, 1 << 20) as u32;
    let grid = Grid { blocks: [blocks, tensors.len() as u32, 1], threads: [256, 1, 1], shared: 0 };
    let Rule { a, b, weight_decay, eps, maximize, flag, first_step, adam } = *rule;
    let [lr, step, scale, found_inf] = *numbers;
    let args = args![table, lr, step, scale, found_inf, a, b, weight_decay, eps, maximize, flag, first_step];
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key, || text(adam, p, s, g), grid, args) }
}
