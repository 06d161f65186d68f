//! Damaged files, other configurations, second writers, and the bounds of memory and disk.

mod common;

use common::{Scratch, Tier, batch, config, fill};
use oneflow_embedding::{Batch, Config, Initializer, Key, Options, Rule, Step, Store};

over_tiers! {
    a_flipped_bit_is_named_and_never_served,
    torn_segments_and_damaged_manifests_are_named,
    hostile_manifests_are_refused,
    a_second_writer_and_another_configuration_are_refused,
    calls_that_do_not_fit_are_refused,
    evaluation_changes_nothing,
    snapshots_are_kept_loaded_and_given_back,
    a_damaged_snapshot_costs_no_other_row,
    many_evictions_stay_within_memory_and_disk,
    gradients_without_numbers_stay_in_their_rows,
    many_evictions_in_a_row,
    every_way_of_reading_gives_the_same_rows,
    prefetched_rows_are_found_and_change_nothing,
    updates_have_room_whatever_waits,
    updates_have_room_where_rows_wait_in_the_chunks_that_stay,
}

const SGD: Rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };
const STEP: Step = Step { lr: 1.0, step: 1, scale: 1.0 };

fn keys(ids: std::ops::Range<u64>) -> Vec<Key> {
    ids.map(|id| Key { table: 0, id }).collect()
}

/// A store of 1000 rows, each of its own number, committed and closed.
fn made(scratch: &Scratch) {
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(0)).unwrap();
    let values: Vec<f32> = (0..1000).flat_map(|i| [i as f32; 4]).collect();
    store.write(&batch(&keys(0..1000)), &values).unwrap();
    store.commit().unwrap();
}

fn opened(scratch: &Scratch) -> oneflow_base::Result<Store> {
    Store::open(scratch.path(), config(4, 0), &scratch.options(0))
}

fn a_flipped_bit_is_named_and_never_served(tier: Tier) {
    let scratch = Scratch::new("flip", tier);
    made(&scratch);
    if tier == Tier::Pages {
        opened(&scratch).unwrap().compact().unwrap();
        assert!(scratch.files(".rows").iter().all(|f| f.metadata().unwrap().len() == 0));
    }
    let file = &scratch.files(tier.ending())[0];
    let name = file.file_name().unwrap().to_str().unwrap();
    let whole = std::fs::read(file).unwrap();
    let mut n_open = 0;
    for byte in (0..whole.len()).step_by(811) {
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << (byte % 8);
        std::fs::write(file, &bytes).unwrap();
        let mut store = match opened(&scratch) {
            Ok(store) => store,
            // The foot of a file of pages is read at the beginning.
            Err(e) => {
                assert!(tier == Tier::Pages && e.text().contains("damaged") && e.text().contains(name), "{e}");
                continue;
            }
        };
        n_open += 1;
        let mut n_refused = 0;
        for part in keys(0..1000).chunks(1) {
            let mut out = vec![0.0; 4];
            match store.lookup(&batch(part), byte % 2 == 0, &mut out) {
                Ok(()) => assert_eq!(out, [part[0].id as f32; 4]),
                Err(e) => {
                    assert!(e.text().contains("damaged") && e.text().contains(name), "{e}");
                    n_refused += 1;
                }
            }
        }
        // A page is refused whole.
        let most = if tier == Tier::Log { 1 } else { 4096 / 36 };
        assert!((1..=most).contains(&n_refused), "byte {byte}: {n_refused}");
        assert!(store.verify().is_err());
    }
    assert!(n_open > 3);
}

fn torn_segments_and_damaged_manifests_are_named(tier: Tier) {
    let scratch = Scratch::new("torn", tier);
    made(&scratch);
    for (end, cuts) in [(".rows", 9), (tier.ending(), 9), (".manifest", 9)] {
        let file = scratch.files(end).pop().unwrap();
        let whole = std::fs::read(&file).unwrap();
        for cut in 0..cuts {
            std::fs::write(&file, &whole[..whole.len() * cut / cuts]).unwrap();
            let e = opened(&scratch).err().unwrap();
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(e.text().contains(name), "{e}");
        }
        std::fs::remove_file(&file).unwrap();
        if end != ".manifest" {
            assert!(opened(&scratch).is_err());
        }
        std::fs::write(&file, &whole).unwrap();
    }
    assert_eq!(fill(&mut opened(&scratch).unwrap(), &keys(999..1000)), [999.0; 4]);
}

fn hostile_manifests_are_refused(tier: Tier) {
    // Every word of a manifest set to numbers that overflow, with checksums that fit: sizes must be checked too.
    let scratch = Scratch::new("hostile", tier);
    made(&scratch);
    let file = scratch.files(".manifest").pop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    let n_config = u32::from_le_bytes(whole[16..20].try_into().unwrap()) as usize;
    let n_segments = u32::from_le_bytes(whole[20..24].try_into().unwrap()) as usize;
    let n_files = u32::from_le_bytes(whole[40..44].try_into().unwrap()) as usize;
    assert_eq!(n_files > 0, tier == Tier::Pages);
    let head = 44 + n_config + 8 * n_segments + 16 * n_files;
    for at in (8..head + 68).step_by(4) {
        for value in [0u32, 1, 0x7FFF_FFFF, u32::MAX] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let end = bytes.len() - 4;
            let sum = crc32fast::hash(&bytes[..head]);
            bytes[head..head + 4].copy_from_slice(&sum.to_le_bytes());
            let sum = crc32fast::hash(&bytes[head + 4..end]);
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
            std::fs::write(&file, &bytes).unwrap();
            // Some of these numbers are fine, an epoch for example; nothing panics, and no row is another's.
            if let Ok(mut store) = opened(&scratch)
                && let Ok(known) = store.keys()
            {
                for part in keys(0..1000).chunks(1) {
                    let mut out = vec![0.0; 4];
                    if store.lookup(&batch(part), false, &mut out).is_ok() && known.contains(&part[0]) {
                        assert_eq!(out, [part[0].id as f32; 4], "word {at} = {value}");
                    }
                }
            }
            let epochs = scratch.files(".manifest");
            epochs.iter().filter(|f| **f != file).for_each(|f| std::fs::remove_file(f).unwrap());
        }
    }
}

fn a_second_writer_and_another_configuration_are_refused(tier: Tier) {
    let scratch = Scratch::new("writer", tier);
    made(&scratch);
    let store = opened(&scratch).unwrap();
    assert!(opened(&scratch).err().unwrap().text().contains("in use"));
    drop(store);
    let ours = config(4, 0);
    let other = vec![vec![Initializer::Constant(0.0)]; 2];
    for (theirs, what) in [
        (Config { column_dims: vec![2, 2], ..ours.clone() }, "columns"),
        (Config { state_width: 4, ..ours.clone() }, "state"),
        (Config { seed: 1, ..ours.clone() }, "seed"),
        (Config { tables: ours.tables[..1].to_vec(), ..ours.clone() }, "tables"),
        (Config { tables: other, ..ours.clone() }, "initializers"),
    ] {
        let e = Store::open(scratch.path(), theirs, &scratch.options(0)).err();
        assert!(e.as_ref().is_some_and(|e| e.text().contains(what)), "{what}: {e:?}");
    }
    opened(&scratch).unwrap();
}

fn calls_that_do_not_fit_are_refused(tier: Tier) {
    let scratch = Scratch::new("calls", tier);
    let mut store = opened(&scratch).unwrap();
    let two = batch(&keys(0..2));
    let momentum = Rule::Sgd { momentum: 0.9, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };
    let wrong_table = batch(&[Key { table: 2, id: 0 }]);
    assert!(store.lookup(&two, true, &mut [0.0; 7]).is_err());
    assert!(store.update(&two, &[0.0; 9], &SGD, &STEP).is_err());
    assert!(store.update(&two, &[0.0; 8], &momentum, &STEP).err().unwrap().text().contains("size_factor"));
    assert!(store.write(&two, &[0.0; 3]).is_err());
    assert!(store.lookup(&wrong_table, false, &mut [0.0; 4]).is_err());
    for name in ["", "a/b", "..", ".x", "a\0"] {
        assert!(store.save_snapshot(name).is_err(), "{name:?}");
    }
    assert!(store.load_snapshot("none").err().unwrap().text().contains("no snapshot"));
    store.lookup(&batch(&[]), true, &mut []).unwrap();
    store.update(&batch(&[]), &[], &SGD, &STEP).unwrap();
    assert_eq!(store.stats().rows, 0);
    for bad in [
        Config { column_dims: vec![], ..config(4, 0) },
        Config { column_dims: vec![0], ..config(4, 0) },
        Config { column_dims: vec![usize::MAX, 2], ..config(4, 0) },
        Config { tables: vec![], ..config(4, 0) },
        Config { tables: vec![vec![Initializer::Normal { mean: 0.0, std: f32::NAN }]], ..config(4, 0) },
    ] {
        assert!(Store::open(Scratch::new("bad", tier).path(), bad, &Options::default()).is_err());
    }
}

fn evaluation_changes_nothing(tier: Tier) {
    let scratch = Scratch::new("evaluation", tier);
    made(&scratch);
    let mut store = opened(&scratch).unwrap();
    let before = store.stats();
    for part in keys(0..5000).chunks(300) {
        fill(&mut store, part);
    }
    let after = store.stats();
    assert_eq!(
        (before.rows, before.resident, before.counts.evictions),
        (after.rows, after.resident, after.counts.evictions)
    );
    assert_eq!((after.counts.reads - before.counts.reads, after.counts.initial - before.counts.initial), (1000, 4000));
    // Training does not make rows by looking at them either.
    let mut out = vec![0.0; 4 * 30];
    store.lookup(&batch(&keys(5000..5030)), true, &mut out).unwrap();
    assert_eq!(store.stats().rows, 1000);
}

fn snapshots_are_kept_loaded_and_given_back(tier: Tier) {
    let scratch = Scratch::new("snapshots", tier);
    let mut store = opened(&scratch).unwrap();
    let all = keys(0..1000);
    for round in 0..6 {
        store.write(&batch(&all), &vec![round as f32; 4000]).unwrap();
        store.save_snapshot(&format!("s{round}")).unwrap();
        store.write(&batch(&all[..500]), &vec![-1.0; 2000]).unwrap();
    }
    for round in [3, 0, 5] {
        store.load_snapshot(&format!("s{round}")).unwrap();
        assert_eq!(fill(&mut store, &all), vec![round as f32; 4000]);
        store.write(&batch(&all[..10]), &[7.0; 40]).unwrap();
    }
    drop(store);
    let mut store = opened(&scratch).unwrap();
    assert_eq!(fill(&mut store, &all), vec![5.0; 4000], "loading makes an epoch");
    let full = store.stats().disk_bytes;
    for round in 0..6 {
        store.remove_snapshot(&format!("s{round}")).unwrap();
    }
    store.commit().unwrap();
    let bytes = scratch.bytes();
    assert!(bytes <= 2 * store.stats().live_bytes + tier.slack(), "{bytes} of {full}: {:?}", store.stats());
    assert_eq!(fill(&mut store, &all), vec![5.0; 4000]);
}

fn a_damaged_snapshot_costs_no_other_row(tier: Tier) {
    let scratch = Scratch::new("damaged_snapshot", tier);
    let mut store = opened(&scratch).unwrap();
    store.write(&batch(&keys(0..1000)), &[1.0; 4000]).unwrap();
    store.save_snapshot("good").unwrap();
    drop(store);
    let file = scratch.path().join("snapshots/good.manifest");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[1..]).unwrap();
    let mut store = opened(&scratch).unwrap();
    for _ in 0..5 {
        store.write(&batch(&keys(0..1000)), &[2.0; 4000]).unwrap();
        store.commit().unwrap();
    }
    assert!(store.load_snapshot("good").is_err());
    // With the file repaired its rows are still there.
    std::fs::write(&file, &whole).unwrap();
    store.load_snapshot("good").unwrap();
    assert_eq!(fill(&mut store, &keys(0..1000)), [1.0; 4000]);
}

fn many_evictions_stay_within_memory_and_disk(tier: Tier) {
    let scratch = Scratch::new("evictions", tier);
    let mut store = opened(&scratch).unwrap();
    let mut live = 0;
    for round in 0..300u64 {
        let ids: Vec<Key> = (0..100).map(|i| Key { table: 0, id: (round * 37 + i * 7) % 2000 }).collect();
        store.update(&batch(&ids), &[1.0; 400], &SGD, &STEP).unwrap();
        let stats = store.stats();
        assert!(stats.resident <= stats.capacity);
        live = live.max(stats.live_bytes);
        let bytes = scratch.bytes();
        assert!(bytes <= 2 * stats.live_bytes + tier.slack(), "round {round}: {bytes} {stats:?}");
    }
    let stats = store.stats();
    assert!(stats.counts.evictions > 20_000 && stats.counts.moved > 0, "{stats:?}");
    assert_eq!(store.remove(&keys(0..2000)).unwrap(), stats.rows as usize);
    store.commit().unwrap();
    // A segment that grows stays.
    assert!(
        store.is_empty() && scratch.files(".rows").len() <= 1 && scratch.files(".pages").is_empty(),
        "{:?} {:?}",
        scratch.files(".rows"),
        scratch.files(".pages")
    );
}

fn gradients_without_numbers_stay_in_their_rows(tier: Tier) {
    let scratch = Scratch::new("nan", tier);
    let mut store = opened(&scratch).unwrap();
    let two = Batch::new(keys(0..2).into_iter().map(Some)).unwrap();
    store.update(&two, &[f32::NAN, f32::INFINITY, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0], &SGD, &STEP).unwrap();
    let rows = fill(&mut store, &keys(0..2));
    assert!(rows[0].is_nan() && rows[1].is_infinite() && rows[2..].iter().all(|v| v.is_finite()));
    store.commit().unwrap();
    drop(store);
    let again = fill(&mut opened(&scratch).unwrap(), &keys(0..2));
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&again), bits(&rows));
}

/// A million, or as many as `ONEFLOW_EVICTIONS` says.
fn many_evictions_in_a_row(tier: Tier) {
    let wanted = std::env::var("ONEFLOW_EVICTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let scratch = Scratch::new("in_a_row", tier);
    // 4096 rows in memory, of 100 000.
    let bytes_a_row = 4 * (6 + 4) + 15;
    let options = Options { records_per_segment: 0, ..scratch.options(4096 * bytes_a_row) };
    let mut store = Store::open(scratch.path(), config(4, 0), &options).unwrap();
    let (mut x, mut n_updates) = (1u64, vec![0u32; 100_000]);
    let mut round = 0u64;
    while store.stats().counts.evictions < wanted {
        let mut ids: Vec<u64> = (0..2000)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 33) % 100_000
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().for_each(|id| n_updates[*id as usize] += 1);
        let part: Vec<Key> = ids.iter().map(|id| Key { table: 0, id: *id }).collect();
        store.update(&batch(&part), &vec![-1.0; 4 * part.len()], &SGD, &STEP).unwrap();
        round += 1;
        if round.is_multiple_of(500) {
            store.commit().unwrap();
            let stats = store.stats();
            let bytes = scratch.bytes();
            assert!(bytes <= 2 * stats.live_bytes + 2_000_000 && stats.resident <= 4096, "{bytes} {stats:?}");
        }
    }
    drop(store);
    let scratch_initial = Scratch::new("in_a_row_initial", tier);
    let mut initial = Store::open(scratch_initial.path(), config(4, 0), &Options::default()).unwrap();
    let mut store = Store::open(scratch.path(), config(4, 0), &options).unwrap();
    // Up to the last epoch: each row has its number of updates, or some fewer.
    for (part, n) in keys(0..100_000).chunks(1000).zip(n_updates.chunks(1000)) {
        let (rows, start) = (fill(&mut store, part), fill(&mut initial, part));
        for ((row, start), n) in rows.chunks(4).zip(start.chunks(4)).zip(n) {
            let found = row[0] - start[0];
            assert!(found <= *n as f32 + 0.1 && found >= *n as f32 * 0.8 - 30.0, "{found} of {n}");
        }
    }
    assert_eq!(store.verify().unwrap(), store.len());
}

fn every_way_of_reading_gives_the_same_rows(tier: Tier) {
    use oneflow_embedding::Io;
    let rows_by = |io: Io, direct_block: Option<usize>| {
        let scratch = Scratch::new("ways", tier);
        let options = Options { io, direct_block, ..scratch.options(0) };
        let mut store = Store::open(scratch.path(), config(9, 2), &options).unwrap();
        let all = keys(0..900);
        for round in 0..4u64 {
            for part in all.chunks(70) {
                let grads: Vec<f32> = (0..9 * part.len() as u64).map(|i| ((i + round) % 5) as f32).collect();
                store.prefetch(&batch(part)).unwrap();
                store.update(&batch(part), &grads, &SGD, &STEP).unwrap();
            }
        }
        assert!(store.stats().counts.prefetched > 500, "{:?}", store.stats());
        store.commit().unwrap();
        drop(store);
        let mut store = Store::open(scratch.path(), config(9, 2), &options).unwrap();
        assert_eq!(store.verify().unwrap(), 900);
        fill(&mut store, &all)
    };
    let plain = rows_by(Io::Threads, None);
    for (io, block) in [(Io::Best, None), (Io::Threads, Some(512)), (Io::Best, Some(4096))] {
        assert_eq!(rows_by(io, block), plain, "{io:?} {block:?}");
    }
    for block in [0, 100, 4097, 1 << 20] {
        let scratch = Scratch::new("blocks", tier);
        let options = Options { direct_block: Some(block), ..scratch.options(0) };
        assert!(Store::open(scratch.path(), config(9, 2), &options).is_err(), "{block}");
    }
}

fn prefetched_rows_are_found_and_change_nothing(tier: Tier) {
    let scratch = Scratch::new("prefetch", tier);
    made(&scratch);
    let (mut plain, part) = (opened(&scratch).unwrap(), keys(100..120));
    let want = fill(&mut plain, &keys(0..1000));
    plain.prefetch(&batch(&part)).unwrap();
    plain.prefetch(&batch(&keys(2000..2010))).unwrap();
    plain.prefetch(&batch(&[])).unwrap();
    let before = plain.stats();
    assert_eq!((before.rows, before.counts.prefetched, before.counts.evictions), (1000, 20, 0));
    plain.lookup(&batch(&part), true, &mut [0.0; 80]).unwrap();
    let after = plain.stats();
    assert_eq!((after.counts.hits - before.counts.hits, after.counts.reads), (20, before.counts.reads));
    // Between a prefetch's steps rows change, leave and come: what was read is not taken then.
    let others = keys(200..206);
    let mut prefetch = plain.start_prefetch(&batch(&others)).unwrap();
    plain.write(&batch(&others[..2]), &[7.0; 8]).unwrap();
    plain.remove(&others[2..4]).unwrap();
    plain.lookup(&batch(&others[4..5]), true, &mut [0.0; 4]).unwrap();
    prefetch.read().unwrap();
    assert!(plain.continue_prefetch(&mut prefetch).unwrap());
    assert_eq!(plain.stats().counts.prefetched, 21, "only the last one was still wanted");
    assert_eq!(fill(&mut plain, &others[..2]), [7.0; 8]);
    assert_eq!(fill(&mut plain, &others[4..]), want[4 * 204..4 * 206]);
    assert_eq!((plain.len(), plain.keys().unwrap().contains(&others[2])), (998, false));
    plain.write(&batch(&others[..4]), &want[4 * 200..4 * 204]).unwrap();
    // Rows stay until their lookup, however many others come and go, unless further prefetches need the room.
    let soon = keys(300..310);
    plain.prefetch(&batch(&soon)).unwrap();
    for part in keys(400..1000).chunks(30) {
        plain.lookup(&batch(part), true, &mut vec![0.0; 4 * part.len()]).unwrap();
    }
    let before = plain.stats().counts;
    plain.lookup(&batch(&soon), true, &mut [0.0; 40]).unwrap();
    assert_eq!(plain.stats().counts.reads, before.reads);
    for first in (0..1000).step_by(10) {
        plain.prefetch(&batch(&keys(first..first + 10))).unwrap();
    }
    assert!(plain.stats().resident <= plain.stats().capacity);
    plain.remove(&keys(990..1000)).unwrap();
    plain.write(&batch(&keys(990..1000)), &want[4 * 990..]).unwrap();
    // More rows than memory has room for: some of them come.
    plain.prefetch(&batch(&keys(0..1000))).unwrap();
    assert!(plain.stats().resident <= plain.stats().capacity);
    assert_eq!(fill(&mut plain, &keys(0..1000)), want);
    assert!(plain.prefetch(&batch(&[Key { table: 9, id: 1 }])).is_err());
}

fn updates_have_room_whatever_waits(tier: Tier) {
    let scratch = Scratch::new("room", tier);
    let budget = 96 << 10;
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(budget)).unwrap();
    let of_table = |table: u32, ids: std::ops::Range<u64>| {
        let keys: Vec<Key> = ids.map(|id| Key { table, id }).collect();
        batch(&keys)
    };
    let add = |store: &mut Store, rows: &Batch| store.update(rows, &vec![1.0; 4 * rows.len()], &SGD, &STEP);
    add(&mut store, &of_table(0, 0..2000)).unwrap();
    let (mut n, mut capacities) = (0, std::collections::BTreeSet::new());
    for round in 0..60 {
        let capacity = store.stats().capacity;
        capacities.insert(capacity);
        // As many rows as may wait are prefetched, and looked up; their updates never come.
        for first in [0, 1000] {
            store.prefetch(&of_table(0, first..first + capacity.min(1000))).unwrap();
            let looked_up = of_table(0, first..first + capacity.min(2000) / 2);
            store.lookup(&looked_up, true, &mut vec![0.0; 4 * looked_up.len()]).unwrap();
        }
        // New rows make the indexes grow, so that the capacity shrinks; then a call needs as many rows as one keeps at a time.
        let part = of_table(1, n..n + 60);
        add(&mut store, &part).unwrap();
        n += 60;
        add(&mut store, &of_table(1, 0..n.min(capacity))).unwrap();
        let stats = store.stats();
        let held = stats.memory_bytes + stats.index_bytes;
        // A store keeps 64 rows, and a chunk more, however large its indexes are.
        assert!(held <= budget * 11 / 10 || stats.resident <= 3 * 64, "round {round}: {held} {stats:?}");
    }
    let least = capacities.first().unwrap();
    assert!(least * 10 < capacities.last().unwrap() * 9, "{tier:?}: the indexes took no memory: {capacities:?}");
}

fn updates_have_room_where_rows_wait_in_the_chunks_that_stay(tier: Tier) {
    let scratch = Scratch::new("waits", tier);
    let mut store = Store::open(scratch.path(), config(4, 0), &scratch.options(96 << 10)).unwrap();
    let sparse = |ids: std::ops::Range<u64>| {
        let key = |id: u64| Key { table: 0, id: id.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        batch(&ids.map(key).collect::<Vec<_>>())
    };
    let add = |store: &mut Store, rows: &Batch| store.update(rows, &vec![1.0; 4 * rows.len()], &SGD, &STEP);
    // Rows in the order of their slots, until memory is full.
    let mut n = 0;
    while store.stats().counts.evictions == 0 {
        add(&mut store, &sparse(n..n + 10)).unwrap();
        n += 10;
    }
    // The first of them wait, and new ones that come in place of the next: updates of all these never come.
    let full = store.stats().capacity;
    store.lookup(&sparse(20..20 + full / 4), true, &mut vec![0.0; 4 * (full as usize / 4)]).unwrap();
    store.prefetch(&sparse(1 << 30..(1 << 30) + full / 16 * 3)).unwrap();
    // The index of rows on disk grows at the expense of the last chunks.
    for _ in 0..400 {
        add(&mut store, &sparse(n..n + 10)).unwrap();
        n += 10;
    }
    let capacity = store.stats().capacity;
    assert!(capacity * 5 < full * 4, "{capacity} of {full}");
    // As many rows as a call keeps at a time.
    add(&mut store, &sparse(n..n + capacity / 2)).unwrap();
}
