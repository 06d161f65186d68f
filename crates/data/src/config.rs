//! A source's configuration as a plan keeps it: lines of a name and a value, read back with errors that name the line.

use oneflow_base::{Error, Result};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Lines under way, or read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(Vec<(String, String)>);

impl Lines {
    pub fn put(mut self, name: &str, value: impl Display) -> Result<Lines> {
        let value = value.to_string();
        if value.contains('\n') {
            return Err(Error::value(format!("data source: {name} holds a line break")));
        }
        self.0.push((name.into(), value));
        Ok(self)
    }

    pub fn put_path(self, name: &str, path: &Path) -> Result<Lines> {
        let text = path.to_str().ok_or_else(|| Error::value("data source: a path is not UTF-8"))?;
        self.put(name, text)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(n, v)| format!("{n} {v}\n").into_bytes()).collect()
    }

    pub fn read(bytes: &[u8]) -> Result<Lines> {
        let text = std::str::from_utf8(bytes).map_err(|_| Error::value("data source: its configuration is no text"))?;
        let line = |l: &str| l.split_once(' ').map(|(n, v)| (n.to_owned(), v.to_owned()));
        let lines: Option<Vec<_>> = text.lines().map(line).collect();
        lines.map(Lines).ok_or_else(|| Error::value("data source: its configuration cannot be read"))
    }

    /// The same with another value in place of one that stands there.
    pub fn set(mut self, name: &str, value: impl Display) -> Lines {
        self.0.iter_mut().filter(|l| l.0 == name).for_each(|l| l.1 = value.to_string());
        self
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |l| l.0 == name).map(|l| l.1.as_str())
    }

    pub fn get<T: FromStr>(&self, name: &str) -> Result<T> {
        let value = self.all(name).next().and_then(|v| v.parse().ok());
        value.ok_or_else(|| Error::value(format!("data source: its configuration has no good {name:?}")))
    }

    pub fn path(&self, name: &str) -> Result<PathBuf> {
        self.get::<String>(name).map(PathBuf::from)
    }
}
