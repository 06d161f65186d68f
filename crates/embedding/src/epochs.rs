//! Durability of a store: opening, epochs, snapshots, and the collection of superseded records.
//!
//! An epoch is a manifest with its name. Segments that any manifest names are never changed before their known end, and not
//! removed; so a store that died at any step opens as its last epoch.

use crate::batch::Key;
use crate::config::{Config, Options};
use crate::disk::{Wanted, Where};
use crate::folder::Folder;
use crate::log::{HEADER, Place, Segment, segment_name};
use crate::manifest::{self, Head, Manifest};
use crate::page::{PagesHead, Run};
use crate::places::Places;
use crate::prefetch::Waiting;
use crate::queues::{DEAD, DIRTY};
use crate::rows::{floats, key_of};
use crate::slots::Slots;
use crate::store::Store;
use oneflow_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

const SNAPSHOTS: &str = "snapshots";
const SUFFIX: &str = ".manifest";
/// Superseded records that are not worth collecting.
pub(crate) const SLACK: u64 = 256;
/// Records that collection reads at once.
const MOVE: u32 = 1 << 10;

fn epoch_name(epoch: u64) -> String {
    format!("epoch-{epoch:012}{SUFFIX}")
}

/// The number of a file of records or of pages.
fn segment_of(name: &str) -> Option<u32> {
    name.strip_suffix(".rows").or_else(|| name.strip_suffix(".pages"))?.parse().ok()
}

/// The segments that a manifest needs, none of whose rows is known to live.
pub(crate) fn known_segments(head: &Head) -> impl Iterator<Item = (u32, Segment)> {
    let records = head.segments.iter().map(|s| (s.0, Segment { n_records: s.1, n_live: 0, n_blocks: 0 }));
    let page = |p: &PagesHead| (p.segment, Segment { n_records: p.n_records, n_live: 0, n_blocks: p.n_blocks });
    records.chain(head.pages.iter().map(page))
}

fn epoch_of(name: &str) -> Option<u64> {
    name.strip_prefix("epoch-")?.strip_suffix(SUFFIX)?.parse().ok()
}

pub(crate) fn snapshot_file(name: &str) -> Result<String> {
    let is_plain = !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    match is_plain {
        true => Ok(format!("{SNAPSHOTS}/{name}{SUFFIX}")),
        false => Err(Error::value(format!("embedding: a snapshot's name is a plain file name, got {name:?}"))),
    }
}

/// The file of the newest epoch of a folder.
pub(crate) fn newest_epoch(folder: &Folder) -> Result<Option<String>> {
    Ok(folder.names("")?.iter().filter_map(|n| epoch_of(n)).max().map(epoch_name))
}

/// The files of pages in the order of their hashes; None if two of them have the same.
pub(crate) fn sorted(mut runs: Vec<Run>) -> Option<Vec<Run>> {
    runs.sort_by_key(|r| r.first);
    let are_apart = runs.iter().all(|r| r.first <= r.last) && runs.windows(2).all(|w| w[0].last < w[1].first);
    are_apart.then_some(runs)
}

/// The number of records of each segment of a manifest, once their files are known to be long enough.
pub(crate) fn check_segments(folder: &Folder, from: &Manifest, record_bytes: usize) -> Result<HashMap<u32, u32>> {
    let mut segments = HashMap::new();
    for &(s, n_records) in &from.head.segments {
        let needed = n_records as u64 * record_bytes as u64;
        let found = folder.size(&segment_name(s))?;
        if found < needed {
            return Err(Error::runtime(format!(
                "embedding: {} is torn: it has {found} bytes, of which {needed} are needed",
                folder.file(&segment_name(s)).display()
            )));
        }
        segments.insert(s, n_records);
    }
    Ok(segments)
}

impl Store {
    /// Opens a store that is there, with the configuration that it was created with. If nothing else is said, rows lie in pages
    /// if some do.
    pub fn open_existing(path: &Path, options: &Options) -> Result<Store> {
        let folder = Folder::open_to_read(path, true)?;
        let newest = newest_epoch(&folder)?
            .ok_or_else(|| Error::value(format!("embedding: {} holds no epoch of a store", path.display())))?;
        let head = manifest::read(&folder, &newest)?.head;
        drop(folder);
        let pages = options.pages.or(Some(!head.pages.is_empty()));
        Store::open(path, head.config, &Options { pages, ..options.clone() })
    }

    /// Opens a store as of its last epoch, or creates an empty one.
    pub fn open(path: &Path, config: Config, options: &Options) -> Result<Store> {
        config.check()?;
        options.check()?;
        let folder = Arc::new(Folder::open(path, options.faults.clone())?);
        folder.make_folder(SNAPSHOTS)?;
        let names = folder.names("")?;
        let newest = names.iter().filter_map(|n| epoch_of(n)).max();
        let last = newest.map(|e| manifest::read(&folder, &epoch_name(e))).transpose()?;

        let (mut pins, mut of_snapshots) = (BTreeMap::new(), BTreeMap::new());
        // A damaged snapshot may need any segment that is there.
        let mut any_damaged = false;
        for name in folder.names(SNAPSHOTS)? {
            let file = format!("{SNAPSHOTS}/{name}");
            if !name.ends_with(SUFFIX) {
                if name.ends_with(".tmp") {
                    // Was never finished; if it cannot be removed now, it is next time.
                    let _ = folder.remove(&file);
                }
                continue;
            }
            match manifest::read(&folder, &file) {
                Ok(m) => {
                    of_snapshots.extend(known_segments(&m.head));
                    pins.insert(file, m.head.files().collect::<BTreeSet<_>>());
                }
                Err(_) => any_damaged = true,
            }
        }
        if let Some(last) = &last {
            config.expect(&last.head.config)?;
            pins.insert(epoch_name(last.head.epoch), last.head.files().collect());
        }
        let numbers = names.iter().filter_map(|n| segment_of(n));
        let next = numbers.clone().chain(pins.values().flatten().copied()).max().map_or(0, |n| n.saturating_add(1));

        let mut store = Store::new(config, options, folder, next)?;
        store.pins = pins;
        store.log.segments = of_snapshots;
        store.keep_below = if any_damaged { next } else { 0 };
        if let Some(last) = last {
            store.epoch = last.head.epoch;
            store.become_epoch(&last)?;
        }
        store.sweep(&names);
        Ok(store)
    }

    /// Removes what no manifest needs: files of steps that were cut short.
    fn sweep(&mut self, names: &[String]) {
        for name in names {
            let is_needed = match (segment_of(name), epoch_of(name)) {
                (Some(s), _) => s < self.keep_below || self.is_pinned(s),
                (_, Some(e)) => e == self.epoch,
                _ => !name.ends_with(".tmp"),
            };
            if !is_needed {
                // Nothing depends on it: it is tried again at the next opening.
                let _ = self.folder.remove(name);
            }
        }
    }

    pub(crate) fn is_pinned(&self, segment: u32) -> bool {
        segment < self.keep_below || self.pins.values().any(|p| p.contains(&segment))
    }

    /// Takes over the rows of a manifest, which is checked whole before anything changes.
    fn become_epoch(&mut self, from: &Manifest) -> Result<()> {
        let damaged = |what: String| Error::runtime(format!("embedding: the manifest of the rows is damaged: {what}"));
        check_segments(&self.folder, from, self.log.record_bytes())?;
        let mut segments: BTreeMap<u32, Segment> = known_segments(&from.head).collect();
        if segments.len() != from.head.files().count() {
            return Err(damaged("a file stands in it twice".to_string()));
        }
        let open = |of: &PagesHead| Run::open(&self.folder, of, self.config.width());
        let runs = from.head.pages.iter().map(open).collect::<Result<Vec<_>>>()?;
        let pages = sorted(runs).ok_or_else(|| damaged("two files of pages hold the same rows".to_string()))?;
        let mut places = Places::new();
        let n_tables = self.config.tables.len() as u32;
        let mut n_records = 0;
        for (id, place) in from.entries() {
            let key = Key { table: place.table(), id };
            if places.find(key).is_some() {
                return Err(damaged(format!("the row {id} stands in it twice")));
            }
            if !place.is_gone() {
                let segment = segments.get_mut(&place.segment()).filter(|s| !s.is_of_pages());
                let Some(segment) = segment.filter(|s| place.record() < s.n_records) else {
                    return Err(damaged(format!("the row {id} lies in no segment")));
                };
                segment.n_live += 1;
                n_records += 1;
            }
            if place.table() >= n_tables {
                return Err(damaged(format!("the row {id} lies in no table")));
            }
            places.insert(id, place);
        }
        let n_rows = from.head.n_rows;
        let n_in_pages: u64 = pages.iter().map(|r| r.n_records as u64).sum();
        if !(n_records..=n_records + n_in_pages).contains(&n_rows) {
            return Err(damaged(format!(
                "it has {n_records} records and {n_in_pages} rows in pages for {n_rows} rows"
            )));
        }
        for run in &pages {
            segments.entry(run.segment).and_modify(|s| s.n_live = s.n_records);
        }
        // Segments that only the rows until now used stay known, for as long as a manifest needs their files.
        self.log.seal_all()?;
        for (s, old) in &self.log.segments {
            segments.entry(*s).or_insert(Segment { n_live: 0, ..*old });
        }
        self.log.segments = segments;
        self.n_rows = n_rows as usize;
        self.n_dirty = 0;
        self.places = places;
        self.pages.become_runs(pages);
        self.slots = Slots::new(self.config.tables.len());
        self.n_moves += 1;
        self.rows.clear();
        self.queues.clear();
        self.ahead_rows = Waiting::default();
        self.wanted_rows = Waiting::default();
        Ok(())
    }

    /// Writes living records together, so that the files hold little else, and commits. What a snapshot needs stays.
    pub fn compact(&mut self) -> Result<()> {
        self.commit()?;
        if self.pages.are_used() {
            self.merge_all()?;
        }
        self.log.seal_all()?;
        let is_loose = |s: &Segment| s.n_live > 0 && s.n_live < s.n_records;
        let loose = self.log.segments.iter().filter(|(n, s)| is_loose(s) && !self.is_in_snapshot(**n));
        for segment in loose.map(|(n, _)| *n).collect::<Vec<_>>() {
            self.move_out(segment)?;
        }
        self.commit()?;
        Ok(())
    }

    fn is_in_snapshot(&self, segment: u32) -> bool {
        let needs = |(name, pins): (&String, &BTreeSet<u32>)| epoch_of(name).is_none() && pins.contains(&segment);
        segment < self.keep_below || self.pins.iter().any(needs)
    }

    /// Makes the store as it is now last: from here on it opens like this. Gives the number of the epoch.
    pub fn commit(&mut self) -> Result<u64> {
        for slot in 0..self.rows.flags.len() as u32 {
            if self.rows.flags[slot as usize] & (DIRTY | DEAD) == DIRTY {
                self.save(slot)?;
            }
        }
        // What this manifest frees of the last one, it frees at once.
        match self.pages.are_used() {
            true => self.bound_pages(Store::is_in_snapshot).map(|_| ())?,
            false => self.collect(Store::is_in_snapshot)?,
        }
        self.log.sync()?;
        let head = self.head(self.epoch + 1);
        let name = epoch_name(head.epoch);
        self.write_manifest(&name, &head)?;
        let old = epoch_name(self.epoch);
        self.epoch = head.epoch;
        self.committed_at = self.log.n_changes;
        if self.pins.remove(&old).is_some() {
            // The newest counts; an older one that stays is removed at the next opening.
            let _ = self.folder.remove(&old);
        }
        self.remove_dead();
        // Records that come now can be collected before the next epoch only if they lie in a segment of their own.
        let enough = SLACK.max((self.n_rows / 16 / self.pages.n_parts()) as u64);
        let n_records = |s: u32| self.log.segments.get(&s).map_or(0, |s| s.n_records as u64);
        let full: Vec<usize> =
            self.log.active().filter(|(_, s)| n_records(*s) >= enough).map(|(part, _)| part).collect();
        full.into_iter().try_for_each(|part| self.log.seal(part))?;
        Ok(self.epoch)
    }

    fn head(&self, epoch: u64) -> Head {
        let used = self.log.segments.iter().filter(|(_, s)| s.n_live > 0 && !s.is_of_pages());
        Head {
            epoch,
            config: self.config.clone(),
            segments: used.map(|(n, s)| (*n, s.n_records)).collect(),
            pages: self.pages.runs().iter().map(Run::head).collect(),
            n_rows: self.n_rows as u64,
        }
    }

    fn write_manifest(&mut self, name: &str, head: &Head) -> Result<()> {
        // First: where the last step of writing it fails, it may have its name.
        self.pins.insert(name.to_string(), head.files().collect());
        let entries = self.places.entries().map(|(_, key, place)| (key.id, place));
        manifest::write(&self.folder, name, head, self.places.len(), entries)
    }

    /// Commits, and keeps this epoch under a name until `remove_snapshot`. Copies no row.
    pub fn save_snapshot(&mut self, name: &str) -> Result<()> {
        let file = snapshot_file(name)?;
        self.commit()?;
        let head = self.head(self.epoch);
        self.write_manifest(&file, &head)
    }

    /// Takes over the rows of a snapshot, and commits that.
    pub fn load_snapshot(&mut self, name: &str) -> Result<()> {
        let file = snapshot_file(name)?;
        if !self.folder.file(&file).exists() {
            let known = self.snapshots()?;
            return Err(Error::value(format!("embedding: there is no snapshot {name:?}; there are {known:?}")));
        }
        let snapshot = manifest::read(&self.folder, &file)?;
        self.config.expect(&snapshot.head.config)?;
        self.become_epoch(&snapshot)?;
        self.commit()?;
        Ok(())
    }

    /// Names of the snapshots.
    pub fn snapshots(&self) -> Result<Vec<String>> {
        let names = self.folder.names(SNAPSHOTS)?;
        Ok(names.iter().filter_map(|n| n.strip_suffix(SUFFIX).map(str::to_string)).collect())
    }

    /// Forgets a snapshot; what only it needed leaves the disk.
    pub fn remove_snapshot(&mut self, name: &str) -> Result<()> {
        let file = snapshot_file(name)?;
        self.folder.remove(&file)?;
        self.pins.remove(&file);
        self.remove_dead();
        Ok(())
    }

    /// Reads every record that is in use and checks it; returns how many there are.
    pub fn verify(&mut self) -> Result<usize> {
        let place = |(key, place)| Wanted { key, at: Where::Record(place) };
        let all: Vec<Wanted> = self.places.iter().map(place).collect();
        for part in all.chunks(MOVE as usize) {
            self.log.read(&self.readers, part)?;
        }
        let (places, mut n) = (&self.places, all.len());
        for run in self.pages.runs() {
            let file = self.log.file_to_read(run.segment)?;
            run.visit(&file, &self.readers, self.config.width(), |_, row| {
                n += places.find(row.key()).is_none() as usize;
                true
            })?;
        }
        Ok(n)
    }

    pub(crate) fn remove_dead(&mut self) {
        let dead = self.log.segments.iter().filter(|(n, s)| s.n_live == 0 && self.log.part_of(**n).is_none());
        let dead: Vec<u32> = dead.map(|(n, _)| *n).filter(|n| !self.is_pinned(*n)).collect();
        dead.into_iter().for_each(|n| self.log.remove(n));
    }

    /// Makes an epoch, if the store does so by itself, where all files could otherwise be larger than twice the rows in use before
    /// this is called again: before a call that changes `n` rows, so that an epoch has all of a call or nothing.
    pub(crate) fn bound_epoch(&mut self, n: usize) -> Result<()> {
        if !self.bounds_disk || self.pins.is_empty() {
            return Ok(());
        }
        let record = self.log.record_bytes() as u64;
        // Not again before it frees something: in a log, superseded records enough to be worth the moves.
        let (frees, comes) = if self.pages.are_used() {
            let leaves = |(n, s): (&u32, &Segment)| s.is_of_pages() && s.n_live == 0 && !self.is_in_snapshot(*n);
            (self.log.segments.iter().any(leaves), self.merges_of(n))
        } else {
            let few = (self.n_rows as u64 / 16).max(SLACK);
            (self.log.n_changes >= self.committed_at + few, record * few + self.twice_the_rows() / 5)
        };
        // Besides, rows that leave memory, and those that an epoch writes.
        let comes = comes + record * (self.n_dirty + 2 * n) as u64;
        if !frees || self.bytes_at_epoch() + comes <= self.twice_the_rows() {
            return Ok(());
        }
        self.commit().map(|_| ())
    }

    /// The bound of all files: twice the rows in use.
    fn twice_the_rows(&self) -> u64 {
        2 * self.log.record_bytes() as u64 * self.n_rows as u64
    }

    /// Bytes of all files before an epoch takes the place of the last one.
    fn bytes_at_epoch(&self) -> u64 {
        self.disk_bytes() + 2 * self.manifest_bytes()
    }

    /// Keeps the disk below twice what lives, as far as no manifest needs more.
    pub(crate) fn bound_disk(&mut self) -> Result<()> {
        self.bound_log()?;
        if self.log.n_changes < self.looked_at + SLACK / 2 {
            return Ok(());
        }
        self.looked_at = self.log.n_changes;
        if self.pages.are_used() {
            if !self.bound_pages(Store::is_pinned)? {
                // Not again before there is more to gain.
                self.looked_at += self.n_on_disk() / 4;
            }
            return Ok(());
        }
        let (mut n_records, mut n_live) = (0, 0);
        for s in self.log.segments.values() {
            n_records += s.n_records as u64;
            n_live += s.n_live as u64;
        }
        // Without pins this is what `collect` asks; with them it may find nothing to do.
        if n_records <= 2 * n_live + SLACK {
            return Ok(());
        }
        self.collect(Store::is_pinned)
    }

    /// Moves what lives out of the segments that hold least of it, until the segments that are not kept hold at most twice
    /// what lives in them.
    fn collect(&mut self, is_kept: impl Fn(&Store, u32) -> bool) -> Result<()> {
        let kept: HashSet<u32> = self.log.segments.keys().copied().filter(|s| is_kept(self, *s)).collect();
        let is_empty = |s: &Segment| s.n_live == 0 && s.n_records as u64 > SLACK;
        let emptied = self.log.active().filter(|(_, s)| self.log.segments.get(s).is_some_and(is_empty));
        for part in emptied.map(|(part, _)| part).collect::<Vec<_>>() {
            self.log.seal(part)?;
        }
        loop {
            self.remove_dead();
            // A segment where nothing lives has been removed, or waits for the next manifest.
            let of_use = |(n, s): &(&u32, &Segment)| s.n_live > 0 && !kept.contains(n) && !self.log.damaged.contains(n);
            let free = || self.log.segments.iter().filter(of_use);
            let n_records: u64 = free().map(|(_, s)| s.n_records as u64).sum();
            let n_live: u64 = free().map(|(_, s)| s.n_live as u64).sum();
            // Moved records are on disk twice until the next epoch: where files have a bound, few superseded ones are left.
            let (superseded, fullest) = if self.bounds_disk { (n_live / 6, 0.95) } else { (n_live, 0.5) };
            if n_records <= n_live + superseded + SLACK {
                return Ok(());
            }
            let share = |s: &Segment| s.n_live as f64 / s.n_records.max(1) as f64;
            let emptiest = free().filter(|(_, s)| share(s) <= fullest);
            let Some(victim) = emptiest.min_by(|a, b| share(a.1).total_cmp(&share(b.1))).map(|(n, _)| *n) else {
                return Ok(());
            };
            let moved = self.log.record_bytes() as u64 * self.log.segments.get(&victim).map_or(0, |s| s.n_live as u64);
            if self.bounds_disk && self.bytes_at_epoch() + moved > self.twice_the_rows() {
                return Ok(());
            }
            if let Some(part) = self.log.part_of(victim) {
                self.log.seal(part)?;
            }
            self.move_out(victim)?;
        }
    }

    /// Appends the living records of a segment to the log again.
    fn move_out(&mut self, segment: u32) -> Result<()> {
        let n = self.log.segments.get(&segment).map_or(0, |s| s.n_records);
        let width = HEADER + self.config.width();
        for first in (0..n).step_by(MOVE as usize) {
            let rows = self.log.read_range(&self.readers, segment, first..n.min(first + MOVE))?;
            for (i, row) in rows.iter().enumerate().filter_map(|(i, r)| r.as_ref().map(|r| (i, r))) {
                debug_assert_eq!(row.len(), width);
                let key = key_of(row);
                let Some(entry) = self.places.find(key) else { continue };
                if self.places.get(entry) != Place::new(segment, first + i as u32, key.table) {
                    continue;
                }
                let part = self.pages.part(key.hash());
                let place = self.log.append(part, &row[..HEADER], floats(&row[HEADER..]))?;
                self.log.forget(self.places.get(entry));
                self.places.set(entry, place);
                self.counts.moved += 1;
            }
        }
        if self.log.segments.get(&segment).is_some_and(|s| s.n_live > 0) {
            // Records that live and cannot be read: they are named when somebody asks for them.
            self.log.damaged.insert(segment);
        }
        Ok(())
    }
}
