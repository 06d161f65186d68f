//! Pipeline stages of a step: consecutive units cut where a step of one forward for one backward takes the fewest seconds.
//!
//! A stage takes the seconds of its units and of the messages that it waits for. With `m` micro-batches a step takes those of all
//! stages once, and `m - 1` times those of the slowest one, which also updates its parameters last:
//! `sum(t) + max((m - 1) t + update)`. Stage `s` of `n` keeps what `min(m, n - s)` micro-batches save for their backward.
//! For each bound of the maximum a dynamic program over the units finds the least sum (as Zheng et al., Alpa, OSDI 2022).

use crate::units::Units;

/// What is known of a pipeline beside its units.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    pub n_stages: usize,
    pub micro_batches: u32,
    /// Of messages between stages: seconds before the first byte arrives, and bytes a second.
    pub latency: f64,
    pub bandwidth: f64,
    /// Bytes that a rank may hold.
    pub memory: f64,
}

/// Where a step is cut, and what its stages cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageCut {
    /// The first unit of each stage.
    pub starts: Vec<usize>,
    /// Of each stage: the seconds of one micro-batch, of them those of messages, of the update, and the bytes at its peak.
    pub seconds: Vec<f64>,
    pub messages: Vec<f64>,
    pub updates: Vec<f64>,
    pub peaks: Vec<f64>,
    /// For schedules other than one forward for one backward, of each stage: the seconds of a forward, of a backward of inputs
    /// and of one of parameters, with the messages that each waits for; bytes that it always holds, and those of one micro-batch
    /// until its backward, and from there to that of parameters.
    pub halves: Vec<[f64; 3]>,
    pub held: Vec<[f64; 3]>,
    /// Of a step.
    pub total: f64,
}

/// The cut with the shortest step whose stages fit in the memory. If there is none, that with the smallest peak; `None` where
/// units that belong together leave no cut.
pub fn cut_stages(units: &Units, of: &Pipeline) -> Option<StageCut> {
    let n = units.units.len();
    if of.n_stages == 0 || of.n_stages > n {
        return None;
    }
    let spans = Spans::of(units, of);
    let least = spans.least_peak(of)?;
    let limit = if least > of.memory { least } else { of.memory };
    let mut bounds: Vec<f64> = spans.all().map(|(i, j)| spans.at(i, j).bottleneck).collect();
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    // The smallest bound that some cut keeps.
    let first = bounds.partition_point(|b| spans.least_sum(of, limit, *b).is_none());
    let whole: f64 = units.units.iter().map(|u| u.forward + u.backward).sum();
    let mut best: Option<StageCut> = None;
    for bound in &bounds[first..] {
        if best.as_ref().is_some_and(|b| whole + bound >= b.total) {
            break;
        }
        let Some(starts) = spans.least_sum(of, limit, *bound) else { continue };
        let found = spans.priced(starts, of);
        if best.as_ref().is_none_or(|b| found.total < b.total) {
            best = Some(found);
        }
    }
    best
}

/// What the cut at these units costs; `None` where it separates what belongs together.
pub fn price_stages(units: &Units, of: &Pipeline, starts: &[usize]) -> Option<StageCut> {
    let n = units.units.len();
    let rises = starts.windows(2).all(|w| w[0] < w[1]);
    if starts.len() != of.n_stages || starts.first() != Some(&0) || !rises || starts.iter().any(|s| *s >= n) {
        return None;
    }
    let spans = Spans::of(units, of);
    let ends = starts.iter().skip(1).chain([&n]);
    let whole = starts.iter().zip(ends).all(|(i, end)| spans.at(*i, end - 1).is_whole);
    whole.then(|| spans.priced(starts.to_vec(), of))
}

/// The costs of a stage of consecutive units.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Nothing in it belongs together with what is outside.
    is_whole: bool,
    seconds: f64,
    messages: f64,
    /// The seconds of a forward, of a backward of inputs and of one of parameters.
    halves: [f64; 3],
    update: f64,
    /// `(m - 1) t + update`.
    bottleneck: f64,
    fixed: f64,
    saved: f64,
    between: f64,
}

struct Spans {
    n: usize,
    table: Vec<Span>,
}

impl Spans {
    fn of(units: &Units, of: &Pipeline) -> Spans {
        let n = units.units.len();
        let mut table = vec![Span::default(); n * n];
        for i in 0..n {
            for j in i..n {
                table[i * n + j] = span(units, of, i, j);
            }
        }
        Spans { n, table }
    }

    fn at(&self, i: usize, j: usize) -> &Span {
        &self.table[i * self.n + j]
    }

    /// First and last units of all stages that could be.
    fn all(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.n).flat_map(move |i| (i..self.n).map(move |j| (i, j))).filter(|(i, j)| self.at(*i, *j).is_whole)
    }

    fn peak(&self, i: usize, j: usize, stage: usize, of: &Pipeline) -> f64 {
        let span = self.at(i, j);
        let under_way = (of.n_stages - stage).min(of.micro_batches as usize) as f64;
        span.fixed + under_way * span.saved
    }

    /// The starts of stages with the least sum of seconds, none with a larger peak or bottleneck.
    fn least_sum(&self, of: &Pipeline, memory: f64, bound: f64) -> Option<Vec<usize>> {
        self.least(of, 0.0, |i, j, stage, before| {
            let span = self.at(i, j);
            let fits = span.bottleneck <= bound && self.peak(i, j, stage, of) <= memory;
            fits.then_some(before + span.seconds)
        })
        .map(|(starts, _)| starts)
    }

    /// The smallest peak of the fullest stage.
    fn least_peak(&self, of: &Pipeline) -> Option<f64> {
        self.least(of, 0.0, |i, j, stage, before| Some(self.peak(i, j, stage, of).max(before))).map(|(_, peak)| peak)
    }

    /// The starts with the least cost, which `next` gives for one stage more.
    fn least(
        &self,
        of: &Pipeline,
        zero: f64,
        next: impl Fn(usize, usize, usize, f64) -> Option<f64>,
    ) -> Option<(Vec<usize>, f64)> {
        // By stage and the unit behind its last: the cost, and its first unit.
        let mut known: Vec<Vec<Option<(f64, usize)>>> = vec![vec![None; self.n + 1]; of.n_stages + 1];
        known[0][0] = Some((zero, 0));
        for stage in 0..of.n_stages {
            for i in stage..self.n {
                let Some((before, _)) = known[stage][i] else { continue };
                for j in (i..self.n).filter(|j| self.at(i, *j).is_whole) {
                    let Some(cost) = next(i, j, stage, before) else { continue };
                    if known[stage + 1][j + 1].is_none_or(|(best, _)| cost < best) {
                        known[stage + 1][j + 1] = Some((cost, i));
                    }
                }
            }
        }
        let (cost, _) = known[of.n_stages][self.n]?;
        let (mut end, mut starts) = (self.n, Vec::with_capacity(of.n_stages));
        for stage in (0..of.n_stages).rev() {
            let (_, start) = known[stage + 1][end]?;
            starts.push(start);
            end = start;
        }
        starts.reverse();
        Some((starts, cost))
    }

    fn priced(&self, starts: Vec<usize>, of: &Pipeline) -> StageCut {
        let ends: Vec<usize> = starts.iter().skip(1).copied().chain([self.n]).collect();
        let spans: Vec<&Span> = starts.iter().zip(&ends).map(|(i, end)| self.at(*i, end - 1)).collect();
        let sum: f64 = spans.iter().map(|s| s.seconds).sum();
        let most = spans.iter().map(|s| s.bottleneck).fold(0.0, f64::max);
        let peak = |(stage, i): (usize, &usize)| self.peak(*i, ends[stage] - 1, stage, of);
        StageCut {
            seconds: spans.iter().map(|s| s.seconds).collect(),
            messages: spans.iter().map(|s| s.messages).collect(),
            updates: spans.iter().map(|s| s.update).collect(),
            peaks: starts.iter().enumerate().map(peak).collect(),
            halves: spans.iter().map(|s| s.halves).collect(),
            held: spans.iter().map(|s| [s.fixed, s.saved, s.between]).collect(),
            total: sum + most,
            starts,
        }
    }
}

fn span(units: &Units, of: &Pipeline, i: usize, j: usize) -> Span {
    let inside = |u: usize| (i..=j).contains(&u);
    let own = &units.units[i..=j];
    let (mut arriving, mut returning, mut received) = (0.0, 0.0, 0.0);
    // A value goes to a stage once, however many of its units read it.
    let mut seen: Vec<(usize, f64)> = Vec::new();
    for f in &units.flows {
        let seconds = of.latency + f.bytes / of.bandwidth;
        if inside(f.to) && !inside(f.from) && !seen.contains(&(f.from, f.bytes)) {
            seen.push((f.from, f.bytes));
            arriving += seconds;
            received += f.bytes;
        }
        if inside(f.from) && !inside(f.to) && f.returns {
            returning += seconds;
        }
    }
    let sum = |f: fn(&crate::units::Unit) -> f64| own.iter().map(f).sum::<f64>();
    let messages = arriving + returning;
    let seconds = sum(|u| u.forward + u.backward) + messages;
    let halves = [sum(|u| u.forward) + arriving, sum(|u| u.backward - u.weights) + returning, sum(|u| u.weights)];
    let update = sum(|u| u.update);
    let working = own.iter().map(|u| u.working).fold(0.0, f64::max);
    Span {
        is_whole: units.together.iter().all(|(a, b)| inside(*a) == inside(*b)),
        seconds,
        messages,
        halves,
        update,
        bottleneck: f64::from(of.micro_batches - 1) * seconds + update,
        fixed: sum(|u| u.fixed + u.gradients) + working,
        saved: sum(|u| u.saved) + received,
        between: sum(|u| u.between),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Flow, Unit};
    use oneflow_testing::Draw;

    fn random(d: &mut Draw) -> (Units, Pipeline) {
        let n = 2 + d.below(6);
        let mut units = Units::default();
        for _ in 0..n {
            let mut number = |most: usize| d.below(most) as f64;
            let (forward, backward, update) = (1.0 + number(9), number(20), number(30));
            let (fixed, gradients, saved, working) = (number(50), number(20), number(20), number(10));
            let weights = backward / 2.0;
            units.units.push(Unit {
                forward,
                backward,
                weights,
                update,
                fixed,
                gradients,
                saved,
                working,
                between: saved,
            });
        }
        for to in 1..n {
            units.flows.push(Flow { from: to - 1, to, bytes: 1.0 + d.below(30) as f64, returns: d.below(4) > 0 });
            if d.below(4) == 0 {
                units.flows.push(Flow { from: d.below(to), to, bytes: 40.0 + to as f64, returns: true });
            }
        }
        if d.below(3) == 0 {
            let a = d.below(n);
            units.together.push((a, a + d.below(n - a)));
        }
        let of = Pipeline {
            n_stages: 1 + d.below(4),
            micro_batches: 1 + d.below(8) as u32,
            latency: 0.5,
            bandwidth: 10.0,
            memory: [100.0, 200.0, 1e9][d.below(3)],
        };
        (units, of)
    }

    fn all_cuts(n: usize, n_stages: usize) -> Vec<Vec<usize>> {
        let marked = |mask: u32| (1..n).filter(move |u| mask >> (u - 1) & 1 == 1);
        let cuts = (0..1u32 << (n - 1)).map(|mask| [0].into_iter().chain(marked(mask)).collect::<Vec<_>>());
        cuts.filter(|c| c.len() == n_stages).collect()
    }

    #[test]
    fn as_good_as_every_cut() {
        let mut d = Draw(3);
        let (mut fitting, mut tight) = (0, 0);
        for _ in 0..400 {
            let (units, of) = random(&mut d);
            let every = all_cuts(units.units.len(), of.n_stages);
            let priced: Vec<_> = every.iter().filter_map(|c| price_stages(&units, &of, c)).collect();
            let peak = |c: &StageCut| c.peaks.iter().copied().fold(0.0, f64::max);
            let found = cut_stages(&units, &of);
            assert_eq!(found.is_none(), priced.is_empty());
            let Some(found) = found else { continue };
            let fits: Vec<_> = priced.iter().filter(|c| peak(c) <= of.memory).collect();
            if fits.is_empty() {
                let least = priced.iter().map(peak).fold(f64::INFINITY, f64::min);
                assert_eq!(peak(&found), least);
                tight += 1;
            } else {
                let best = fits.iter().map(|c| c.total).fold(f64::INFINITY, f64::min);
                assert!(peak(&found) <= of.memory && found.total <= best + 1e-9, "{found:?} {best}");
                fitting += 1;
            }
        }
        assert!(fitting > 50 && tight > 50, "{fitting} {tight}");
    }
}
