//! Pipeline stages of a step: consecutive units cut where a step of one forward for one backward takes the fewest seconds.
//!
//! A stage takes the seconds of its units and of the messages that it waits for. With `m` micro-batches a step takes those of all
//! stages once, and `m - 1` times those of the slowest one, which also updates its parameters last:
//! `sum(t) + max((m - 1) t + update)`. Stage `s` of `n` keeps what `min(m, n - s)` micro-batches save for their backward.
//! For each bound of the maximum a dynamic program over the units finds the least sum (as Zheng et al., Alpa, OSDI 2022).
//!
//! Where a rank has several stages (`Shape`), the same program cuts as many as there are in all: a rank then works `v (m - 1)` times
//! as long as its slowest stage at most, and a stage may take a `v`th of the memory. What such a cut takes and holds under its
//! schedule is timed by the schedule's table (`auto_parallel/_schedules.py`), for which `priced` gives the costs of each stage
//! exactly: between stages of one rank nothing is sent.

use crate::units::Units;

/// Which rank of a pipeline has a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// In turns: stage `s` is on rank `s % n_ranks`, with one stage a rank or several.
    Loop,
    /// Down and up again: rank `r` has the stages `r` and `2 n_ranks - 1 - r`.
    V,
}

/// What is known of a pipeline beside its units.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    pub n_stages: usize,
    pub n_ranks: usize,
    pub shape: Shape,
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
    /// Of each stage: the seconds of one micro-batch, of them those of messages, of the update, of it those of reductions, and the
    /// bytes at its peak.
    pub seconds: Vec<f64>,
    pub messages: Vec<f64>,
    pub updates: Vec<f64>,
    pub reductions: Vec<f64>,
    pub peaks: Vec<f64>,
    /// For schedules other than one forward for one backward, of each stage: the seconds of a forward, of a backward of inputs
    /// and of one of parameters, with the messages that each waits for; bytes that it always holds, those of one micro-batch
    /// until its backward, those from there to that of parameters, and the most that is alive beside them while it works.
    pub halves: Vec<[f64; 3]>,
    pub held: Vec<[f64; 4]>,
    /// Of a step.
    pub total: f64,
}

impl Pipeline {
    /// The rank of a stage.
    fn rank(&self, stage: usize) -> usize {
        match self.shape {
            Shape::Loop => stage % self.n_ranks,
            Shape::V if stage < self.n_ranks => stage,
            Shape::V => 2 * self.n_ranks - 1 - stage,
        }
    }

    fn stages_per_rank(&self) -> usize {
        self.n_stages / self.n_ranks.max(1)
    }

    /// Micro-batches of which a stage holds what they save, at most: those behind it work on as many before theirs come back.
    fn under_way(&self, stage: usize) -> f64 {
        let ahead = if self.stages_per_rank() > 1 { self.n_ranks } else { self.n_stages - stage };
        ahead.min(self.micro_batches as usize) as f64
    }

    /// Bytes that a stage may hold.
    fn memory_of_stage(&self) -> f64 {
        self.memory / self.stages_per_rank().max(1) as f64
    }
}

/// The cut with the shortest step whose stages fit in the memory. If there is none, that with the smallest peak; `None` where
/// units that belong together leave no cut.
pub fn cut_stages(units: &Units, of: &Pipeline) -> Option<StageCut> {
    let n = units.units.len();
    let fits = |shape| shape == Shape::Loop || of.n_stages == 2 * of.n_ranks;
    if of.n_stages == 0 || of.n_stages > n || !of.n_stages.is_multiple_of(of.n_ranks.max(1)) || !fits(of.shape) {
        return None;
    }
    let spans = Spans::of(units, of);
    let least = spans.least_peak(of)?;
    let limit = least.max(of.memory_of_stage());
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
        let found = priced(units, starts, of);
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
    let ends = starts.iter().skip(1).chain([&n]);
    let inside = |i: usize, end: usize, unit: usize| (i..end).contains(&unit);
    let cuts =
        |(i, end): (&usize, &usize)| units.together.iter().any(|(a, b)| inside(*i, *end, *a) != inside(*i, *end, *b));
    (!starts.iter().zip(ends).any(cuts)).then(|| priced(units, starts.to_vec(), of))
}

/// What a cut costs.
fn priced(units: &Units, starts: Vec<usize>, of: &Pipeline) -> StageCut {
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([units.units.len()]).collect();
    let rank_of = |unit: usize| of.rank(starts.partition_point(|s| *s <= unit) - 1);
    let own = |(stage, (i, end)): (usize, (&usize, &usize))| {
        span(units, of, *i, end - 1, &|unit| rank_of(unit) != of.rank(stage))
    };
    let spans: Vec<Span> = starts.iter().zip(&ends).enumerate().map(own).collect();
    let sum: f64 = spans.iter().map(|s| s.seconds).sum();
    let most = spans.iter().map(|s| s.bottleneck).fold(0.0, f64::max);
    StageCut {
        seconds: spans.iter().map(|s| s.seconds).collect(),
        messages: spans.iter().map(|s| s.messages).collect(),
        updates: spans.iter().map(|s| s.update).collect(),
        reductions: spans.iter().map(|s| s.reduction).collect(),
        peaks: spans.iter().enumerate().map(|(stage, s)| s.peak(stage, of)).collect(),
        halves: spans.iter().map(|s| s.halves).collect(),
        held: spans.iter().map(|s| [s.fixed, s.saved, s.between, s.working]).collect(),
        total: sum + most,
        starts,
    }
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
    reduction: f64,
    /// `(m - 1) t + update`, for each stage of a rank.
    bottleneck: f64,
    fixed: f64,
    saved: f64,
    between: f64,
    working: f64,
}

impl Span {
    fn peak(&self, stage: usize, of: &Pipeline) -> f64 {
        self.fixed + self.working + of.under_way(stage) * self.saved
    }
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
                table[i * n + j] = span(units, of, i, j, &|_| true);
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
        self.at(i, j).peak(stage, of)
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
}

/// The stage of the units `i` to `j`; `elsewhere` says of a unit outside of it whether another rank has it.
fn span(units: &Units, of: &Pipeline, i: usize, j: usize, elsewhere: &dyn Fn(usize) -> bool) -> Span {
    let inside = |u: usize| (i..=j).contains(&u);
    let own = &units.units[i..=j];
    let (mut arriving, mut returning, mut received) = (0.0, 0.0, 0.0);
    // A value goes to a stage once, however many of its units read it.
    let mut seen: Vec<(usize, f64)> = Vec::new();
    for f in &units.flows {
        let seconds = of.latency + f.bytes / of.bandwidth;
        if inside(f.to) && !inside(f.from) && elsewhere(f.from) && !seen.contains(&(f.from, f.bytes)) {
            seen.push((f.from, f.bytes));
            arriving += seconds;
            received += f.bytes;
        }
        if inside(f.from) && !inside(f.to) && elsewhere(f.to) && f.returns {
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
        reduction: sum(|u| u.reduction),
        bottleneck: of.stages_per_rank().max(1) as f64 * f64::from(of.micro_batches - 1) * seconds + update,
        fixed: sum(|u| u.fixed + u.gradients),
        saved: sum(|u| u.saved) + received,
        between: sum(|u| u.between),
        working,
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
                reduction: update / 2.0,
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
        let n_stages = 1 + d.below(4);
        let of = Pipeline {
            n_stages,
            n_ranks: n_stages,
            shape: Shape::Loop,
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
    fn stages_of_one_rank_send_each_other_nothing() {
        let unit = Unit { forward: 1.0, backward: 2.0, weights: 1.0, saved: 5.0, ..Unit::default() };
        let flow = |(from, to)| Flow { from, to, bytes: 10.0, returns: true };
        let flows = [(0, 1), (1, 2), (2, 3), (0, 3)].map(flow).to_vec();
        let units = Units { units: vec![unit; 4], flows, ..Units::default() };
        let of = |shape| {
            let (n_stages, n_ranks, micro_batches) = (4, 2, 2);
            Pipeline { n_stages, n_ranks, shape, micro_batches, latency: 0.0, bandwidth: 10.0, memory: 1e9 }
        };
        let priced = |shape| price_stages(&units, &of(shape), &[0, 1, 2, 3]).map(|c| (c.messages, c.held));
        let held = |received: [f64; 4]| received.map(|r| [0.0, 5.0 + r, 0.0, 0.0]).to_vec();
        // In turns: each of the four goes to the other rank, forward and back.
        assert_eq!(priced(Shape::Loop), Some((vec![2.0, 2.0, 2.0, 2.0], held([0.0, 10.0, 10.0, 20.0]))));
        // As a V: rank 1 has the stages 1 and 2, and what stage 3 reads of stage 0 is there.
        assert_eq!(priced(Shape::V), Some((vec![1.0, 1.0, 1.0, 1.0], held([0.0, 10.0, 0.0, 10.0]))));
        let cut = cut_stages(&units, &of(Shape::V)).map(|c| c.starts);
        assert_eq!(cut, Some(vec![0, 1, 2, 3]));
        assert!(cut_stages(&units, &Pipeline { n_stages: 3, ..of(Shape::Loop) }).is_none());
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
