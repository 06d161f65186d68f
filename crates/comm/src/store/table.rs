//! The semantics of a store's operations, without waiting and without a wire.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use super::MAX_VALUE;

/// All keys and values together; more is a runaway client.
const MAX_TOTAL: usize = 256 << 20;
/// What an entry takes besides its bytes, so that many small ones are bounded too.
const ENTRY: usize = 128;

#[derive(Default)]
pub(super) struct Table {
    map: HashMap<Vec<u8>, Vec<u8>>,
    queues: HashMap<Vec<u8>, Queue>,
    total: usize,
}

#[derive(Default)]
struct Queue {
    values: VecDeque<Vec<u8>>,
    /// Who was told of a value and has not taken it yet.
    claims: Vec<Weak<()>>,
}

/// Values of queues that somebody was told of: others who wait are not, for as long as it lives.
pub(super) struct Claim(Arc<()>);

impl Table {
    /// `Err`: too big.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let before = self.map.get(key).map_or(0, |v| v.len() + key.len() + ENTRY);
        let total = self.total - before + key.len() + value.len() + ENTRY;
        if value.len() > MAX_VALUE {
            return Err("the value is longer than 8 MiB");
        }
        if total > MAX_TOTAL {
            return Err("the store is full (256 MiB)");
        }
        self.total = total;
        self.map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.map.get(key).map(Vec::as_slice)
    }

    pub fn add(&mut self, key: &[u8], amount: i64) -> Result<i64, &'static str> {
        let value = match self.map.get(key) {
            None => 0,
            Some(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse::<i64>().ok())
                .ok_or("the value to add to is not a number")?,
        };
        let sum = value.checked_add(amount).ok_or("the sum does not fit 64 bits")?;
        self.set(key, sum.to_string().as_bytes())?;
        Ok(sum)
    }

    pub fn compare_set(&mut self, key: &[u8], expected: &[u8], desired: &[u8]) -> Result<Vec<u8>, &'static str> {
        match self.get(key) {
            None if !expected.is_empty() => return Ok(expected.to_vec()),
            Some(value) if value != expected => return Ok(value.to_vec()),
            _ => {}
        }
        self.set(key, desired)?;
        Ok(desired.to_vec())
    }

    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let mut joined = self.get(key).unwrap_or_default().to_vec();
        joined.extend_from_slice(value);
        self.set(key, &joined)
    }

    pub fn delete(&mut self, key: &[u8]) -> bool {
        let old = self.map.remove(key);
        if let Some(value) = &old {
            self.total -= key.len() + value.len() + ENTRY;
        }
        old.is_some()
    }

    /// Whether all are keys, or queues that have values.
    pub fn has_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> bool {
        keys.iter().all(|key| self.map.contains_key(key.as_ref()) || self.queue_len(key.as_ref()) > 0)
    }

    /// As `has_all`, for somebody who waited: values of queues are then claimed.
    pub fn claim<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Option<Claim> {
        let is_free = |queue: &mut Queue| {
            queue.claims.retain(|claim| claim.strong_count() > 0);
            queue.values.len() > queue.claims.len()
        };
        for key in keys.iter().map(AsRef::as_ref).filter(|&key| !self.map.contains_key(key)) {
            if !self.queues.get_mut(key).is_some_and(is_free) {
                return None;
            }
        }
        let claim = Claim(Arc::new(()));
        for key in keys.iter().map(AsRef::as_ref).filter(|&key| !self.map.contains_key(key)) {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.claims.push(Arc::downgrade(&claim.0));
            }
        }
        Some(claim)
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let total = self.total + key.len() + value.len() + ENTRY;
        if value.len() > MAX_VALUE {
            return Err("the value is longer than 8 MiB");
        }
        if total > MAX_TOTAL {
            return Err("the store is full (256 MiB)");
        }
        self.total = total;
        self.queues.entry(key.to_vec()).or_default().values.push_back(value.to_vec());
        Ok(())
    }

    pub fn pop(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let queue = self.queues.get_mut(key)?;
        let value = queue.values.pop_front();
        if let Some(value) = &value {
            self.total -= key.len() + value.len() + ENTRY;
        }
        if queue.values.is_empty() {
            self.queues.remove(key);
        }
        value
    }

    pub fn queue_len(&self, key: &[u8]) -> usize {
        self.queues.get(key).map_or(0, |queue| queue.values.len())
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.map.keys().map(Vec::as_slice)
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_queue_is_for_one_who_waits() {
        let mut table = Table::default();
        assert!(table.claim(&["q"]).is_none());
        table.push(b"q", b"a").unwrap();
        let first = table.claim(&["q"]).unwrap();
        assert!(table.claim(&["q"]).is_none() && table.has_all(&["q"]));
        // Who was told of it is gone.
        drop(first);
        let second = table.claim(&["q"]).unwrap();
        table.push(b"q", b"b").unwrap();
        assert_eq!((table.pop(b"q").unwrap(), table.queue_len(b"q"), table.len()), (b"a".to_vec(), 1, 0));
        drop(second);
        assert_eq!((table.pop(b"q").unwrap(), table.pop(b"q"), table.total), (b"b".to_vec(), None, 0));
        let n = (0..).take_while(|_: &u64| table.push(b"q", b"").is_ok()).count();
        assert_eq!(n, MAX_TOTAL / (1 + ENTRY));
    }

    #[test]
    fn what_is_kept_is_bounded_and_freed() {
        let mut table = Table::default();
        let value = vec![0; MAX_VALUE];
        let n = (0..).take_while(|i: &u64| table.set(&i.to_le_bytes(), &value).is_ok()).count();
        assert_eq!(n, MAX_TOTAL / (MAX_VALUE + 8 + ENTRY));
        assert!(table.set(b"k", &value).unwrap_err().contains("full"));
        assert!(table.delete(&0u64.to_le_bytes()) && table.set(b"k", &value).is_ok());
        assert!(table.set(b"k", &vec![0; MAX_VALUE + 1]).is_err());
        for i in 0..n as u64 {
            table.delete(&i.to_le_bytes());
        }
        assert!(table.delete(b"k") && table.total == 0 && table.len() == 0);
        // Keys without values are not free.
        let n = (0..).take_while(|i: &u64| table.set(&i.to_le_bytes(), b"").is_ok()).count();
        assert_eq!(n, MAX_TOTAL / (8 + ENTRY));
    }
}
