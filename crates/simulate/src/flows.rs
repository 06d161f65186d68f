//! Bytes on their way over links. Flows that share a link share its bandwidth; the slowest link of a flow sets its rate. Cores are
//! links too: work takes seconds of them, and so do bytes that they copy.

/// One transfer. A collective is one flow over the links of all its ranks.
struct Flow {
    /// Bytes that each of its ranks has still to send, at time `at`.
    remaining: f64,
    rate: f64,
    at: f64,
    /// The most that its rate is, whatever the links have.
    most: f64,
    links: Vec<Use>,
    /// Changes of the rate: an end that was foretold before the last one does not count.
    version: u32,
    alive: bool,
}

/// What a flow has of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub link: u32,
    /// How many ranks of the flow use it.
    pub load: f64,
    /// What of the flow a unit of the link carries for each of them: bytes, or of cores the bytes that one copies in a second.
    pub carries: f64,
}

impl Use {
    /// Bytes over a link, or seconds of work on cores.
    pub fn of(link: u32, load: f64) -> Use {
        Use { link, load, carries: 1.0 }
    }
}

struct Shared {
    bandwidth: f64,
    load: f64,
    flows: Vec<u32>,
}

#[derive(Default)]
pub(crate) struct Flows {
    links: Vec<Shared>,
    flows: Vec<Flow>,
    free: Vec<u32>,
}

/// A flow is over at this time, unless its version has changed by then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct End {
    pub flow: u32,
    pub version: u32,
    pub time: f64,
}

impl Flows {
    /// Links of these bandwidths.
    pub fn new(bandwidths: impl Iterator<Item = f64>) -> Flows {
        let link = |bandwidth| Shared { bandwidth, load: 0.0, flows: Vec::new() };
        Flows { links: bandwidths.map(link).collect(), ..Flows::default() }
    }

    /// Starts a flow that is never faster than `most`; `ends` receives when it and those it slows down will end.
    pub fn start(&mut self, now: f64, bytes: f64, links: Vec<Use>, most: f64, ends: &mut Vec<End>) -> u32 {
        let flow = Flow { remaining: bytes, rate: 0.0, at: now, most, links, version: 0, alive: true };
        let id = match self.free.pop() {
            Some(id) => {
                let version = self.flows[id as usize].version + 1;
                self.flows[id as usize] = Flow { version, ..flow };
                id
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        for k in 0..self.flows[id as usize].links.len() {
            let Use { link, load, .. } = self.flows[id as usize].links[k];
            let link = &mut self.links[link as usize];
            link.load += load;
            link.flows.push(id);
        }
        self.change(now, id, ends);
        id
    }

    /// Returns true if the flow is over; those that it slowed down end earlier now.
    pub fn end(&mut self, end: End, ends: &mut Vec<End>) -> bool {
        let f = &mut self.flows[end.flow as usize];
        if !f.alive || f.version != end.version {
            return false;
        }
        f.alive = false;
        for k in 0..f.links.len() {
            let Use { link, load, .. } = self.flows[end.flow as usize].links[k];
            let link = &mut self.links[link as usize];
            link.load -= load;
            link.flows.retain(|f| *f != end.flow);
            if link.flows.is_empty() {
                link.load = 0.0;
            }
        }
        self.change(end.time, end.flow, ends);
        self.free.push(end.flow);
        true
    }

    /// New rates of a flow and of all that share a link with it.
    fn change(&mut self, now: f64, id: u32, ends: &mut Vec<End>) {
        let mut touched: Vec<u32> = Vec::new();
        for own in &self.flows[id as usize].links {
            touched.extend(&self.links[own.link as usize].flows);
        }
        touched.sort_unstable();
        touched.dedup();
        for t in touched {
            let f = &self.flows[t as usize];
            let share = |own: &Use| {
                let link = &self.links[own.link as usize];
                own.carries * link.bandwidth / link.load
            };
            let rate = f.links.iter().map(share).fold(f.most, f64::min);
            let f = &mut self.flows[t as usize];
            if rate == f.rate {
                continue;
            }
            f.remaining = (f.remaining - f.rate * (now - f.at)).max(0.0);
            (f.rate, f.at, f.version) = (rate, now, f.version + 1);
            ends.push(End { flow: t, version: f.version, time: now + f.remaining / rate });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When it starts, its bytes, its links.
    type Start = (f64, f64, Vec<(u32, f64)>);

    /// The times at which flows end over links of one byte a second.
    fn run(mut starts: Vec<Start>) -> Vec<f64> {
        let mut flows = Flows::new([1.0, 1.0, 1.0].into_iter());
        let (mut ends, mut done, mut ids) = (Vec::new(), vec![0.0; starts.len()], Vec::new());
        starts.reverse();
        loop {
            let next = ends.iter().copied().min_by(|a: &End, b: &End| a.time.total_cmp(&b.time));
            let start = starts.last().map(|s| s.0);
            match (next, start) {
                (None, None) => return done,
                (Some(end), s) if s.is_none_or(|s| end.time <= s) => {
                    ends.retain(|e| *e != end);
                    if flows.end(end, &mut ends) {
                        done[ids.iter().rposition(|f| *f == end.flow).unwrap()] = end.time;
                    }
                }
                _ => {
                    let (at, bytes, links) = starts.pop().unwrap();
                    let links = links.into_iter().map(|(link, load)| Use::of(link, load)).collect();
                    ids.push(flows.start(at, bytes, links, f64::INFINITY, &mut ends));
                }
            }
        }
    }

    #[test]
    fn flows_share_links() {
        assert_eq!(run(vec![(0.0, 4.0, vec![(0, 1.0)])]), [4.0]);
        assert_eq!(run(vec![(0.0, 4.0, vec![(0, 1.0)]), (0.0, 4.0, vec![(1, 1.0)])]), [4.0, 4.0]);
        // Two seconds alone, then half the rate each: the second has sent two bytes at 6, and the first is over.
        assert_eq!(run(vec![(0.0, 4.0, vec![(0, 1.0)]), (2.0, 4.0, vec![(0, 1.0), (1, 1.0)])]), [6.0, 8.0]);
        // Two ranks of a collective on one link.
        assert_eq!(run(vec![(0.0, 4.0, vec![(0, 2.0)])]), [8.0]);
    }
}
