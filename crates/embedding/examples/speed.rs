//! `cargo run --release -p oneflow-embedding --example speed`: nanoseconds a row of what a training step asks of a store whose
//! rows are all in memory, for ids numbered from zero, in one table and in eight by turns, and for ids spread over 64 bits.
//! Minima of 20 batches of 64 K ids.
//! Arguments: numbers of weights a row, and `weights` for rows without Adam's state, of which no update is timed.

use oneflow_embedding::{Bags, Batch, Config, Initializer, Options, Rule, Step, Store};
use std::io::Write;
use std::time::Instant;

const N_ROWS: u64 = 1 << 20;
const N_IDS: usize = 1 << 16;
const BAG: usize = 8;
/// Tables whose ids stand by turns, and ids spread over 64 bits.
const KINDS: [(&str, u32, bool); 3] = [("dense", 1, false), ("tables", 8, false), ("hashed", 1, true)];

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

/// The least nanoseconds an id of 20 calls.
fn best(mut f: impl FnMut() -> f64) -> f64 {
    (0..20).map(|_| f()).fold(f64::MAX, f64::min) / N_IDS as f64
}

fn timed(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64
}

fn main() {
    let folder = std::env::temp_dir().join(format!("oneflow_embedding_speed_{}", std::process::id()));
    let adam = Rule::Adam {
        betas: [0.9, 0.999],
        eps: 1e-8,
        weight_decay: 0.0,
        decoupled: false,
        bias_correction: true,
        maximize: false,
    };
    let adagrad = Rule::RowWiseAdagrad { eps: 1e-8, weight_decay: 0.0, initial: 0.0 };
    let dims: Vec<usize> = std::env::args().skip(1).filter_map(|d| d.parse().ok()).collect();
    let has_state = !std::env::args().any(|arg| arg == "weights");
    let mut out = std::io::stdout().lock();
    for (dim, (kind, n_tables, is_hashed)) in [16, 32, 128].into_iter().flat_map(|dim| KINDS.map(|kind| (dim, kind))) {
        if !dims.is_empty() && !dims.contains(&dim) {
            continue;
        }
        let tables = vec![vec![Initializer::Uniform { low: -0.1, high: 0.1 }]; n_tables as usize];
        let state_width = if has_state { 2 * dim } else { 0 };
        let config = Config { column_dims: vec![dim], state_width, tables, seed: 0 };
        let mut store = Store::open(&folder, config, &Options::default()).expect("a new store");
        let id = |i: u64| if is_hashed { i.wrapping_mul(0x9E37_79B9_7F4A_7C15) } else { i / n_tables as u64 };
        let at = Step { lr: 1e-3, step: 5, scale: 1.0 };
        let grads = vec![0.5f32; N_IDS * dim];
        for first in (0..N_ROWS).step_by(N_IDS) {
            let ids: Vec<u64> = (first..first + N_IDS as u64).map(id).collect();
            let batch = Batch::from_ids(ids, None, n_tables, None).expect("ids");
            if has_state {
                store.update(&batch, &grads, &adam, &at).expect("an update");
            } else {
                store.write(&batch, &grads).expect("rows");
            }
        }
        let mut state = 1;
        let mut batch = || {
            let ids: Vec<u64> = (0..N_IDS).map(|_| id(random(&mut state) % N_ROWS)).collect();
            Batch::from_ids(ids, None, n_tables, None).expect("ids")
        };
        let mut rows = vec![0f32; N_IDS * dim];
        // Rows of dense ids move to their places.
        for _ in 0..96 {
            store.lookup(&batch(), false, &mut rows).expect("rows");
        }
        let ends: Vec<u32> = (1..=N_IDS / BAG).map(|bag| (bag * BAG) as u32).collect();
        let unique = best(|| {
            let b = batch();
            timed(|| assert!(b.n_unique() > 0))
        });
        let lookup = best(|| {
            let b = batch();
            timed(|| store.lookup(&b, false, &mut rows).expect("rows"))
        });
        let pooled = best(|| {
            let (b, bags) = (batch(), Bags { ends: &ends, factors: None });
            timed(|| store.lookup_bags(&b, &bags, false, &mut rows[..N_IDS / BAG * dim]).expect("bags"))
        });
        let trained = best(|| {
            let b = batch();
            b.n_unique();
            timed(|| store.lookup(&b, true, &mut rows).expect("rows"))
        });
        let mut update = |rule: &Rule| {
            best(|| {
                let b = batch();
                store.lookup(&b, true, &mut rows).expect("rows");
                timed(|| store.update(&b, &grads, rule, &at).expect("an update"))
            })
        };
        let (adam, adagrad) = if has_state { (update(&adam), update(&adagrad)) } else { (f64::NAN, f64::NAN) };
        let _ = writeln!(
            out,
            "d {dim:3} {kind:6}  unique {unique:5.1}  lookup {lookup:5.1}  pooled {pooled:5.1}  trained lookup {trained:5.1}  \
             Adam {adam:6.1}  row-wise Adagrad {adagrad:6.1} ns a row"
        );
        drop(store);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
