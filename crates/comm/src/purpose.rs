//! What the collectives of a thread are for: words that ranks must agree in, though their operations are alike.
//!
//! Two gathers of as many elements look the same to a group. Whoever issues them for one thing after another, as a model's
//! layers, says for which: ranks whose words differ are out of step. Only a number of the words is sent. Messages have tags of
//! their own, and backends of devices do not compare.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Words that are remembered for errors; later ones are shown as their number.
const MOST: usize = 1 << 16;

static WORDS: Mutex<BTreeMap<u32, Box<str>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// A purpose, the same number on every rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purpose(u32);

impl Purpose {
    /// That of these words; of no words for none in particular.
    pub fn of(words: &str) -> Purpose {
        if words.is_empty() {
            return Purpose(0);
        }
        // FNV-1a.
        let hash = words.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let number = hash.max(1);
        let mut known = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST {
            known.entry(number).or_insert_with(|| words.into());
        }
        Purpose(number)
    }

    /// That of a number which [`Purpose::number`] returned.
    pub fn numbered(number: u32) -> Purpose {
        Purpose(number)
    }

    pub fn number(self) -> u32 {
        self.0
    }

    /// Makes it that of the collectives that this thread issues from now on, and returns the one before.
    pub fn enter(self) -> Purpose {
        Purpose(CURRENT.replace(self.0))
    }
}

/// The number of this thread's purpose, 0 for none.
pub(crate) fn current() -> u32 {
    CURRENT.get()
}

/// The words of a number.
pub(crate) fn words(number: u32) -> String {
    let known = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    known.get(&number).map_or_else(|| format!("another purpose ({number:08x})"), |words| words.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_lasts_until_the_next_one() {
        let before = Purpose::of("gradients of a").enter();
        assert_eq!(before, Purpose::default());
        assert_eq!(words(current()), "gradients of a");
        assert_eq!(Purpose::of("").enter(), Purpose::of("gradients of a"));
        assert_eq!(current(), 0);
        assert_eq!(words(7), "another purpose (00000007)");
    }
}
