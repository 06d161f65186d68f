//! SOFTMAX, LAYER_NORM, CROSS_ENTROPY, EMBEDDING and their backwards.

use crate::index::sorted_updates;
use crate::launch::{Family, Key, Number, Scratch, Tickets, address, args, ceil_div, faults, linear, rows, run};
use crate::nest::Nest;
use crate::reduce;
use crate::row::{GROUP, RowKind, RowTypes, Rows, is_aligned};
use crate::text::{Builder, PLUS, bits_type, c_type, float, unsupported};
use oneflow_base::{DType, Error, Result, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{
    CrossEntropyParams, CrossEntropyReducedParams, EmbeddingBackwardParams, EmbeddingParams, Launch, LayerNormParams,
    ReduceKind, ScatterKind, SoftmaxParams, View,
};

pub fn softmax_text(dtype: DType, forward: bool, log: bool) -> Result<Text> {
    let b = Builder::new("softmax").compute("C", float("softmax", dtype)?.compute())?.dtype("T", dtype)?;
    let b = b.variant("FORWARD", forward as u8).variant("IS_LOG", log as u8);
    Ok(b.push(include_str!("text/softmax.cu")).finish())
}

pub unsafe fn softmax(l: &Launch<'_>) -> Result<()> {
    let (x, out, SoftmaxParams { dim, log }) = (l.input(0)?, l.output(0)?, l.read()?);
    let mut nest = Nest::of(&[&out, &x]);
    if let Some(rows) = Rows::new((RowKind::Softmax, log), RowTypes::all(x.dtype), &[&out, &x], nest.without(dim))? {
        // SAFETY: the arguments are the template's.
        return unsafe { rows.launch(l.queue, args![x.ptr, out.ptr, rows.n, rows.geo]) };
    }
    let (n, stride) = nest.take(dim);
    let kept = nest.merged();
    if kept.n() == 0 || n == 0 {
        return Ok(());
    }
    let by_x = stride[1].unsigned_abs() <= kept.inner_stride(1).unsigned_abs().max(1);
    let (grid, by_x) = rows(kept.n(), n, by_x);
    let key = Key::new(Family::Softmax).dtype(x.dtype).small(2 + log as u64);
    let kept = kept.geo_unmerged("softmax")?;
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || softmax_text(x.dtype, true, log),
            grid,
            args![by_x, x.ptr, out.ptr, n, stride[1], stride[0], kept],
        )
    }
}

pub unsafe fn softmax_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, y, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let SoftmaxParams { dim, log } = l.read()?;
    let mut nest = Nest::of(&[&out, &grad, &y]);
    let views = [&out, &grad, &y];
    if let Some(rows) = Rows::new((RowKind::SoftmaxBackward, log), RowTypes::all(y.dtype), &views, nest.without(dim))? {
        // SAFETY: the arguments are the template's.
        return unsafe { rows.launch(l.queue, args![grad.ptr, y.ptr, out.ptr, rows.n, rows.geo]) };
    }
    let (n, stride) = nest.take(dim);
    let kept = nest.merged();
    if kept.n() == 0 || n == 0 {
        return Ok(());
    }
    let by_x = stride[2].unsigned_abs() <= kept.inner_stride(2).unsigned_abs().max(1);
    let (grid, by_x) = rows(kept.n(), n, by_x);
    let key = Key::new(Family::Softmax).dtype(y.dtype).small(log as u64);
    let kept = kept.geo_unmerged("softmax_backward")?;
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || softmax_text(y.dtype, false, log),
            grid,
            args![by_x, grad.ptr, y.ptr, out.ptr, n, stride[0], stride[1], stride[2], kept],
        )
    }
}

/// `part` 0: forward, 1: gradient of x, 2: gradients of weight and bias.
pub fn norm_text(part: u8, RowTypes { element, weight, grad }: RowTypes, rms: bool) -> Result<Text> {
    let b = Builder::new("layer_norm").variant("PART", part).variant("RMS", rms as u8);
    let b = b.compute("C", float("layer_norm", element)?.compute())?.dtype("T", element)?.dtype("W", weight)?;
    Ok(b.dtype("G", grad)?.push(PLUS).push(include_str!("text/norm.cu")).finish())
}

fn norm_key(part: u8, RowTypes { element, weight, grad }: RowTypes, rms: bool) -> Key {
    Key::new(Family::Norm).small(part as u64).dtype(element).dtype(weight).dtype(grad).small(rms as u64)
}

/// Both of one dtype, where both are there.
fn weight_dtype(name: &str, weight: Option<View<'_>>, bias: Option<View<'_>>, x: DType) -> Result<DType> {
    match (weight, bias) {
        (Some(w), Some(b)) if w.dtype != b.dtype => {
            Err(Error::runtime(format!("{name}: weight is {} and bias {} on CUDA", w.dtype, b.dtype)))
        }
        (Some(v), _) | (None, Some(v)) => Ok(v.dtype),
        (None, None) => Ok(x),
    }
}

pub unsafe fn layer_norm(l: &Launch<'_>) -> Result<()> {
    let (x, weight, bias, y) = (l.input(0)?, l.opt_input(1), l.opt_input(2), l.output(0)?);
    let LayerNormParams { normalized_dims: n_dims, eps, rms } = l.read()?;
    if l.opt_input(3).is_some() {
        return Err(Error::not_implemented("layer_norm: no CUDA kernel adds a residual"));
    }
    let w = weight_dtype("layer_norm", weight, bias, x.dtype)?;
    let dtypes = RowTypes { weight: w, ..RowTypes::all(x.dtype) };
    let nests = Nest::of(&[&y, &x]).split(x.ndim().saturating_sub(n_dims));
    let (mean, rstd) = (address(l.opt_output(1)), address(l.opt_output(2)));
    let eps = Number::new(x.dtype.compute(), eps);
    let (weight, bias) = (address(weight), address(bias));
    if is_aligned(weight)
        && is_aligned(bias)
        && let Some(rows) = Rows::new((RowKind::Norm, rms), dtypes, &[&y, &x], nests.clone())?
    {
        let list = args![x.ptr, weight, bias, y.ptr, mean, rstd, eps, rows.n, rows.geo];
        // SAFETY: the arguments are the template's.
        return unsafe { rows.launch(l.queue, list) };
    }
    let (outer, inner) = (nests.0.geo("layer_norm")?, nests.1.geo("layer_norm")?);
    let grid = rows(outer.n(), inner.n(), true).0;
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            norm_key(0, dtypes, rms),
            || norm_text(0, dtypes, rms),
            grid,
            args![x.ptr, weight, bias, y.ptr, mean, rstd, eps, outer, inner],
        )
    }
}

/// The operands of a norm's backward.
struct NormGradients<'a> {
    grad: View<'a>,
    x: View<'a>,
    mean: *mut u8,
    rstd: *mut u8,
    weight: *mut u8,
    residual: Option<View<'a>>,
    dtypes: RowTypes,
    /// The first dimension of a row.
    at: usize,
    rms: bool,
}

pub unsafe fn layer_norm_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, x, weight) = (l.input(0)?, l.input(1)?, l.opt_input(4));
    let LayerNormParams { normalized_dims: n_dims, rms, .. } = l.read()?;
    let (grad_weight, grad_bias) = (l.opt_output(1), l.opt_output(2));
    if grad.dtype != x.dtype && (x.dtype != DType::F32 || !matches!(grad.dtype, DType::F16 | DType::BF16)) {
        let text = format!("layer_norm_backward: no CUDA kernel for a gradient of {} beside {}", grad.dtype, x.dtype);
        return Err(Error::not_implemented(text));
    }
    for out in [grad_weight, grad_bias].iter().flatten() {
        if out.strides != contiguous_strides(out.sizes).as_slice() {
            return Err(Error::runtime("layer_norm_backward: gradients of weight and bias must be contiguous"));
        }
    }
    let w = weight_dtype("layer_norm_backward", weight.or(grad_weight), grad_bias, x.dtype)?;
    let n = NormGradients {
        grad,
        x,
        mean: address(l.opt_input(2)),
        rstd: l.input(3)?.ptr,
        weight: address(weight),
        residual: l.opt_input(5),
        dtypes: RowTypes { element: x.dtype, weight: w, grad: grad.dtype },
        at: x.ndim().saturating_sub(n_dims),
        rms,
    };
    let params = grad_weight.is_some() || grad_bias.is_some();
    let (to_weight, to_bias) = (address(grad_weight), address(grad_bias));
    // SAFETY: the launch's contract.
    unsafe {
        let together = match l.opt_output(0) {
            Some(out) => norm_grad_input(l.queue, &n, &out, params.then_some((to_weight, to_bias)))?,
            None => false,
        };
        if params && !together {
            norm_grad_params(l.queue, &n, to_weight, to_bias)?;
        }
    }
    Ok(())
}

/// The gradient of a norm's input; true if those of weight and bias came along.
unsafe fn norm_grad_input(
    queue: Queue,
    n: &NormGradients<'_>,
    out: &View<'_>,
    params: Option<(*mut u8, *mut u8)>,
) -> Result<bool> {
    let NormGradients { mean, rstd, weight, dtypes, rms, .. } = *n;
    // What is not there is walked as the output is.
    let views = [out, &n.grad, &n.x, n.residual.as_ref().unwrap_or(out)];
    let residual = address(n.residual);
    let nests = Nest::of(&views).split(n.at);
    if is_aligned(weight)
        && let Some(mut rows) = Rows::new((RowKind::NormBackward, rms), dtypes, &views, nests.clone())?
    {
        let (none, width) = (std::ptr::null_mut::<u8>(), rows.n);
        if let Some((to_weight, to_bias)) = params
            && rows.take_params()
        {
            let blocks = rows.n_blocks_with_sums(queue)?;
            let groups = ceil_div(blocks, GROUP);
            let partial = Scratch::new(queue, 2 * (blocks + groups) * width as i64, dtypes.element.compute().size())?;
            let tickets = Tickets::new(queue, groups + 1)?;
            let (partial_at, tickets_at) = (partial.ptr(), tickets.ptr());
            let list = args![
                n.grad.ptr, n.x.ptr, mean, rstd, weight, residual, out.ptr, to_weight, to_bias, partial_at, tickets_at,
                width, rows.geo
            ];
            // SAFETY: the arguments are the template's; the scratch holds two numbers a column for each block and each group.
            unsafe { rows.launch_blocks(queue, blocks, list)? };
            return Ok(true);
        }
        let list =
            args![n.grad.ptr, n.x.ptr, mean, rstd, weight, residual, out.ptr, none, none, none, none, width, rows.geo];
        // SAFETY: the arguments are the template's.
        unsafe { rows.launch(queue, list)? };
        return Ok(false);
    }
    let (outer, inner) = (nests.0.geo("layer_norm_backward")?, nests.1.geo("layer_norm_backward")?);
    let grid = rows(outer.n(), inner.n(), true).0;
    let list = args![n.grad.ptr, n.x.ptr, mean, rstd, weight, residual, out.ptr, outer, inner];
    // SAFETY: the arguments are the template's.
    unsafe { run(queue, norm_key(1, dtypes, rms), || norm_text(1, dtypes, rms), grid, list)? };
    Ok(false)
}

/// The gradients of a norm's weight and bias.
unsafe fn norm_grad_params(queue: Queue, n: &NormGradients<'_>, to_weight: *mut u8, to_bias: *mut u8) -> Result<()> {
    let NormGradients { mean, rstd, dtypes, rms, .. } = *n;
    let (outer, inner) = Nest::of(&[&n.grad, &n.x]).split(n.at);
    let (outer, inner) = (outer.geo("layer_norm_backward")?, inner.geo("layer_norm_backward")?);
    let (width, compute) = (inner.n(), dtypes.element.compute());
    if width == 0 {
        return Ok(());
    }
    // Parts of the rows are summed side by side and then together, in order.
    let parts = reduce::parts(queue, width, outer.n(), false)?;
    let split = match parts {
        1 => None,
        _ => Some((Scratch::new(queue, 2 * parts * width, compute.size())?, Tickets::new(queue, width)?)),
    };
    let (partial, tickets) =
        split.as_ref().map_or((std::ptr::null_mut(), std::ptr::null_mut()), |(s, t)| (s.ptr(), t.ptr()));
    let second = partial.wrapping_add((parts * width) as usize * compute.size());
    let (mut grid, _) = rows(width, ceil_div(outer.n(), parts), false);
    grid.blocks[0] = (grid.blocks[0] as i64 * parts).min(1 << 30) as u32;
    let list =
        args![n.grad.ptr, n.x.ptr, mean, rstd, to_weight, to_bias, partial, second, tickets, parts, outer, inner];
    // SAFETY: the arguments are the template's; the scratch holds two numbers a part and column, there is a ticket a column.
    unsafe { run(queue, norm_key(2, dtypes, rms), || norm_text(2, dtypes, rms), grid, list) }
}

/// `part` 0: backward, 1: forward, 2: the end of CROSS_ENTROPY_REDUCED. The rows' losses are stored as `loss`.
pub fn loss_text(part: u8, dtype: DType, weight: DType, loss: DType) -> Result<Text> {
    let b = Builder::new("cross_entropy").variant("FORWARD", part);
    let b = b.compute("C", float("cross_entropy", dtype)?.compute())?.dtype("T", dtype)?.dtype("W", weight)?;
    let b = b.dtype("L", loss)?;
    Ok(b.push(include_str!("text/loss.cu")).finish())
}

/// The stride of a 1-D view; zero of an absent one.
fn step(v: Option<View<'_>>) -> i64 {
    v.and_then(|v| v.strides.first().copied()).unwrap_or(0)
}

pub unsafe fn cross_entropy(l: &Launch<'_>) -> Result<()> {
    let loss = l.output(0)?;
    // SAFETY: the launch's contract.
    unsafe { row_losses(l, &l.read()?, &loss, std::ptr::null_mut()) }
}

/// Losses of the rows, and their weights where these are wanted (contiguous, of the compute dtype).
unsafe fn row_losses(l: &Launch<'_>, params: &CrossEntropyParams, loss: &View<'_>, row_weights: *mut u8) -> Result<()> {
    let (x, target, weight, lse) = (l.input(0)?, l.input(1)?, l.opt_input(2), l.output(1)?);
    let (ignore, smoothing) = (params.ignore_index, Number::new(x.dtype.compute(), params.label_smoothing));
    if target.dtype != DType::I64 {
        return Err(unsupported("cross_entropy target", target.dtype));
    }
    let (n, c) = (x.sizes[0], x.sizes[1]);
    let w = weight.map_or(x.dtype, |w| w.dtype);
    let key = Key::new(Family::Loss).small(1).dtype(x.dtype).dtype(w).dtype(loss.dtype);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || loss_text(1, x.dtype, w, loss.dtype),
            rows(n, c, true).0,
            args![
                x.ptr,
                x.strides[0],
                x.strides[1],
                target.ptr,
                step(Some(target)),
                address(weight),
                step(weight),
                loss.ptr,
                step(Some(*loss)),
                row_weights,
                lse.ptr,
                step(Some(lse)),
                n,
                c,
                ignore,
                smoothing,
                faults(l.queue)?
            ],
        )
    }
}

pub unsafe fn cross_entropy_reduced(l: &Launch<'_>) -> Result<()> {
    let (x, loss, total) = (l.input(0)?, l.output(0)?, l.output(2)?);
    let CrossEntropyReducedParams { rows: params, mean } = l.read()?;
    let mean = mean as i32;
    let (n, compute) = (x.sizes[0], float("cross_entropy", x.dtype)?.compute());
    let room = Scratch::new(l.queue, 2 * n + 1, compute.size())?;
    let at = |i: i64| room.ptr().wrapping_add(i as usize * compute.size());
    let (many, one) = ([n], [1]);
    let vector = |ptr, sizes| View { ptr, dtype: compute, sizes, strides: &[1] };
    let (losses, weights, sum) = (vector(at(0), &many), vector(at(n), &many), vector(at(2 * n), &one));
    let (total, key) = (vector(total.ptr, &one), Key::new(Family::Loss).small(2).dtype(x.dtype));
    // SAFETY: the scratch holds two numbers a row and one more; it lives until the launches were issued.
    unsafe {
        row_losses(l, &params, &losses, weights.ptr)?;
        reduce::fold(l.queue, ReduceKind::Sum as u64, compute, &losses, &sum)?;
        reduce::fold(l.queue, ReduceKind::Sum as u64, compute, &weights, &total)?;
        let text = || loss_text(2, x.dtype, x.dtype, x.dtype);
        run(l.queue, key, text, Grid::linear(1, 1), args![sum.ptr, total.ptr, loss.ptr, mean])
    }
}

pub unsafe fn cross_entropy_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, x, target, weight, lse) = (l.input(0)?, l.input(1)?, l.input(2)?, l.opt_input(3), l.input(4)?);
    let CrossEntropyParams { ignore_index: ignore, label_smoothing } = l.read()?;
    let (out, smoothing) = (l.output(0)?, Number::new(x.dtype.compute(), label_smoothing));
    let (n, c) = (x.sizes[0], x.sizes[1]);
    let w = weight.map_or(x.dtype, |w| w.dtype);
    let key = Key::new(Family::Loss).small(0).dtype(x.dtype).dtype(w);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || loss_text(0, x.dtype, w, x.dtype),
            rows(n, c, true).0,
            args![
                grad.ptr,
                step(Some(grad)),
                x.ptr,
                x.strides[0],
                x.strides[1],
                target.ptr,
                step(Some(target)),
                address(weight),
                step(weight),
                lse.ptr,
                step(Some(lse)),
                out.ptr,
                out.strides[0],
                out.strides[1],
                n,
                c,
                ignore,
                smoothing,
                faults(l.queue)?
            ],
        )
    }
}

pub fn embedding_text(dtype: DType, index: DType) -> Result<Text> {
    let b = Builder::new(format!("embedding {dtype}")).alias("T", bits_type(dtype)).dtype("I", index)?;
    Ok(b.push(include_str!("text/embedding.cu")).finish())
}

fn index_dtype(op: &str, v: &View<'_>) -> Result<DType> {
    match v.dtype {
        DType::I32 | DType::I64 => Ok(v.dtype),
        d => Err(Error::runtime(format!("{op}: expected indices of dtype int64 or int32, but got {d}"))),
    }
}

/// Strides over `[index dims..., d]`: the index's, then `last`.
fn along_rows(v: &View<'_>, last: i64) -> Vec<i64> {
    v.strides.iter().copied().chain([last]).collect()
}

pub unsafe fn embedding(l: &Launch<'_>) -> Result<()> {
    let (weight, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let EmbeddingParams { start, total } = l.read()?;
    let i = index_dtype("embedding", &index)?;
    let column: Vec<i64> = (0..out.ndim()).map(|d| (d + 1 == out.ndim()) as i64).collect();
    let geo = Nest::new(out.sizes, &[out.strides, &along_rows(&index, 0), &column]).geo("embedding")?;
    let key = Key::new(Family::Embedding).small(out.dtype.size().ilog2() as u64).dtype(i);
    let (down, right, n_rows) = (weight.strides[0], weight.strides[1], weight.sizes[0]);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || embedding_text(out.dtype, i),
            linear(geo.n()),
            args![weight.ptr, down, right, n_rows, index.ptr, out.ptr, start, total, faults(l.queue)?, geo],
        )
    }
}

pub fn embedding_keys_text(index: DType) -> Result<Text> {
    let b = Builder::new("embedding_backward keys").dtype("T", index)?.define("PART", 4);
    Ok(b.push(include_str!("text/sort.cu")).finish())
}

pub unsafe fn embedding_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let EmbeddingBackwardParams { start, total, padding } = l.read()?;
    let i = index_dtype("embedding_backward", &index)?;
    c_type("embedding_backward", out.dtype)?;
    // SAFETY: the output is valid by the launch's contract.
    unsafe { crate::elementwise::zero(&[Some(out)], l.queue)? };
    let (n_rows, width) = (out.sizes[0], out.sizes[1]);
    let last = grad.ndim() - 1;
    let geo = Nest::new(index.sizes, &[index.strides, &grad.strides[..last]]).geo("embedding_backward")?;
    let skip = n_rows as u64;
    let key = Key::new(Family::Sort).small(4).dtype(i);
    let keys = |to: *mut u8, numbers: *mut u8, from: *mut u8| {
        let padding = if padding < 0 { -1 } else { padding };
        // SAFETY: the arguments are the template's; the tables hold a word an index.
        unsafe {
            run(
                l.queue,
                key,
                || embedding_keys_text(i),
                linear(geo.n()),
                args![index.ptr, to, numbers, from, start, n_rows, total, padding, skip, faults(l.queue)?, geo],
            )
        }
    };
    let (g, o) = ((grad.ptr, grad.dtype, grad.strides[last]), (out.ptr, out.dtype, out.strides[0], out.strides[1]));
    // SAFETY: keys are rows of the output or `skip`, `from` are rows of the gradient.
    unsafe { sorted_updates(l.queue, ScatterKind::Add, geo.n(), skip, keys, g, o, width) }
}
