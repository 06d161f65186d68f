//! Optimizer steps over many tensors: a table of pointers a launch, numbers that change each step read on the device.

use crate::chunks::{CHUNK, CHUNKS, Chunks, MAX_TENSORS, Runs, is_dense};
use crate::elementwise::copy_views;
use crate::launch::{Argument, Family, Key, Scratch, args, run};
use crate::text::{Builder, float};
use oneflow_base::{DType, Error, Result, contiguous_strides};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{
    Launch, MAX_HYPER, MAX_NUMBERS, MAX_SCALARS, MAX_STATES, Rule, UnscaleParams, UpdateParams, View,
};

/// Parameter, gradient and states.
const OPERANDS: usize = MAX_STATES + 2;

/// A tensor's operands in that order.
type Operands<'a> = [Option<View<'a>>; OPERANDS];

pub fn text(rule: &Rule, param: DType, state: DType, grad: DType) -> Result<Text> {
    let compute = float("optimizer update", param)?.compute();
    let b = Builder::new(rule.name).define("MAX_TENSORS", MAX_TENSORS).define("MAX_STATES", MAX_STATES);
    let b = b.define("MAX_NUMBERS", MAX_NUMBERS).define("MAX_HYPER", MAX_HYPER).define("MAX_SCALARS", MAX_SCALARS);
    let b = b.define("N_STATES", rule.n_states).define("CHUNK", CHUNK).compute("C", compute)?.dtype("P", param)?;
    let b = b.dtype("S", state)?.dtype("G", grad)?.push(&rule.cuda_text(compute));
    Ok(b.push(CHUNKS).push(include_str!("text/optimizer.cu")).finish())
}

pub fn unscale_text(dtype: DType, factor: DType) -> Result<Text> {
    let b = Builder::new("unscale").define("MAX_TENSORS", MAX_TENSORS).define("CHUNK", CHUNK);
    let b = b.compute("C", float("unscale", dtype)?.compute())?.dtype("P", dtype)?;
    Ok(b.dtype("F", float("unscale", factor)?)?.push(CHUNKS).push(include_str!("text/unscale.cu")).finish())
}

#[repr(C)]
struct Table {
    p: [*mut u8; MAX_TENSORS],
    s: [[*mut u8; MAX_TENSORS]; MAX_STATES],
    g: [*const u8; MAX_TENSORS],
    n: [i64; MAX_TENSORS],
    chunks: Chunks,
}
impl Argument for Table {}

/// A 0-dim number on the device; null where it is absent.
#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceNumber {
    at: *const u8,
    dtype: i64,
}

fn number(v: Option<View<'_>>) -> Result<DeviceNumber> {
    match v {
        None => Ok(DeviceNumber { at: std::ptr::null(), dtype: 0 }),
        Some(v) => Ok(DeviceNumber { at: v.ptr, dtype: float("optimizer update", v.dtype)? as i64 }),
    }
}

/// What the template reads beside the tensors.
#[repr(C)]
struct Step {
    numbers: [DeviceNumber; MAX_NUMBERS],
    scale: DeviceNumber,
    found_inf: DeviceNumber,
    hyper: [f64; MAX_HYPER],
    /// In their place, where they are on the device.
    live: *const u8,
    maximize: i64,
}
impl Argument for Step {}

fn same_strides(a: &View<'_>, b: &View<'_>) -> bool {
    (0..a.ndim()).all(|d| a.sizes[d] == 1 || a.strides[d] == b.strides[d])
}

pub unsafe fn update(l: &Launch<'_>) -> Result<()> {
    let UpdateParams { rule, n, maximize, hyper } = l.read()?;
    let rule = Rule::by_id(rule)?;
    let absent = number(None)?;
    let mut step = Step {
        numbers: [absent; MAX_NUMBERS],
        scale: number(l.opt_input(n + rule.n_numbers))?,
        found_inf: number(l.opt_input(n + rule.n_numbers + 1))?,
        hyper: [0.0; MAX_HYPER],
        live: std::ptr::null(),
        maximize: maximize as i64,
    };
    for k in 0..rule.n_numbers {
        step.numbers[k] = number(Some(l.input(n + k)?))?;
    }
    if let Some(v) = l.opt_input(n + rule.n_numbers + 2) {
        if v.numel() != rule.n_hyper || v.dtype != DType::F64 {
            return Err(Error::runtime(format!("optimizer update: {} of {} options", v.numel(), rule.n_hyper)));
        }
        step.live = v.ptr;
    }
    if hyper.0.len() != rule.n_hyper {
        return Err(Error::runtime(format!("optimizer update: {} of {} options", hyper.0.len(), rule.n_hyper)));
    }
    step.hyper[..rule.n_hyper].copy_from_slice(&hyper.0);
    let mut ready: Vec<Operands<'_>> = Vec::with_capacity(n);
    for i in 0..n {
        let p = l.output(i)?;
        let mut operands: Operands<'_> = [None; OPERANDS];
        (operands[0], operands[1]) = (Some(p), Some(l.input(i)?));
        for k in 0..rule.n_states {
            operands[2 + k] = Some(l.output((k + 1) * n + i)?);
        }
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
            unsafe { one_strided(l, rule, &step, &operands)? };
        }
    }
    // Neighbours of equal dtypes share a launch.
    let dtypes = |o: &Operands<'_>| o.map(|v| v.map(|v| v.dtype));
    for group in ready.chunk_by(|a, b| dtypes(a) == dtypes(b)) {
        for part in group.chunks(MAX_TENSORS) {
            // SAFETY: the launch's contract.
            unsafe { launch(l, rule, &step, part)? };
        }
    }
    Ok(())
}

/// A tensor whose operands lie differently: through contiguous copies.
unsafe fn one_strided(l: &Launch<'_>, rule: &Rule, step: &Step, operands: &Operands<'_>) -> Result<()> {
    let Some(p) = operands[0] else { return Ok(()) };
    let strides = contiguous_strides(p.sizes);
    let mut copies: [Option<(Scratch, View<'_>)>; OPERANDS] = [const { None }; OPERANDS];
    for (copy, v) in copies.iter_mut().zip(operands) {
        let Some(v) = v else { continue };
        let memory = Scratch::new(l.queue, p.numel() as i64, v.dtype.size())?;
        let view = View { ptr: memory.ptr(), strides: &strides, ..*v };
        // SAFETY: both views are valid and of equal sizes.
        unsafe { copy_views(l.queue, &view, v)? };
        *copy = Some((memory, view));
    }
    let flat: Operands<'_> = std::array::from_fn(|k| copies[k].as_ref().map(|c| c.1));
    // SAFETY: the copies live until the launches are issued, on this queue.
    unsafe {
        launch(l, rule, step, &[flat])?;
        // All but the gradient were written.
        for k in (0..OPERANDS).filter(|k| *k != 1) {
            if let (Some(v), Some(copy)) = (operands[k], flat[k]) {
                copy_views(l.queue, &v, &copy)?;
            }
        }
    }
    Ok(())
}

unsafe fn launch(l: &Launch<'_>, rule: &Rule, step: &Step, tensors: &[Operands<'_>]) -> Result<()> {
    let none = [std::ptr::null_mut(); MAX_TENSORS];
    let chunks = Chunks::new(tensors.iter().map(|o| o[0].map_or(0, |p| p.numel() as i64)))?;
    let (g, n) = ([std::ptr::null(); MAX_TENSORS], [0; MAX_TENSORS]);
    let mut table = Table { p: none, s: [none; MAX_STATES], g, n, chunks };
    let mut dtypes = [DType::F32; 3];
    for (i, operands) in tensors.iter().enumerate() {
        let (Some(p), Some(g)) = (operands[0], operands[1]) else { continue };
        (table.p[i], table.g[i], table.n[i]) = (p.ptr, g.ptr, p.numel() as i64);
        let state = operands[2].map_or(p.dtype, |s| s.dtype);
        for (k, s) in operands[2..].iter().flatten().enumerate() {
            table.s[k][i] = s.ptr;
            if s.dtype != state {
                return Err(Error::not_implemented("optimizer update: CUDA kernels need all states in one dtype"));
            }
        }
        dtypes = [p.dtype, state, g.dtype];
    }
    let [p, s, g] = dtypes;
    let key = Key::new(Family::Optimizer).wide(rule.id() >> 8).dtype(p).dtype(s).dtype(g);
    let grid = table.chunks.grid();
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key, || text(rule, p, s, g), grid, args![table, *step]) }
}

pub unsafe fn unscale(l: &Launch<'_>) -> Result<()> {
    let UnscaleParams { n } = l.read()?;
    let (factor, flag) = (l.input(0)?, l.output(n)?);
    if flag.dtype != DType::F32 {
        return Err(Error::not_implemented("unscale: found_inf must be float32"));
    }
    let mut ready = Vec::with_capacity(n);
    for i in 0..n {
        let v = l.output(i)?;
        float("unscale", v.dtype)?;
        if v.numel() == 0 {
            continue;
        }
        if is_dense(&v) {
            ready.push(v);
            continue;
        }
        // Through a contiguous copy.
        let strides = contiguous_strides(v.sizes);
        let copy = Scratch::new(l.queue, v.numel() as i64, v.dtype.size())?;
        let flat = View { ptr: copy.ptr(), strides: &strides, ..v };
        // SAFETY: the views are valid by the launch's contract; the copy lives until the launches are issued.
        unsafe {
            copy_views(l.queue, &flat, &v)?;
            unscale_runs(l, &[flat], &factor, &flag)?;
            copy_views(l.queue, &v, &flat)?;
        }
    }
    for group in ready.chunk_by(|a, b| a.dtype == b.dtype) {
        for part in group.chunks(MAX_TENSORS) {
            // SAFETY: the launch's contract.
            unsafe { unscale_runs(l, part, &factor, &flag)? };
        }
    }
    Ok(())
}

/// Dense views of one dtype.
unsafe fn unscale_runs(l: &Launch<'_>, views: &[View<'_>], factor: &View<'_>, flag: &View<'_>) -> Result<()> {
    let Some(dtype) = views.first().map(|v| v.dtype) else { return Ok(()) };
    let table = Runs::of(views)?;
    let key = Key::new(Family::Unscale).dtype(dtype).dtype(factor.dtype);
    let (grid, of) = (table.chunks.grid(), factor.dtype);
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key, || unscale_text(dtype, of), grid, args![table, factor.ptr, flag.ptr]) }
}
