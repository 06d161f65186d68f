//! Removing rows that are of no use any more: not updated for long, rarely updated, small, or not among the best.
//!
//! A pass reads every row of its tables: those on disk in the order in which they lie there, and none of them comes into memory.

use crate::batch::Key;
use crate::disk::{Wanted, Where};
use crate::log::HEADER;
use crate::page::Row;
use crate::queues::DEAD;
use crate::rows::{COUNT, STEP, floats};
use crate::store::Store;
use oneflow_base::{Error, Result};

/// What makes a row worth keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// How often updates named it.
    Count,
    /// The step of its last update.
    Recency,
    /// The L2 norm of its weights.
    Norm,
}

/// Which rows leave. A row leaves if any of these says so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forget {
    /// One table, or all.
    pub table: Option<u32>,
    /// Rows whose last update came before this step.
    pub before_step: Option<u32>,
    /// Rows that updates named less often.
    pub below_count: Option<u32>,
    /// Rows whose weights have a smaller L2 norm.
    pub below_norm: Option<f32>,
    /// All but so many rows with the highest score; of equal ones those with the lower keys stay.
    pub keep: Option<(Score, usize)>,
}

/// Records that are read at once.
const AT_ONCE: usize = 1 << 10;

impl Store {
    /// Removes rows; returns how many. Their keys have their initial values again.
    pub fn forget(&mut self, what: &Forget) -> Result<usize> {
        if let Some(table) = what.table.filter(|t| *t as usize >= self.config.tables.len()) {
            let n = self.config.tables.len();
            return Err(Error::index(format!("embedding: there is no table {table}: the store has {n}")));
        }
        if what.below_norm.is_some_and(f32::is_nan) {
            return Err(Error::value("embedding: rows are compared with a norm that is no number"));
        }
        let dim = self.config.dim();
        let (mut leaving, mut rest) = (Vec::new(), Vec::new());
        self.visit(what.table, |key, head, values| {
            let norm = || values[..dim].iter().map(|w| *w as f64 * *w as f64).sum::<f64>().sqrt();
            let leaves = what.before_step.is_some_and(|s| head[STEP] < s)
                || what.below_count.is_some_and(|n| head[COUNT] < n)
                || what.below_norm.is_some_and(|n| norm() < n as f64);
            match what.keep {
                _ if leaves => leaving.push(key),
                Some((Score::Count, _)) => rest.push((head[COUNT] as f64, key)),
                Some((Score::Recency, _)) => rest.push((head[STEP] as f64, key)),
                Some((Score::Norm, _)) => rest.push((norm(), key)),
                None => {}
            }
        })?;
        if let Some((_, n)) = what.keep.filter(|(_, n)| *n < rest.len()) {
            rest.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            leaving.extend(rest[n..].iter().map(|r| r.1));
        }
        let n = self.remove(&leaving)?;
        self.counts.forgotten += n as u64;
        Ok(n)
    }

    /// Calls `f` with the key, the head and the numbers of each row that was written and not removed, in no order that means anything.
    pub(crate) fn visit(&mut self, table: Option<u32>, mut f: impl FnMut(Key, &[u32], &[f32])) -> Result<()> {
        let is_wanted = |t: u32| table.is_none_or(|wanted| wanted == t);
        for slot in 0..self.rows.flags.len() as u32 {
            let key = self.rows.key(slot);
            if self.rows.flags[slot as usize] & DEAD == 0 && self.is_written(slot) && is_wanted(key.table) {
                f(key, &self.rows.head(slot), self.rows.values(slot));
            }
        }
        let is_in_memory = |key: Key| self.slots.get(key, &self.rows).is_some();
        let rest = self.places.iter().filter(|(k, _)| is_wanted(k.table) && !is_in_memory(*k));
        let mut rest: Vec<Wanted> = rest.map(|(key, place)| Wanted { key, at: Where::Record(place) }).collect();
        rest.sort_unstable_by_key(|w| w.at.order());
        for part in rest.chunks(AT_ONCE) {
            let found = self.log.read(&self.readers, part)?;
            for (wanted, row) in part.iter().zip(found.words.chunks_exact(HEADER + self.config.width())) {
                let (head, values) = row.split_at(HEADER);
                f(wanted.key, head, floats(values));
            }
        }
        let mut record = vec![0; HEADER + self.config.width()];
        self.visit_pages(table, |key, row| {
            row.copy(&mut record);
            f(key, &record[..HEADER], floats(&record[HEADER..]));
        })
    }

    /// Calls `f` with the key and the row of each row whose newest numbers are in a page and not in memory.
    pub(crate) fn visit_pages(&mut self, table: Option<u32>, mut f: impl FnMut(Key, Row<'_>)) -> Result<()> {
        let (slots, rows, places) = (&self.slots, &self.rows, &self.places);
        for run in self.pages.runs() {
            let file = self.log.file_to_read(run.segment)?;
            run.visit(&file, &self.readers, self.config.width(), |_, row| {
                let key = row.key();
                let is_wanted = table.is_none_or(|wanted| wanted == key.table);
                if is_wanted && slots.get(key, rows).is_none() && places.find(key).is_none() {
                    f(key, row);
                }
                true
            })?;
        }
        Ok(())
    }
}
