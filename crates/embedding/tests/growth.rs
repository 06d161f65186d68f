//! Admission of new keys, forgetting of old rows, bags, and what is read of a folder without changing it.

mod common;

use common::{Scratch, Tier, batch, config, fill};
use oneflow_embedding::{Admission, Bags, Batch, Forget, Key, Options, Records, Rule, Saved, Score, Step, Store};
use std::collections::BTreeMap;

over_tiers! {
    a_key_gets_a_row_once_it_is_admitted_and_keeps_its_initial_values_until_then,
    forgetting_agrees_with_a_map,
    bags_are_the_sums_of_their_rows,
    a_snapshot_is_read_beside_its_writer_and_an_epoch_after_it,
    an_older_snapshot_and_what_changed_since_give_the_newer_one,
    compaction_leaves_what_lives,
    smart_decay_adam_makes_up_for_missed_steps,
}

const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };

fn at(step: u64) -> Step {
    Step { lr: 1.0, step, scale: 1.0 }
}

fn keys(table: u32, ids: std::ops::Range<u64>) -> Vec<Key> {
    ids.map(|id| Key { table, id }).collect()
}

fn update(store: &mut Store, keys: &[Key], step: u64) {
    let dim = store.config().dim();
    store.update(&batch(keys), &vec![1.0; keys.len() * dim], &SGD, &at(step)).unwrap();
}

fn a_key_gets_a_row_once_it_is_admitted_and_keeps_its_initial_values_until_then(tier: Tier) {
    let scratch = Scratch::new("admission", tier);
    let opened = || {
        let admission = vec![Admission::Count { at_least: 3 }];
        Store::open(scratch.path(), config(4, 0), &Options { admission, ..scratch.options(0) }).unwrap()
    };
    let mut store = opened();
    let (rare, all) = (keys(0, 0..1000), keys(0, 0..2000));
    let before = fill(&mut store, &all);
    update(&mut store, &keys(1, 0..10), 1);
    assert_eq!(store.len(), 10, "the second table admits all");
    update(&mut store, &all, 1);
    update(&mut store, &all[1000..], 2);
    assert_eq!((store.len(), fill(&mut store, &all)), (10, before.clone()));
    assert_eq!(store.stats().counts.refused, 3000);
    // A key that stands three times in one batch is admitted by it.
    update(&mut store, &[rare[0], rare[0], rare[0]], 3);
    update(&mut store, &all[1000..], 3);
    assert_eq!(store.rows_by_table().unwrap(), [1001, 10]);
    let after = fill(&mut store, &all);
    let moved = |k: usize| (0..4).map(|i| before[4 * k + i] - after[4 * k + i]).collect::<Vec<_>>();
    for (k, by) in [(0, 3.0), (1, 0.0), (999, 0.0), (1000, 1.0), (1999, 1.0)] {
        assert!(moved(k).iter().all(|m| (m - by).abs() < 1e-5), "{k}: {:?}", moved(k));
    }
    // Rows on disk are admitted for good.
    store.commit().unwrap();
    drop(store);
    let mut store = opened();
    update(&mut store, &all[1000..1100], 4);
    let again = fill(&mut store, &all[1000..1100]);
    assert!(again.iter().zip(&after[4000..4400]).all(|(a, b)| (b - a - 1.0).abs() < 1e-5));
}

fn forgetting_agrees_with_a_map(tier: Tier) {
    for budget in [0, u64::MAX] {
        let scratch = Scratch::new("forget", tier);
        let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(budget)).unwrap();
        // Step and number of updates of each key: key k is updated at the multiples of k % 7 + 1.
        let mut known: BTreeMap<Key, (u32, u32)> = BTreeMap::new();
        for step in 1..=20u64 {
            let named: Vec<Key> =
                keys(0, 0..300).into_iter().chain(keys(1, 0..300)).filter(|k| step % (k.id % 7 + 1) == 0).collect();
            update(&mut store, &named, step);
            for key in named {
                let entry = known.entry(key).or_default();
                *entry = (step as u32, entry.1 + 1);
            }
            if step == 11 {
                store.commit().unwrap();
            }
        }
        let all: Vec<Key> = known.keys().copied().collect();
        let rows = fill(&mut store, &all);
        let norm: BTreeMap<Key, f32> =
            all.iter().zip(rows.chunks(4)).map(|(k, r)| (*k, r.iter().map(|w| w * w).sum::<f32>().sqrt())).collect();
        let mut expect = |what: Forget, leaves: &dyn Fn(&Key, (u32, u32)) -> bool| {
            let n = known.len();
            known.retain(|k, v| !leaves(k, *v));
            assert_eq!(store.forget(&what).unwrap(), n - known.len(), "{what:?}");
            assert_eq!(store.keys().unwrap(), known.keys().copied().collect::<Vec<_>>(), "{what:?}");
        };
        let table = Some(1);
        expect(Forget { table, before_step: Some(18), ..Forget::default() }, &|k, v| k.table == 1 && v.0 < 18);
        expect(Forget { below_count: Some(5), ..Forget::default() }, &|_, v| v.1 < 5);
        expect(Forget { below_norm: Some(12.0), ..Forget::default() }, &|k, _| norm[k] < 12.0);
        expect(Forget::default(), &|_, _| false);
        assert!(store.forget(&Forget { table: Some(2), ..Forget::default() }).is_err());
        assert!(store.forget(&Forget { below_norm: Some(f32::NAN), ..Forget::default() }).is_err());
        for (score, of) in [(Score::Count, 1), (Score::Recency, 0), (Score::Norm, 2)] {
            let keep = store.len() * 2 / 3;
            let worth = |k: &Key, v: (u32, u32)| [v.0 as f32, v.1 as f32, norm[k]][of];
            let mut best: Vec<(f32, Key)> = known.iter().map(|(k, v)| (worth(k, *v), *k)).collect();
            best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            best[keep..].iter().for_each(|(_, k)| assert!(known.remove(k).is_some()));
            store.forget(&Forget { keep: Some((score, keep)), ..Forget::default() }).unwrap();
            assert_eq!(store.keys().unwrap(), known.keys().copied().collect::<Vec<_>>(), "{score:?}");
        }
        assert_eq!(store.stats().counts.forgotten as usize, all.len() - known.len());
    }
}

fn bags_are_the_sums_of_their_rows(tier: Tier) {
    let scratch = Scratch::new("bags", tier);
    for (state, budget) in [(0, 0), (0, u64::MAX)] {
        let mut store = Store::open(scratch.path(), config(5, state), &scratch.options(budget)).unwrap();
        update(&mut store, &keys(0, 0..200), 1);
        let some = [Some(3), None, Some(150), Some(3), Some(9999), Some(7)];
        let ids = Batch::new(some.into_iter().map(|id| id.map(|id| Key { table: 0, id }))).unwrap();
        let (of, factors) = ([0usize, 0, 0, 2, 2, 3], [1.0, 9.0, 0.5, -2.0, 1.0, 3.0]);
        let bags = Bags { ends: &[3, 3, 5, 6, 6], factors: Some(&factors) };
        let mut each = vec![0.0; 30];
        store.lookup(&ids, false, &mut each).unwrap();
        let mut expected = vec![0.0; 25];
        for p in 0..6 {
            (0..5).for_each(|i| expected[of[p] * 5 + i] += factors[p] * each[p * 5 + i]);
        }
        for trains in [false, true] {
            let mut out = vec![f32::NAN; 25];
            store.lookup_bags(&ids, &bags, trains, &mut out).unwrap();
            assert_eq!(out, expected);
        }
        let grads: Vec<f32> = (0..25).map(|g| g as f32).collect();
        let by_position: Vec<f32> = (0..30).map(|i| factors[i / 5] * grads[of[i / 5] * 5 + i % 5]).collect();
        store.save_snapshot("before").unwrap();
        store.update(&ids, &by_position, &SGD, &at(2)).unwrap();
        let all = fill(&mut store, &keys(0, 0..200));
        store.load_snapshot("before").unwrap();
        store.update_bags(&ids, &bags, &grads, &SGD, &at(2)).unwrap();
        assert_eq!(fill(&mut store, &keys(0, 0..200)), all);
        for bad in [
            Bags { ends: &[3, 5], ..bags },
            Bags { ends: &[], ..bags },
            Bags { ends: &[3, 2, 6], ..bags },
            Bags { ends: &[3, 7], ..bags },
            Bags { factors: Some(&[1.0]), ..bags },
        ] {
            assert!(store.lookup_bags(&ids, &bad, false, &mut vec![0.0; 5 * bad.ends.len()]).is_err());
            assert!(store.update_bags(&ids, &bad, &vec![0.0; 5 * bad.ends.len()], &SGD, &at(3)).is_err());
        }
    }
}

fn everything(saved: &mut Saved) -> Records {
    saved.records(0..usize::MAX).unwrap()
}

fn a_snapshot_is_read_beside_its_writer_and_an_epoch_after_it(tier: Tier) {
    let scratch = Scratch::new("saved", tier);
    let mut store = Store::open(scratch.path(), config(4, 4), &scratch.options(0)).unwrap();
    update(&mut store, &keys(1, 0..300), 5);
    update(&mut store, &keys(1, 100..200), 6);
    store.save_snapshot("s").unwrap();
    let mut expected = vec![0.0; 300 * 8];
    store.read_rows(&batch(&keys(1, 0..300)), &mut expected).unwrap();
    let mut saved = Saved::open(scratch.path(), Some("s")).unwrap();
    assert!(Saved::open(scratch.path(), None).err().unwrap().text().contains("in use"));
    assert!(Saved::open(scratch.path(), Some("t")).err().unwrap().text().contains("no snapshot"));
    update(&mut store, &keys(0, 0..3000), 7);
    store.commit().unwrap();
    let rows = everything(&mut saved);
    assert_eq!((rows.keys.clone(), rows.values.clone()), (keys(1, 0..300), expected));
    let of = |n: usize| (rows.steps[n], rows.counts[n]);
    assert_eq!((of(0), of(150), of(299)), ((5, 1), (6, 2), (5, 1)));
    assert_eq!(saved.find(Key { table: 1, id: 7 }), Some(7));
    drop(store);
    assert_eq!(Saved::open(scratch.path(), None).unwrap().len(), 3300);
    // Put into another store they are the same rows.
    let other = Scratch::new("put", tier);
    let mut store = Store::open(other.path(), config(4, 4), &scratch.options(0)).unwrap();
    assert_eq!(store.put(&rows).unwrap(), 300);
    store.commit().unwrap();
    drop(store);
    assert_eq!(everything(&mut Saved::open(other.path(), None).unwrap()), rows);
    assert!(Saved::open(&other.path().join("nowhere"), None).is_err());
    let mut store = Store::open_existing(other.path(), &scratch.options(0)).unwrap();
    assert_eq!((store.config(), store.len()), (&config(4, 4), 300));
    let short = Records { steps: vec![], ..rows };
    assert!(store.put(&short).is_err());
}

fn an_older_snapshot_and_what_changed_since_give_the_newer_one(tier: Tier) {
    let scratch = Scratch::new("delta", tier);
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    update(&mut store, &keys(0, 0..1000), 1);
    store.save_snapshot("old").unwrap();
    update(&mut store, &keys(0, 50..90), 2);
    update(&mut store, &keys(1, 0..5), 2);
    store.remove(&keys(0, 900..1000)).unwrap();
    store.save_snapshot("new").unwrap();
    let [mut old, mut new] = ["old", "new"].map(|name| Saved::open(scratch.path(), Some(name)).unwrap());
    let (changed, gone) = new.since(&mut old).unwrap();
    assert_eq!(gone, keys(0, 900..1000));
    assert_eq!(changed.len(), 45);
    let other = Scratch::new("merged", tier);
    let mut merged = Store::open(other.path(), config(4, 0), &scratch.options(0)).unwrap();
    merged.put(&everything(&mut old)).unwrap();
    merged.put(&new.select(&changed).unwrap()).unwrap();
    merged.remove(&gone).unwrap();
    merged.commit().unwrap();
    drop(merged);
    let mut merged = Saved::open(other.path(), None).unwrap();
    assert_eq!(everything(&mut merged), everything(&mut new));
}

fn compaction_leaves_what_lives(tier: Tier) {
    let scratch = Scratch::new("compact", tier);
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    for step in 1..6 {
        update(&mut store, &keys(0, 0..4000 / step), step);
        store.commit().unwrap();
    }
    let before = fill(&mut store, &keys(0, 0..4000));
    store.compact().unwrap();
    let stats = store.stats();
    assert!(stats.disk_bytes <= stats.live_bytes * 11 / 10, "{stats:?}");
    drop(store);
    let mut store = Store::open_existing(scratch.path(), &scratch.options(0)).unwrap();
    assert_eq!(fill(&mut store, &keys(0, 0..4000)), before);
    assert_eq!(store.verify().unwrap(), 4000);
}

fn smart_decay_adam_makes_up_for_missed_steps(tier: Tier) {
    let rule = Rule::SmartDecayAdam {
        betas: [0.9, 0.99],
        eps: 1e-6,
        weight_decay: 0.0,
        bias_correction: false,
        maximize: false,
    };
    let scratch = Scratch::new("smart", tier);
    let mut store = Store::open(scratch.path(), config(2, 4), &scratch.options(0)).unwrap();
    let one = batch(&keys(0, 0..1));
    let start = fill(&mut store, &keys(0, 0..1));
    let (mut w, mut m, mut v) = (start[0] as f64, 0.0f64, 0.0f64);
    for (step, missed, g) in [(1u64, 0, 0.5f64), (2, 0, -1.0), (7, 4, 0.25), (8, 0, 2.0)] {
        let here = Step { lr: 0.1, step, scale: 1.0 };
        store.update(&one, &[g as f32, 0.0], &rule, &here).unwrap();
        let root = v.sqrt() + 1e-6;
        (1..=missed).for_each(|i| w -= 0.1 * 0.9f64.powi(i) * m / root);
        (m, v) = (m * 0.9f64.powi(missed), v * 0.99f64.powi(missed));
        (m, v) = (0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g);
        w -= 0.1 * m / (v.sqrt() + 1e-6);
        let found = fill(&mut store, &keys(0, 0..1))[0] as f64;
        assert!((found - w).abs() < 1e-5, "step {step}: {found} {w}");
    }
}
