//! Rows of any width and sums of them, whatever registers and lines they fill; and what memory and prefetches promise.

mod common;

use common::{Scratch, Tier, batch, config};
use oneflow_embedding::{Bags, Batch, Config, Forget, Key, Options, Records, Rule, Saved, Step, Store};

over_tiers! {
    sums_of_bags_are_those_of_rows_one_after_the_other,
    large_results_that_pass_by_the_caches_hold_the_same_rows,
    rows_and_indexes_stay_within_the_budget,
    rows_of_a_prefetched_lookup_stay_until_it_comes_and_until_its_update,
    rows_of_dense_ids_that_move_to_their_places_stay_what_they_are,
    rows_that_nobody_wrote_come_with_a_prefetch_and_are_no_rows,
}

const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };
const STEP: Step = Step { lr: 0.5, step: 1, scale: 1.0 };

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|n| n.to_bits()).collect()
}

fn sums_of_bags_are_those_of_rows_one_after_the_other(tier: Tier) {
    for (dim, state) in [(1, 0), (3, 1), (8, 0), (15, 2), (16, 32), (17, 1), (33, 0), (64, 64), (130, 0), (300, 0)] {
        // All rows in memory, and most of them on disk.
        for budget in [u64::MAX, 0] {
            let scratch = Scratch::new("bags", tier);
            let mut store = Store::open(scratch.path(), config(dim, state), &scratch.options(budget)).unwrap();
            let mut x = dim as u64;
            // Small ids and sparse ones, of both tables.
            let spread = |n: u64| if n.is_multiple_of(3) { n.wrapping_mul(0x9E37_79B9_7F4A_7C15) } else { n };
            let all: Vec<Key> = (0..600).map(|n| Key { table: (n % 2) as u32, id: spread(n) }).collect();
            for part in all.chunks(50) {
                let grads: Vec<f32> = (0..50 * dim).map(|_| (random(&mut x) % 2000) as f32 / 1000.0 - 1.0).collect();
                store.update(&batch(part), &grads, &SGD, &STEP).unwrap();
            }
            // Padding, equal keys, keys without a row, and bags of 0, 1, 7 and 150 positions.
            let keys: Vec<Option<Key>> = (0..700)
                .map(|_| match random(&mut x) % 20 {
                    0 => None,
                    1 => Some(Key { table: 1, id: 1 << 50 }),
                    _ => Some(all[(random(&mut x) % 600) as usize]),
                })
                .collect();
            let sizes = [0, 150, 0, 0, 1].into_iter().chain([7; 77]).chain([1; 10]).chain([0]);
            let ends: Vec<u32> = sizes.scan(0, |end, size| Some(std::mem::replace(end, *end + size) + size)).collect();
            assert_eq!(ends.last(), Some(&700));
            let n_bags = ends.len();
            let factors: Vec<f32> = (0..700).map(|_| (random(&mut x) % 100) as f32 / 30.0).collect();
            let looked_up = Batch::new(keys.iter().copied()).unwrap();
            let mut rows = vec![f32::NAN; 700 * dim];
            store.lookup(&looked_up, false, &mut rows).unwrap();
            for factors in [None, Some(&factors[..])] {
                let mut want = vec![0f32; n_bags * dim];
                for (p, key) in keys.iter().enumerate().filter(|(_, key)| key.is_some()) {
                    let (bag, factor) = (ends.partition_point(|e| *e as usize <= p), factors.map_or(1.0, |f| f[p]));
                    assert!(key.is_some());
                    for c in 0..dim {
                        want[bag * dim + c] += factor * rows[p * dim + c];
                    }
                }
                let bags = Bags { ends: &ends, factors };
                for trains in [false, true, false] {
                    let mut sums = vec![f32::NAN; n_bags * dim];
                    store.lookup_bags(&looked_up, &bags, trains, &mut sums).unwrap();
                    assert_eq!(bits(&sums), bits(&want), "{dim} {budget} {trains}");
                }
            }
            let mut again = vec![f32::NAN; 700 * dim];
            store.lookup(&looked_up, true, &mut again).unwrap();
            assert_eq!(bits(&again), bits(&rows));
        }
    }
}

fn large_results_that_pass_by_the_caches_hold_the_same_rows(tier: Tier) {
    let scratch = Scratch::new("large", tier);
    let mut store = Store::open(scratch.path(), config(64, 0), &Options::default()).unwrap();
    let keys: Vec<Key> = (0..500).map(|id| Key { table: 0, id }).collect();
    let grads: Vec<f32> = (0..500 * 64).map(|i| i as f32).collect();
    store.update(&batch(&keys), &grads, &SGD, &STEP).unwrap();
    let mut rows = vec![0.0; 500 * 64];
    store.lookup(&batch(&keys), false, &mut rows).unwrap();
    let many: Vec<Key> = (0..100_000).map(|i| keys[i * 7 % 500]).collect();
    // At an address that is a multiple of a register's size, and one that is not.
    for skipped in [0, 1] {
        let mut out = vec![0f32; skipped + 100_000 * 64];
        store.lookup(&batch(&many), false, &mut out[skipped..]).unwrap();
        for (i, row) in out[skipped..].chunks(64).enumerate() {
            let k = i * 7 % 500;
            assert_eq!(row, &rows[k * 64..(k + 1) * 64], "{skipped} {i}");
        }
    }
}

fn rows_and_indexes_stay_within_the_budget(tier: Tier) {
    for dim in [64, 128] {
        let scratch = Scratch::new("budget", tier);
        let budget = 8 << 20;
        let options = Options { memory_budget: budget, ..Options::default() };
        let mut store = Store::open(scratch.path(), config(dim, dim), &options).unwrap();
        // Many times the rows that there is room for.
        let n_rows = 6 * budget / (4 * 2 * dim as u64);
        let keys: Vec<Key> = (0..n_rows).map(|n| Key { table: 0, id: n.wrapping_mul(0x9E37_79B9_7F4A_7C15) }).collect();
        for part in keys.chunks(2000) {
            store.update(&batch(part), &vec![1.0; part.len() * dim], &SGD, &STEP).unwrap();
            let stats = store.stats();
            let held = stats.memory_bytes + stats.index_bytes;
            assert!(held as f64 <= 1.1 * budget as f64, "{dim}: {held} {stats:?}");
        }
        let stats = store.stats();
        assert!(stats.resident > 2000 && stats.rows == n_rows, "{stats:?}");
        // No row was lost on the way.
        let mut once = Store::open(Scratch::new("fresh", tier).path(), config(dim, dim), &options).unwrap();
        for part in keys.chunks(2000) {
            let (mut found, mut initial) = (vec![0.0; part.len() * dim], vec![0.0; part.len() * dim]);
            store.lookup(&batch(part), false, &mut found).unwrap();
            once.lookup(&batch(part), false, &mut initial).unwrap();
            assert!(found.iter().zip(&initial).all(|(f, i)| *f == i - 0.5));
        }
    }
}

fn rows_of_a_prefetched_lookup_stay_until_it_comes_and_until_its_update(tier: Tier) {
    let scratch = Scratch::new("wanted", tier);
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    let keys = |range: std::ops::Range<u64>| range.map(|id| Key { table: 0, id }).collect::<Vec<_>>();
    store.update(&batch(&keys(0..1000)), &[1.0; 4000], &SGD, &STEP).unwrap();
    let others = |store: &mut Store, first: u64| {
        for n in 0..20 {
            store.update(&batch(&keys(first + 10 * n..first + 10 * n + 10)), &[1.0; 40], &SGD, &STEP).unwrap();
        }
    };
    // Some are in memory when they are prefetched, others come from disk; then many others pass through.
    let soon = batch(&keys(98..110));
    store.lookup(&batch(&keys(98..101)), true, &mut [0.0; 12]).unwrap();
    store.prefetch(&soon).unwrap();
    others(&mut store, 200);
    let before = store.stats().counts.reads;
    let mut rows = [0.0; 48];
    store.lookup(&soon, true, &mut rows).unwrap();
    assert_eq!(store.stats().counts.reads, before);
    others(&mut store, 400);
    let before = store.stats().counts.reads;
    store.update(&soon, &[1.0; 48], &SGD, &STEP).unwrap();
    assert_eq!(store.stats().counts.reads, before);
    let mut after = [0.0; 48];
    store.lookup(&soon, false, &mut after).unwrap();
    assert!(after.iter().zip(&rows).all(|(a, r)| *a == r - 0.5));
    // Lookups whose updates never come take no room from others.
    for first in (0..800).step_by(20) {
        store.lookup(&batch(&keys(first..first + 20)), true, &mut [0.0; 80]).unwrap();
        store.prefetch(&batch(&keys(first + 10..first + 40))).unwrap();
    }
    assert!(store.stats().resident <= store.stats().capacity);
    store.update(&batch(&keys(0..1000)), &[0.0; 4000], &SGD, &STEP).unwrap();
    store.lookup(&soon, false, &mut rows).unwrap();
    assert_eq!(rows, after);
}

/// Keys as ids and their tables, as programs give them: of one table, of tables by turns where they are, or of a table each with
/// padding behind.
fn plain(keys: &[Key], n_tables: u32) -> Batch {
    let ids = keys.iter().map(|key| key.id);
    if keys.iter().enumerate().all(|(p, key)| key.table == p as u32 % n_tables) {
        return Batch::from_ids(ids.collect(), None, n_tables, None).unwrap();
    }
    const PADDING: u64 = u64::MAX / 3;
    let tables: Vec<u64> = keys.iter().map(|key| key.table as u64).chain([0, 7]).collect();
    Batch::from_ids(ids.chain([PADDING; 2]).collect(), Some(&tables), n_tables, Some(PADDING)).unwrap()
}

fn rows_of_dense_ids_that_move_to_their_places_stay_what_they_are(tier: Tier) {
    for (dim, state, budget, n_tables) in [
        (3, 1, u64::MAX, 1),
        (16, 0, u64::MAX, 1),
        (4, 4, 0, 1),
        (3, 1, u64::MAX, 3),
        (16, 0, u64::MAX, 3),
        (4, 4, 0, 3),
    ] {
        let scratch = Scratch::new("placed", tier);
        let tables: Vec<_> = (0..n_tables).map(|t| config(dim, state).tables[t as usize % 2].clone()).collect();
        let of_tables = || Config { tables: tables.clone(), seed: 5, ..config(dim, state) };
        let mut store = Store::open(scratch.path(), of_tables(), &scratch.options(budget)).unwrap();
        let untouched = Scratch::new("untouched", tier);
        let mut initial = Store::open(untouched.path(), of_tables(), &scratch.options(u64::MAX)).unwrap();
        // By key, what has been added to its row.
        type Model = std::collections::BTreeMap<Key, f32>;
        let (mut model, mut x) = (Model::new(), 7);
        let mut check = |store: &mut Store, model: &Model, keys: &[Key]| {
            let batch = plain(keys, n_tables);
            let (mut found, mut want) = (vec![f32::NAN; batch.len() * dim], vec![f32::NAN; batch.len() * dim]);
            store.lookup(&batch, false, &mut found).unwrap();
            initial.lookup(&batch, false, &mut want).unwrap();
            for (row, key) in want.chunks_mut(dim).zip(keys) {
                row.iter_mut().for_each(|w| *w += model.get(key).copied().unwrap_or(0.0));
            }
            assert!(found.iter().zip(&want).all(|(f, w)| (f - w).abs() < 1e-4), "{dim} {budget} {n_tables}");
            assert!(store.keys().unwrap().iter().eq(model.keys()));
            assert_eq!(store.len(), model.len());
        };
        // All ids in turn, so that a whole block is placed.
        let all = || (0..5200).flat_map(|id| (0..n_tables).map(move |table| Key { table, id })).collect::<Vec<_>>();
        // Ids of each table, of which later tables have fewer; all grow.
        let below = |table: u32, round: u64| (1000 + 70 * round) >> table;
        let mut at_snapshot = Model::new();
        for round in 0..60 {
            // Dense ids in any order, of which some never come, and ids far away.
            let draw = |n: usize, x: &mut u64| {
                let table = |x: &mut u64| (random(x) % n_tables as u64) as u32;
                let key = |x: &mut u64| (table(x), random(x));
                let keys = (0..n).map(|_| key(x)).map(|(table, r)| Key { table, id: r % below(table, round) });
                keys.filter(|key| key.id % 97 != 1).collect::<Vec<_>>()
            };
            let mut keys = draw(250, &mut x);
            keys.extend((0..5).map(|_| Key { table: 0, id: random(&mut x) << 20 }));
            keys.sort_unstable_by_key(|key| key.id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ key.table as u64);
            keys.dedup();
            let batch = plain(&keys, n_tables);
            let grads = vec![2.0; batch.len() * dim];
            if round % 2 == 0 {
                store.lookup(&batch, true, &mut vec![0.0; batch.len() * dim]).unwrap();
            }
            store.update(&batch, &grads, &SGD, &STEP).unwrap();
            keys.iter().for_each(|key| *model.entry(*key).or_default() -= 1.0);
            if round % 7 == 6 {
                let gone = draw(20, &mut x);
                store.remove(&gone).unwrap();
                model.retain(|key, _| !gone.contains(key));
            }
            if round == 30 {
                store.save_snapshot("here").unwrap();
                at_snapshot = model.clone();
            }
            if round == 40 {
                // What was made for ids that nobody wrote is no row.
                let expected = model.len();
                assert_eq!(store.forget(&Forget { below_count: Some(1), ..Forget::default() }).unwrap(), 0);
                store.commit().unwrap();
                assert_eq!(store.len(), expected);
            }
            let asked: Vec<Key> = draw(3000, &mut x).into_iter().chain(keys).collect();
            check(&mut store, &model, &asked);
            check(&mut store, &model, &all());
        }
        store.commit().unwrap();
        drop(store);
        let mut store = Store::open(scratch.path(), of_tables(), &scratch.options(budget)).unwrap();
        check(&mut store, &model, &all());
        // All rows in memory again, and placed anew; then those of the snapshot.
        store.lookup(&plain(&all(), n_tables), true, &mut vec![0.0; all().len() * dim]).unwrap();
        check(&mut store, &model, &all());
        store.load_snapshot("here").unwrap();
        store.lookup(&plain(&all(), n_tables), true, &mut vec![0.0; all().len() * dim]).unwrap();
        check(&mut store, &at_snapshot, &all());
        drop(store);
        // The same rows in the stores of four owners, and of three.
        let mut rows = vec![Saved::open(scratch.path(), None).unwrap().records(0..usize::MAX).unwrap()];
        for n_owners in [4, 3] {
            let mut of_owners = Vec::new();
            for owner in 0..n_owners {
                let scratch = Scratch::new("owner", tier);
                let mut store = Store::open(scratch.path(), of_tables(), &scratch.options(budget)).unwrap();
                for rows in &rows {
                    store.put(&owned(rows, owner, n_owners)).unwrap();
                }
                let owned: Model =
                    at_snapshot.iter().filter(|(key, _)| key.owner(n_owners) == owner).map(|(k, v)| (*k, *v)).collect();
                (0..2).for_each(|_| check(&mut store, &owned, &all()));
                store.commit().unwrap();
                drop(store);
                of_owners.push(Saved::open(scratch.path(), None).unwrap().records(0..usize::MAX).unwrap());
            }
            rows = of_owners;
        }
    }
}

/// The rows of one owner.
fn owned(rows: &Records, owner: usize, n_owners: usize) -> Records {
    let width = rows.values.len() / rows.keys.len().max(1);
    let which: Vec<usize> = (0..rows.keys.len()).filter(|k| rows.keys[*k].owner(n_owners) == owner).collect();
    Records {
        keys: which.iter().map(|k| rows.keys[*k]).collect(),
        steps: which.iter().map(|k| rows.steps[*k]).collect(),
        counts: which.iter().map(|k| rows.counts[*k]).collect(),
        values: which.iter().flat_map(|k| rows.values[k * width..(k + 1) * width].to_vec()).collect(),
    }
}

fn rows_that_nobody_wrote_come_with_a_prefetch_and_are_no_rows(tier: Tier) {
    let scratch = Scratch::new("new", tier);
    let mut store = Store::open(scratch.path(), config(4, 2), &scratch.options(0)).unwrap();
    let keys = |range: std::ops::Range<u64>| range.map(|id| Key { table: 1, id }).collect::<Vec<_>>();
    let mut other = Store::open(Scratch::new("other", tier).path(), config(4, 2), &scratch.options(0)).unwrap();
    let mut initial = |range: std::ops::Range<u64>| {
        let mut rows = vec![f32::NAN; 4 * range.clone().count()];
        other.lookup(&batch(&keys(range)), false, &mut rows).unwrap();
        rows
    };
    store.prefetch(&batch(&keys(0..5))).unwrap();
    assert_eq!((store.len(), store.keys().unwrap().len(), store.stats().counts.initial), (0, 0, 5));
    let mut rows = [f32::NAN; 20];
    let of = batch(&keys(0..5));
    store.lookup(&of, true, &mut rows).unwrap();
    assert_eq!(rows[..], initial(0..5));
    store.update(&of, &[2.0; 20], &SGD, &STEP).unwrap();
    assert_eq!((store.len(), store.stats().counts.initial), (5, 5));
    // A lookup that is trained brings them as well; without its update they leave again, and nothing is written.
    store.lookup(&batch(&keys(100..120)), true, &mut [0.0; 80]).unwrap();
    assert_eq!((store.len(), store.stats().counts.initial), (5, 25));
    for first in (200..1200).step_by(20) {
        store.prefetch(&batch(&keys(first..first + 20))).unwrap();
        store.lookup(&batch(&keys(first..first + 20)), true, &mut [0.0; 80]).unwrap();
    }
    let stats = store.stats();
    assert!(stats.counts.evictions > 900 && stats.resident <= stats.capacity && stats.counts.writes <= 5, "{stats:?}");
    assert_eq!((store.len(), store.keys().unwrap(), store.commit().unwrap()), (5, keys(0..5), 1));
    assert_eq!(store.forget(&Forget { below_norm: Some(0.0), ..Forget::default() }).unwrap(), 0);
    store.lookup(&of, false, &mut rows).unwrap();
    assert!(rows.iter().zip(initial(0..5)).all(|(r, i)| *r == i - 1.0));
    // Between the steps of a prefetch such a row is written: it stays.
    let mut prefetch = store.start_prefetch(&batch(&keys(2000..2003))).unwrap();
    store.write(&batch(&keys(2001..2002)), &[7.0; 4]).unwrap();
    prefetch.read().unwrap();
    assert!(store.continue_prefetch(&mut prefetch).unwrap());
    let mut rows = [f32::NAN; 12];
    store.lookup(&batch(&keys(2000..2003)), true, &mut rows).unwrap();
    assert_eq!((&rows[4..8], store.len()), (&[7.0; 4][..], 6));
    assert_eq!(rows[..4], initial(2000..2001));
}
