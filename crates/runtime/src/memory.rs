//! The memory planner: offsets inside one arena for buffers with known lifetimes.
//!
//! Several orders are tried, each by first fit, and the best result is kept. Knows sizes and times, not tensors.

/// A buffer to place: alive from instruction `from` to instruction `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub bytes: u64,
    pub from: usize,
    pub to: usize,
}

/// The offsets of all buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub offsets: Vec<u64>,
    /// Bytes of the arena.
    pub peak: u64,
    /// The largest sum of live bytes: no layout is smaller.
    pub bound: u64,
    /// The order that won.
    pub order: &'static str,
}

/// Alignment of every buffer.
pub const ALIGN: u64 = 64;

/// Rounds up to the alignment.
pub fn align(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGN) * ALIGN
}

/// How hard to search for a small layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Try every order, not the first only.
    pub orders: bool,
    /// Improve the best layout by moving the buffers on its top to other places, until nothing is gained.
    pub compress: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { orders: true, compress: false }
    }
}

/// Places buffers so that those alive at the same time do not overlap.
pub fn place(lives: &[Life], effort: Effort) -> Layout {
    let n = lives.len();
    let size = |i: usize| align(lives[i].bytes);
    let time = |i: usize| (lives[i].to - lives[i].from + 1) as u64;
    let sorted = |key: &dyn Fn(usize) -> (u64, u64)| {
        let mut v: Vec<usize> = (0..n).collect();
        v.sort_by_key(|i| (std::cmp::Reverse(key(*i)), lives[*i].from));
        v
    };
    let first_come = {
        let mut v: Vec<usize> = (0..n).collect();
        v.sort_by_key(|i| (lives[*i].from, std::cmp::Reverse(size(*i))));
        v
    };
    let orders: [(&str, Vec<usize>); 4] = [
        ("size", sorted(&|i| (size(i), time(i)))),
        ("lifetime", sorted(&|i| (time(i), size(i)))),
        ("size x lifetime", sorted(&|i| (size(i).saturating_mul(time(i)), 0))),
        ("start", first_come),
    ];
    let bound = bound(lives);
    let mut best: Option<(Layout, Vec<usize>)> = None;
    for (name, order) in orders.into_iter().take(if effort.orders { 4 } else { 1 }) {
        for tight in [false, true] {
            let (offsets, peak) = fit(lives, &order, tight);
            if best.as_ref().is_none_or(|b| peak < b.0.peak) {
                best = Some((Layout { offsets, peak, bound, order: name }, order.clone()));
            }
        }
        if best.as_ref().is_some_and(|b| b.0.peak == bound) {
            break;
        }
    }
    let Some((mut layout, order)) = best else {
        return Layout { offsets: Vec::new(), peak: 0, bound: 0, order: "size" };
    };
    // Where all orders leave much, it is worth the time unasked.
    let far = effort.orders && layout.peak > bound + bound / 20;
    if effort.compress || far {
        compress(lives, order, &mut layout);
    }
    layout
}

/// Places buffers in one pass, the largest first: the offsets, and the bytes of the arena. For what is placed between runs.
pub fn place_once(lives: &[Life]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(align(lives[*i].bytes)), lives[*i].from));
    fit(lives, &order, false)
}

/// Places those first that end at the top, again and again: what is left has smaller gaps to fill.
fn compress(lives: &[Life], mut order: Vec<usize>, layout: &mut Layout) {
    let rounds = 8 + 100 * (layout.peak - layout.bound) / layout.bound.max(1);
    let mut offsets = layout.offsets.clone();
    let mut peak = layout.peak;
    for _ in 0..rounds {
        if layout.peak == layout.bound {
            return;
        }
        let top = |i: &usize| offsets[*i] + align(lives[*i].bytes) == peak;
        order.sort_by_key(|i| !top(i));
        let mut next: Option<(Vec<u64>, u64)> = None;
        for tight in [false, true] {
            let made = fit(lives, &order, tight);
            if next.as_ref().is_none_or(|n| made.1 < n.1) {
                next = Some(made);
            }
        }
        let Some(made) = next else { return };
        (offsets, peak) = made;
        if peak < layout.peak {
            (layout.offsets, layout.peak, layout.order) = (offsets.clone(), peak, "compressed");
        }
    }
}

/// Places in the given order: each into the first gap that fits (`tight`: into the smallest).
fn fit(lives: &[Life], order: &[usize], tight: bool) -> (Vec<u64>, u64) {
    let mut offsets = vec![0; lives.len()];
    // Placed buffers, by offset.
    let mut placed: Vec<(u64, u64, usize)> = Vec::with_capacity(order.len());
    let mut peak = 0;
    for &i in order {
        let l = &lives[i];
        let need = align(l.bytes);
        if need == 0 {
            continue;
        }
        let (mut at, mut best): (u64, Option<(u64, u64)>) = (0, None);
        for &(start, end, j) in &placed {
            let other = &lives[j];
            if other.to < l.from || l.to < other.from {
                continue;
            }
            if start >= at + need {
                let gap = start - at;
                if best.is_none_or(|b| gap < b.0) {
                    best = Some((gap, at));
                }
                if !tight {
                    break;
                }
            }
            at = at.max(end);
        }
        let offset = best.map_or(at, |b| b.1);
        offsets[i] = offset;
        peak = peak.max(offset + need);
        let slot = placed.partition_point(|p| p.0 <= offset);
        placed.insert(slot, (offset, offset + need, i));
    }
    (offsets, peak)
}

/// The largest sum of live bytes over time.
fn bound(lives: &[Life]) -> u64 {
    let mut events: Vec<(usize, bool, u64)> = Vec::with_capacity(lives.len() * 2);
    for l in lives {
        events.push((l.from, true, align(l.bytes)));
        events.push((l.to + 1, false, align(l.bytes)));
    }
    // At one time, what ends goes before what begins.
    events.sort_by_key(|e| (e.0, e.1));
    let (mut now, mut max) = (0u64, 0u64);
    for (_, begins, bytes) in events {
        if begins {
            now += bytes;
            max = max.max(now);
        } else {
            now -= bytes;
        }
    }
    max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_lifetimes_never_overlap_and_stay_near_the_bound() {
        let mut seed = 7u64;
        let mut rnd = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..50 {
            let lives: Vec<Life> =
                (0..120).map(|i| Life { bytes: 64 * (1 + rnd(40)), from: i, to: i + rnd(12) as usize }).collect();
            let l = place(&lives, Effort::default());
            let smaller = place(&lives, Effort { orders: true, compress: true });
            assert!(smaller.peak <= l.peak && smaller.peak >= l.bound);
            for l in [&l, &smaller] {
                for (i, a) in lives.iter().enumerate() {
                    for (j, b) in lives.iter().enumerate().skip(i + 1) {
                        let together = a.from <= b.to && b.from <= a.to;
                        let apart = l.offsets[i] + a.bytes <= l.offsets[j] || l.offsets[j] + b.bytes <= l.offsets[i];
                        assert!(!together || apart);
                    }
                }
            }
            assert!(l.peak >= l.bound && l.peak as f64 <= 1.25 * l.bound as f64, "{} {}", l.peak, l.bound);
        }
    }
}
