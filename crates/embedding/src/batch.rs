//! The keys of one lookup: which are different, and at which positions each stands.

use crate::config::MAX_TABLES;
use crate::hot::KeySet;
use crate::lines::prefetch;
use oneflow_base::{Error, Result};
use std::sync::{Mutex, OnceLock};

/// A row's key: a table and any 64 bits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub table: u32,
    pub id: u64,
}

impl Key {
    #[inline(always)]
    pub fn hash(self) -> u64 {
        mix(self.id ^ (self.table as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Which of `n` owners has this key. Independent of the bits that find it in an index.
    pub fn owner(self, n: usize) -> usize {
        let bits = mix(self.hash() ^ 0x6A09_E667_F3BC_C908) >> 32;
        ((bits * n as u64) >> 32) as usize
    }
}

/// Spreads 64 bits over 64 bits, one to one (the finalizer of SplitMix64).
#[inline(always)]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Marks a padding position in `Batch::inverse`.
pub const PADDING: u32 = u32::MAX;

/// Positions of a batch that are pooled: those of a bag follow each other, and their rows are added to its own.
#[derive(Clone, Copy)]
pub struct Bags<'a> {
    /// The position at which each bag ends and the next one begins; the first begins at 0, the last ends with the batch.
    pub ends: &'a [u32],
    /// A factor of each position's row, 1 without.
    pub factors: Option<&'a [f32]>,
}

impl Bags<'_> {
    pub(crate) fn check(&self, n_positions: usize) -> Result<()> {
        let fits = self.ends.last().map_or(0, |e| *e as usize) == n_positions && self.ends.is_sorted();
        if fits && self.factors.is_none_or(|f| f.len() == n_positions) {
            return Ok(());
        }
        Err(Error::value(format!(
            "embedding: the ends of bags of {n_positions} ids rise to that number, and each id has a factor or none has, got \
             {} bags that end at {:?}, and {:?} factors",
            self.ends.len(),
            self.ends.last(),
            self.factors.map(<[f32]>::len)
        )))
    }

    /// The gradient of each position, from those of the bags.
    pub fn to_positions(&self, rows: &[f32], width: usize) -> Result<Vec<f32>> {
        let n_positions = self.ends.last().map_or(0, |e| *e as usize);
        self.check(n_positions)?;
        if self.ends.len().checked_mul(width) != Some(rows.len()) {
            return Err(Error::value(format!(
                "embedding: {} bags of {width} numbers are not {}",
                self.ends.len(),
                rows.len()
            )));
        }
        let mut out = Vec::with_capacity(n_positions * width);
        for (p, bag) in self.of_positions().into_iter().enumerate() {
            let factor = self.factor(p);
            out.extend(rows[bag as usize * width..(bag as usize + 1) * width].iter().map(|r| r * factor));
        }
        Ok(out)
    }

    /// The bag of each position.
    pub(crate) fn of_positions(&self) -> Vec<u32> {
        let mut of = Vec::new();
        for (bag, end) in self.ends.iter().enumerate() {
            of.resize(*end as usize, bag as u32);
        }
        of
    }

    #[inline(always)]
    pub(crate) fn factor(&self, p: usize) -> f32 {
        self.factors.map_or(1.0, |f| f[p])
    }
}

/// No owner.
const NOBODY: u32 = u32::MAX;

/// The keys of a lookup: of each position, and each once, in the order in which they first appear.
pub struct Batch {
    positions: Positions,
    /// Made when it is first asked for: a lookup that is not trained needs no different keys, and none needs groups.
    unique: OnceLock<Unique>,
    groups: OnceLock<Groups>,
    /// Where a store found the rows.
    pub(crate) found: Mutex<Option<Slots>>,
}

/// The keys as they came.
enum Positions {
    Keys(Vec<Option<Key>>),
    Ids { ids: Vec<u64>, tables: Tables, padding: Option<u64> },
}

enum Tables {
    /// The ids of so many tables alternate.
    Alternate(u32),
    Each(Vec<u32>),
}

struct Unique {
    keys: Vec<Key>,
    /// For each position the number of its key, or `PADDING`.
    inverse: Vec<u32>,
}

/// Positions of key `k`, ascending: `positions[starts[k]..starts[k + 1]]`.
struct Groups {
    positions: Vec<u32>,
    starts: Vec<u32>,
}

/// The slots of a batch's different keys in a store, for as long as the store has moved no row since.
pub(crate) struct Slots {
    pub store: u64,
    pub n_moves: u64,
    pub slots: Vec<u32>,
}

/// Keys whose lines of the table are asked for before the first is looked at.
const AHEAD: usize = 16;

impl Unique {
    fn of(mut keys: impl Iterator<Item = Option<Key>>, n: usize) -> Unique {
        let slots = (2 * n).next_power_of_two().max(16);
        let mut table = vec![PADDING; slots];
        let mut unique = Unique { keys: Vec::with_capacity(n), inverse: Vec::with_capacity(n) };
        let mut group = [(Key { table: 0, id: 0 }, 0, false); AHEAD];
        for _ in 0..n.div_ceil(AHEAD) {
            let mut n_group = 0;
            for (cell, key) in group.iter_mut().zip(keys.by_ref()) {
                let key_or_any = key.unwrap_or(Key { table: 0, id: 0 });
                let first = key_or_any.hash() as usize & (slots - 1);
                prefetch(&table[first]);
                *cell = (key_or_any, first, key.is_some());
                n_group += 1;
            }
            for &(key, first, is_key) in &group[..n_group] {
                if !is_key {
                    unique.inverse.push(PADDING);
                    continue;
                }
                let mut s = first;
                let number = loop {
                    match table[s] {
                        PADDING => {
                            table[s] = unique.keys.len() as u32;
                            unique.keys.push(key);
                            break table[s];
                        }
                        k if unique.keys[k as usize] == key => break k,
                        _ => s = (s + 1) & (slots - 1),
                    }
                };
                unique.inverse.push(number);
            }
        }
        unique
    }
}

impl Batch {
    /// From the key of each position; None is padding.
    pub fn new(keys: impl ExactSizeIterator<Item = Option<Key>>) -> Result<Batch> {
        let keys: Vec<Option<Key>> = keys.collect();
        Batch::of(keys.len(), keys.iter().flatten().map(|k| k.table).max(), Positions::Keys(keys))
    }

    fn of(n: usize, last_table: Option<u32>, positions: Positions) -> Result<Batch> {
        if n > u32::MAX as usize / 2 {
            return Err(Error::value(format!("embedding: a batch has at most 2^31 ids, got {n}")));
        }
        if let Some(table) = last_table.filter(|t| *t as usize >= MAX_TABLES) {
            return Err(Error::index(format!("embedding: there is no table {table}")));
        }
        Ok(Batch { positions, unique: OnceLock::new(), groups: OnceLock::new(), found: Mutex::new(None) })
    }

    /// From ids and the table of each; without tables, those of `n_tables` tables alternate. `padding` is no key.
    pub fn from_ids(ids: Vec<u64>, tables: Option<&[u64]>, n_tables: u32, padding: Option<u64>) -> Result<Batch> {
        let (last, tables) = match tables {
            Some(tables) if tables.len() != ids.len() => {
                return Err(Error::value(format!("embedding: {} tables for {} ids", tables.len(), ids.len())));
            }
            Some(tables) => {
                let each: Vec<u32> = tables.iter().map(|t| u32::try_from(*t).unwrap_or(u32::MAX)).collect();
                (each.iter().copied().max(), Tables::Each(each))
            }
            None => (n_tables.checked_sub(1), Tables::Alternate(n_tables.max(1))),
        };
        Batch::of(ids.len(), last, Positions::Ids { ids, tables, padding })
    }

    /// The key of a position; None is padding.
    #[inline(always)]
    pub fn key_at(&self, p: usize) -> Option<Key> {
        match &self.positions {
            Positions::Keys(keys) => keys[p],
            Positions::Ids { ids, tables, padding } => {
                let table = match tables {
                    Tables::Alternate(1) => 0,
                    Tables::Alternate(n) => (p % *n as usize) as u32,
                    Tables::Each(tables) => tables[p],
                };
                (Some(ids[p]) != *padding).then_some(Key { table, id: ids[p] })
            }
        }
    }

    /// The table and the ids of a batch of one table without padding.
    pub(crate) fn plain_ids(&self) -> Option<(u32, &[u64])> {
        match &self.positions {
            Positions::Ids { ids, tables: Tables::Alternate(1), padding: None } => Some((0, ids)),
            _ => None,
        }
    }

    fn unique(&self) -> &Unique {
        self.unique.get_or_init(|| match &self.positions {
            Positions::Keys(keys) => Unique::of(keys.iter().copied(), keys.len()),
            Positions::Ids { ids, tables: Tables::Alternate(1), padding: None } => {
                Unique::of(ids.iter().map(|id| Some(Key { table: 0, id: *id })), ids.len())
            }
            Positions::Ids { ids, .. } => Unique::of((0..ids.len()).map(|p| self.key_at(p)), ids.len()),
        })
    }

    /// Several batches as one: their positions follow each other.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a Batch>) -> Result<Batch> {
        let keys: Vec<Option<Key>> = parts.flat_map(|b| (0..b.len()).map(|p| b.key_at(p))).collect();
        Batch::new(keys.into_iter())
    }

    fn groups(&self) -> &Groups {
        self.groups.get_or_init(|| {
            let Unique { keys, inverse } = self.unique();
            let mut starts = vec![0u32; keys.len() + 1];
            for k in inverse.iter().filter(|k| **k != PADDING) {
                starts[*k as usize + 1] += 1;
            }
            for k in 1..starts.len() {
                starts[k] += starts[k - 1];
            }
            let mut next = starts.clone();
            let mut positions = vec![0; starts[keys.len()] as usize];
            for (p, k) in inverse.iter().enumerate().filter(|(_, k)| **k != PADDING) {
                positions[next[*k as usize] as usize] = p as u32;
                next[*k as usize] += 1;
            }
            Groups { positions, starts }
        })
    }

    /// The number of the different key of each position; `u32::MAX` is padding.
    pub fn inverse(&self) -> &[u32] {
        &self.unique().inverse
    }

    /// The keys by owner, without those of a set: their numbers, those of the first owner first, and how many each of `n` owners
    /// has.
    pub fn by_owner(&self, n: usize, except: Option<&KeySet>) -> (Vec<u32>, Vec<usize>) {
        let mut starts = vec![0usize; n + 1];
        let owner = |k: &Key| if except.is_some_and(|set| set.contains(*k)) { NOBODY } else { k.owner(n) as u32 };
        let owners: Vec<u32> = self.keys().iter().map(owner).collect();
        owners.iter().filter(|o| **o != NOBODY).for_each(|o| starts[*o as usize + 1] += 1);
        let counts = starts[1..].to_vec();
        for o in 0..n {
            starts[o + 1] += starts[o];
        }
        let mut order = vec![0; starts[n]];
        for (k, owner) in owners.iter().enumerate().filter(|(_, o)| **o != NOBODY) {
            order[starts[*owner as usize]] = k as u32;
            starts[*owner as usize] += 1;
        }
        (order, counts)
    }

    /// The sum of the rows of `width` numbers at the positions of each key, in the order of the positions.
    pub fn sums(&self, rows: &[f32], width: usize) -> Result<Vec<f32>> {
        self.check_rows(rows.len(), self.len(), width)?;
        let mut sums = vec![0.0; self.n_unique() * width];
        for (k, sum) in sums.chunks_exact_mut(width.max(1)).enumerate() {
            for &p in self.positions_of(k) {
                let row = &rows[p as usize * width..(p as usize + 1) * width];
                sum.iter_mut().zip(row).for_each(|(s, r)| *s += r);
            }
        }
        Ok(sums)
    }

    /// The row of each position from one row a different key; padding gives zeros.
    pub fn to_positions(&self, rows: &[f32], width: usize, out: &mut [f32]) -> Result<()> {
        self.check_rows(rows.len(), self.n_unique(), width)?;
        self.check_rows(out.len(), self.len(), width)?;
        for (out, &k) in out.chunks_exact_mut(width.max(1)).zip(self.inverse()) {
            match k {
                PADDING => out.fill(0.0),
                k => out.copy_from_slice(&rows[k as usize * width..(k as usize + 1) * width]),
            }
        }
        Ok(())
    }

    fn check_rows(&self, n_numbers: usize, n_rows: usize, width: usize) -> Result<()> {
        match n_rows.checked_mul(width) == Some(n_numbers) {
            true => Ok(()),
            false => Err(Error::value(format!("embedding: {n_rows} rows of {width} numbers are not {n_numbers}"))),
        }
    }

    /// Positions, padding included.
    pub fn len(&self) -> usize {
        match &self.positions {
            Positions::Keys(keys) => keys.len(),
            Positions::Ids { ids, .. } => ids.len(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Different keys.
    pub fn n_unique(&self) -> usize {
        self.keys().len()
    }
    /// The different keys, in the order in which they first appear.
    pub fn keys(&self) -> &[Key] {
        &self.unique().keys
    }
    pub(crate) fn positions_of(&self, k: usize) -> &[u32] {
        let groups = self.groups();
        &groups.positions[groups.starts[k] as usize..groups.starts[k + 1] as usize]
    }
    /// As many positions as key `k` has, `n` behind its own in the order of the keys.
    pub(crate) fn positions_behind(&self, k: usize, n: usize) -> &[u32] {
        let Groups { positions, starts } = self.groups();
        let at = |start: u32| positions.len().min(start as usize + n);
        &positions[at(starts[k])..at(starts[k + 1])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_once_with_all_their_positions() {
        let key = |table, id| Some(Key { table, id });
        let ids = [key(0, 5), key(1, 5), None, key(0, 5), key(0, u64::MAX), key(1, 5), key(0, 0)];
        let batch = Batch::new(ids.into_iter()).unwrap();
        assert_eq!(batch.inverse(), [0, 1, PADDING, 0, 2, 1, 3]);
        assert_eq!((0..4).map(|k| batch.positions_of(k)).collect::<Vec<_>>(), [&[0, 3][..], &[1, 5], &[4], &[6]]);
        let twice = Batch::joined([&batch, &batch].into_iter()).unwrap();
        assert_eq!((twice.len(), twice.n_unique(), twice.positions_of(1)), (14, 4, &[1, 5, 8, 12][..]));
        assert_eq!(Batch::new([].into_iter()).unwrap().n_unique(), 0);
        assert!(Batch::new([key(1 << 20, 1)].into_iter()).is_err());
    }

    #[test]
    fn rows_are_added_and_spread_by_key() {
        let key = |id| Some(Key { table: 0, id });
        let batch = Batch::new([key(5), None, key(6), key(5)].into_iter()).unwrap();
        assert_eq!(batch.sums(&[1.0, 2.0, 9.0, 9.0, 3.0, 4.0, 10.0, 20.0], 2).unwrap(), [11.0, 22.0, 3.0, 4.0]);
        let mut out = [f32::NAN; 4];
        batch.to_positions(&[1.5, 2.5], 1, &mut out).unwrap();
        assert_eq!(out, [1.5, 0.0, 2.5, 1.5]);
        assert!(batch.sums(&[0.0; 3], 2).is_err() && batch.to_positions(&[0.0; 3], 1, &mut out).is_err());
    }

    #[test]
    fn every_key_has_one_owner_and_owners_have_equal_shares() {
        let batch = Batch::new((0..9000u32).map(|id| Some(Key { table: 0, id: id as u64 }))).unwrap();
        for n in [1, 3, 4] {
            let (order, counts) = batch.by_owner(n, None);
            let owners: Vec<usize> = order.iter().map(|k| batch.keys()[*k as usize].owner(n)).collect();
            assert!(owners.is_sorted() && owners.iter().all(|o| *o < n));
            assert_eq!(counts.iter().sum::<usize>(), 9000);
            assert!(counts.iter().all(|c| c.abs_diff(9000 / n) < 300), "{counts:?}");
            let hot: Vec<Key> = [8999, 7, 1 << 40].map(|id| Key { table: 0, id }).to_vec();
            let set = KeySet::new(&hot);
            let (rest, counts) = batch.by_owner(n, Some(&set));
            let all_but: Vec<u32> = order.iter().copied().filter(|k| *k != 8999 && *k != 7).collect();
            assert_eq!((rest, counts.iter().sum::<usize>()), (all_but, 8998));
            assert_eq!(batch.members(&set), (vec![7, 8999], vec![1, 0]));
        }
    }
}
