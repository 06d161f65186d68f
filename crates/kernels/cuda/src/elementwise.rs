//! ELEMENTWISE, COPY, FILL and ARANGE.

use crate::launch::{Argument, Family, Key, Place, args, ceil_div, linear, run};
use crate::nest::{Geo, Nest};
use crate::text::{Builder, bits_type, c_type, unsupported};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{ArangeParams, Expr, FillParams, Launch, TriangleParams, View, words};
use smallvec::SmallVec;
use std::fmt::Write;

const BODY: &str = include_str!("text/elementwise.cu");
/// Room for an expression's scalars.
const N_PARAMS: usize = oneflow_kernels_prim::MAX_PARAMS;

/// What is computed: the body of `C f(C x0.., C p0..)`.
struct Function<'a> {
    name: &'a str,
    arity: usize,
    body: String,
}

pub unsafe fn elementwise(l: &Launch<'_>) -> Result<()> {
    let expr = l.expr.ok_or_else(|| Error::runtime("elementwise: the launch has no expression"))?;
    let (out, (compute, scalars)) = (l.output(0)?, l.scalars()?);
    let mut ins: SmallVec<[View<'_>; 4]> = SmallVec::new();
    l.ins.iter().take(expr.arity).flatten().for_each(|v| ins.push(*v));
    if ins.len() != expr.arity {
        return Err(Error::runtime(format!("{}: {} inputs, got {}", expr.name, expr.arity, ins.len())));
    }
    let mut params = [0u64; N_PARAMS];
    for (p, w) in params.iter_mut().zip(scalars) {
        // Scalars come in the compute dtype's own width.
        *p = if compute == DType::F32 { (w.f64() as f32).to_bits() as u64 } else { w.0 };
    }
    let key = Key::new(Family::Elementwise).wide(expr as *const Expr as u64 & ((1 << 56) - 1));
    let text = |ins: &[DType], out| expr_text(expr, compute, ins, out);
    // SAFETY: the launch's contract.
    unsafe { map(l.queue, key, expr.name, compute, &out, &ins, &params, text) }
}

/// The text of an expression for a compute dtype and storage dtypes.
pub fn expr_text(expr: &Expr, compute: DType, ins: &[DType], out: DType) -> Result<Text> {
    let body = expr.cuda_text(compute).ok_or_else(|| unsupported(expr.name, compute))?;
    text(&Function { name: expr.name, arity: expr.arity, body }, compute, ins, out)
}

/// The text of a cast.
pub fn copy_text(from: DType, to: DType) -> Result<Text> {
    text(&Function { name: "copy", arity: 1, body: "return x0;".into() }, cast_through(from), &[from], to)
}

/// The number a cast passes through: the source's own.
fn cast_through(from: DType) -> DType {
    from.compute()
}

fn text(f: &Function<'_>, compute: DType, ins: &[DType], out: DType) -> Result<Text> {
    let (mut fields, mut four, mut flat, mut strided) = (String::new(), String::new(), String::new(), String::new());
    let mut inner = String::new();
    let (mut formals, mut actuals, mut actuals_four) = (String::new(), String::new(), String::new());
    for (k, d) in ins.iter().enumerate() {
        let t = c_type(f.name, *d)?;
        let _ = write!(fields, "const {t}* p{k}; ");
        let _ = write!(
            four,
            "if (ins.step[{k}]) {{ const Four<{t}> q = ((const Four<{t}>*)ins.p{k})[i]; \
             for (int j = 0; j < 4; j++) x[{k}][j] = get<C>(&q.v[j]); }} \
             else {{ const C s = get<C>(ins.p{k}); for (int j = 0; j < 4; j++) x[{k}][j] = s; }} "
        );
        let _ = write!(
            inner,
            "if (ins.step[{k}]) {{ const Four<{t}> q = *(const Four<{t}>*)(ins.p{k} + at[{}]); \
             for (int j = 0; j < 4; j++) x[{k}][j] = get<C>(&q.v[j]); }} \
             else {{ const C s = get<C>(ins.p{k} + at[{}]); for (int j = 0; j < 4; j++) x[{k}][j] = s; }} ",
            k + 1,
            k + 1
        );
        let _ = write!(flat, "x[{k}] = get<C>(ins.p{k} + (ins.step[{k}] ? i : 0)); ");
        let _ = write!(strided, "x[{k}] = get<C>(ins.p{k} + at[{}]); ", k + 1);
        let comma = if k > 0 { ", " } else { "" };
        let _ = write!(formals, "{comma}C x{k}");
        let _ = write!(actuals, "{comma}x[{k}]");
        let _ = write!(actuals_four, "{comma}x[{k}][j]");
    }
    for k in 0..N_PARAMS {
        let _ = write!(formals, ", C p{k}");
        let _ = write!(actuals, ", p.v[{k}]");
        let _ = write!(actuals_four, ", p.v[{k}]");
    }
    let n = f.arity;
    let mut b = Builder::new(f.name).compute("C", compute)?;
    for (k, d) in ins.iter().enumerate() {
        b = b.dtype(&format!("I{k}"), *d)?;
    }
    let b = b
        .dtype("O", out)?
        .define("N", n)
        .define("LOAD_FOUR", four)
        .define("LOAD_INNER", inner)
        .define("LOAD_CONTIGUOUS", flat)
        .define("LOAD_STRIDED", strided)
        .define("APPLY", format_args!("f({actuals})"))
        .define("APPLY_FOUR", format_args!("f({actuals_four})"))
        .push(&format!("struct Ins {{ {fields}i32 step[N + N % 2]; }};\nstruct Params {{ C v[{N_PARAMS}]; }};"))
        .push(&format!("D C f({formals}) {{\n{}\n}}", f.body));
    Ok(b.push(BODY).finish())
}

/// How the operands of a map lie.
struct Layout {
    /// The kernel's: all without gaps or one number (0), any strides (1), four neighbours a position (2).
    kind: i32,
    geo: Geo,
    /// A bit for each input that has more than one number; of kind 2, more than one along the innermost dimension.
    steps: u32,
}

impl Layout {
    fn new(name: &str, out: &View<'_>, ins: &[View<'_>]) -> Result<Layout> {
        if let Some(steps) = row_major(out, ins) {
            return Ok(Layout { kind: 0, geo: Geo::flat(out.sizes.iter().product(), ins.len() + 1), steps });
        }
        let strides = |k: usize| if k == 0 { out.strides } else { ins[k - 1].strides };
        let mut nest = Nest::from_rows(out.sizes, ins.len() + 1, strides).ordered().merged();
        let first = |s: &[i64]| s.first().copied().unwrap_or(0);
        let moves =
            |nest: &Nest| (1..=ins.len()).filter(|&k| first(nest.strides(k)) != 0).fold(0, |m, k| m | 1 << (k - 1));
        // One dimension (or none) of stride one, or a single number.
        let is_flat = |k: usize, s: &[i64]| s.is_empty() || s[0] == 1 || (k > 0 && s[0] == 0);
        if nest.sizes().len() <= 1 && nest.all_strides().enumerate().all(|(k, s)| is_flat(k, s)) {
            return Ok(Layout { kind: 0, steps: moves(&nest), geo: nest.geo_unmerged(name)? });
        }
        // Otherwise four elements of the innermost dimension at once, where that can be.
        let mut views: SmallVec<[View<'_>; 4]> = SmallVec::new();
        views.push(*out);
        views.extend_from_slice(ins);
        let along = nest.pack(&views, 1, 4);
        let geo = nest.geo_unmerged(name)?;
        let (kind, steps) = if along == 0 { (1, moves(&nest)) } else { (2, along >> 1) };
        Ok(Layout { kind, geo, steps })
    }
}

/// Where the output is row-major and each input lies like it or is one number: a bit for each that lies like it. Most maps are
/// so, and need no loop nest.
fn row_major(out: &View<'_>, ins: &[View<'_>]) -> Option<u32> {
    let (mut steps, mut numbers, mut below) = (0, 0, 1);
    for (d, &size) in out.sizes.iter().enumerate().rev().filter(|(_, n)| **n != 1) {
        if out.strides[d] != below {
            return None;
        }
        for (k, v) in ins.iter().enumerate() {
            match v.strides[d] {
                0 => numbers |= 1 << k,
                stride if stride == below => steps |= 1 << k,
                _ => return None,
            }
        }
        below *= size;
    }
    (steps & numbers == 0).then_some(steps)
}

/// Launches a map over views of equal sizes.
unsafe fn map(
    queue: Queue,
    key: Key,
    name: &str,
    compute: DType,
    out: &View<'_>,
    ins: &[View<'_>],
    params: &[u64; N_PARAMS],
    text: impl FnOnce(&[DType], DType) -> Result<Text>,
) -> Result<()> {
    let key = ins.iter().fold(key.dtype(compute).dtype(out.dtype), |key, v| key.dtype(v.dtype));
    if out.sizes.contains(&0) {
        return Ok(());
    }
    let Layout { kind, geo, steps } = Layout::new(name, out, ins)?;
    let n = geo.n();
    let aligned = |v: &View<'_>| (v.ptr as usize).is_multiple_of((v.dtype.size() * 4).min(16));
    let vector = kind == 0 && aligned(out) && ins.iter().enumerate().all(|(k, v)| steps >> k & 1 == 0 || aligned(v));
    // `Ins`: pointers, then one int an input, padded to eight bytes.
    let mut table: SmallVec<[u64; 12]> = SmallVec::new();
    ins.iter().for_each(|v| table.push(v.ptr as u64));
    for k in (0..ins.len()).step_by(2) {
        let step = u64::from(steps >> k);
        table.push(step & 1 | (step >> 1 & 1) << 32);
    }
    let mut narrow = [0u32; N_PARAMS];
    for (to, from) in narrow.iter_mut().zip(params) {
        *to = *from as u32;
    }
    let scalars = if compute == DType::F32 { Place::of(&narrow) } else { Place::of(params) };
    let text = || text(&ins.iter().map(|v| v.dtype).collect::<SmallVec<[DType; 8]>>(), out.dtype);
    let (work, vector) = if vector { (ceil_div(n, 4), 1) } else { (n, 0) };
    let args = &mut [kind.place(), vector.place(), geo.place(), Place::of(table.as_slice()), out.ptr.place(), scalars];
    // SAFETY: the arguments are the template's, the views are valid by the launch's contract.
    unsafe { run(queue, key, text, linear(work), args) }
}

pub unsafe fn copy(l: &Launch<'_>) -> Result<()> {
    // SAFETY: the launch's contract.
    unsafe { copy_views(l.queue, &l.output(0)?, &l.input(0)?) }
}

/// `out = x`, cast.
///
/// # Safety
/// Both views are valid on the queue's device; `x` has `out`'s sizes.
pub unsafe fn copy_views(queue: Queue, out: &View<'_>, x: &View<'_>) -> Result<()> {
    let key = Key::new(Family::Elementwise).wide(0);
    // Equal dtypes move as integers of their size: complex numbers too, and every NaN as it is.
    if out.dtype == x.dtype && out.dtype == DType::C128 {
        let sizes: Vec<i64> = out.sizes.iter().copied().chain([2]).collect();
        let strides = |v: &View<'_>| v.strides.iter().map(|s| s * 2).chain([1]).collect::<Vec<i64>>();
        let (to, from) = (strides(out), strides(x));
        let half = |ptr, strides| View { ptr, dtype: DType::I64, sizes: &sizes, strides };
        // SAFETY: a number of sixteen bytes is two of eight.
        return unsafe { copy_views(queue, &half(out.ptr, &to), &half(x.ptr, &from)) };
    }
    let (o, i) = if out.dtype == x.dtype { (moved(out)?, moved(x)?) } else { (*out, *x) };
    let text = |ins: &[DType], out: DType| copy_text(ins[0], out);
    // SAFETY: by the contract.
    unsafe { map(queue, key, "copy", cast_through(i.dtype), &o, &[i], &[0; N_PARAMS], text) }
}

/// The view as integers of the same size.
fn moved<'a>(v: &View<'a>) -> Result<View<'a>> {
    let dtype = match v.dtype.size() {
        1 => DType::U8,
        2 => DType::I16,
        4 => DType::I32,
        8 => DType::I64,
        _ => return Err(unsupported("copy", v.dtype)),
    };
    Ok(View { dtype, ..*v })
}

/// The text of FILL and ARANGE.
pub fn fill_text(out: DType, number: DType) -> Result<Text> {
    let b = Builder::new("fill").compute("C", number)?.dtype("O", out)?;
    Ok(b.push(include_str!("text/fill.cu")).finish())
}

unsafe fn sequence(queue: Queue, out: &View<'_>, is_float: bool, start: u64, step: u64) -> Result<()> {
    let number = if is_float { DType::F64 } else { DType::I64 };
    let geo = Nest::of(&[out]).geo("fill")?;
    let key = Key::new(Family::Fill).dtype(out.dtype).dtype(number);
    // SAFETY: the arguments are the template's; a number's 64 bits are its own C type's.
    unsafe { run(queue, key, || fill_text(out.dtype, number), linear(geo.n()), args![geo, out.ptr, start, step]) }
}

pub unsafe fn fill(l: &Launch<'_>) -> Result<()> {
    let FillParams { is_float, value, .. } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe { sequence(l.queue, &l.output(0)?, is_float, value.0, 0) }
}

/// Zeros in the output.
///
/// # Safety
/// The output is valid for writes.
pub unsafe fn zero(outs: &[Option<View<'_>>], queue: Queue) -> Result<()> {
    let params = words(&FillParams { is_float: false, value: 0i64.into(), imaginary: None });
    // SAFETY: the caller's.
    unsafe { fill(&Launch { outs, ins: &[], params: &params, expr: None, queue }) }
}

pub unsafe fn arange(l: &Launch<'_>) -> Result<()> {
    let ArangeParams { is_float, start, step } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe { sequence(l.queue, &l.output(0)?, is_float, start.0, step.0) }
}

/// TRIANGLE: the lower or upper triangle of the last two dimensions.
pub fn triangle_text(dtype: DType) -> Text {
    let b = Builder::new(format!("triangle {dtype}")).alias("E", bits_type(dtype)).define("PART", 5);
    b.push(include_str!("text/index.cu")).finish()
}

pub unsafe fn triangle(l: &Launch<'_>) -> Result<()> {
    let (x, out, TriangleParams { diagonal, upper }) = (l.input(0)?, l.output(0)?, l.read()?);
    let upper = upper as i32;
    let nd = out.ndim();
    if nd < 2 {
        return Err(Error::runtime("triangle: the input must have at least 2 dimensions"));
    }
    let (mut row, mut column) = (vec![0i64; nd], vec![0i64; nd]);
    row[nd - 2] = 1;
    column[nd - 1] = 1;
    let geo = Nest::new(out.sizes, &[out.strides, x.strides, &row, &column]).geo("triangle")?;
    let key = Key::new(Family::Index).small(5).small(out.dtype.size().ilog2() as u64);
    let text = || Ok(triangle_text(out.dtype));
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key, text, linear(geo.n()), args![x.ptr, out.ptr, diagonal, upper, geo]) }
}
