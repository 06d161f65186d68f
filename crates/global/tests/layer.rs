//! The layer on ops: chosen layouts, in-place, views, random numbers, gradients, errors.

mod common;
use common::*;
use oneflow_base::{ErrorKind, Sbp};
use oneflow_core::{Generator, Tensor};
use oneflow_global::{Spread, global_of, reset_wire_counters, to_global, to_local, wire_counters};
use oneflow_ops::TensorOps;

fn sbp(t: &Tensor) -> &'static [Sbp] {
    global_of(t).unwrap().spread.sbp
}

fn wire() -> u64 {
    wire_counters().iter().map(|(_, bytes, _)| bytes).sum()
}

#[test]
fn matmul_signatures() {
    let (x, w) = (iota(&[4, 6]), iota(&[6, 8]));
    let want = values(&x.matmul(&w).unwrap());
    for (a, b, c) in [(s(0), B, s(0)), (B, s(1), s(1)), (s(1), s(0), P), (P, B, P), (B, P, P), (B, B, B)] {
        ranks(2, |rank| {
            let a = spread_out(&iota(&[4, 6]), spread(&[2], &[a]))?;
            let b = spread_out(&iota(&[6, 8]), spread(&[2], &[b]))?;
            reset_wire_counters();
            let y = a.matmul(&b)?;
            assert_eq!((sbp(&y), wire()), (&[c][..], 0));
            check_shard(&y, rank);
            assert_eq!(values(&whole(&y)?), want);
            Ok(())
        });
    }
    ranks(4, |_| {
        let a = spread_out(&iota(&[4, 6]), spread(&[2, 2], &[s(0), s(1)]))?;
        let b = spread_out(&iota(&[6, 8]), spread(&[2, 2], &[B, s(0)]))?;
        let y = a.matmul(&b)?;
        assert_eq!(sbp(&y), &[s(0), P]);
        assert_eq!(values(&whole(&y)?), want);
        let a = spread_out(&iota(&[2, 4, 6]), spread(&[4], &[s(0)]).with(&[s(1)])?)?;
        assert_eq!(sbp(&a.matmul(&b.shallow_to(&[B])?)?), &[s(1)]);
        Ok(())
    });
}

trait ShallowTo {
    fn shallow_to(&self, sbp: &[Sbp]) -> oneflow_base::Result<Tensor>;
}
impl ShallowTo for Tensor {
    /// The same values on a 1-D mesh of four ranks.
    fn shallow_to(&self, to: &[Sbp]) -> oneflow_base::Result<Tensor> {
        to_global(self, spread(&[4], to))
    }
}

#[test]
fn a_partial_sum_meets_a_replica_by_one_all_reduce() {
    ranks(2, |_| {
        let x = spread_out(&iota(&[4, 6]), spread(&[2], &[B]))?;
        let p = spread_out(&iota(&[4, 6]), spread(&[2], &[P]))?;
        let y = x.add(&p)?;
        assert_eq!(sbp(&y), &[B]);
        assert_eq!(values(&whole(&y)?), values(&iota(&[4, 6]).mul(2.0)?));
        assert_eq!(sbp(&p.mul(3.0)?), &[P]);
        assert_eq!(sbp(&p.add(&p)?), &[P]);
        // A number is no partial sum.
        assert_eq!(values(&whole(&p.add(1.0)?)?), values(&iota(&[4, 6]).add(1.0)?));
        Ok(())
    });
}

#[test]
fn in_place_keeps_the_layout_of_what_is_written() {
    for to in [B, s(0), s(1), P] {
        ranks(2, |rank| {
            let x = spread_out(&iota(&[4, 6]), spread(&[2], &[to]))?;
            let y = spread_out(&iota(&[4, 6]), spread(&[2], &[s(0)]))?;
            let v = x.version();
            x.add_(&y)?;
            x.mul_(2.0)?;
            x.relu_()?;
            assert_eq!(sbp(&x), &[to]);
            assert!(x.version() > v);
            check_shard(&x, rank);
            assert_eq!(values(&whole(&x)?), values(&iota(&[4, 6]).mul(4.0)?));
            Ok(())
        });
    }
}

#[test]
fn views_share_memory_unless_boxed() {
    ranks(2, |_| {
        let x = spread_out(&iota(&[4, 6]), spread(&[2], &[s(0)]))?;
        let v = x.view(&[2, 2, 6])?;
        assert_eq!(sbp(&v), &[s(0)]);
        v.zero_()?;
        assert!(values(&whole(&x)?).iter().all(|v| *v == 0.0));
        let x = spread_out(&iota(&[4, 6]), spread(&[2], &[s(1)]))?;
        let v = x.view(&[24])?;
        assert_eq!(values(&whole(&v)?), values(&iota(&[24])));
        let e = v.zero_().unwrap_err();
        assert!(e.kind() == ErrorKind::Runtime && e.text().contains("had to be boxed"), "{e}");
        Ok(())
    });
}

#[test]
fn random_numbers_do_not_depend_on_the_layout() {
    let one = ranks(1, |_| {
        let x = oneflow_ops::f::ones(&[6, 5])?;
        x.normal_(0.0, 1.0)?;
        let [y, mask] = x.native_dropout(0.5)?;
        Ok((values(&x), values(&y), values(&mask)))
    });
    for (h, to) in [
        (&[2][..], &[s(0)][..]),
        (&[2], &[s(1)]),
        (&[4], &[s(0)]),
        (&[4], &[B]),
        (&[2, 2], &[s(0), s(1)]),
        (&[2, 2], &[s(0), s(0)]),
    ] {
        let n: i64 = h.iter().product();
        ranks(n as usize, |_| {
            let x = spread_out(&oneflow_ops::f::ones(&[6, 5])?, spread(h, to))?;
            x.normal_(0.0, 1.0)?;
            let [y, mask] = x.native_dropout(0.5)?;
            assert_eq!(sbp(&y), to);
            assert_eq!((values(&whole(&x)?), values(&whole(&y)?), values(&whole(&mask)?)), one[0], "{to:?}");
            Ok(())
        });
    }
    let _ = Generator::new();
}

#[test]
fn mixed_worlds_and_placements_are_named() {
    ranks(2, |_| {
        let x = spread_out(&iota(&[4, 6]), spread(&[2], &[s(0)]))?;
        let e = x.add(&iota(&[4, 6])).unwrap_err();
        assert!(e.kind() == ErrorKind::Runtime && e.text().contains("add(): ") && e.text().contains("'other'"), "{e}");
        let e = iota(&[4, 6]).matmul(&x.t()?).unwrap_err();
        assert!(e.text().contains("matmul(): ") && e.text().contains("'input' is a local tensor"), "{e}");
        let other = spread_out(&iota(&[4, 6]), spread(&[2, 1], &[B, B]))?;
        let e = x.add(&other).unwrap_err();
        assert!(e.text().contains("one placement"), "{e}");
        let e = x.view(&[5, 5]).unwrap_err();
        assert!(e.text().contains("view()"), "{e}");
        Ok(())
    });
}

#[test]
fn entering_and_leaving_have_dual_gradients() {
    // f = sum(2 x) over ranks; the gradients of a broadcast input add up to the true one.
    for (to, want) in [(B, [2.0, 0.0]), (s(0), [2.0, 2.0]), (P, [2.0, 2.0])] {
        let grads = ranks(2, |_| {
            let x = iota(&[4, 3]);
            oneflow_autograd::set_requires_grad(&x, true)?;
            let g = to_global(&x, spread(&[2], &[to]))?;
            let loss = g.mul(2.0)?.sum(None, false)?;
            oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
            Ok(values(&oneflow_autograd::grad(&x).unwrap()))
        });
        for (g, w) in grads.iter().zip(want) {
            assert!(g.iter().all(|v| *v == w), "{to:?}: {g:?}, want {w}");
        }
    }
    ranks(2, |_| {
        let x = spread_out(&iota(&[4, 3]), spread(&[2], &[s(0)]))?.shallow();
        oneflow_autograd::set_requires_grad(&x, true)?;
        let shard = to_local(&x)?;
        let loss = shard.mul(3.0)?.sum(None, false)?;
        oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
        let g = oneflow_autograd::grad(&x).unwrap();
        assert_eq!(sbp(&g), &[s(0)]);
        assert!(values(&whole(&g)?).iter().all(|v| *v == 3.0));
        Ok(())
    });
}

#[test]
fn uneven_shards_enter_and_wrong_ones_are_refused() {
    ranks(3, |rank| {
        let rows = [3, 2, 2][rank];
        let x = to_global(&iota(&[rows, 2]), spread(&[3], &[s(0)]))?;
        assert_eq!(x.sizes(), [7, 2]);
        let bad = [2, 3, 2][rank];
        let e = to_global(&iota(&[bad, 2]), spread(&[3], &[s(0)])).unwrap_err();
        assert!(e.text().contains("do not form one tensor"), "{e}");
        Ok(())
    });
}

#[test]
fn data_parallel_training_reduces_each_gradient_once() {
    // y = gelu(x w1 + b) w2: x split by rows, everything else replicated.
    let (n, i, h) = (8, 6, 10);
    ranks(2, |_| {
        let b = spread(&[2], &[B]);
        let x = spread_out(&iota(&[n, i]), spread(&[2], &[s(0)]))?.mul(0.1)?;
        let leaf = |sizes: &[i64]| -> oneflow_base::Result<Tensor> {
            let w = spread_out(&iota(sizes), b)?.mul(0.01)?.shallow();
            oneflow_autograd::set_requires_grad(&w, true)?;
            Ok(w)
        };
        let (w1, b1, w2) = (leaf(&[h, i])?, leaf(&[h])?, leaf(&[1, h])?);
        reset_wire_counters();
        let loss = x.linear(&w1, Some(&b1))?.gelu()?.linear(&w2, None)?.mean(None, false)?;
        assert_eq!((sbp(&loss), wire()), (&[P][..], 0));
        oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
        for w in [&w1, &b1, &w2] {
            assert_eq!(sbp(&oneflow_autograd::grad(w).unwrap()), &[B]);
        }
        // All-reduce of T bytes on two ranks: each sends T.
        assert_eq!(wire(), ((h * i + h + h) * 8) as u64);
        Ok(())
    });
}

#[test]
fn tensor_parallel_training_reduces_activations_only() {
    // Megatron's pair: the first weight split by rows of outputs, the second by inputs.
    let (n, i, h) = (32, 6, 8);
    ranks(2, |_| {
        let put = |sizes: &[i64], sbp: Sbp| -> oneflow_base::Result<Tensor> {
            let w = spread_out(&iota(sizes), spread(&[2], &[sbp]))?.mul(0.01)?.shallow();
            oneflow_autograd::set_requires_grad(&w, true)?;
            Ok(w)
        };
        let x = put(&[n, i], B)?;
        let (w1, b1, w2, b2) = (put(&[h, i], s(0))?, put(&[h], s(0))?, put(&[i, h], s(1))?, put(&[i], B)?);
        reset_wire_counters();
        let y = x.add(&x.linear(&w1, Some(&b1))?.gelu()?.linear(&w2, Some(&b2))?)?;
        assert_eq!((sbp(&y), wire()), (&[B][..], (n * i * 8) as u64));
        reset_wire_counters();
        let loss = y.mul(&y)?.sum(None, false)?;
        oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
        for (w, sbp_of_w) in [(&x, B), (&w1, s(0)), (&b1, s(0)), (&w2, s(1)), (&b2, B)] {
            assert_eq!(sbp(&oneflow_autograd::grad(w).unwrap()), &[sbp_of_w]);
        }
        // One all-reduce of the input's gradient; weights stay where they are.
        assert_eq!(wire(), (n * i * 8) as u64);
        Ok(())
    });
    let _ = Spread::broadcast(mesh(&[2]).id());
}

#[test]
fn gradients_follow_views_written_in_place() {
    let run = |to: Option<Sbp>| {
        ranks(2, |_| {
            let x = iota(&[4, 6]);
            let x = match to {
                Some(to) => spread_out(&x, spread(&[2], &[to]))?.shallow(),
                None => x,
            };
            oneflow_autograd::set_requires_grad(&x, true)?;
            let y = x.mul(2.0)?;
            let v = y.select(1, 2)?;
            v.mul_(3.0)?;
            let loss = y.mul(&y)?.sum(None, false)?;
            oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
            let g = oneflow_autograd::grad(&x).unwrap();
            Ok(values(&if to.is_some() { whole(&g)? } else { g }))
        })
        .swap_remove(0)
    };
    let want = run(None);
    for to in [B, s(0), P] {
        assert_eq!(run(Some(to)), want, "{to:?}");
    }
}
