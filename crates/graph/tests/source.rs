//! A plan fed by a file: the source reads ahead under back-pressure and gives the batches it would give alone.

mod common;

use common::*;
use oneflow_base::{DType, Device};
use oneflow_core::Tensor;
use oneflow_data::{TokenKind, TokenSource};
use oneflow_graph::{Config, Tracer, compile};
use oneflow_ops::TensorOps;
use oneflow_runtime::Session;

fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("oneflow-{name}-{}.tokens", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn source(path: std::path::PathBuf, position: u64) -> TokenSource {
    TokenSource { path, kind: TokenKind::U16, batch: 3, window: 5, seed: 4, position }
}

fn alone(s: &TokenSource, n: usize) -> Vec<Vec<i64>> {
    let mut r = s.open().unwrap();
    (0..n)
        .map(|_| {
            let mut v = vec![0; s.batch * s.window];
            r.next_batch(&mut v);
            v
        })
        .collect()
}

#[test]
fn a_plan_fed_by_a_file_gives_the_batches_in_order() {
    setup();
    oneflow_data::register();
    let words: Vec<u8> = (0..1000u16).flat_map(|i| (i * 7).to_le_bytes()).collect();
    let path = file("feed", &words);
    let src = source(path.clone(), 0);
    let tracer = Tracer::begin("fed", None).unwrap();
    let like = Tensor::empty(DType::I64, Device::CPU, &[3, 5]).unwrap();
    let bias = Tensor::empty(DType::I64, Device::CPU, &[5]).unwrap();
    let (x, b) = (tracer.input(&like).unwrap(), tracer.input(&bias).unwrap());
    let y = x.mul(2.0 as i64).unwrap().add(&b).unwrap();
    let c = compile(tracer.finish(&[y]).unwrap(), &Config::default()).unwrap();
    let mut plan = c.session.to_plan_with_variables().unwrap();
    plan.feed_input(0, "tokens", src.config().unwrap(), 2).unwrap();
    // Through bytes, as a file would carry it.
    let mut s = Session::from_plan(oneflow_runtime::Plan::from_bytes(&plan.to_bytes()).unwrap()).unwrap();
    // SAFETY: i64 is the Rust type of I64.
    let bias = unsafe { Tensor::from_host(&[1i64, 2, 3, 4, 5], DType::I64, &[5]) }.unwrap();
    let want = alone(&src, 40);
    for (i, w) in want.iter().enumerate() {
        let out = s.run(std::slice::from_ref(&bias)).unwrap();
        let have: Vec<i64> =
            bytes(&out[0]).chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
        let w: Vec<i64> = w.iter().enumerate().map(|(k, x)| 2 * x + (k % 5) as i64 + 1).collect();
        assert_eq!(have, w, "batch {i}");
    }
    // A position is all a checkpoint needs.
    assert_eq!(alone(&source(path.clone(), 17), 5), want[17..22]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_files_are_errors() {
    setup();
    let odd = file("odd", &[1, 2, 3]);
    assert!(source(odd.clone(), 0).open().is_err());
    std::fs::remove_file(&odd).unwrap();
    assert!(source(odd, 0).open().is_err());
    assert!(TokenSource::parse(b"u16 3 5").is_err());
    assert!(TokenSource::parse(b"\xff").is_err());
}

/// Plans from files: every single damaged byte gives an error or a plan that runs, never a crash.
#[test]
fn damaged_plans_are_errors() {
    setup();
    let tracer = Tracer::begin("damaged", None).unwrap();
    let w = leaf(&[3, 4], 3);
    let x = tracer.input(&tensor(&[2, 4], 1)).unwrap();
    let y = x.linear(&w, None).unwrap().gelu().unwrap().softmax(-1, None).unwrap();
    let loss = y.square().unwrap().sum(None, false).unwrap();
    let g = oneflow_autograd::grad_of(&[loss], &[w], &[None], false, false).unwrap().remove(0).unwrap();
    let c = compile(tracer.finish(&[y, g]).unwrap(), &Config::default()).unwrap();
    let good = c.session.to_plan_with_variables().unwrap().to_bytes();
    let input = tensor(&[2, 4], 1);
    assert!(run(&good, &input).is_ok());
    for n in 0..good.len() {
        assert!(oneflow_runtime::Plan::from_bytes(&good[..n]).is_err(), "cut to {n} bytes");
    }
    let mut refused = 0;
    for i in 0..good.len() {
        for flip in [0xff, 0x01, 0x80] {
            let mut bad = good.clone();
            bad[i] ^= flip;
            refused += run(&bad, &input).is_err() as usize;
        }
    }
    assert!(refused > good.len(), "{refused} of {}", 3 * good.len());
}

fn run(plan: &[u8], input: &Tensor) -> oneflow_base::Result<Vec<Tensor>> {
    Session::from_plan(oneflow_runtime::Plan::from_bytes(plan)?)?.run(std::slice::from_ref(input))
}
