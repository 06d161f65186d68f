//! What pages promise besides what every store does: little memory a row, bounded files, other cuts of the log, and few syncs.

mod common;

use common::{Scratch, Tier, batch, config, fill};
use oneflow_embedding::{Config, Faults, Key, Op, Options, Rule, Saved, Step, Store, Verdict};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

over_tiers! {
    a_store_that_makes_epochs_bounds_its_files_at_every_step,
    syncs_come_with_epochs_alone,
    rows_of_one_tier_are_those_of_the_other,
    removed_rows_stay_removed_whatever_was_written_when,
}

const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };
const STEP: Step = Step { lr: 1.0, step: 1, scale: 1.0 };

fn keys(ids: std::ops::Range<u64>) -> Vec<Key> {
    ids.map(|id| Key { table: (id % 2) as u32, id }).collect()
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

/// Adds one to each number of some rows.
fn add(store: &mut Store, keys: &[Key]) {
    store.update(&batch(keys), &vec![-1.0; keys.len() * store.config().dim()], &SGD, &STEP).unwrap();
}

#[test]
fn small_rows_of_ten_times_the_budget_leave_room_for_rows() {
    let scratch = Scratch::new("ten_times", Tier::Pages);
    // 128 bytes a row, and 80 000 rows.
    let (n, budget) = (80_000u64, 1 << 20);
    let options = Options { pages: None, records_per_segment: 0, ..scratch.options(budget) };
    let mut store = Store::open(scratch.path(), config(16, 16), &options).unwrap();
    let mut updates = vec![0u32; n as usize];
    for part in keys(0..n).chunks(500) {
        add(&mut store, part);
        part.iter().for_each(|k| updates[k.id as usize] += 1);
    }
    let mut x = 3;
    for round in 0..400 {
        // Squares of random numbers: small ids more often.
        let mut ids: Vec<u64> = (0..400).map(|_| (random(&mut x) % n) * (random(&mut x) % n) / n).collect();
        ids.sort_unstable();
        ids.dedup();
        let part: Vec<Key> = ids.iter().map(|id| Key { table: (id % 2) as u32, id: *id }).collect();
        add(&mut store, &part);
        ids.iter().for_each(|id| updates[*id as usize] += 1);
        if round == 150 {
            // From here on all files are kept, and what is merged is on disk twice.
            store.commit().unwrap();
        }
        let stats = store.stats();
        assert!(stats.memory_bytes + stats.index_bytes <= budget * 11 / 10, "round {round}: {stats:?}");
        // As long as the log has room for what is newer than the epoch; then parts are on disk twice, and the log besides.
        let most = if round < 200 { 2 * stats.live_bytes } else { stats.live_bytes * 9 / 4 };
        assert!(scratch.bytes() <= most + Tier::Pages.slack(), "round {round}: {stats:?}");
        // The bar is what a place of each row in memory would leave: nothing.
        assert!(stats.resident * 128 > budget / 4, "round {round}: {stats:?}");
    }
    store.commit().unwrap();
    drop(store);
    let mut store = Store::open(scratch.path(), config(16, 16), &options).unwrap();
    assert_eq!(store.len(), n as usize);
    let mut fresh = Store::open(Scratch::new("fresh", Tier::Log).path(), config(16, 16), &Options::default()).unwrap();
    for part in keys(0..n).chunks(1000) {
        let (rows, start) = (fill(&mut store, part), fill(&mut fresh, part));
        for ((key, row), start) in part.iter().zip(rows.chunks(16)).zip(start.chunks(16)) {
            let expected = start[0] + updates[key.id as usize] as f32;
            assert!((row[0] - expected).abs() < 1e-3, "{key:?}: {} {expected}", row[0]);
        }
    }
    assert_eq!(store.verify().unwrap(), n as usize);
}

#[test]
fn the_size_of_rows_chooses_unless_an_option_does() {
    for (width, pages, expected) in [(8, None, true), (119, None, true), (130, None, false), (8, Some(false), false)]
        .into_iter()
        .chain([(130, Some(true), true), (3000, Some(true), true)])
    {
        let scratch = Scratch::new("sizes", Tier::Log);
        let options = Options { pages, ..scratch.options(0) };
        let mut store = Store::open(scratch.path(), config(width, 0), &options).unwrap();
        let all = keys(0..600);
        all.chunks(30).for_each(|part| add(&mut store, part));
        store.commit().unwrap();
        assert_eq!(!scratch.files(".pages").is_empty(), expected, "{width} {pages:?}");
        assert_eq!(store.verify().unwrap(), 600);
    }
}

#[test]
fn a_damaged_page_costs_the_rows_of_its_page_alone() {
    let scratch = Scratch::new("page", Tier::Pages);
    let opened = || Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    let mut store = opened();
    let all = keys(0..4000);
    all.chunks(50).for_each(|part| add(&mut store, part));
    store.compact().unwrap();
    let want = fill(&mut store, &all);
    drop(store);
    let file = &scratch.files(".pages")[0];
    let mut bytes = std::fs::read(file).unwrap();
    bytes[4096 + 99] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let mut store = opened();
    let is_lost = |store: &mut Store, key: &Key| store.lookup(&batch(&[*key]), false, &mut [0.0; 4]).is_err();
    let lost: Vec<Key> = all.iter().copied().filter(|key| is_lost(&mut store, key)).collect();
    assert!((10..=4096 / 36).contains(&lost.len()), "{}", lost.len());
    // All other rows are trained for long, also those of the same file; they are merged into other files, and in the log.
    let rest: Vec<Key> = all.iter().copied().filter(|key| !lost.contains(key)).collect();
    for _ in 0..3 {
        rest.chunks(50).for_each(|part| add(&mut store, part));
        store.commit().unwrap();
    }
    drop(store);
    let mut store = opened();
    for (key, row) in rest.iter().zip(fill(&mut store, &rest).chunks(4)) {
        let before = &want[4 * key.id as usize..4 * key.id as usize + 4];
        assert!(row.iter().zip(before).all(|(r, b)| (r - b - 3.0).abs() < 1e-3));
    }
    assert!(lost.iter().all(|key| is_lost(&mut store, key)));
    let e = store.verify().err().unwrap();
    assert!(e.text().contains("page 1 of") && e.text().contains(".pages"), "{e}");
    assert_eq!(store.len(), 4000);
}

/// Counts steps, and fails none.
#[derive(Default)]
struct Counter {
    n_syncs: AtomicUsize,
    n_others: AtomicUsize,
}

impl Faults for Counter {
    fn judge(&self, op: Op, _: &Path) -> Verdict {
        let count = if matches!(op, Op::Sync | Op::SyncFolder) { &self.n_syncs } else { &self.n_others };
        count.fetch_add(1, Ordering::Relaxed);
        Verdict::Go
    }
}

/// Looks at all files after each step, and fails none.
struct Watch {
    folder: PathBuf,
    /// Bytes of all rows; 0 while there is nothing to hold the files against.
    all: AtomicU64,
    /// The most that files held, in thousandths of that.
    most: AtomicU64,
}

impl Faults for Watch {
    fn judge(&self, _: Op, _: &Path) -> Verdict {
        let all = self.all.load(Ordering::Relaxed);
        if let Some(entries) = std::fs::read_dir(&self.folder).ok().filter(|_| all > 0) {
            // Manifests too, also those that are not finished.
            let bytes: u64 = entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum();
            self.most.fetch_max(1000 * bytes / all, Ordering::Relaxed);
        }
        Verdict::Go
    }
}

fn a_store_that_makes_epochs_bounds_its_files_at_every_step(tier: Tier) {
    let scratch = Scratch::new("bounded", tier);
    let watch =
        Arc::new(Watch { folder: scratch.path().to_path_buf(), all: AtomicU64::new(0), most: AtomicU64::new(0) });
    // Ten times the budget, for pages.
    let (n, budget) = (30_000u64, 400 << 10);
    let options = Options {
        records_per_segment: if tier == Tier::Log { 2000 } else { 0 },
        bounds_disk: true,
        faults: Some(watch.clone()),
        ..scratch.options(budget)
    };
    let mut store = Store::open(scratch.path(), config(16, 16), &options).unwrap();
    keys(0..n).chunks(500).for_each(|part| add(&mut store, part));
    let first = store.commit().unwrap();
    watch.all.store(store.stats().rows * 4 * (6 + 32), Ordering::Relaxed);
    let (mut x, mut n_commits) = (5, 0);
    for round in 0..700 {
        // All rows with the same chance: nothing stays as the last epoch has it.
        let ids: BTreeSet<u64> = (0..300).map(|_| random(&mut x) % n).collect();
        add(&mut store, &ids.into_iter().map(|id| Key { table: (id % 2) as u32, id }).collect::<Vec<_>>());
        if round % 250 == 249 {
            store.commit().unwrap();
            n_commits += 1;
        }
    }
    let most = watch.most.load(Ordering::Relaxed);
    assert!(most <= 2000, "{tier:?}: {most} thousandths of the rows in use, {:?}", store.stats());
    assert!(store.stats().epoch > first + n_commits, "no epoch was needed");
    // Each waits until a fair part of the rows has changed: of the 200,000 changes here.
    assert!(store.stats().epoch < first + n_commits + 120, "{:?}", store.stats());
    store.commit().unwrap();
    assert_eq!(store.verify().unwrap(), n as usize);
    drop(store);
    let mut store = Store::open(scratch.path(), config(16, 16), &options).unwrap();
    assert_eq!((store.len(), store.keys().unwrap().len()), (n as usize, n as usize));
}

fn syncs_come_with_epochs_alone(tier: Tier) {
    let scratch = Scratch::new("syncs", tier);
    let counter = Arc::new(Counter::default());
    let options = Options { records_per_segment: 0, faults: Some(counter.clone()), ..scratch.options(200_000) };
    let mut store = Store::open(scratch.path(), config(8, 0), &options).unwrap();
    let mut x = 1;
    let mut steps = |store: &mut Store, n: usize| {
        for _ in 0..n {
            let mut ids: Vec<u64> = (0..300).map(|_| random(&mut x) % 20_000).collect();
            ids.sort_unstable();
            ids.dedup();
            add(store, &ids.iter().map(|id| Key { table: 0, id: *id }).collect::<Vec<_>>());
        }
    };
    let n_syncs = || counter.n_syncs.swap(0, Ordering::Relaxed);
    n_syncs();
    for round in 0..5 {
        steps(&mut store, 300);
        assert!(store.stats().counts.evictions > 10_000 && counter.n_others.load(Ordering::Relaxed) > 1);
        assert_eq!(n_syncs(), 0, "round {round}: rows that leave memory wait for no disk");
        let n_files = scratch.files(".rows").len() + scratch.files(".pages").len();
        store.commit().unwrap();
        // Each file that was written since once, the manifest, and its folder.
        let found = n_syncs();
        assert!(found <= n_files + 4, "round {round}: {found} syncs for {n_files} files");
        store.commit().unwrap();
        assert!(n_syncs() <= 2, "round {round}: nothing was new");
    }
}

fn rows_of_one_tier_are_those_of_the_other(tier: Tier) {
    let scratch = Scratch::new("switch", tier);
    let all = keys(0..3000);
    let other = Options { pages: Some(tier == Tier::Log), ..scratch.options(0) };
    // Cuts of another size.
    let larger = Options { memory_budget: 32 << 20, ..scratch.options(0) };
    let mut updates = 0;
    for options in [scratch.options(0), other.clone(), scratch.options(0), larger, other, scratch.options(0)] {
        let mut store = Store::open(scratch.path(), config(4, 0), &options).unwrap();
        all.chunks(50).for_each(|part| add(&mut store, part));
        updates += 1;
        store.commit().unwrap();
        store.save_snapshot("s").unwrap();
        assert_eq!((store.len(), store.verify().unwrap(), store.keys().unwrap().len()), (3000, 3000, 3000));
        let mut fresh = Store::open(Scratch::new("fresh", tier).path(), config(4, 0), &Options::default()).unwrap();
        let (rows, start) = (fill(&mut store, &all), fill(&mut fresh, &all));
        assert!(rows.iter().zip(start).all(|(r, s)| (r - s - updates as f32).abs() < 1e-3), "{updates}");
        let mut saved = Saved::open(scratch.path(), Some("s")).unwrap();
        let records = saved.records(0..3000).unwrap();
        assert!(records.counts.iter().all(|n| *n == updates));
    }
}

fn removed_rows_stay_removed_whatever_was_written_when(tier: Tier) {
    let scratch = Scratch::new("removed", tier);
    let of = |config: Config| Store::open(scratch.path(), config, &scratch.options(0)).unwrap();
    let mut store = of(config(4, 0));
    let all = keys(0..2000);
    let before = fill(&mut store, &all);
    all.chunks(40).for_each(|part| add(&mut store, part));
    store.save_snapshot("all").unwrap();
    let mut n = 2000;
    for round in 0..8u64 {
        // Keys twice, keys that are not there, some in memory, some in the log and some in pages.
        let part: Vec<Key> = keys(round * 100..round * 100 + 300);
        let twice: Vec<Key> = part.iter().chain(&part[..50]).chain(&keys(5000..5010)).copied().collect();
        add(&mut store, &part[..30]);
        let there = part.iter().filter(|k| store.keys().unwrap().binary_search(k).is_ok()).count();
        assert_eq!(store.remove(&twice).unwrap(), there, "round {round}");
        assert_eq!(store.remove(&twice).unwrap(), 0);
        n = store.len();
        let at = |k: &Key| 4 * k.id as usize;
        for (key, row) in part.iter().zip(fill(&mut store, &part).chunks(4)) {
            assert_eq!(row, &before[at(key)..at(key) + 4], "round {round} {key:?}");
        }
        add(&mut store, &part[290..]);
        n += 10;
        assert_eq!((store.len(), store.keys().unwrap().len()), (n, n));
        if round % 3 == 1 {
            store.commit().unwrap();
            drop(store);
            store = of(config(4, 0));
            assert_eq!((store.len(), store.keys().unwrap().len(), store.verify().unwrap()), (n, n, n));
        }
    }
    assert!(n < 2000);
    store.load_snapshot("all").unwrap();
    assert_eq!((store.len(), store.verify().unwrap()), (2000, 2000));
    let rows = fill(&mut store, &all);
    assert!(rows.iter().zip(&before).all(|(r, b)| (r - b - 1.0).abs() < 1e-4));
}
