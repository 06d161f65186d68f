//! The definition of a store (`Config`, kept in each manifest) and its settings (`Options`, free to change at each opening).

use crate::admission::Admission;
use crate::folder::Faults;
use crate::initial::Initializer;
use crate::readers::Io;
use oneflow_base::{Error, Result};
use std::sync::Arc;

/// The most tables of a store: a place on disk has 12 bits for the table.
pub const MAX_TABLES: usize = 1 << 12;
/// The most numbers of a row. A record must fit in memory many times over.
const MAX_WIDTH: usize = 1 << 20;
const MAX_COLUMNS: usize = 1 << 10;

/// The rows of a store. A store on disk opens only with the configuration that it was created with.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Sizes of a row's columns; the row's weights are their sum.
    pub column_dims: Vec<usize>,
    /// Numbers of optimizer state a row.
    pub state_width: usize,
    /// For each table the initializer of each column.
    pub tables: Vec<Vec<Initializer>>,
    /// Seed of the initial values.
    pub seed: u64,
}

/// Settings of a store.
#[derive(Clone)]
pub struct Options {
    /// Bytes of rows kept in memory. At least 64 rows are kept.
    pub memory_budget: u64,
    /// Whether rows lie in pages on disk, which cost less memory a row and more writes, or in a log alone. Chosen by their size
    /// if None: rows of which eight fit in a page of 4 KiB lie in pages.
    pub pages: Option<bool>,
    /// Records a segment file of the log; 0 chooses.
    pub records_per_segment: usize,
    /// Threads that read from disk where the kernel has no `io_uring`.
    pub n_readers: usize,
    pub io: Io,
    /// Reads pass by the system's cache of files, in blocks of this many bytes (512 or 4096), where the file system has such
    /// reads. Rows outside of the budget then take no memory anywhere.
    pub direct_block: Option<usize>,
    /// Whether the store makes an epoch by itself, before a call that changes rows, where the files that the last one keeps would
    /// otherwise make all files larger than twice the rows in use. Without, those files wait for the next `commit`: after it all
    /// rows may be on disk twice, and what the log holds besides.
    pub bounds_disk: bool,
    /// How each table admits new keys; tables beyond the list admit all.
    pub admission: Vec<Admission>,
    /// Makes chosen writes fail, in tests.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory_budget: u64::MAX,
            pages: None,
            records_per_segment: 0,
            n_readers: 4,
            io: Io::Best,
            direct_block: None,
            bounds_disk: false,
            admission: vec![],
            faults: None,
        }
    }
}

impl Options {
    pub fn check(&self) -> Result<()> {
        match self.direct_block {
            Some(block) if !block.is_power_of_two() || !(512..=1 << 16).contains(&block) => Err(Error::value(format!(
                "embedding: blocks of direct reads have 512 to 65536 bytes, a power of two, got {block}"
            ))),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Weights a row.
    pub fn dim(&self) -> usize {
        self.column_dims.iter().sum()
    }
    /// Weights and state a row.
    pub fn width(&self) -> usize {
        self.dim() + self.state_width
    }

    pub fn check(&self) -> Result<()> {
        let n = self.column_dims.len();
        if n == 0 || n > MAX_COLUMNS || self.column_dims.contains(&0) {
            return Err(Error::value(format!(
                "embedding: expected 1 to {MAX_COLUMNS} columns of at least one number, got {:?}",
                self.column_dims
            )));
        }
        let width = self.column_dims.iter().try_fold(self.state_width, |a, d| a.checked_add(*d));
        if width.is_none_or(|w| w > MAX_WIDTH) {
            return Err(Error::value(format!(
                "embedding: a row has at most {MAX_WIDTH} numbers, got columns of {:?} and {} of optimizer state",
                self.column_dims, self.state_width
            )));
        }
        if self.tables.is_empty() || self.tables.len() > MAX_TABLES {
            return Err(Error::value(format!(
                "embedding: expected 1 to {MAX_TABLES} tables, got {}",
                self.tables.len()
            )));
        }
        for (t, columns) in self.tables.iter().enumerate() {
            if columns.len() != n {
                return Err(Error::value(format!(
                    "embedding: table {t} has {} initializers for {n} columns",
                    columns.len()
                )));
            }
            columns.iter().try_for_each(|c| c.check())?;
        }
        Ok(())
    }

    /// Refuses to open rows of another configuration, and names what differs.
    pub fn expect(&self, found: &Config) -> Result<()> {
        let differs = |what: &str, wanted: String, found: String| {
            Err(Error::value(format!("embedding: the store on disk has {what} {found}, this one {wanted}")))
        };
        if self.column_dims != found.column_dims {
            return differs("columns of", format!("{:?}", self.column_dims), format!("{:?}", found.column_dims));
        }
        if self.state_width != found.state_width {
            let (ours, theirs) = (self.state_width.to_string(), found.state_width.to_string());
            return differs("numbers of optimizer state a row:", ours, theirs);
        }
        if self.tables.len() != found.tables.len() {
            return differs("a number of tables of", self.tables.len().to_string(), found.tables.len().to_string());
        }
        if self.seed != found.seed {
            return differs("the seed", self.seed.to_string(), found.seed.to_string());
        }
        for (t, (ours, theirs)) in self.tables.iter().zip(&found.tables).enumerate() {
            if ours != theirs {
                return differs(&format!("for table {t} the initializers"), format!("{ours:?}"), format!("{theirs:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for n in [self.column_dims.len(), self.tables.len(), self.state_width] {
            out.extend((n as u32).to_le_bytes());
        }
        out.extend(self.seed.to_le_bytes());
        self.column_dims.iter().for_each(|d| out.extend((*d as u32).to_le_bytes()));
        self.tables.iter().flatten().for_each(|i| i.write(&mut out));
        out
    }

    /// The opposite of `to_bytes`; None where the bytes are no configuration.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Config> {
        let mut words = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
        let mut next = || words.next();
        let (n_columns, n_tables, state_width) = (next()? as usize, next()? as usize, next()? as usize);
        let seed = next()? as u64 | (next()? as u64) << 32;
        if n_columns > MAX_COLUMNS || n_tables > MAX_TABLES {
            return None;
        }
        let column_dims = (0..n_columns).map(|_| next().map(|d| d as usize)).collect::<Option<Vec<_>>>()?;
        let mut tables = Vec::new();
        for _ in 0..n_tables {
            let columns = (0..n_columns).map(|_| Initializer::read(&mut next)).collect::<Option<Vec<_>>>()?;
            tables.push(columns);
        }
        let config = Config { column_dims, state_width, tables, seed };
        (next().is_none() && bytes.len().is_multiple_of(4) && config.check().is_ok()).then_some(config)
    }
}
