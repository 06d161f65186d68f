//! `cargo run --release -p oneflow-embedding --example larger`: training steps of a store whose rows are many times its budget, beside
//! one that holds all of them: 26 tables with the published cardinalities of Criteo's Kaggle data set, Zipf 1.05, rows of 16
//! weights and as many numbers of state, batches of 512 samples, reads past the system's cache. Arguments: MiB of the budget (46),
//! rows over the budget (10), steps (200), and `log` or `pages` to force where rows lie.

use oneflow_embedding::{Batch, Config, Initializer, Key, Options, Rule, Step, Store};
use std::io::Write;
use std::time::Instant;

const CARDINALITIES: [u64; 26] = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
];
const DIM: usize = 16;
const SAMPLES: usize = 512;
const ALPHA: f64 = 1.05;

/// A number of [0, 1).
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// Ids by a continuous approximation of Zipf's law.
fn some_keys(state: &mut u64, n_samples: usize) -> Batch {
    let mut keys = Vec::with_capacity(n_samples * 26);
    for _ in 0..n_samples {
        for (table, n_rows) in CARDINALITIES.iter().enumerate() {
            let power = 1.0 - ALPHA;
            let rank = (1.0 + random(state) * ((*n_rows as f64 + 1.0).powf(power) - 1.0)).powf(1.0 / power);
            keys.push(Some(Key { table: table as u32, id: (rank as u64 - 1).min(n_rows - 1) }));
        }
    }
    Batch::new(keys.into_iter()).expect("keys")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<f64> = args.iter().filter_map(|a| a.parse().ok()).collect();
    let number = |i: usize, default: f64| numbers.get(i).copied().unwrap_or(default);
    let (budget, times, steps) = ((number(0, 46.0) * 1048576.0) as u64, number(1, 10.0), number(2, 200.0) as usize);
    let pages = args.iter().find_map(|a| ["log", "pages"].iter().position(|p| p == a)).map(|p| p == 1);
    let adagrad = Rule::Adagrad { eps: 1e-10, weight_decay: 0.0, initial: 0.0, maximize: false };
    let mut out = std::io::stdout().lock();
    for (name, memory_budget, prefetches) in
        [("memory", u64::MAX, false), ("disk", budget, false), ("ahead", budget, true)]
    {
        let folder = std::env::temp_dir().join(format!("oneflow_embedding_larger_{}", std::process::id()));
        let tables = vec![vec![Initializer::Normal { mean: 0.0, std: 0.05 }]; 26];
        let config = Config { column_dims: vec![DIM], state_width: DIM, tables, seed: 0 };
        let direct_block = (memory_budget != u64::MAX).then_some(4096);
        let options = Options { memory_budget, direct_block, pages, ..Options::default() };
        let mut store = Store::open(&folder, config, &options).expect("a new store");
        let (mut state, mut rows) = (1, vec![0f32; 1024 * 26 * DIM]);
        let mut at = Step { lr: 0.01, step: 0, scale: 1.0 };
        let grads = vec![0.01f32; 1024 * 26 * DIM];
        let filled = Instant::now();
        while (store.len() * 8 * DIM) as f64 <= times * budget as f64 {
            let batch = some_keys(&mut state, 1024);
            at.step += 1;
            store.lookup(&batch, true, &mut rows).expect("rows");
            store.update(&batch, &grads, &adagrad, &at).expect("an update");
        }
        let filled = filled.elapsed().as_secs_f64();
        store.commit().expect("an epoch");
        let n = SAMPLES * 26 * DIM;
        let (mut store_seconds, before) = (0.0, store.stats().counts);
        let mut most_seconds = 0f64;
        for _ in 0..steps {
            let batch = some_keys(&mut state, SAMPLES);
            at.step += 1;
            batch.n_unique();
            if prefetches {
                // As another thread does while a step computes: not part of its time but for the entering of rows.
                let mut prefetch = store.start_prefetch(&batch).expect("a prefetch");
                prefetch.read().expect("rows");
                let start = Instant::now();
                while !store.continue_prefetch(&mut prefetch).expect("rows") {}
                store_seconds += start.elapsed().as_secs_f64();
            }
            let start = Instant::now();
            store.lookup(&batch, true, &mut rows[..n]).expect("rows");
            store.update(&batch, &grads[..n], &adagrad, &at).expect("an update");
            let seconds = start.elapsed().as_secs_f64();
            store_seconds += seconds;
            most_seconds = most_seconds.max(seconds);
        }
        let (stats, samples) = (store.stats(), (steps * SAMPLES) as f64);
        let a_sample = |n: u64| n as f64 / samples;
        let of_budget = (stats.memory_bytes + stats.index_bytes) as f64 / memory_budget as f64;
        let _ = writeln!(
            out,
            "{name:7} {:.1} us a sample, the longest step {:.0} ms; from disk {:.2}, new {:.2}, written {:.2}, merged {:.2} rows a \
             sample; {} rows, of them in memory {}, index {:.1} MiB, held / budget {of_budget:.3}, disk / live {:.2}; filled in {filled:.0} s",
            store_seconds / samples * 1e6,
            most_seconds * 1e3,
            a_sample(stats.counts.reads - before.reads + stats.counts.prefetched - before.prefetched),
            a_sample(stats.counts.initial - before.initial),
            a_sample(stats.counts.writes - before.writes),
            a_sample(stats.counts.moved - before.moved),
            stats.rows,
            stats.resident,
            stats.index_bytes as f64 / 1048576.0,
            stats.disk_bytes as f64 / stats.live_bytes.max(1) as f64,
        );
        drop(store);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
