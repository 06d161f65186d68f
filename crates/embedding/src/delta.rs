//! A delta: what became of a snapshot's rows until a later one, as a `.safetensors` file that Python writes.
//!
//! Nothing of a file is believed: names, types and sizes are checked when it is read.

use crate::batch::Key;
use crate::config::Config;
use crate::saved::Records;
use oneflow_base::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors};
use std::path::Path;

/// How a delta's file names itself.
pub const KIND: &str = "oneflow.one_embedding delta 1";

/// Rows that may have changed between two epochs of a store, and the keys that are gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    pub since: u64,
    pub epoch: u64,
    pub changed: Records,
    pub gone: Vec<Key>,
}

/// The configuration of a store as a delta's file has it: JSON with sorted names.
fn as_json(config: &Config) -> String {
    format!(
        "{{\"column_dims\": {:?}, \"n_tables\": {}, \"seed\": {}, \"state_width\": {}}}",
        config.column_dims,
        config.tables.len(),
        config.seed,
        config.state_width
    )
}

impl Delta {
    /// Reads a delta of a store with this configuration.
    pub fn read(path: &Path, config: &Config) -> Result<Delta> {
        let wrong = |what: String| Error::value(format!("embedding: {} {what}", path.display()));
        let bytes = std::fs::read(path)
            .map_err(|e| Error::runtime(format!("embedding: cannot read {}: {e}", path.display())))?;
        let (_, head) = SafeTensors::read_metadata(&bytes).map_err(|e| wrong(format!("is no delta: {e}")))?;
        let about = head.metadata().clone().unwrap_or_default();
        let text = |name: &str| about.get(name).map(String::as_str).unwrap_or_default();
        if text("kind") != KIND {
            return Err(wrong("is no delta of an embedding".to_string()));
        }
        if text("config") != as_json(config) {
            let found = text("config");
            return Err(wrong(format!("is a delta of a store with {found}, this one has {}", as_json(config))));
        }
        let epoch = |name: &str| text(name).parse::<u64>().map_err(|_| wrong(format!("has no number {name}")));
        let (since, epoch) = (epoch("since")?, epoch("epoch")?);
        let file = SafeTensors::deserialize(&bytes).map_err(|e| wrong(format!("is damaged: {e}")))?;
        let column = |name: &str, dtype: Dtype| {
            let tensor = file.tensor(name).map_err(|_| wrong(format!("lacks {name}")))?;
            match tensor.dtype() == dtype {
                true => Ok(tensor.data()),
                false => Err(wrong(format!("has {name} of {:?}", tensor.dtype()))),
            }
        };
        let integers = |name: &str| {
            let words = column(name, Dtype::I64)?.chunks_exact(8);
            Ok(words.map(|w| u64::from_le_bytes(std::array::from_fn(|i| w[i]))).collect::<Vec<_>>())
        };
        let narrow = |name: &str| {
            let words: Result<Vec<u64>> = integers(name);
            let narrow = words?.into_iter().map(u32::try_from).collect::<std::result::Result<Vec<_>, _>>();
            narrow.map_err(|_| wrong(format!("has a number in {name} that does not lie in [0, 2^32)")))
        };
        let keys = |tables: &str, ids: &str| {
            let (tables, ids) = (narrow(tables)?, integers(ids)?);
            if tables.len() != ids.len() || tables.iter().any(|t| *t as usize >= config.tables.len()) {
                return Err(wrong("names a table that the store lacks".to_string()));
            }
            Ok(tables.into_iter().zip(ids).map(|(table, id)| Key { table, id }).collect::<Vec<_>>())
        };
        let values = column("values", Dtype::F32)?.chunks_exact(4);
        let changed = Records {
            keys: keys("tables", "ids")?,
            steps: narrow("steps")?,
            counts: narrow("counts")?,
            values: values.map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect(),
        };
        let n = changed.keys.len();
        if changed.steps.len() != n || changed.counts.len() != n || changed.values.len() != n * config.width() {
            return Err(wrong("has columns of different lengths".to_string()));
        }
        Ok(Delta { since, epoch, changed, gone: keys("gone_tables", "gone_ids")? })
    }
}
