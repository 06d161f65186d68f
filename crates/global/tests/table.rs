//! Every SBP row of every op of the table, on two and four ranks: shards computed separately and recombined equal the
//! result of one rank. Compositions run through the layer with every input split. Tested by planted wrong rules.

mod common;
use common::*;
use oneflow_base::{DType, PKind, Parts, Result, Sbp};
use oneflow_core::{
    AnyArg, At, BoundSample, Call, In, InMask, Kernel, OpDef, Outs, Row, Rows, SbpRule, ShapeOf, Tensor, Traits,
    copy_into, dispatch,
};
use oneflow_global::{candidates, make, my_coords, part, run_row};
use oneflow_ops::TensorOps;
use std::sync::Mutex;

fn close(a: &[f64], b: &[f64], tol: f64) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tol * (1.0 + y.abs()))
}

/// Sums in another order differ by some units in the last place.
fn tolerance(d: DType) -> f64 {
    match d {
        DType::F32 | DType::C64 => 5e-5,
        DType::F64 | DType::C128 => 1e-10,
        _ => 0.0,
    }
}

fn cast(t: &Tensor, d: DType) -> Tensor {
    let out = Tensor::empty(d, oneflow_base::Device::CPU, t.sizes()).unwrap();
    copy_into(&out, t).unwrap();
    out
}

/// This rank's shard of `x` on a 1-D mesh. Partial values are uneven shares, not the value and zeros, so that a rule that only
/// holds for zeros is found.
fn shard(x: &Tensor, n: usize, s: Sbp) -> Result<Tensor> {
    let to = spread(&[n as i64], &[s]);
    let coords = my_coords(to.placement).unwrap();
    let rank = coords[0];
    let local = match s {
        Sbp::P(kind) => {
            let whole = values(x);
            let share = |v: f64, i: usize| match kind {
                PKind::Sum if rank == 0 => v - (1..n).map(|k| noise(i, k)).sum::<f64>(),
                PKind::Sum => noise(i, rank as usize),
                PKind::Max if i % n == rank as usize => v,
                PKind::Max => v - 1.0,
                PKind::Min if i % n == rank as usize => v,
                PKind::Min => v + 1.0,
            };
            let mine: Vec<f64> = whole.iter().enumerate().map(|(i, v)| share(*v, i)).collect();
            match x.dtype().is_complex() {
                true => {
                    let parts = x.view_as_real()?;
                    cast(&f64s(&mine, parts.sizes()), parts.dtype()).view_as_complex()?
                }
                false => cast(&f64s(&mine, x.sizes()), x.dtype()),
            }
        }
        _ => {
            let p = part(x.sizes(), to.placement, &[s], &coords);
            let offset = x.offset() + p.starts.iter().zip(x.strides()).map(|(a, b)| a * b).sum::<i64>();
            cast(&x.alias(p.sizes, x.strides().into(), offset)?, x.dtype())
        }
    };
    make(x, x.sizes(), to, Some(local))
}

/// Whole numbers, exact in every dtype.
fn noise(i: usize, rank: usize) -> f64 {
    ((i * 7 + rank * 3) % 5) as f64 - 1.0
}

type Check = std::result::Result<(), String>;

/// dtype, sizes and values of a result.
type Value = (DType, Vec<i64>, Vec<f64>);

fn reference(b: &BoundSample) -> Result<Vec<Value>> {
    let mut outs = Outs::new();
    b.with(|c| dispatch(c, &mut outs))?;
    Ok(outs.tensors().iter().map(|t| (t.dtype(), t.sizes().to_vec(), values(t))).collect())
}

/// Shares of a partial input are rounded to its dtype, whatever the result's is.
fn rounding(b: &BoundSample) -> f64 {
    b.ins.iter().flatten().map(|t| tolerance(t.dtype())).fold(0.0, f64::max)
}

fn compare(outs: &[Tensor], want: &[Value], at_least: f64, what: &str) -> Check {
    if outs.len() != want.len() {
        return Err(format!("{what}: {} results instead of {}", outs.len(), want.len()));
    }
    for (t, (dtype, sizes, v)) in outs.iter().zip(want) {
        let got = whole(t).map_err(|e| format!("{what}: {e}"))?;
        if t.dtype() != *dtype || got.dtype() != *dtype || t.sizes() != sizes || got.sizes() != sizes {
            return Err(format!("{what}: {t:?} against {dtype} {sizes:?}"));
        }
        if !close(&values(&got), v, tolerance(*dtype).max(at_least)) {
            return Err(format!("{what}: {:?} against {v:?}", values(&got)));
        }
    }
    Ok(())
}

/// The call of a sample with these layouts.
fn with_layouts<R>(b: &BoundSample, n: usize, ins: &[Sbp], f: impl FnOnce(&Call<'_>) -> Result<R>) -> Result<R> {
    let spread: Vec<Option<Tensor>> =
        b.ins.iter().zip(ins).map(|(t, s)| t.as_ref().map(|t| shard(t, n, *s)).transpose()).collect::<Result<_>>()?;
    BoundSample { op: b.op, ins: spread, attrs: b.attrs.clone() }.with(f)
}

fn fits(b: &BoundSample, outs: &[Tensor], row: &Row, even: bool, n: i64) -> bool {
    let ok = |s: &Sbp, sizes: &[i64]| match s {
        Sbp::S(d) => sizes[*d as usize] >= n && (!even || sizes[*d as usize] % n == 0),
        _ => true,
    };
    b.ins
        .iter()
        .zip(&row.ins)
        .all(|(t, s)| t.as_ref().is_none_or(|t| ok(s, t.sizes()) && !(s.is_partial() && t.dtype() == DType::Bool)))
        && outs.iter().zip(&row.outs).all(|(t, s)| ok(s, t.sizes()))
}

/// All rows of one sample on `n` ranks; how many there were.
fn check_rows(b: &BoundSample, n: usize) -> std::result::Result<usize, String> {
    let text = |e: oneflow_base::Error| e.to_string();
    let want = reference(b).map_err(text)?;
    let mut shells = Outs::new();
    b.with(|c| (c.op.infer)(c, &mut shells)).map_err(text)?;
    let rows = b.with(|c| candidates(c, shells.tensors(), Parts::Balanced)).map_err(text)?;
    let mut tested = 0;
    for cand in rows.iter().filter(|r| fits(b, shells.tensors(), &r.row, r.even, n as i64)) {
        tested += 1;
        let what = format!("{:?} -> {:?} on {n} ranks", cand.row.ins, cand.row.outs);
        let results = in_ranks(n, || {
            let mut outs = Outs::new();
            with_layouts(b, n, &cand.row.ins, |c| run_row(c, &cand.row, &mut outs))
                .map_err(|e| format!("{what}: {e}"))?;
            compare(
                outs.tensors(),
                &want,
                if want.iter().all(|w| w.0.is_float() || w.0.is_complex()) { rounding(b) } else { 0.0 },
                &what,
            )
        });
        results?;
    }
    Ok(tested)
}

/// The op through the layer with all inputs in a layout: the result of a composition, or of the choice of rows.
fn check_layer(b: &BoundSample, n: usize) -> Check {
    let want = reference(b).map_err(|e| e.to_string())?;
    for to in [Sbp::B, Sbp::S(0), Sbp::S(1), Sbp::P_SUM] {
        let ins: Vec<Sbp> = b
            .ins
            .iter()
            .map(|t| match (t, to) {
                (Some(t), Sbp::S(d)) if t.sizes().get(d as usize).is_some_and(|z| *z >= n as i64) => to,
                (Some(t), Sbp::P(_)) if t.dtype().is_float() => to,
                _ => Sbp::B,
            })
            .collect();
        let what = format!("layer with {ins:?} on {n} ranks");
        in_ranks(n, || {
            let mut outs = Outs::new();
            with_layouts(b, n, &ins, |c| dispatch(c, &mut outs)).map_err(|e| format!("{what}: {e}"))?;
            compare(
                outs.tensors(),
                &want,
                if want.iter().all(|w| w.0.is_float() || w.0.is_complex()) { rounding(b) } else { 0.0 },
                &what,
            )
        })?;
    }
    Ok(())
}

/// Runs a check on every rank; the first complaint.
fn in_ranks(n: usize, f: impl Fn() -> Check + Sync) -> Check {
    let first = Mutex::new(None);
    let results = oneflow_comm::fake::run_ranks(n, std::time::Duration::from_secs(30), |_| {
        oneflow_core::set_thread_generator(Some(oneflow_core::Generator::new()));
        f().map_err(|e| {
            first.lock().unwrap().get_or_insert(e.clone());
            oneflow_base::Error::runtime(e)
        })
    });
    match first.into_inner().unwrap() {
        Some(e) => Err(e),
        None => results.into_iter().find_map(|r| r.err()).map_or(Ok(()), |e| Err(e.to_string())),
    }
}

fn layout_only(op: &OpDef) -> bool {
    matches!(op.kernel, Kernel::Layer(_)) || op.traits.has(Traits::COLLECTIVE) || op.traits.has(Traits::MUTATES)
}

/// Values that are not a function of the inputs.
fn undefined(op: &OpDef) -> bool {
    matches!(op.sig.name, "empty_like" | "new_empty" | "empty")
}

fn composed(op: &OpDef) -> bool {
    matches!(op.sbp.rows, Rows::Compose) || matches!(op.kernel, Kernel::None)
}

/// Bits, which change with the rounding of sums of partial values.
const BITS: [&str; 1] = ["view.dtype"];

#[test]
fn every_row_recombines_to_the_result_of_one_rank() {
    setup();
    let gap = |op: &OpDef| BITS.contains(&op.name());
    let mut failed = Vec::new();
    let (mut rows, mut ops) = (0, 0);
    for op in oneflow_core::ops().into_iter().filter(|op| !layout_only(op) && !undefined(op) && !gap(op)) {
        ops += 1;
        for (i, s) in (op.samples)().iter().enumerate() {
            let b = BoundSample::new(op, s, &mut BoundSample::fill).unwrap();
            // Creation without inputs has no layout to follow: its global form is an op of its own.
            if b.ins.iter().all(Option::is_none) {
                continue;
            }
            for n in [1, 2, 4] {
                let result = match op.shape == ShapeOf::Data || composed(op) {
                    true => check_layer(&b, n),
                    false => check_rows(&b, n).map(|k| rows += k).and_then(|()| check_layer(&b, n)),
                };
                if let Err(e) = result {
                    failed.push(format!("{} sample {i}: {e}", op.name()));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} failures:\n{}", failed.len(), failed.join("\n"));
    assert!(ops > 100 && rows > 1000, "{ops} ops, {rows} rows");
}

/// Runs the rows of a broken copy of an op and demands that one fails.
fn must_fail(op: &'static OpDef, rule: SbpRule) {
    // SAFETY: a definition is plain data without a destructor; both copies live for the whole test.
    let copy = unsafe { std::ptr::read(op) };
    let broken: &'static OpDef = Box::leak(Box::new(OpDef { sbp: rule, ..copy }));
    let found = (broken.samples)().iter().any(|s| {
        let b = BoundSample::new(broken, s, &mut BoundSample::fill).unwrap();
        check_rows(&b, 2).is_err()
    });
    assert!(found, "the planted wrong rule of {} was not found", op.name());
}

#[test]
fn planted_wrong_rules_are_found() {
    setup();
    use oneflow_ops::{elementwise, matmul, nn, reduce, view};
    // A function that is not linear, and one that only looks so when the shares are the value and zeros.
    must_fail(&elementwise::exp::OP, SbpRule::of(Rows::Elementwise { linear: const { &[InMask::of(&[In::nth(0)])] } }));
    must_fail(
        &elementwise::relu::OP,
        SbpRule::of(Rows::Elementwise { linear: const { &[InMask::of(&[In::nth(0)])] } }),
    );
    must_fail(
        &elementwise::mul::OP,
        SbpRule::of(Rows::Elementwise { linear: const { &[InMask::of(&[In::nth(0), In::nth(1)])] } }),
    );
    // A split of the normalised axis, a maximum that is summed, a contraction that forgets the sum, a view that splits inside.
    must_fail(&nn::softmax::OP, SbpRule::of(Rows::Batch { not_axes: |_| 0 }));
    must_fail(
        &reduce::amax::OP,
        SbpRule::of(Rows::Reduce { partial: Some(PKind::Sum), dims: AnyArg::nth(0), keepdim: At::nth(1) }),
    );
    must_fail(
        &matmul::matmul::OP,
        SbpRule::of(Rows::Custom(|_, rows| {
            rows.push(Row { ins: [Sbp::S(1), Sbp::S(0)].into_iter().collect(), outs: [Sbp::B].into_iter().collect() });
            Ok(())
        })),
    );
    must_fail(
        &view::view::OP,
        SbpRule {
            rows: Rows::Custom(|_, rows| {
                rows.push(Row { ins: [Sbp::S(1)].into_iter().collect(), outs: [Sbp::S(1)].into_iter().collect() });
                Ok(())
            }),
            localize: view::view::OP.sbp.localize,
        },
    );
    // A shard that is not told which rows of the table it holds.
    must_fail(&nn::embedding::OP, SbpRule::of(nn::embedding::OP.sbp.rows));
}

#[test]
fn an_op_that_only_broadcasts_says_why() {
    setup();
    for op in oneflow_core::ops().into_iter().filter(|op| !layout_only(op)) {
        if let Rows::OnlyB { why } = op.sbp.rows
            && !composed(op)
            && op.shape == ShapeOf::Inputs
        {
            assert!(!why.is_empty(), "{} offers only broadcast: give it rows, or say why", op.name());
        }
    }
}
