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
    let mut factors: Vec<Option<Factor>> = factors.into_iter().map(Some).collect();
    let product = |vars: &BTreeSet<usize>| vars.iter().map(|w| sizes[*w]).fold(1usize, usize::saturating_mul);
    let mut left: BTreeSet<usize> = range.clone().collect();
    let mut done: Vec<(usize, Vec<usize>, Vec<u32>)> = Vec::new();
    while let Some(v) = left.iter().copied().min_by_key(|v| product(&neighbours[*v])) {
        let entries = product(&neighbours[v]);
        if entries.saturating_mul(sizes[v]) > TABLE {
            return None;
        }
        let scope: Vec<usize> = neighbours[v].iter().copied().collect();
        let own: Vec<Factor> = of[v].iter().filter_map(|i| factors[*i].take()).collect();
        let (table, best) = minimise(v, &scope, sizes, &own, entries);
        left.remove(&v);
        for w in &scope {
            neighbours[*w].remove(&v);
            neighbours[*w].extend(scope.iter().filter(|x| *x != w));
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

/// The least cost of all factors over the options of `v`, for all options of `scope`; and the options that have it.
fn minimise(v: usize, scope: &[usize], sizes: &[usize], own: &[Factor], entries: usize) -> (Vec<f64>, Vec<u32>) {
    // For each factor the step of its index with each variable of the scope, and with `v`.
    let steps: Vec<(Vec<usize>, usize)> = own
        .iter()
        .map(|f| {
            let step = |w: usize| {
                let place = f.vars.iter().position(|x| *x == w);
                place.map_or(0, |p| f.vars[p + 1..].iter().map(|x| sizes[*x]).product())
            };
            (scope.iter().map(|w| step(*w)).collect(), step(v))
        })
        .collect();
    let (mut table, mut best) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    let mut at = vec![0usize; scope.len()];
    for _ in 0..entries {
        let bases: Vec<usize> = steps.iter().map(|(s, _)| s.iter().zip(&at).map(|(s, i)| s * i).sum()).collect();
        let sum = |i: usize| -> f64 {
            own.iter().zip(&steps).zip(&bases).map(|((f, (_, step)), base)| f.table[base + i * step]).sum()
        };
        let mut least = (f64::INFINITY, 0u32);
        for i in 0..sizes[v] {
            let cost = sum(i);
            if cost < least.0 {
                least = (cost, i as u32);
            }
        }
        table.push(least.0);
        best.push(least.1);
        for k in (0..scope.len()).rev() {
            at[k] += 1;
            if at[k] < sizes[scope[k]] {
                break;
            }
            at[k] = 0;
        }
    }
    (table, best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator: the same numbers in every run.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }
    }

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
