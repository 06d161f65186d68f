//! Snapshots that are served: rows as the store has them, deltas by one swap under load, and bad files.

mod common;

use common::{Scratch, Tier, batch, config, fill};
use oneflow_embedding::{Config, Delta, Key, Records, Rule, Saved, Serving, Step, Store};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

over_tiers! {
    a_snapshot_is_served_as_it_was_and_deltas_make_it_the_next,
    lookups_see_one_version_whole_while_deltas_come,
    rows_of_several_ranks_are_served_together,
    damage_is_named_and_never_served,
    files_that_are_no_deltas_are_refused,
}

const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };

fn keys(ids: std::ops::Range<u64>) -> Vec<Key> {
    ids.flat_map(|id| (0..2).map(move |table| Key { table, id: id.wrapping_sub(5) })).collect()
}

fn looked_up(serving: &Serving, keys: &[Key]) -> Vec<f32> {
    let mut out = vec![f32::NAN; keys.len() * serving.config().dim()];
    serving.lookup(keys, &mut out).unwrap();
    out
}

/// What became of one snapshot until another.
fn delta(scratch: &Scratch, since: &str, until: &str) -> Delta {
    let mut older = Saved::open(scratch.path(), Some(since)).unwrap();
    let mut newer = Saved::open(scratch.path(), Some(until)).unwrap();
    let (changed, gone) = newer.since(&mut older).unwrap();
    Delta { since: older.epoch(), epoch: newer.epoch(), changed: newer.select(&changed).unwrap(), gone }
}

fn a_snapshot_is_served_as_it_was_and_deltas_make_it_the_next(tier: Tier) {
    let scratch = Scratch::new("serving", tier);
    let mut store = Store::open(scratch.path(), config(5, 3), &scratch.options(0)).unwrap();
    let all = keys(0..400);
    let step = |store: &mut Store, part: &[Key], number| {
        let grads: Vec<f32> = (0..part.len() * 5).map(|i| (i % 7) as f32).collect();
        store.update(&batch(part), &grads, &SGD, &Step { lr: 0.1, step: number, scale: 1.0 }).unwrap();
    };
    step(&mut store, &all[..500], 1);
    store.save_snapshot("monday").unwrap();
    let monday = fill(&mut store, &all);
    let serving = Serving::open(&[scratch.path().to_path_buf()], "monday").unwrap();
    step(&mut store, &all[300..700], 2);
    store.remove(&all[..100]).unwrap();
    store.save_snapshot("tuesday").unwrap();
    let tuesday = fill(&mut store, &all);
    // Its store goes on.
    assert_eq!(looked_up(&serving, &all), monday);
    let first = delta(&scratch, "monday", "tuesday");
    serving.apply(std::slice::from_ref(&first)).unwrap();
    assert_eq!(looked_up(&serving, &all), tuesday);
    step(&mut store, &all[..50], 3);
    step(&mut store, &all[600..], 3);
    store.save_snapshot("wednesday").unwrap();
    let wednesday = fill(&mut store, &all);
    serving.apply(&[delta(&scratch, "tuesday", "wednesday")]).unwrap();
    assert_eq!(looked_up(&serving, &all), wednesday);
    assert!(serving.apply(&[first]).err().unwrap().text().contains("does not follow"));
    assert!(serving.apply(&[]).is_err());
    serving.reload(&[scratch.path().to_path_buf()], "tuesday").unwrap();
    assert_eq!(looked_up(&serving, &all), tuesday);
    assert!(serving.lookup(&all, &mut [0.0; 3]).is_err());
    assert!(serving.lookup(&[Key { table: 2, id: 0 }], &mut [0.0; 5]).is_err());
    assert!(Serving::open(&[scratch.path().to_path_buf()], "sunday").is_err() && Serving::open(&[], "monday").is_err());
}

fn lookups_see_one_version_whole_while_deltas_come(tier: Tier) {
    let scratch = Scratch::new("swap", tier);
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    let all: Vec<Key> = (0..200).map(|id| Key { table: 0, id }).collect();
    store.write(&batch(&all), &[0.0; 800]).unwrap();
    store.save_snapshot("0").unwrap();
    let epoch = Saved::open(scratch.path(), Some("0")).unwrap().epoch();
    let serving = Serving::open(&[scratch.path().to_path_buf()], "0").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                s.spawn(|| {
                    let (mut last, mut n) = (0.0, 0);
                    while !over.load(Ordering::Relaxed) || n < 10 {
                        let rows = looked_up(&serving, &all);
                        assert!(rows.iter().all(|v| *v == rows[0]) && rows[0] >= last, "a mixed version");
                        (last, n) = (rows[0], n + 1);
                    }
                })
            })
            .collect();
        for version in 1..=200u64 {
            let n = all.len();
            let changed = Records {
                keys: all.clone(),
                steps: vec![1; n],
                counts: vec![1; n],
                values: vec![version as f32; 4 * n],
            };
            let (since, epoch) = (epoch + version - 1, epoch + version);
            serving.apply(&[Delta { since, epoch, changed, gone: vec![] }]).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
    assert_eq!(looked_up(&serving, &all), vec![200.0; 800]);
}

fn rows_of_several_ranks_are_served_together(tier: Tier) {
    let scratches: Vec<Scratch> = (0..3).map(|_| Scratch::new("ranks", tier)).collect();
    let all = keys(0..300);
    for (rank, scratch) in scratches.iter().enumerate() {
        let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
        let mine: Vec<Key> = all.iter().copied().filter(|k| k.owner(3) == rank).collect();
        let values: Vec<f32> = mine.iter().flat_map(|k| [k.id as f32 + k.table as f32 * 0.5; 4]).collect();
        store.write(&batch(&mine), &values).unwrap();
        store.save_snapshot("s").unwrap();
    }
    let paths: Vec<PathBuf> = scratches.iter().map(|s| s.path().to_path_buf()).collect();
    let serving = Serving::open(&paths, "s").unwrap();
    let want: Vec<f32> = all.iter().flat_map(|k| [k.id as f32 + k.table as f32 * 0.5; 4]).collect();
    assert_eq!(looked_up(&serving, &all), want);
    // Another store is no rank of this one.
    let other = Scratch::new("other", tier);
    Store::open(other.path(), config(3, 0), &other.options(0)).unwrap().save_snapshot("s").unwrap();
    assert!(Serving::open(&[paths[0].clone(), other.path().to_path_buf()], "s").is_err());
}

fn damage_is_named_and_never_served(tier: Tier) {
    let scratch = Scratch::new("damage", tier);
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    let all: Vec<Key> = (0..50).map(|id| Key { table: 0, id }).collect();
    store.write(&batch(&all), &[1.0; 200]).unwrap();
    if tier == Tier::Pages {
        store.compact().unwrap();
    }
    store.save_snapshot("s").unwrap();
    drop(store);
    let file = scratch.files(tier.ending()).pop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    for byte in (0..whole.len()).step_by(37) {
        let mut bytes = whole.clone();
        bytes[byte] ^= 4;
        std::fs::write(&file, &bytes).unwrap();
        let serving = match Serving::open(&[scratch.path().to_path_buf()], "s") {
            Ok(serving) => serving,
            // The foot of a file of pages.
            Err(e) => {
                assert!(tier == Tier::Pages && byte >= 4096 && e.text().contains("damaged"), "{e}");
                continue;
            }
        };
        let mut out = [0.0; 4];
        let answers: Vec<bool> = all.iter().map(|k| serving.lookup(&[*k], &mut out).is_ok()).collect();
        let n_refused = answers.iter().filter(|ok| !**ok).count();
        assert!(if tier == Tier::Log { n_refused == 1 } else { n_refused > 1 }, "byte {byte}: {n_refused}");
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert!(Serving::open(&[scratch.path().to_path_buf()], "s").err().unwrap().text().contains("torn"));
}

fn files_that_are_no_deltas_are_refused(tier: Tier) {
    let scratch = Scratch::new("deltas", tier);
    std::fs::create_dir_all(scratch.path()).unwrap();
    let path = scratch.path().join("delta.safetensors");
    let config: Config = config(4, 0);
    assert!(Delta::read(&path, &config).is_err());
    for bytes in [&b""[..], b"12345678", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", b"\x02\0\0\0\0\0\0\0{}"] {
        std::fs::write(&path, bytes).unwrap();
        assert!(Delta::read(&path, &config).err().unwrap().text().contains("delta"), "{bytes:?}");
    }
}
