//! The location of each row whose newest numbers are a record of the log: 16 bytes a row and its index; and rows that were
//! removed although a page still holds them. A key that is not here, not in memory and denied by the pages' filters was never
//! written, so asking for it reads nothing.

use crate::batch::Key;
use crate::index::Index;
use crate::log::Place;

pub struct Places {
    entries: Vec<(u64, Place)>,
    index: Index,
    free: Vec<u32>,
}

fn key_of(entry: &(u64, Place)) -> Key {
    Key { table: entry.1.table(), id: entry.0 }
}

impl Places {
    pub fn new() -> Places {
        Places { entries: Vec::new(), index: Index::new(), free: Vec::new() }
    }
    pub fn len(&self) -> usize {
        self.index.len()
    }
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, Place)>() + self.index.bytes()
    }

    pub fn find(&self, key: Key) -> Option<u32> {
        self.index.find(key.hash(), |e| key_of(&self.entries[e as usize]) == key)
    }
    pub fn prefetch(&self, key: Key) {
        self.index.prefetch(key.hash());
    }
    pub fn get(&self, entry: u32) -> Place {
        self.entries[entry as usize].1
    }
    pub fn set(&mut self, entry: u32, place: Place) {
        self.entries[entry as usize].1 = place;
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, id: u64, place: Place) -> u32 {
        let entry = match self.free.pop() {
            Some(entry) => {
                self.entries[entry as usize] = (id, place);
                entry
            }
            None => {
                if self.entries.len() == self.entries.capacity() {
                    // By an eighth: the list counts against the memory for rows.
                    self.entries.reserve_exact(self.entries.len() / 8 + 64);
                }
                self.entries.push((id, place));
                self.entries.len() as u32 - 1
            }
        };
        let entries = &self.entries;
        let hash = key_of(&entries[entry as usize]).hash();
        self.index.insert(hash, entry, |e| key_of(&entries[e as usize]).hash());
        entry
    }

    pub fn remove(&mut self, entry: u32) {
        if self.index.remove(key_of(&self.entries[entry as usize]).hash(), entry) {
            self.free.push(entry);
        }
    }

    /// Numbers, keys and places of all entries, in no order that means anything.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Key, Place)> {
        let mut is_free = vec![false; self.entries.len()];
        self.free.iter().for_each(|e| is_free[*e as usize] = true);
        let entries = self.entries.iter().zip(is_free).enumerate().filter(|(_, (_, free))| !free);
        entries.map(|(i, (e, _))| (i as u32, key_of(e), e.1))
    }

    /// Keys and places of rows with a record.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Place)> {
        self.entries().filter(|e| !e.2.is_gone()).map(|(_, key, place)| (key, place))
    }

    /// Sets the place of a key, whether it is there or not. Returns its entry.
    pub fn put(&mut self, key: Key, place: Place) -> u32 {
        match self.find(key) {
            Some(entry) => {
                self.set(entry, place);
                entry
            }
            None => self.insert(key.id, place),
        }
    }
}
