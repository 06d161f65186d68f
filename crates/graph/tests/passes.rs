//! Passes: each rewrites the graph as it says.

mod common;

use common::*;
use oneflow_graph::{Config, Graph, PASSES, Traced, Tracer, is_tracing};
use oneflow_ops::TensorOps;

/// The graph after one pass alone.
fn after(name: &str, traced: &Traced) -> (Graph, bool) {
    let mut g = traced.graph.clone();
    let pass = PASSES.iter().find(|p| p.name == name).unwrap();
    let changed = (pass.run)(&mut g, &Config::default()).unwrap();
    (g, changed)
}

#[test]
fn folding_is_a_pass_whose_results_are_variables_with_their_memory() {
    setup();
    let tracer = Tracer::begin("fold", None).unwrap();
    let x = tracer.input(&tensor(&[4, 4], 1)).unwrap();
    // A fill reads the layout of the input, never its values.
    let ones = x.ones_like().unwrap();
    let y = x.add(&ones.tril(0).unwrap()).unwrap();
    let traced = tracer.finish(&[y]).unwrap();
    let (g, changed) = after("fold", &traced);
    assert!(changed && g.variables.len() == 1 && g.nodes.iter().all(|n| n.name() != "tril"));
    let v = &g.variables[0];
    // SAFETY: the storage holds sixteen floats.
    let values = unsafe { std::slice::from_raw_parts(v.storage.ptr().cast::<f32>(), 16) };
    let want: Vec<f32> = (0..16).map(|i| (i % 4 <= i / 4) as u8 as f32).collect();
    assert_eq!((v.bytes(), values), (64, want.as_slice()));
    let (_, again) = after("fold", &Traced { graph: g, cut: None });
    assert!(!again);
}

#[test]
fn a_product_keeps_what_its_activation_was_given_where_backward_reads_it() {
    setup();
    let (x, w, b) = (tensor(&[5, 8], 1), leaf(&[16, 8], 2), leaf(&[16], 3));
    for act in ["gelu", "gelu_tanh", "silu"] {
        let tracer = Tracer::begin("keep", None).unwrap();
        let y = tracer.input(&x).unwrap().linear(&w, Some(&b)).unwrap();
        let y = match act {
            "gelu" => y.gelu(),
            "gelu_tanh" => y.gelu_with("tanh"),
            _ => y.silu(),
        };
        let y = y.unwrap();
        oneflow_autograd::backward(&[y.sum(&[], false).unwrap()], &[None], false, false, None).unwrap();
        let grads = [&w, &b].map(|t| oneflow_autograd::grad(t).unwrap());
        let traced = tracer.finish(&[vec![y], grads.to_vec()].concat()).unwrap();
        let names = |g: &Graph| g.nodes.iter().map(|n| n.name()).collect::<Vec<_>>();
        let (g, changed) = after("fuse_activation", &traced);
        assert!(changed && names(&g).contains(&"fused_linear_keep".to_owned()), "{:?}", names(&g));
        assert!(!names(&g).iter().any(|n| n == "linear" || act.starts_with(n.as_str())));
        let run = |fuse| {
            let config = Config { fuse, ..Config::default() };
            let traced = Traced { graph: traced.graph.clone(), cut: None };
            let mut c = oneflow_graph::compile(traced, &config).unwrap();
            let out = c.run(std::slice::from_ref(&x), &mut || Ok(())).unwrap();
            (c.session.n_launches(), out)
        };
        let ((fused, with), (plain, without)) = (run(true), run(false));
        assert!(fused < plain, "{act}: {fused} of {plain} launches");
        assert!(with.iter().zip(&without).all(|(a, b)| bytes(a) == bytes(b)), "{act}: other bits");
    }
}

#[test]
fn sums_before_a_norm_and_behind_its_gradient_are_made_by_the_norm() {
    setup();
    let (x, r, w) = (leaf(&[6, 8], 1), tensor(&[6, 8], 2), leaf(&[8], 3));
    for kind in ["layer", "rms"] {
        let tracer = Tracer::begin("norm", None).unwrap();
        let sum = x.add(&tracer.input(&r).unwrap()).unwrap();
        let y = match kind {
            "layer" => sum.layer_norm(&[8], Some(&w), None, 1e-5, true).unwrap(),
            _ => sum.native_rms_norm(&[8], Some(&w), 1e-5).unwrap()[0].clone(),
        };
        // The sum is read twice: a gradient comes to it beside that of the norm.
        let z = y.matmul(&y.transpose(0, 1).unwrap()).unwrap().matmul(&sum).unwrap();
        oneflow_autograd::backward(&[z.sum(&[], false).unwrap()], &[None], false, false, None).unwrap();
        let grads = [&x, &w].map(|t| oneflow_autograd::grad(t).unwrap());
        let traced = tracer.finish(&[vec![z, sum], grads.to_vec()].concat()).unwrap();
        let count = |g: &Graph, part: &str| g.nodes.iter().filter(|n| n.name() == part).count();
        let (g, changed) = after("fuse_norm", &traced);
        // One is left: y is read twice, and its gradients are added before the norm's.
        let adds = (count(&traced.graph, "add"), count(&g, "add"));
        assert!(changed && adds == (3, 1) && count(&g, &format!("fused_add_{kind}_norm")) == 1, "{kind}: {adds:?}");
        let run = |fuse_add| {
            let traced = Traced { graph: traced.graph.clone(), cut: None };
            let mut c = oneflow_graph::compile(traced, &Config { fuse_add, ..Config::default() }).unwrap();
            let out = c.run(std::slice::from_ref(&r), &mut || Ok(())).unwrap();
            (c.session.n_launches(), out.iter().map(bytes).collect::<Vec<_>>())
        };
        let ((fused, with), (plain, without)) = (run(true), run(false));
        assert!(fused < plain && with == without, "{kind}: {fused} of {plain} launches");
    }
}

#[test]
fn another_thread_may_drop_a_trace() {
    setup();
    let tracer = Tracer::begin("given away", None).unwrap();
    std::thread::spawn(move || drop(tracer)).join().unwrap();
    // The thread's next trace starts all the same.
    let tracer = Tracer::begin("next", None).unwrap();
    assert!(is_tracing());
    std::thread::spawn(move || {
        let e = tracer.cut().unwrap_err().to_string();
        assert!(e.contains("ended") || e.contains("another thread"), "{e}");
        drop(tracer);
    })
    .join()
    .unwrap();
    drop(Tracer::begin("last", None).unwrap());
    assert!(!is_tracing());
}

#[test]
fn the_last_results_become_a_program_that_runs_before() {
    setup();
    let (x, w) = (tensor(&[4, 4], 1), tensor(&[4, 4], 2));
    let tracer = Tracer::begin("before", None).unwrap();
    let (a, later) = (tracer.input(&x).unwrap(), tracer.input(&x).unwrap());
    let early = a.mul(3.0).unwrap();
    let late = early.add(&later).unwrap().matmul(&w).unwrap();
    w.copy_(&late, false).unwrap();
    let (main, before) = tracer.finish(&[late, early]).unwrap().take_last_results(1, 1).unwrap();
    assert_eq!((main.graph.outputs.len(), main.graph.inputs.len(), main.graph.writes.len()), (1, 2, 1));
    let mut before = oneflow_graph::compile(before, &Config::default()).unwrap();
    assert!(before.optimized.writes.is_empty() && before.session.n_launches() == 1, "{}", before.optimized);
    let out = before.session.run(std::slice::from_ref(&x)).unwrap();
    assert_eq!(bytes(&out[0]), bytes(&x.mul(3.0).unwrap()));

    let tracer = Tracer::begin("circle", None).unwrap();
    let (a, later) = (tracer.input(&x).unwrap(), tracer.input(&x).unwrap());
    let sum = a.add(&later).unwrap();
    let refused = tracer.finish(&[sum.clone(), sum]).unwrap().take_last_results(1, 1);
    assert!(refused.err().is_some_and(|e| e.text().contains("given later")));
}
