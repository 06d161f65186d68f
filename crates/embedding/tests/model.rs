//! Random programs against a hash map, with crashes and failures at every step that changes the disk.

mod common;

use common::{Countdown, Scratch, Tier, config, fill, keys_of};
use oneflow_embedding::{Batch, Config, Key, Options, Rule, Step, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

over_tiers! {
    random_programs_agree_with_a_map,
    a_crash_at_any_change_of_the_disk_leaves_the_last_epoch_whole,
    a_full_disk_at_any_change_loses_nothing,
    crashes_and_full_disks_where_a_store_makes_epochs_itself,
    crashes_and_full_disks_where_rows_of_several_tables_are_placed,
}

type Model = BTreeMap<Key, Vec<f32>>;

/// A small generator: the programs are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
    fn keys(&mut self, n: u64, to_positions: u64) -> Vec<Key> {
        let special = [0, u64::MAX, u64::MAX - 1];
        let id = |r: &mut Random| if r.below(20) == 0 { special[r.below(3) as usize] } else { r.below(to_positions) };
        (0..n).map(|_| Key { table: self.below(2) as u32, id: id(self) }).collect()
    }
}

/// The initial values of keys, from a store in which nobody writes.
struct Initial {
    store: Store,
    known: BTreeMap<Key, Vec<f32>>,
    _scratch: Scratch,
}

impl Initial {
    fn new(config: &Config, tier: Tier) -> Initial {
        let scratch = Scratch::new("initial", tier);
        let store = Store::open(scratch.path(), config.clone(), &Options::default()).unwrap();
        Initial { store, known: BTreeMap::new(), _scratch: scratch }
    }
    fn of(&mut self, key: Key) -> Vec<f32> {
        self.known.entry(key).or_insert_with(|| fill(&mut self.store, &[key])).clone()
    }
}

const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };
const STEP: Step = Step { lr: 0.5, step: 1, scale: 1.0 };

/// One random step on both; returns what the store answered and what the model should be if it succeeded.
fn step(
    store: &mut Store,
    model: &Model,
    initial: &mut Initial,
    random: &mut Random,
) -> (oneflow_base::Result<()>, Model) {
    let (mut after, dim) = (model.clone(), store.config().dim());
    let n = [1, 7, 40, 150][random.below(4) as usize];
    let keys = random.keys(n, 400);
    let batch = Batch::new(keys.iter().copied().map(Some)).unwrap();
    let answer = match random.below(12) {
        0..=5 => {
            let grads: Vec<f32> = (0..keys.len() * dim).map(|i| (i % 5) as f32 - 1.5).collect();
            for (key, grad) in keys.iter().zip(grads.chunks(dim)) {
                let row = after.entry(*key).or_insert_with(|| initial.of(*key));
                row.iter_mut().zip(grad).for_each(|(w, g)| *w -= 0.5 * g);
            }
            store.update(&batch, &grads, &SGD, &STEP)
        }
        6 | 7 => {
            let values: Vec<f32> = (0..keys.len() * dim).map(|i| i as f32).collect();
            keys.iter().zip(values.chunks(dim)).for_each(|(k, v)| drop(after.insert(*k, v.to_vec())));
            store.write(&batch, &values)
        }
        8 => {
            keys.iter().for_each(|k| drop(after.remove(k)));
            store.remove(&keys).map(|_| ())
        }
        9 => store.commit().map(|_| ()),
        kind => store.lookup(&batch, kind == 10, &mut vec![0.0; keys.len() * dim]),
    };
    (answer, after)
}

fn assert_same(store: &mut Store, model: &Model, initial: &mut Initial, what: &str) {
    assert_eq!(keys_of(store), model.keys().copied().collect::<Vec<_>>(), "{what}: keys");
    assert_eq!(store.len(), model.len(), "{what}");
    for chunk in model.keys().copied().collect::<Vec<_>>().chunks(100) {
        let dim = store.config().dim();
        for (key, row) in chunk.iter().zip(fill(store, chunk).chunks(dim)) {
            // Sums of duplicates are added before they reach the row, so the last bits may differ.
            assert!(
                row.iter().zip(&model[key]).all(|(a, b)| (a - b).abs() < 1e-3),
                "{what}: {key:?} {row:?} {:?}",
                model[key]
            );
        }
    }
    let never = Key { table: 1, id: 1 << 40 };
    assert_eq!(fill(store, &[never]), initial.of(never), "{what}: a row that nobody wrote");
}

fn random_programs_agree_with_a_map(tier: Tier) {
    for seed in 0..12 {
        let scratch = Scratch::new("model", tier);
        let config = config(if seed % 3 == 0 { 40 } else { 3 }, seed as usize % 2 * 3);
        // 64 rows, the least there are, of some 800.
        let options = scratch.options(if seed % 4 == 3 { u64::MAX } else { 0 });
        let mut initial = Initial::new(&config, tier);
        let mut store = Store::open(scratch.path(), config.clone(), &options).unwrap();
        let (mut model, mut random) = (Model::new(), Random(seed));
        for i in 0..150 {
            let (answer, after) = step(&mut store, &model, &mut initial, &mut random);
            answer.unwrap();
            model = after;
            if i % 30 == 29 {
                assert_same(&mut store, &model, &mut initial, &format!("seed {seed}, step {i}"));
            }
        }
        store.commit().unwrap();
        let stats = store.stats();
        assert!(stats.disk_bytes <= 2 * stats.live_bytes + 600 * 4 * 60 + tier.slack(), "{stats:?}");
        assert!(
            seed % 4 == 3 || (stats.counts.evictions > 1000 && stats.counts.moved > 0 && stats.resident <= 64),
            "{stats:?}"
        );
        drop(store);
        let mut store = Store::open(scratch.path(), config, &options).unwrap();
        assert_same(&mut store, &model, &mut initial, "after opening again");
        assert_eq!(store.verify().unwrap(), model.len());
    }
}

/// What a program with faults runs on.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Most rows on disk.
    Small,
    /// The same, in a store that makes epochs by itself.
    WithEpochs,
    /// All rows in memory, those of dense ids of two tables moved to their places.
    Placed,
}

/// Runs a program whose `fault`-th change of the disk fails; returns false once the program has fewer.
fn with_fault(tier: Tier, fault: usize, crash: bool, torn: bool, initial: &mut Initial) -> bool {
    with_fault_and(tier, fault, crash, torn, initial, Kind::Small).0
}

/// As `with_fault`, for any kind; returns how many epochs the store made by itself, too.
fn with_fault_and(tier: Tier, fault: usize, crash: bool, torn: bool, initial: &mut Initial, kind: Kind) -> (bool, u64) {
    let scratch = Scratch::new("crash", tier);
    let config = config(3, 0);
    let countdown = Arc::new(Countdown::new(fault, crash, torn));
    let options = scratch.options(if kind == Kind::Placed { u64::MAX } else { 0 });
    let faulty = Options { faults: Some(countdown.clone()), bounds_disk: kind == Kind::WithEpochs, ..options.clone() };
    let mut n_own = 0;
    let (mut model, mut random) = (Model::new(), Random(9));
    // What a new opening may find: the last epoch, or the one whose commit was cut short.
    let mut epochs = vec![Model::new()];
    let mut store = Store::open(scratch.path(), config.clone(), &faulty).unwrap();
    let dense: Vec<Key> = (0..2600).map(|n| Key { table: n % 2, id: n as u64 / 2 * 7 % 1300 }).collect();
    if kind == Kind::Placed {
        let values: Vec<f32> = (0..dense.len() * 3).map(|i| i as f32).collect();
        // Nothing is written yet.
        store.write(&Batch::new(dense.iter().copied().map(Some)).unwrap(), &values).unwrap();
        model.extend(dense.iter().zip(values.chunks(3)).map(|(key, row)| (*key, row.to_vec())));
    }
    for i in 0..28 {
        if kind == Kind::Placed {
            // Moves rows, of which some calls lose some.
            fill(&mut store, &dense);
        }
        let (before, model_before) = (store.stats().epoch, model.clone());
        let (answer, after) = step(&mut store, &model, initial, &mut random);
        let own = store.stats().epoch - before;
        let (answer, is_commit) = match i % 8 {
            7 if answer.is_ok() => (store.save_snapshot(["a", "b"][i / 8 % 2]), true),
            _ => (answer, false),
        };
        if countdown.has_crashed() {
            assert!(answer.is_err() || crash);
            epochs.push(if is_commit { after } else { model.clone() });
            break;
        }
        match answer {
            Ok(()) => model = after,
            // Larger than a piece: half of it may be there. Such a program has to go back to an epoch.
            Err(e) if e.text().contains("after the first") => return (true, n_own),
            Err(_) => {
                model = if is_commit { after } else { model };
                // Nothing of it happened, and the store goes on.
                assert_same(&mut store, &model, initial, &format!("after the failure of change {fault}"));
            }
        }
        if store.stats().epoch != before {
            // One that the store made by itself stands before the call.
            epochs = vec![if is_commit { model.clone() } else { model_before }];
            n_own += own;
        }
    }
    if crash {
        drop(store);
        countdown.lose_unsynced();
    } else {
        // The fault may have waited until now; it strikes once.
        store.commit().or_else(|_| store.commit()).unwrap();
        epochs = vec![model];
        drop(store);
    }
    let mut store = Store::open(scratch.path(), config.clone(), &options).unwrap();
    let found = keys_of(&mut store);
    let dim = config.dim();
    let fits = |m: &Model, store: &mut Store| {
        m.keys().copied().collect::<Vec<_>>() == found
            && found.chunks(100).all(|part| {
                let rows = fill(store, part);
                part.iter().zip(rows.chunks(dim)).all(|(k, r)| r.iter().zip(&m[k]).all(|(a, b)| (a - b).abs() < 1e-3))
            })
    };
    assert!(
        epochs.iter().any(|m| fits(m, &mut store)),
        "change {fault}, crash {crash}, torn {torn}: {tier:?}: no whole epoch"
    );
    store.verify().unwrap();
    (countdown.has_fired(), n_own)
}

fn a_crash_at_any_change_of_the_disk_leaves_the_last_epoch_whole(tier: Tier) {
    let mut initial = Initial::new(&config(3, 0), tier);
    for torn in [false, true] {
        let n = (0..).take_while(|fault| with_fault(tier, *fault, true, torn, &mut initial)).count();
        assert!(n > 40, "only {n} changes");
    }
}

fn a_full_disk_at_any_change_loses_nothing(tier: Tier) {
    let mut initial = Initial::new(&config(3, 0), tier);
    let n = (0..).take_while(|fault| with_fault(tier, *fault, false, true, &mut initial)).count();
    assert!(n > 40, "only {n} changes");
}

fn crashes_and_full_disks_where_a_store_makes_epochs_itself(tier: Tier) {
    let mut initial = Initial::new(&config(3, 0), tier);
    let [n_asked, n_all] =
        [Kind::Small, Kind::WithEpochs].map(|kind| with_fault_and(tier, usize::MAX, false, true, &mut initial, kind).1);
    assert!(n_all > n_asked, "the store made no epoch by itself: {n_asked} {n_all}");
    for crash in [true, false] {
        let run = |fault: &usize| with_fault_and(tier, *fault, crash, true, &mut initial, Kind::WithEpochs).0;
        let n = (0..).take_while(run).count();
        assert!(n > 40, "only {n} changes");
    }
}

fn crashes_and_full_disks_where_rows_of_several_tables_are_placed(tier: Tier) {
    let mut initial = Initial::new(&config(3, 0), tier);
    for crash in [true, false] {
        let run = |fault: &usize| with_fault_and(tier, *fault, crash, true, &mut initial, Kind::Placed).0;
        let n = (0..).take_while(run).count();
        assert!(n > 20, "only {n} changes");
    }
}
