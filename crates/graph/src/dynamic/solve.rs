//! Numbers as polynomials of named dimensions, from their values at several sizes.
//!
//! A number is a constant, a sum of products of at most two different dimensions, or such a sum times another number that is
//! known already: strides are products of sizes. What fits the first points must fit those that confirm.

use super::{Number64, Points};
use oneflow_base::Result;
use oneflow_runtime::{Formula, Polynomial, Term};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Finds formulas; what it has found makes others possible.
pub struct Solver<'a> {
    points: Cow<'a, Points>,
    /// Polynomials by the values that they take at the points; the simplest first.
    known: Vec<(Vec<i64>, Polynomial)>,
    place: HashMap<Vec<i64>, usize>,
}

/// The value of a formula at sizes, as a number of the kind of another.
pub(super) fn value(f: &Formula, sizes: &[i64], like: &Number64) -> Result<Number64> {
    Ok(match (f, like) {
        (Formula::Value(p), Number64::Int(_)) => Number64::Int(p.at(sizes)?),
        (Formula::Value(p), Number64::Float(_)) => Number64::Float(p.at(sizes)? as f64),
        (Formula::Quotient(c, p), _) => Number64::Float(c / p.at(sizes)? as f64),
    })
}

impl<'a> Solver<'a> {
    pub fn new(points: &'a Points) -> Solver<'a> {
        Solver { points: Cow::Borrowed(points), known: Vec::new(), place: HashMap::new() }
    }

    pub fn owning(points: Points) -> Solver<'static> {
        Solver { points: Cow::Owned(points), known: Vec::new(), place: HashMap::new() }
    }

    /// For each number its formula, or nothing where it is the same at all points. `columns`: the numbers, by point. What
    /// cannot be solved is given back by its place.
    pub fn solve(&mut self, columns: &[Vec<Number64>]) -> Result<Vec<Option<Formula>>, usize> {
        let n = columns.first().map_or(0, Vec::len);
        let mut out: Vec<Option<Formula>> = vec![None; n];
        let mut open: Vec<usize> = Vec::new();
        for k in 0..n {
            let first = columns[0][k];
            if columns.iter().all(|c| c.get(k).is_some_and(|x| x.is(&first))) {
                continue;
            }
            match self.simple(columns, k) {
                Some(f) => out[k] = Some(f),
                None => open.push(k),
            }
        }
        // Products of what is known by now; those found make others possible.
        while !open.is_empty() {
            let before = open.len();
            open.retain(|k| match self.product(columns, *k) {
                Some(f) => {
                    out[*k] = Some(f);
                    false
                }
                None => true,
            });
            if open.len() == before {
                return Err(open[0]);
            }
        }
        Ok(out)
    }

    fn simple(&mut self, columns: &[Vec<Number64>], k: usize) -> Option<Formula> {
        let ints = whole(columns, k)?;
        if let Some(values) = ints {
            return self.polynomial(&values).map(Formula::Value);
        }
        // A mean divides by a count.
        let floats = floats(columns, k)?;
        for c in [1.0, 2.0, -1.0, -2.0, 0.5, -0.5] {
            if let Some(p) = denominators(&floats, c).and_then(|v| self.polynomial(&v)) {
                return Some(Formula::Quotient(c, p));
            }
        }
        None
    }

    fn product(&mut self, columns: &[Vec<Number64>], k: usize) -> Option<Formula> {
        if let Some(values) = whole(columns, k)? {
            return self.times_known(&values).map(Formula::Value);
        }
        let floats = floats(columns, k)?;
        for c in [1.0, 2.0, -1.0, -2.0, 0.5, -0.5] {
            if let Some(p) = denominators(&floats, c).and_then(|v| self.times_known(&v)) {
                return Some(Formula::Quotient(c, p));
            }
        }
        None
    }

    fn remember(&mut self, values: &[i64], p: &Polynomial) {
        if !self.place.contains_key(values) {
            self.place.insert(values.to_vec(), self.known.len());
            self.known.push((values.to_vec(), p.clone()));
        }
    }

    fn polynomial(&mut self, values: &[i64]) -> Option<Polynomial> {
        if let Some(at) = self.place.get(values) {
            return Some(self.known[*at].1.clone());
        }
        let p = self.fitted(values)?;
        self.remember(values, &p);
        Some(p)
    }

    /// A known number times one that fits by itself.
    fn times_known(&mut self, values: &[i64]) -> Option<Polynomial> {
        if let Some(at) = self.place.get(values) {
            return Some(self.known[*at].1.clone());
        }
        for (of, factor) in &self.known {
            let quotient: Option<Vec<i64>> =
                values.iter().zip(of).map(|(v, f)| (*f != 0 && v % f == 0).then(|| v / f)).collect();
            let Some(p) = quotient.and_then(|q| self.fitted(&q)).and_then(|q| multiplied(&q, factor)) else { continue };
            self.remember(values, &p);
            return Some(p);
        }
        None
    }

    /// The sum of products of at most two different dimensions that takes these values, if there is one.
    fn fitted(&self, values: &[i64]) -> Option<Polynomial> {
        let at = &self.points.sizes;
        let n = self.points.dims.len();
        if values.iter().all(|v| *v == values[0]) {
            let terms = vec![Term { factor: values[0], dims: Vec::new() }];
            return Some(Polynomial { terms, denominator: 1 });
        }
        // Differences over steps, as fractions over one denominator: the product of all steps.
        let base: Vec<i128> = at[0].iter().map(|s| (*s).into()).collect();
        let steps: Vec<i128> = (0..n).map(|d| i128::from(at[1 + d][d]) - base[d]).collect();
        let common: i128 = steps.iter().try_fold(1i128, |c, s| c.checked_mul(*s))?;
        if common == 0 {
            return None;
        }
        let v = |k: usize| i128::from(values[k]);
        let mut terms: BTreeMap<Vec<u8>, i128> = BTreeMap::new();
        let slopes: Vec<i128> =
            (0..n).map(|d| (v(1 + d) - v(0)).checked_mul(common / steps[d])).collect::<Option<_>>()?;
        let mut constant = v(0).checked_mul(common)?;
        for d in 0..n {
            terms.insert(vec![d as u8], slopes[d]);
            constant = constant.checked_sub(slopes[d].checked_mul(base[d])?)?;
        }
        let mut k = 1 + n;
        for a in 0..n {
            for b in a + 1..n {
                let mixed = v(k) - v(1 + a) - v(1 + b) + v(0);
                k += 1;
                let mixed = mixed.checked_mul(common / steps[a] / steps[b])?;
                if mixed == 0 {
                    continue;
                }
                terms.insert(vec![a as u8, b as u8], mixed);
                *terms.entry(vec![a as u8]).or_default() -= mixed.checked_mul(base[b])?;
                *terms.entry(vec![b as u8]).or_default() -= mixed.checked_mul(base[a])?;
                constant = constant.checked_add(mixed.checked_mul(base[a])?.checked_mul(base[b])?)?;
            }
        }
        terms.insert(Vec::new(), constant);
        let p = reduced(terms, common)?;
        let fits = at.iter().zip(values).all(|(sizes, v)| p.at(sizes).is_ok_and(|x| x == *v));
        fits.then_some(p)
    }
}

/// The numbers of a column as integers: of floats where all are whole. `None` where the kinds differ.
fn whole(columns: &[Vec<Number64>], k: usize) -> Option<Option<Vec<i64>>> {
    let mut out = Vec::with_capacity(columns.len());
    for c in columns {
        match c.get(k)? {
            Number64::Int(n) => out.push(*n),
            Number64::Float(f) if f.fract() == 0.0 && f.abs() < 1e15 => out.push(*f as i64),
            Number64::Float(_) => return Some(None),
        }
    }
    Some(Some(out))
}

fn floats(columns: &[Vec<Number64>], k: usize) -> Option<Vec<f64>> {
    let float = |c: &Vec<Number64>| match c.get(k)? {
        Number64::Float(f) => Some(*f),
        Number64::Int(_) => None,
    };
    columns.iter().map(float).collect()
}

/// The whole numbers by which a constant is divided to give these, bit for bit.
fn denominators(values: &[f64], c: f64) -> Option<Vec<i64>> {
    let one = |v: &f64| {
        let n = (c / v).round();
        (n.is_finite() && n.abs() < 1e15 && n != 0.0 && (c / n).to_bits() == v.to_bits()).then_some(n as i64)
    };
    values.iter().map(one).collect()
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

fn reduced(terms: BTreeMap<Vec<u8>, i128>, denominator: i128) -> Option<Polynomial> {
    let by = terms.values().fold(denominator, |g, f| gcd(g, *f)).max(1) * denominator.signum();
    let term = |(dims, f): (Vec<u8>, i128)| Some(Term { factor: i64::try_from(f / by).ok()?, dims });
    let terms = terms.into_iter().filter(|t| t.1 != 0).rev().map(term).collect::<Option<_>>()?;
    Some(Polynomial { terms, denominator: i64::try_from(denominator / by).ok()? })
}

fn multiplied(a: &Polynomial, b: &Polynomial) -> Option<Polynomial> {
    let mut terms: BTreeMap<Vec<u8>, i128> = BTreeMap::new();
    for x in &a.terms {
        for y in &b.terms {
            let mut dims = [x.dims.as_slice(), y.dims.as_slice()].concat();
            dims.sort_unstable();
            let product = i128::from(x.factor).checked_mul(y.factor.into())?;
            let sum = terms.entry(dims).or_default();
            *sum = sum.checked_add(product)?;
        }
    }
    reduced(terms, i128::from(a.denominator).checked_mul(b.denominator.into())?)
}
