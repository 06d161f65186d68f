//! Every layout into every other: one axis, two axes, other placements, even and uneven.

mod common;
use common::*;
use oneflow_base::{DeviceType, Placement, Sbp};
use oneflow_comm::Kind;
use oneflow_global::{reset_wire_counters, spread as spread_of, to_global, wire_counters};

fn check_pair(hierarchy: &[i64], from: &[Sbp], to: &[Sbp], sizes: &[i64]) {
    let x = iota(sizes);
    let want = values(&x);
    let n: i64 = hierarchy.iter().product();
    ranks(n as usize, |rank| {
        let a = spread_out(&iota(sizes), spread(hierarchy, from))?;
        check_shard(&a, rank);
        let b = to_global(&a, spread(hierarchy, to))?;
        check_shard(&b, rank);
        assert_eq!(values(&whole(&b)?), want, "{from:?} -> {to:?} of {sizes:?} on {hierarchy:?}");
        Ok(())
    });
}

#[test]
fn one_axis() {
    let all = [B, P, s(0), s(1), s(2)];
    for n in [1, 2, 3] {
        for from in all {
            for to in all {
                check_pair(&[n], &[from], &[to], &[6, 3, 4]);
                check_pair(&[n], &[from], &[to], &[5, 7, 3]);
            }
        }
    }
}

#[test]
fn two_axes() {
    let all = [B, P, s(0), s(1)];
    for a in all {
        for b in all {
            for c in all {
                for d in all {
                    check_pair(&[2, 2], &[a, b], &[c, d], &[5, 6]);
                }
            }
        }
    }
}

#[test]
fn other_placements() {
    let place = |ranks: &[u32], h: &[i64]| Placement::new(DeviceType::CPU, ranks.to_vec(), h).unwrap().id();
    let cases: [(&[u32], &[i64]); 5] =
        [(&[0], &[1]), (&[1, 2], &[2]), (&[0, 1, 2, 3], &[4]), (&[3, 0], &[2]), (&[3, 2, 1, 0], &[2, 2])];
    let want = values(&iota(&[5, 6]));
    for (ra, ha) in cases {
        for (rb, hb) in cases {
            for (x, y) in [(B, s(0)), (s(0), B), (s(1), s(0)), (P, s(0)), (P, B), (s(0), P)] {
                ranks(4, |rank| {
                    let from = spread_of(place(ra, ha), &vec![x; ha.len()])?;
                    let to = spread_of(place(rb, hb), &vec![y; hb.len()])?;
                    let a = spread_out(&iota(&[5, 6]), from)?;
                    let b = to_global(&a, to)?;
                    check_shard(&b, rank);
                    let back = whole(&b)?;
                    if to.placement.coords(rank as u32).is_some() {
                        assert_eq!(values(&back), want, "{ra:?} {x:?} -> {rb:?} {y:?}");
                    }
                    Ok(())
                });
            }
        }
    }
}

#[test]
fn bytes_on_the_wire_are_those_of_the_table() {
    // 8 x 12 doubles on 4 ranks: T = 768 bytes. Per rank: the table's total divided by the ranks.
    let t = 768u64;
    for (from, to, kind, per_rank) in [
        (P, B, Kind::AllReduce, 2 * t * 3 / 4),
        (P, s(0), Kind::ReduceScatter, t * 3 / 4),
        (P, s(1), Kind::ReduceScatter, t * 3 / 4),
        (s(0), B, Kind::AllGather, t / 4 * 3),
        (s(1), B, Kind::AllGather, t / 4 * 3),
        (s(0), s(1), Kind::AllToAll, t / 16 * 3),
    ] {
        ranks(4, |_| {
            let a = spread_out(&iota(&[8, 12]), spread(&[4], &[from]))?;
            reset_wire_counters();
            to_global(&a, spread(&[4], &[to]))?;
            for (k, bytes, calls) in wire_counters() {
                let want = if k == kind { (per_rank, 1) } else { (0, 0) };
                assert_eq!((bytes, calls), want, "{from:?} -> {to:?}: {k}");
            }
            Ok(())
        });
    }
    ranks(4, |_| {
        let a = spread_out(&iota(&[8, 12]), spread(&[4], &[B]))?;
        reset_wire_counters();
        for to in [s(0), s(1), P] {
            to_global(&a, spread(&[4], &[to]))?;
        }
        assert!(wire_counters().iter().all(|(_, bytes, _)| *bytes == 0));
        Ok(())
    });
}
