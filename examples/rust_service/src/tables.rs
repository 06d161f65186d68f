//! Inputs that are rows of embedding tables: a request gives ids, and the service looks their rows up in a snapshot.
//!
//! Deltas of the store take the place of rows while requests are answered; a request sees rows of one version alone.

use oneflow_embedding::{Delta, Key, Serving};
use oneflow_runtime::{DType, Device, Error, Meta, Plan, Result};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The tables of a program, by the name of the input that takes their rows.
#[derive(Clone, Default)]
pub struct Tables(HashMap<String, Arc<Serving>>);

impl Tables {
    /// Tables for inputs of a plan: each takes float32 rows of its store's size.
    pub fn new(plan: &Plan, of: HashMap<String, Arc<Serving>>) -> Result<Tables> {
        for (name, serving) in &of {
            let input = (0..plan.inputs.len()).find(|i| plan.input_name(*i) == *name);
            let input = input.ok_or_else(|| Error::value(format!("the program has no input {name:?}")))?;
            let (meta, dim) = (&plan.inputs[input].meta, serving.config().dim());
            let n: i64 = meta.sizes.get(1..).unwrap_or(&[]).iter().product();
            if meta.dtype != DType::F32 || n == 0 || n % dim as i64 != 0 {
                return Err(Error::value(format!(
                    "input {name:?} takes {n} numbers of {}, which are no rows of {dim} numbers of float32",
                    meta.dtype
                )));
            }
        }
        Ok(Tables(of))
    }

    /// What a request gives for an input: ids where it takes rows of a table, else one row of it.
    pub fn wanted(&self, plan: &Plan, input: usize) -> Meta {
        let meta = &plan.inputs[input].meta;
        let row = meta.sizes.get(1..).unwrap_or(&[]);
        match self.0.get(&plan.input_name(input)) {
            None => Meta::contiguous(meta.dtype, meta.device, row),
            Some(serving) => {
                let n = row.iter().product::<i64>() / serving.config().dim().max(1) as i64;
                Meta::contiguous(DType::I64, Device::CPU, &[n])
            }
        }
    }

    /// The rows of ids for an input; None if it takes none. Ids of several tables alternate.
    pub fn rows(&self, plan: &Plan, input: usize, ids: &[i64]) -> Option<Result<Vec<f32>>> {
        let serving = self.0.get(&plan.input_name(input))?;
        let config = serving.config();
        let table = |i: usize| (i % config.tables.len()) as u32;
        let keys: Vec<Key> = ids.iter().enumerate().map(|(i, id)| Key { table: table(i), id: *id as u64 }).collect();
        let mut rows = vec![0.0; ids.len() * config.dim()];
        Some(serving.lookup(&keys, &mut rows).map(|()| rows))
    }
}

/// A folder to which deltas come: a file for each, or a folder with the file of each rank.
pub struct Follower {
    folder: PathBuf,
    serving: Arc<Serving>,
    seen: BTreeSet<PathBuf>,
}

impl Follower {
    pub fn new(folder: &Path, serving: Arc<Serving>) -> Follower {
        Follower { folder: folder.to_path_buf(), serving, seen: BTreeSet::new() }
    }

    /// Takes over the deltas that have come, in the order of their names; returns what was done with each. A delta that does not
    /// fit is left out, and looked at once.
    pub fn look(&mut self) -> Vec<(PathBuf, Result<()>)> {
        let mut done = Vec::new();
        for path in sorted(&self.folder) {
            if !self.seen.insert(path.clone()) {
                continue;
            }
            let files = if path.is_dir() { sorted(&path) } else { vec![path.clone()] };
            let config = self.serving.config();
            let deltas = files.iter().map(|f| Delta::read(f, &config)).collect::<Result<Vec<_>>>();
            done.push((path, deltas.and_then(|d| self.serving.apply(&d))));
        }
        done
    }
}

/// Deltas of a folder, and folders in it. Files under other names are not finished, or something else.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|p| p.is_dir() || p.extension().is_some_and(|e| e == "safetensors")).collect();
    paths.sort();
    paths
}
