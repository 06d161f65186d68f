//! Passes: each rewrites the graph as it says.

mod common;

use common::*;
use oneflow_graph::{Config, Graph, PASSES, Traced, Tracer};
use oneflow_ops::TensorOps;

/// The graph after one pass alone.
fn after(name: &str, traced: &Traced) -> (Graph, bool) {
    let mut g = traced.graph.clone();
    let pass = PASSES.iter().find(|p| p.0 == name).unwrap().1;
    let changed = pass(&mut g, &Config::default()).unwrap();
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
