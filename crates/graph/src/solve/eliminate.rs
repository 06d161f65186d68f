//! The least sum of costs that depend on few variables each, exactly: one variable after another is eliminated.
//!
//! All costs of a variable become one cost of its neighbours: for each of their options the least over its own. The variable
//! whose table is smallest comes first. Knows no graph and no layout.

use std::collections::BTreeSet;
use std::ops::Range;

/// The entries that a table may have.
const TABLE: usize = 1 << 18;

/// A cost of the options of some variables; entries of the last one's options are next to each other.
pub struct Factor {
    pub vars: Vec<usize>,
    pub table: Vec<f64>,
}

/// The options of the variables of a range with the least sum of factors, which are of them alone; `sizes` are the numbers of
/// options of all variables. `None` where a table would be too large.
pub fn least(sizes: &[usize], factors: Vec<Factor>, range: Range<usize>) -> Option<Vec<usize>> {
    let mut neighbours: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); sizes.len()];
    let mut of: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); sizes.len()];
    for (i, f) in factors.iter().enumerate() {
        for v in &f.vars {
            neighbours[*v].extend(f.vars.iter().filter(|w| *w != v));
            of[*v].insert(i);
        }
    }
    // Sizes alone say whether a table would be too large, and in which order variables go.
    let order = order(sizes, neighbours, range.clone())?;
    let mut factors: Vec<Option<Factor>> = factors.into_iter().map(Some).collect();
    let mut done: Vec<(usize, Vec<usize>, Vec<u32>)> = Vec::new();
    for (v, scope) in order {
        let own: Vec<Factor> = of[v].iter().filter_map(|i| factors[*i].take()).collect();
        let (table, best) = minimise(v, &scope, sizes, &own);
        for w in &scope {
            of[*w].retain(|i| factors[*i].is_some());
            of[*w].insert(factors.len());
        }
        factors.push(Some(Factor { vars: scope.clone(), table }));
        done.push((v, scope, best));
    }
    let mut at = vec![0; sizes.len()];
    for (v, scope, best) in done.iter().rev() {
        let index = scope.iter().fold(0, |i, w| i * sizes[*w] + at[*w]);
        at[*v] = best[index] as usize;
    }
    Some(at[range].to_vec())
}

/// The order in which variables are eliminated, that with the smallest table first, each with its neighbours then.
fn order(
    sizes: &[usize],
    mut neighbours: Vec<BTreeSet<usize>>,
    range: Range<usize>,
) -> Option<Vec<(usize, Vec<usize>)>> {
    let product = |vars: &BTreeSet<usize>| vars.iter().map(|w| sizes[*w]).fold(1usize, usize::saturating_mul);
    let mut entries: Vec<usize> = neighbours.iter().map(product).collect();
    let mut left: Vec<usize> = range.collect();
    let mut order = Vec::with_capacity(left.len());
    while let Some(at) = (0..left.len()).min_by_key(|at| (entries[left[*at]], left[*at])) {
        let v = left.swap_remove(at);
        if entries[v].saturating_mul(sizes[v]) > TABLE {
            return None;
        }
        let scope: Vec<usize> = std::mem::take(&mut neighbours[v]).into_iter().collect();
        for w in &scope {
            neighbours[*w].remove(&v);
            neighbours[*w].extend(scope.iter().filter(|x| *x != w));
            entries[*w] = product(&neighbours[*w]);
        }
        order.push((v, scope));
    }
    Some(order)
}

/// The least cost of all factors over the options of `v`, for all options of `scope`; and the options that have it.
fn minimise(v: usize, scope: &[usize], sizes: &[usize], own: &[Factor]) -> (Vec<f64>, Vec<u32>) {
    // For each factor the step of its index with each variable of the scope, and with `v`.
    let step = |f: &Factor, w: usize| {
        let place = f.vars.iter().position(|x| *x == w);
        place.map_or(0, |p| f.vars[p + 1..].iter().map(|x| sizes[*x]).product())
    };
    let steps: Vec<Vec<usize>> = own.iter().map(|f| scope.iter().map(|w| step(f, *w)).collect()).collect();
    let inner: Vec<usize> = own.iter().map(|f| step(f, v)).collect();
    let entries = scope.iter().map(|w| sizes[*w]).product();
    let (mut table, mut best) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    let mut at = vec![0usize; scope.len()];
    // Where each factor's table is read, for the first option of `v`.
    let mut bases = vec![0usize; own.len()];
    let mut costs = vec![0.0; sizes[v]];
    for _ in 0..entries {
        costs.fill(0.0);
        for ((f, step), base) in own.iter().zip(&inner).zip(&bases) {
            add(&mut costs, &f.table[*base..], *step);
        }
        let mut least = (f64::INFINITY, 0u32);
        for (i, cost) in costs.iter().enumerate() {
            if *cost < least.0 {
                least = (*cost, i as u32);
            }
        }
        table.push(least.0);
        best.push(least.1);
        for k in (0..scope.len()).rev() {
            at[k] += 1;
            let turns = at[k] == sizes[scope[k]];
            for (base, steps) in bases.iter_mut().zip(&steps) {
                *base = if turns { *base - (at[k] - 1) * steps[k] } else { *base + steps[k] };
            }
            if !turns {
                break;
            }
            at[k] = 0;
        }
    }
    (table, best)
}

/// Adds every `step`-th entry of a table; step 0 adds the first one to all.
fn add(costs: &mut [f64], table: &[f64], step: usize) {
    match step {
        0 => costs.iter_mut().for_each(|c| *c += table[0]),
        1 => costs.iter_mut().zip(table).for_each(|(c, t)| *c += t),
        _ => costs.iter_mut().zip(table.iter().step_by(step)).for_each(|(c, t)| *c += t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflow_testing::Draw;

    #[test]
    fn as_good_as_brute_force() {
        let mut draw = Draw(1);
        for _ in 0..200 {
            let n = 2 + draw.below(5);
            let sizes: Vec<usize> = (0..n).map(|_| 1 + draw.below(4)).collect();
            let mut factors = Vec::new();
            for _ in 0..2 * n {
                let (a, b) = (draw.below(n), draw.below(n));
                let vars = if a == b { vec![a] } else { vec![a, b] };
                let entries = vars.iter().map(|v| sizes[*v]).product::<usize>();
                factors.push(Factor { vars, table: (0..entries).map(|_| draw.below(100) as f64).collect() });
            }
            let cost = |at: &[usize]| -> f64 {
                let entry = |f: &Factor| f.table[f.vars.iter().fold(0, |i, v| i * sizes[*v] + at[*v])];
                factors.iter().map(entry).sum()
            };
            let all: usize = sizes.iter().product();
            let option = |k: usize| -> Vec<usize> {
                let mut k = k;
                sizes.iter().map(|s| (k % s, k /= s).0).collect()
            };
            let best = (0..all).map(|k| cost(&option(k))).fold(f64::INFINITY, f64::min);
            let copies = factors.iter().map(|f| Factor { vars: f.vars.clone(), table: f.table.clone() }).collect();
            let found = least(&sizes, copies, 0..n).unwrap();
            assert_eq!(cost(&found), best);
        }
    }

    #[test]
    fn tables_that_are_too_large_are_refused() {
        // Every pair of ten variables of eight options: the first table would have eight to the tenth entries.
        let sizes = vec![8; 10];
        let pairs = (0..10).flat_map(|a| (a + 1..10).map(move |b| vec![a, b]));
        let factors = pairs.map(|vars| Factor { vars, table: vec![0.0; 64] }).collect();
        assert!(least(&sizes, factors, 0..10).is_none());
    }
}
