//! What Python asked of sizes in each of the traces, as guards of one program.

use super::solve::Solver;
use super::{Number64, Points};
use oneflow_base::{Error, Result};
use oneflow_runtime::{Asked, Formula, Guard, Polynomial, Term};
use std::collections::HashSet;

/// A question that a trace of the user's program answered: which, of what numbers, the answer, and the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub asked: Asked,
    pub a: i64,
    pub b: i64,
    pub answer: i64,
    pub place: String,
}

/// The guards of the traces at `points`: one for each question that the named dimensions do not settle by their ranges.
/// `known`: numbers of the traces that help to solve those that were asked about (strides are products of sizes).
///
/// # Errors
/// ValueError: the traces asked other questions, or got other answers; a number does not follow from the dimensions.
pub fn guards_of(traced: &[Vec<Decision>], points: &Points, known: &[Vec<i64>]) -> Result<Vec<Guard>> {
    let Some((first, rest)) = traced.split_first() else { return Ok(Vec::new()) };
    for (other, at) in rest.iter().zip(points.sizes.iter().skip(1)) {
        let differ = first.iter().zip(other).find(|(x, y)| (x.asked, x.answer) != (y.asked, y.answer));
        let place = match differ {
            Some((x, _)) => &x.place,
            None if first.len() == other.len() => continue,
            None => first.get(other.len()).or(other.get(first.len())).map_or(&first[0].place, |d| &d.place),
        };
        return Err(Error::value(format!("with {}: Python decides otherwise by a size at {place}", points.shown(at))));
    }
    let numbers = |d: &Decision| [Number64::Int(d.a), Number64::Int(d.b)];
    let columns: Vec<Vec<Number64>> = traced.iter().map(|t| t.iter().flat_map(numbers).collect()).collect();
    let mut solver = Solver::new(points);
    for k in 0..known.iter().map(Vec::len).min().unwrap_or(0) {
        // Some of them do not follow, which is no concern of guards.
        let column: Vec<Vec<Number64>> = known.iter().map(|n| vec![Number64::Int(n[k])]).collect();
        let _ = solver.solve(&column);
    }
    let formulas = solver.solve(&columns).map_err(|k| {
        let seen: Vec<String> =
            columns.iter().zip(&points.sizes).map(|(c, at)| format!("{} with {}", c[k], points.shown(at))).collect();
        let (place, seen) = (&first[k / 2].place, seen.join(", "));
        Error::value(format!(
            "a size that Python decides by at {place} does not follow from the named dimensions: {seen}"
        ))
    })?;
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for (d, pair) in first.iter().zip(formulas.chunks(2)) {
        let polynomial = |k: usize, constant: i64| match pair.get(k) {
            Some(Some(Formula::Value(p))) => p.clone(),
            _ => Polynomial { terms: vec![Term { factor: constant, dims: Vec::new() }], denominator: 1 },
        };
        let guard = Guard {
            asked: d.asked,
            a: polynomial(0, d.a),
            b: polynomial(1, d.b),
            answer: d.answer,
            place: d.place.clone(),
        };
        let question = (guard.asked as u8, guard.a.clone(), guard.b.clone());
        if !guard.is_certain(&points.dims) && seen.insert(question) {
            out.push(guard);
        }
    }
    Ok(out)
}
