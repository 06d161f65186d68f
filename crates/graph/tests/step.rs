//! A training step of a small network as a graph: bit-equal to eager, without allocations, and as a plan file.

mod common;

use common::*;
use oneflow_base::{DeviceType, Result};
use oneflow_core::Tensor;
use oneflow_graph::{Compiled, Config, Tracer, compile};
use oneflow_ops::{TensorOps, f};
use std::sync::Mutex;

/// The process's generator and allocator counters are shared by the tests of this file.
static ALONE: Mutex<()> = Mutex::new(());

struct Net {
    params: Vec<Tensor>,
    exp_avgs: Vec<Tensor>,
    exp_avg_sqs: Vec<Tensor>,
    lr: Tensor,
    step: Tensor,
    scale: Tensor,
}

impl Net {
    fn new() -> Net {
        let shapes: [&[i64]; 4] = [&[16, 8], &[16], &[4, 16], &[4]];
        Net {
            params: shapes.iter().enumerate().map(|(i, s)| leaf(s, i as u64 + 1)).collect(),
            exp_avgs: shapes.iter().map(|s| zeros(s)).collect(),
            exp_avg_sqs: shapes.iter().map(|s| zeros(s)).collect(),
            lr: scalar(1e-2),
            step: scalar(0.0),
            scale: tensor(&[16], 40),
        }
    }

    /// Forward, loss, backward, clipping and AdamW.
    fn step(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let p = &self.params;
        let h = x.linear(&p[0], Some(&p[1]))?.gelu()?;
        let [h, _] = h.native_dropout(0.1)?;
        // In place on a view of an intermediate value.
        let h = h.mul(1.0)?;
        h.slice(1, Some(0), Some(8), 2)?.mul_(2.0)?;
        let out = h.mul(&self.scale)?.linear(&p[2], Some(&p[3]))?;
        let loss = out.sub(y)?.square()?.mean(None, false)?;
        oneflow_autograd::backward(std::slice::from_ref(&loss), &[None], false, false, None)?;
        let _off = oneflow_autograd::GradGuard::new(false);
        let grads: Vec<Tensor> = p.iter().map(|t| oneflow_autograd::grad(t).unwrap()).collect();
        let norms: Vec<Tensor> = grads.iter().map(|g| g.square()?.sum(None, false)).collect::<Result<_>>()?;
        let total = f::stack(&norms, 0)?.sum(None, false)?.sqrt()?;
        let factor = total.add(1e-6)?.reciprocal()?.mul(0.5)?.clamp(None, Some(1.0.into()))?;
        for g in &grads {
            g.mul_(&factor)?;
        }
        self.step.add_(1.0)?;
        f::_fused_adamw_(
            &self.params,
            &grads,
            &self.exp_avgs,
            &self.exp_avg_sqs,
            &self.lr,
            &self.step,
            0.9,
            0.99,
            0.01,
            1e-8,
            false,
        )?;
        for t in p {
            oneflow_autograd::set_grad(t, None)?;
        }
        Ok(loss)
    }

    fn state(&self) -> Vec<Vec<u8>> {
        let all = self.params.iter().chain(&self.exp_avgs).chain(&self.exp_avg_sqs);
        all.chain([&self.step]).map(bytes).collect()
    }

    fn compile(&self, fuse: bool) -> Compiled {
        let (x, y) = batch(0);
        let tracer = Tracer::begin("step", None).unwrap();
        for (i, p) in self.params.iter().enumerate() {
            tracer.name(p, &format!("param{i}")).unwrap();
        }
        let (x, y) = (tracer.input(&x).unwrap(), tracer.input(&y).unwrap());
        let loss = self.step(&x, &y).unwrap();
        let loss = oneflow_autograd::detach(&loss);
        compile(tracer.finish(&[loss]).unwrap(), &Config { fuse, ..Config::default() }).unwrap()
    }
}

fn batch(i: u64) -> (Tensor, Tensor) {
    (tensor(&[6, 8], 100 + i), tensor(&[6, 4], 200 + i))
}

fn n_allocs() -> u64 {
    oneflow_core::ep::provider(DeviceType::CPU).unwrap().n_allocs(0)
}

const STEPS: u64 = 20;

fn eager(net: &Net) -> Vec<Vec<u8>> {
    oneflow_core::default_generator().manual_seed(3);
    (0..STEPS)
        .map(|i| {
            let (x, y) = batch(i);
            bytes(&net.step(&x, &y).unwrap())
        })
        .collect()
}

#[test]
fn without_fusion_a_graph_gives_the_bits_of_eager() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let (a, b) = (Net::new(), Net::new());
    let want = eager(&a);
    oneflow_core::default_generator().manual_seed(3);
    let mut c = b.compile(false);
    assert_eq!(b.state(), Net::new().state(), "tracing changes nothing");
    assert!(b.params.iter().all(|p| oneflow_autograd::grad(p).is_none()));
    let batches: Vec<_> = (0..STEPS).map(batch).collect();
    let mut have = Vec::new();
    for (i, (x, y)) in batches.into_iter().enumerate() {
        let inputs = [x, y];
        let before = n_allocs();
        let out = c.run(&inputs, &mut || Ok(())).unwrap();
        if i > 0 {
            assert_eq!(n_allocs(), before, "a run allocates nothing");
        }
        have.push(bytes(&out[0]));
    }
    assert_eq!(have, want);
    assert_eq!(b.state(), a.state());
    let m = &c.memory;
    assert!(m.peak as f64 <= 1.1 * m.bound as f64, "{m:?}");
    assert!(m.peak < m.total);
}

#[test]
fn with_fusion_it_stays_within_rounding() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let (a, b) = (Net::new(), Net::new());
    eager(&a);
    oneflow_core::default_generator().manual_seed(3);
    let mut c = b.compile(true);
    assert!(c.optimized.nodes.len() < c.logical.nodes.len());
    for i in 0..STEPS {
        let (x, y) = batch(i);
        c.run(&[x, y], &mut || Ok(())).unwrap();
    }
    for (p, q) in a.params.iter().zip(&b.params) {
        for (u, v) in floats(p).iter().zip(floats(q)) {
            assert!((u - v).abs() <= 1e-6 * (1.0 + u.abs()), "{u} {v}");
        }
    }
}

#[test]
fn a_saved_training_plan_gives_the_same_losses() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let a = Net::new();
    let want = eager(&a);
    let net = Net::new();
    let dir = std::env::temp_dir().join(format!("oneflow-step-{}", std::process::id()));
    net.compile(false).session.save(&dir).unwrap();
    drop(net);
    let mut s = oneflow_runtime::Session::load(&dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    oneflow_core::default_generator().manual_seed(3);
    let have: Vec<_> = (0..STEPS)
        .map(|i| {
            let (x, y) = batch(i);
            bytes(&s.run(&[x, y]).unwrap()[0])
        })
        .collect();
    assert_eq!(have, want);
}
