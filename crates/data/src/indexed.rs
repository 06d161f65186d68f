//! Megatron's indexed token files: `PREFIX.bin` holds tokens, `PREFIX.idx` the type of a token and the offset of each sequence.
//!
//! Sequences are read as one stream, cut in windows that overlap by one token, as language models are trained.

use crate::Shuffle;
use crate::config::Lines;
use crate::file::{self, word};
use memmap2::Mmap;
use oneflow_base::{Error, Result};
use oneflow_runtime::{Act, Body};
use std::path::{Path, PathBuf};

pub(crate) const KIND: &str = "indexed tokens";

const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";

/// Bytes of a token, and whether it is signed, by the code in the index.
fn kind(code: u8) -> Option<(usize, bool)> {
    Some(match code {
        1 => (1, false),
        2 => (1, true),
        3 => (2, true),
        4 => (4, true),
        5 => (8, true),
        8 => (2, false),
        _ => return None,
    })
}

/// An open pair of files.
pub struct IndexedTokens {
    map: Mmap,
    size: usize,
    signed: bool,
    /// The offset of each sequence in the file, in bytes.
    starts: Vec<usize>,
    /// Tokens before each sequence, and of all.
    before: Vec<u64>,
}

impl IndexedTokens {
    /// Opens `prefix.bin` and `prefix.idx`.
    pub fn open(prefix: &Path) -> Result<IndexedTokens> {
        let with = |end: &str| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        let (index, tokens) = (with(".idx"), with(".bin"));
        let bad = |what: &str| Error::value(format!("token index {}: {what}", index.display()));
        let head = file::map(&index)?;
        if head.get(..9) != Some(MAGIC) {
            return Err(bad("it does not begin with MMIDIDX"));
        }
        let cut = || bad("it is cut short");
        let number = |at: usize| word::<8>(&head, at).map(u64::from_le_bytes).ok_or_else(cut);
        if number(9)? != 1 {
            return Err(bad("only version 1 is known"));
        }
        let code = *head.get(17).ok_or_else(cut)?;
        let (size, signed) = kind(code).ok_or_else(|| bad(&format!("{code} is no type of tokens")))?;
        let n = number(18)? as usize;
        let lengths_at = 34;
        let pointers_at = n.checked_mul(4).and_then(|b| b.checked_add(lengths_at)).ok_or_else(cut)?;
        if n.checked_mul(12).and_then(|b| b.checked_add(lengths_at)).is_none_or(|end| end > head.len()) {
            return Err(cut());
        }
        let map = file::map(&tokens)?;
        let (mut starts, mut before) = (Vec::with_capacity(n), Vec::with_capacity(n + 1));
        let mut total = 0u64;
        for i in 0..n {
            let length = word::<4>(&head, lengths_at + 4 * i).map(i32::from_le_bytes).ok_or_else(cut)?;
            let start = word::<8>(&head, pointers_at + 8 * i).map(i64::from_le_bytes).ok_or_else(cut)?;
            let length = u64::try_from(length).map_err(|_| bad("a sequence has a negative length"))?;
            let start = usize::try_from(start).map_err(|_| bad("a sequence begins before the file"))?;
            let end = (length as usize).checked_mul(size).and_then(|b| b.checked_add(start));
            if end.is_none_or(|e| e > map.len()) {
                return Err(bad("a sequence ends behind the file of tokens"));
            }
            starts.push(start);
            before.push(total);
            total += length;
        }
        before.push(total);
        Ok(IndexedTokens { map, size, signed, starts, before })
    }

    /// Number of tokens of all sequences.
    pub fn len(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn n_sequences(&self) -> usize {
        self.starts.len()
    }

    /// Tokens from `start` on, across sequences; the caller keeps inside.
    pub fn read(&self, start: u64, out: &mut [i64]) {
        let mut sequence = self.before.partition_point(|b| *b <= start).saturating_sub(1);
        let (mut at, mut done) = (start, 0);
        while done < out.len() && sequence < self.starts.len() {
            let n = ((self.before[sequence + 1] - at) as usize).min(out.len() - done);
            let first = self.starts[sequence] + (at - self.before[sequence]) as usize * self.size;
            let bytes = &self.map[first..first + n * self.size];
            for (o, b) in out[done..done + n].iter_mut().zip(bytes.chunks_exact(self.size)) {
                let mut word = [0u8; 8];
                word[..self.size].copy_from_slice(b);
                let shift = 64 - 8 * self.size as u32;
                let value = i64::from_le_bytes(word);
                *o = if self.signed { value << shift >> shift } else { value };
            }
            done += n;
            at += n as u64;
            sequence += 1;
        }
    }
}

/// Batches of int64 [batch, window].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedSource {
    pub prefix: PathBuf,
    pub batch: usize,
    /// Tokens of a window: the context and one more.
    pub window: usize,
    pub shuffle: bool,
    pub seed: u64,
    pub position: u64,
}

impl IndexedSource {
    /// As a plan keeps it.
    pub fn config(&self) -> Result<Vec<u8>> {
        let l = Lines::default().put_path("prefix", &self.prefix)?.put("batch", self.batch)?;
        let l = l.put("window", self.window)?.put("shuffle", self.shuffle)?.put("seed", self.seed)?;
        Ok(l.put("position", self.position)?.bytes())
    }

    /// Reads what `config` wrote.
    pub fn parse(config: &[u8]) -> Result<IndexedSource> {
        let l = Lines::read(config)?;
        Ok(IndexedSource {
            prefix: l.path("prefix")?,
            batch: l.get("batch")?,
            window: l.get("window")?,
            shuffle: l.get("shuffle")?,
            seed: l.get("seed")?,
            position: l.get("position")?,
        })
    }

    pub fn open(&self) -> Result<IndexedReader> {
        let tokens = IndexedTokens::open(&self.prefix)?;
        let n = tokens.len().saturating_sub(1) / (self.window as u64).saturating_sub(1).max(1);
        let fits = self.batch.checked_mul(self.window).and_then(|x| x.checked_mul(8)).is_some();
        if self.batch == 0 || self.window < 2 || n == 0 || !fits {
            return Err(Error::value(format!(
                "token files {}: {} tokens give no batch of {} windows of {} tokens",
                self.prefix.display(),
                tokens.len(),
                self.batch,
                self.window
            )));
        }
        Ok(IndexedReader { tokens, order: Shuffle::new(n, self.seed), n, source: self.clone() })
    }
}

/// An open source of windows.
pub struct IndexedReader {
    tokens: IndexedTokens,
    order: Shuffle,
    n: u64,
    source: IndexedSource,
}

impl IndexedReader {
    /// The next batch, row-major.
    pub fn next_batch(&mut self, out: &mut [i64]) {
        let s = &mut self.source;
        for (row, to) in out.chunks_exact_mut(s.window).enumerate() {
            let i = s.position.wrapping_mul(s.batch as u64).wrapping_add(row as u64);
            let i = if s.shuffle { self.order.at(i) } else { i % self.n };
            self.tokens.read(i * (s.window as u64 - 1), to);
        }
        s.position = s.position.wrapping_add(1);
    }
}

impl Body for IndexedReader {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        for mut p in act.outs.iter().flatten().copied() {
            self.next_batch(file::fill("token source", &mut p, self.source.batch * self.source.window)?);
        }
        Ok(())
    }
}

pub(crate) fn make(config: &[u8]) -> Result<Box<dyn Body>> {
    Ok(Box::new(IndexedSource::parse(config)?.open()?))
}
