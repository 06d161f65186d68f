//! Attention written by hand: the fused op takes its place in every spelling, with the values and the gradients of eager.

mod common;

use common::*;
use oneflow_base::{DType, Result};
use oneflow_core::{Tensor, default_generator};
use oneflow_graph::{Config, Graph, Tracer, compile};
use oneflow_ops::{TensorOps, f};

const B: i64 = 2;
const H: i64 = 3;
const T: i64 = 5;
const E: i64 = 4;

/// Attention of query, key and value, with a further tensor.
type Attention = fn(&[Tensor]) -> Result<Tensor>;

fn probabilities(scores: &Tensor) -> Result<Tensor> {
    scores.softmax(-1, None)
}

fn scores(t: &[Tensor]) -> Result<Tensor> {
    t[0].matmul(&t[1].transpose(-2, -1)?)
}

fn tril() -> Result<Tensor> {
    f::ones_with(&[T, T], Some(DType::F32), None, false)?.tril(0)
}

fn half(t: &Tensor) -> Result<Tensor> {
    t.to_copy_with(Some(DType::BF16), None)
}

fn single(t: &Tensor) -> Result<Tensor> {
    t.to_copy_with(Some(DType::F32), None)
}

/// A name, what is computed, the shape of query, key and value, that of the further tensor, and whether the mask is found causal.
type Spelling = (&'static str, Attention, &'static [i64], &'static [i64], bool);

const SPELLINGS: &[Spelling] = &[
    ("plain", |t| probabilities(&scores(t)?)?.matmul(&t[2]), &[B, H, T, E], &[1], false),
    ("three dimensions", |t| probabilities(&scores(t)?.mul(0.5)?)?.matmul(&t[2]), &[B * H, T, E], &[1], false),
    ("five dimensions", |t| probabilities(&scores(t)?.mul(0.5)?)?.matmul(&t[2]), &[2, B, H, T, E], &[1], false),
    ("divided", |t| probabilities(&scores(t)?.div(2.0)?)?.matmul(&t[2]), &[B, H, T, E], &[1], false),
    (
        "scaled before",
        |t| probabilities(&t[0].mul(0.5)?.matmul(&t[1].transpose(-2, -1)?)?)?.matmul(&t[2]),
        &[B, H, T, E],
        &[1],
        false,
    ),
    (
        "a buffer fills",
        |t| {
            let s = scores(t)?.mul(0.5)?.masked_fill(&t[3].eq(0.0)?, f64::NEG_INFINITY)?;
            probabilities(&s)?.matmul(&t[2])
        },
        &[B, H, T, E],
        &[1, 1, T, T],
        false,
    ),
    (
        "a constant fills, then a scale",
        |t| {
            let s = scores(t)?.masked_fill(&tril()?.eq(0.0)?, f64::NEG_INFINITY)?.mul(0.5)?;
            probabilities(&s)?.matmul(&t[2])
        },
        &[B, H, T, E],
        &[1],
        true,
    ),
    (
        "a constant keeps, the rest is a large number",
        |t| {
            let least = f::full_with(&[], -1e9, Some(DType::F32), None, false)?;
            probabilities(&tril()?.gt(0.5)?.r#where(&scores(t)?.mul(0.5)?, &least)?)?.matmul(&t[2])
        },
        &[B, H, T, E],
        &[1],
        true,
    ),
    (
        "a constant is added",
        |t| probabilities(&tril()?.log()?.add(&scores(t)?)?)?.matmul(&t[2]),
        &[B, H, T, E],
        &[1],
        true,
    ),
    (
        "a mask is added, heads first",
        |t| probabilities(&scores(t)?.mul(0.5)?.add(&t[3])?)?.matmul(&t[2]),
        &[B * H, T, E],
        &[B * H, 1, T],
        false,
    ),
    (
        "causal, and another mask",
        |t| {
            let s = scores(t)?.mul(0.5)?.masked_fill(&tril()?.eq(0.0)?, f64::NEG_INFINITY)?.add(&t[3])?;
            probabilities(&s)?.matmul(&t[2])
        },
        &[B, H, T, E],
        &[B, 1, 1, T],
        true,
    ),
    (
        "two masks",
        |t| {
            let hidden = t[3].gt(0.9)?;
            let s = scores(t)?.masked_fill(&hidden, f64::NEG_INFINITY)?;
            let s = s.masked_fill(&t[3].lt(-0.9)?, f64::NEG_INFINITY)?.add(&t[3])?;
            probabilities(&s)?.matmul(&t[2])
        },
        &[B, H, T, E],
        &[T, T],
        false,
    ),
    (
        "heads inside rows, copied",
        |t| {
            let x: Vec<Tensor> = t[..3].iter().map(|x| x.transpose(1, 2)?.contiguous()).collect::<Result<_>>()?;
            let y = probabilities(&scores(&x)?.mul(0.5)?)?.matmul(&x[2])?;
            y.transpose(1, 2)?.contiguous()?.view(&[B, T, H * E])
        },
        &[B, T, H, E],
        &[1],
        false,
    ),
    (
        "heads inside rows, merged",
        |t| {
            let x: Vec<Tensor> = t[..3].iter().map(|x| x.transpose(1, 2)).collect::<Result<_>>()?;
            probabilities(&scores(&x)?.mul(0.5)?)?.matmul(&x[2])?.view(&[B * H, T, E])
        },
        &[B, T, H, E],
        &[1],
        false,
    ),
    (
        "grouped otherwise between",
        |t| {
            let x: Vec<Tensor> = t[..3].iter().map(|x| x.view(&[B * H, T, E])).collect::<Result<_>>()?;
            let s = scores(&x)?.view(&[B, H, T, T])?.add(&t[3])?;
            probabilities(&s)?.view(&[B * H, T, T])?.matmul(&x[2])
        },
        &[B, H, T, E],
        &[B, 1, T, T],
        false,
    ),
    ("dropout", |t| probabilities(&scores(t)?)?.native_dropout(0.4)?[0].matmul(&t[2]), &[B, H, T, E], &[1], false),
    (
        "softmax in float32",
        |t| {
            let [q, k, v] = [half(&t[0])?, half(&t[1])?, half(&t[2])?];
            let s = single(&q.matmul(&k.transpose(-2, -1)?)?.mul(0.5)?)?;
            single(&half(&probabilities(&s)?)?.matmul(&v)?)
        },
        &[B, H, T, E],
        &[1],
        false,
    ),
];

/// The same where something else reads what would be gone, or the meaning is another.
const OTHERS: &[Spelling] = &[
    (
        "probabilities are read",
        |t| {
            let p = probabilities(&scores(t)?)?;
            p.matmul(&t[2])?.add(&p.sum(&[-1], true)?)
        },
        &[B, H, T, E],
        &[1],
        false,
    ),
    (
        "scores are read",
        |t| {
            let s = scores(t)?;
            probabilities(&s)?.matmul(&t[2])?.add(&s.sum(&[-1], true)?)
        },
        &[B, H, T, E],
        &[1],
        false,
    ),
    (
        "a scale behind a sum",
        |t| probabilities(&scores(t)?.add(&t[3])?.mul(0.5)?)?.matmul(&t[2]),
        &[B, H, T, E],
        &[T, T],
        false,
    ),
    (
        "a large number may fill whole rows",
        |t| probabilities(&scores(t)?.masked_fill(&t[3].gt(0.0)?, -1e9)?)?.matmul(&t[2]),
        &[B, H, T, E],
        &[T, T],
        false,
    ),
    ("rows and not keys", |t| scores(t)?.softmax(-2, None)?.matmul(&t[2]), &[B, H, T, E], &[1], false),
    (
        "a small number",
        |t| probabilities(&scores(t)?.masked_fill(&tril()?.eq(0.0)?, -3.0)?)?.matmul(&t[2]),
        &[B, H, T, E],
        &[1],
        false,
    ),
];

/// Result and gradients, and the graph that ran; eagerly without a configuration.
fn run(
    attention: Attention,
    shape: &[i64],
    other: &[i64],
    config: Option<&Config>,
    train: bool,
    bias: bool,
) -> (Vec<Vec<f32>>, Option<Graph>) {
    let mut t: Vec<Tensor> = (0..3).map(|i| if train { leaf(shape, i) } else { tensor(shape, i) }).collect();
    t.push(if bias { leaf(other, 7) } else { tensor(other, 7) });
    let weight = tensor(&[E], 9);
    let program = || {
        let y = attention(&t)?;
        let mut all = vec![y.clone()];
        if train {
            // The gradient of the result is neither dense nor one number.
            let loss = y.reshape(&[-1, E])?.mul(&weight)?.square()?.sum(&[], false)?;
            oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
            for x in &t[..3 + bias as usize] {
                all.extend(oneflow_autograd::grad(x));
                oneflow_autograd::set_grad(x, None)?;
            }
        }
        Ok::<_, oneflow_base::Error>(all)
    };
    default_generator().manual_seed(3);
    let Some(config) = config else { return (program().unwrap().iter().map(floats).collect(), None) };
    let tracer = Tracer::begin("attention", None).unwrap();
    let outputs = program().unwrap();
    let mut c = compile(tracer.finish(&outputs).unwrap(), config).unwrap();
    (c.run(&[], &mut || Ok(())).unwrap().iter().map(floats).collect(), Some(c.optimized))
}

/// The tensors of these programs are captured and never written: nothing is to be computed before the runs.
fn config() -> Config {
    Config { precompute: false, ..Config::default() }
}

fn count(g: &Graph, op: &str) -> usize {
    g.nodes.iter().filter(|n| n.name().split('+').any(|part| part == op)).count()
}

fn near(name: &str, a: &[Vec<f32>], b: &[Vec<f32>], tolerance: f32) {
    assert_eq!(a.len(), b.len(), "{name}");
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert_eq!(x.len(), y.len());
        let fits = x.iter().zip(y).all(|(x, y)| (x - y).abs() <= tolerance * (1.0 + x.abs()));
        assert!(fits, "{name}, result {i}: {x:?} {y:?}");
    }
}

#[test]
fn every_spelling_becomes_the_fused_op() {
    setup();
    for (name, attention, shape, other, causal) in SPELLINGS {
        for train in [false, true] {
            let (want, _) = run(*attention, shape, other, None, train, false);
            let (have, g) = run(*attention, shape, other, Some(&config()), train, false);
            let g = g.unwrap();
            assert_eq!(count(&g, "native_attention"), 1, "{name}, training {train}: {g}");
            assert_eq!(count(&g, "native_attention_backward"), train as usize, "{name}: {g}");
            assert_eq!(count(&g, "softmax") + count(&g, "softmax_backward"), 0, "{name}: {g}");
            let line = g.nodes.iter().find(|n| n.name() == "native_attention").unwrap();
            let oneflow_graph::Kind::Op { attrs, .. } = &line.kind else { panic!() };
            assert_eq!(attrs.args()[1].bool(), *causal, "{name}: {g}");
            // Half types round elsewhere.
            near(name, &want, &have, if name.contains("float32") { 3e-2 } else { 2e-5 });
        }
    }
}

#[test]
fn what_others_read_or_means_something_else_stays() {
    setup();
    for (name, attention, shape, other, _) in OTHERS {
        for train in [false, true] {
            let (want, _) = run(*attention, shape, other, None, train, false);
            let (have, g) = run(*attention, shape, other, Some(&config()), train, false);
            let g = g.unwrap();
            assert_eq!(count(&g, "native_attention"), 0, "{name}: {g}");
            assert_eq!(count(&g, "softmax"), 1, "{name}: {g}");
            near(name, &want, &have, 2e-5);
        }
    }
    let off = Config { fuse_attention: false, ..config() };
    let (_, g) = run(SPELLINGS[0].1, SPELLINGS[0].2, &[1], Some(&off), true, false);
    assert_eq!(count(&g.unwrap(), "native_attention"), 0);
}

#[test]
fn a_bias_that_is_learned_gets_its_gradient() {
    setup();
    for (name, attention, shape, other, _) in
        SPELLINGS.iter().filter(|s| s.0.contains("added, heads") || s.0 == "two masks")
    {
        let (want, _) = run(*attention, shape, other, None, true, true);
        let (have, g) = run(*attention, shape, other, Some(&config()), true, true);
        let g = g.unwrap();
        assert_eq!((count(&g, "native_attention_backward"), count(&g, "softmax")), (1, 0), "{name}: {g}");
        near(name, &want, &have, 2e-5);
    }
}

#[test]
fn heads_inside_rows_are_copied_only_as_results() {
    setup();
    let (_, attention, shape, other, _) = SPELLINGS.iter().find(|s| s.0 == "heads inside rows, copied").unwrap();
    let (_, g) = run(*attention, shape, other, Some(&config()), true, false);
    let g = g.unwrap();
    let copies = g.nodes.iter().filter(|n| n.name() == "clone_contiguous");
    let results: Vec<u32> = g.outputs.iter().map(|v| g.values[*v as usize].root).collect();
    assert!(copies.clone().count() <= 4 && copies.flat_map(|n| &n.outs).all(|v| results.contains(v)), "{g}");
}

/// Masks that hide whole blocks of keys: behind each row, in front, and all but a band.
const MASKS: [fn(&Tensor) -> Result<Tensor>; 3] =
    [|ones| ones.tril(0)?.eq(0.0), |ones| ones.cumsum(1)?.le(260.0), |ones| ones.tril(3)?.triu(-3)?.eq(0.0)];

#[test]
fn blocks_that_a_mask_hides_change_nothing() {
    setup();
    let ones = tensor(&[300, 300], 1).zeros_like().unwrap().add(1.0).unwrap();
    for hides in MASKS {
        let mask = hides(&ones).unwrap();
        let program = |t: &[Tensor]| {
            let s = scores(t)?.mul(0.25)?.masked_fill(&mask, f64::NEG_INFINITY)?;
            let y = probabilities(&s)?.matmul(&t[2])?;
            let loss = y.square()?.sum(&[], false)?;
            oneflow_autograd::backward(&[loss], &[None], false, false, None)?;
            let grads = t.iter().flat_map(oneflow_autograd::grad).collect::<Vec<_>>();
            t.iter().try_for_each(|x| oneflow_autograd::set_grad(x, None))?;
            Ok::<_, oneflow_base::Error>([vec![y], grads].concat())
        };
        let t: Vec<Tensor> = (0..3).map(|i| leaf(&[1, 2, 300, 16], i)).collect();
        let want: Vec<_> = program(&t).unwrap().iter().map(floats).collect();
        let tracer = Tracer::begin("masked", None).unwrap();
        let outputs = program(&t).unwrap();
        let mut c = compile(tracer.finish(&outputs).unwrap(), &config()).unwrap();
        assert_eq!(count(&c.optimized, "native_attention_backward"), 1, "{}", c.optimized);
        let have: Vec<_> = c.run(&[], &mut || Ok(())).unwrap().iter().map(floats).collect();
        near("masked", &want, &have, 2e-5);
    }
}
