//! A memory-mapped file of tokens and the source that cuts batches of windows out of it.

use crate::Shuffle;
use crate::config::Lines;
use crate::file;
use memmap2::Mmap;
use oneflow_base::{Error, Result};
use oneflow_runtime::{Act, Body};
use std::path::{Path, PathBuf};

/// The name under which plans refer to this source.
pub(crate) const KIND: &str = "tokens";

/// The type of a stored token, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    U8,
    U16,
    U32,
}

impl TokenKind {
    fn bytes(self) -> usize {
        match self {
            TokenKind::U8 => 1,
            TokenKind::U16 => 2,
            TokenKind::U32 => 4,
        }
    }
    fn name(self) -> &'static str {
        ["u8", "u16", "u32"][self as usize]
    }
    fn parse(s: &str) -> Option<TokenKind> {
        [TokenKind::U8, TokenKind::U16, TokenKind::U32].into_iter().find(|k| k.name() == s)
    }
}

/// A file of tokens; pages are read by the system as they are touched.
pub struct TokenFile {
    map: Mmap,
    kind: TokenKind,
}

impl TokenFile {
    /// Opens a file whose length is a whole number of tokens.
    pub fn open(path: &Path, kind: TokenKind) -> Result<TokenFile> {
        let map = file::map(path)?;
        if map.len() % kind.bytes() != 0 {
            return Err(Error::value(format!(
                "token file {}: {} bytes are no whole number of {} tokens",
                path.display(),
                map.len(),
                kind.name()
            )));
        }
        Ok(TokenFile { map, kind })
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.map.len() / self.kind.bytes()
    }
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Tokens from `start` on, as many as `out` holds; the caller keeps inside.
    fn read(&self, start: usize, out: &mut [i64]) {
        let size = self.kind.bytes();
        let bytes = &self.map[start * size..(start + out.len()) * size];
        match self.kind {
            TokenKind::U8 => out.iter_mut().zip(bytes).for_each(|(o, b)| *o = *b as i64),
            TokenKind::U16 => out
                .iter_mut()
                .zip(bytes.chunks_exact(2))
                .for_each(|(o, b)| *o = u16::from_le_bytes([b[0], b[1]]) as i64),
            TokenKind::U32 => out
                .iter_mut()
                .zip(bytes.chunks_exact(4))
                .for_each(|(o, b)| *o = u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as i64),
        }
    }
}

/// Batches of int64 [batch, window]: window `i` of the shuffled order, neighbours overlapping by one token (the target of
/// one's last token is the next one's first).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSource {
    pub path: PathBuf,
    pub kind: TokenKind,
    pub batch: usize,
    /// Tokens of a window: the context and one more.
    pub window: usize,
    pub seed: u64,
    /// Batches read so far: part of a checkpoint.
    pub position: u64,
}

impl TokenSource {
    /// As a plan keeps it.
    pub fn config(&self) -> Result<Vec<u8>> {
        let l = Lines::default().put_path("path", &self.path)?.put("kind", self.kind.name())?;
        let l = l.put("batch", self.batch)?.put("window", self.window)?.put("seed", self.seed)?;
        Ok(l.put("position", self.position)?.bytes())
    }

    /// Reads what `config` wrote.
    pub fn parse(config: &[u8]) -> Result<TokenSource> {
        let l = Lines::read(config)?;
        let kind = TokenKind::parse(&l.get::<String>("kind")?);
        Ok(TokenSource {
            path: l.path("path")?,
            kind: kind.ok_or_else(|| Error::value("token source: its configuration names no type of tokens"))?,
            batch: l.get("batch")?,
            window: l.get("window")?,
            seed: l.get("seed")?,
            position: l.get("position")?,
        })
    }

    /// Opens the file.
    pub fn open(&self) -> Result<Reader> {
        let file = TokenFile::open(&self.path, self.kind)?;
        let n = file.len().saturating_sub(1) / self.window.saturating_sub(1).max(1);
        let total = self.batch.checked_mul(self.window).and_then(|x| x.checked_mul(8));
        if self.batch == 0 || self.window < 2 || n == 0 || total.is_none() {
            return Err(Error::value(format!(
                "token file {}: {} tokens give no batch of {} windows of {} tokens",
                self.path.display(),
                file.len(),
                self.batch,
                self.window
            )));
        }
        Ok(Reader { order: Shuffle::new(n as u64, self.seed), file, source: self.clone() })
    }
}

/// An open token source.
pub struct Reader {
    file: TokenFile,
    order: Shuffle,
    source: TokenSource,
}

impl Reader {
    /// The next batch, row-major.
    pub fn next_batch(&mut self, out: &mut [i64]) {
        let s = &mut self.source;
        for (row, to) in out.chunks_exact_mut(s.window).enumerate() {
            let i = s.position.wrapping_mul(s.batch as u64).wrapping_add(row as u64);
            self.file.read(self.order.at(i) as usize * (s.window - 1), to);
        }
        s.position = s.position.wrapping_add(1);
    }
    pub fn position(&self) -> u64 {
        self.source.position
    }
}

impl Body for Reader {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        for mut p in act.outs.iter().flatten().copied() {
            self.next_batch(file::fill("token source", &mut p, self.source.batch * self.source.window)?);
        }
        Ok(())
    }
}

pub(crate) fn make(config: &[u8]) -> Result<Box<dyn Body>> {
    Ok(Box::new(TokenSource::parse(config)?.open()?))
}
