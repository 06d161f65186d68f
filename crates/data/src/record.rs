//! OFRecord files: each record is its length and a protobuf message that maps names to lists of numbers or bytes.
//!
//! Decoders: `raw` returns the numbers of a list in a dtype, `bytes` the bytes of its first entry; both fill a fixed size and
//! pad with zeros on request. `values` returns a feature as it is. Images are not decoded here.

use crate::Shuffle;
use crate::config::Lines;
use crate::file::{self, word};
use memmap2::Mmap;
use oneflow_base::{DType, Error, Result};
use oneflow_runtime::{Act, Body};
use std::path::PathBuf;

pub(crate) const KIND: &str = "ofrecord";

/// The part of a record that goes into one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// Name of the feature.
    pub name: String,
    pub how: How,
    /// Elements of one record's part.
    pub count: usize,
    /// Fill up with zeros, and cut off, what has another length; else it is an error.
    pub pad: bool,
}

/// The conversion of a feature to elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Numbers, cast to this dtype: uint8, int32, int64, float32 or float64.
    Raw(DType),
    /// Bytes as they are.
    Bytes,
}

impl Decoder {
    fn size(&self) -> usize {
        match self.how {
            How::Raw(d) => d.size(),
            How::Bytes => 1,
        }
    }
}

/// Batches of records from files, each decoder's part in a separate register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSource {
    pub files: Vec<PathBuf>,
    pub decoders: Vec<Decoder>,
    pub batch: usize,
    pub shuffle: bool,
    pub seed: u64,
    pub position: u64,
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::value(format!("ofrecord: {what}"))
}

impl RecordSource {
    /// As a plan keeps it.
    pub fn config(&self) -> Result<Vec<u8>> {
        let mut l = Lines::default().put("batch", self.batch)?.put("shuffle", self.shuffle)?.put("seed", self.seed)?;
        l = l.put("position", self.position)?;
        for f in &self.files {
            l = l.put_path("file", f)?;
        }
        for d in &self.decoders {
            let how = match d.how {
                How::Raw(t) => t.name(),
                How::Bytes => "bytes",
            };
            l = l.put("decoder", format!("{how} {} {} {}", d.count, d.pad, d.name))?;
        }
        Ok(l.bytes())
    }

    /// Reads what `config` wrote.
    pub fn parse(config: &[u8]) -> Result<RecordSource> {
        let l = Lines::read(config)?;
        let decoder = |line: &str| -> Option<Decoder> {
            let mut parts = line.splitn(4, ' ');
            let how = match parts.next()? {
                "bytes" => How::Bytes,
                d => How::Raw(
                    [DType::U8, DType::I32, DType::I64, DType::F32, DType::F64].into_iter().find(|t| t.name() == d)?,
                ),
            };
            let (count, pad) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Decoder { name: parts.next()?.to_owned(), how, count, pad })
        };
        let decoders: Option<Vec<Decoder>> = l.all("decoder").map(decoder).collect();
        Ok(RecordSource {
            files: l.all("file").map(PathBuf::from).collect(),
            decoders: decoders.ok_or_else(|| bad("a decoder cannot be read"))?,
            batch: l.get("batch")?,
            shuffle: l.get("shuffle")?,
            seed: l.get("seed")?,
            position: l.get("position")?,
        })
    }

    /// Opens the files and finds their records.
    pub fn open(&self) -> Result<RecordReader> {
        let files = RecordFiles::open(&self.files)?;
        let sized = self
            .decoders
            .iter()
            .all(|d| d.count.checked_mul(d.size()).and_then(|n| n.checked_mul(self.batch)).is_some());
        if files.is_empty() || self.batch == 0 || !sized {
            return Err(bad(format_args!("{} files give no batch of {}", self.files.len(), self.batch)));
        }
        let order = Shuffle::new(files.len() as u64, self.seed);
        Ok(RecordReader { files, order, source: self.clone() })
    }
}

/// Files of records as memory, and the offset of each record.
pub struct RecordFiles {
    maps: Vec<Mmap>,
    /// File, begin and end of each record.
    records: Vec<(usize, usize, usize)>,
}

impl RecordFiles {
    /// Opens the files and finds their records.
    pub fn open(paths: &[PathBuf]) -> Result<RecordFiles> {
        let mut records = Vec::new();
        let mut maps = Vec::new();
        for (k, path) in paths.iter().enumerate() {
            let map = file::map(path)?;
            let mut at = 0usize;
            while at < map.len() {
                let length = word::<8>(&map, at).map(i64::from_le_bytes).and_then(|n| usize::try_from(n).ok());
                let end = length.and_then(|n| n.checked_add(at + 8)).filter(|end| *end <= map.len());
                let Some(end) = end else {
                    return Err(bad(format_args!("{}: the record at byte {at} is cut short", path.display())));
                };
                records.push((k, at + 8, end));
                at = end;
            }
            maps.push(map);
        }
        Ok(RecordFiles { maps, records })
    }
    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// The bytes of record `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        self.records.get(i).map(|(file, from, to)| &self.maps[*file][*from..*to])
    }
}

/// Open record files.
pub struct RecordReader {
    files: RecordFiles,
    order: Shuffle,
    source: RecordSource,
}

impl RecordReader {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.files.len()
    }
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The next batch: one memory for each decoder.
    pub fn next_batch(&mut self, outs: &mut [&mut [u8]]) -> Result<()> {
        let s = &self.source;
        if outs.len() != s.decoders.len() {
            return Err(bad(format_args!("{} decoders, {} registers", s.decoders.len(), outs.len())));
        }
        for row in 0..s.batch {
            let i = s.position.wrapping_mul(s.batch as u64).wrapping_add(row as u64);
            let n = self.files.len() as u64;
            let (file, from, to) = self.files.records[if s.shuffle { self.order.at(i) } else { i % n } as usize];
            let record = &self.files.maps[file][from..to];
            for (d, out) in s.decoders.iter().zip(outs.iter_mut()) {
                let size = d.count * d.size();
                decode(record, d, &mut out[row * size..(row + 1) * size]).map_err(|e| {
                    e.context(format_args!("record at byte {} of {}: ", from - 8, s.files[file].display()))
                })?;
            }
        }
        self.source.position = self.source.position.wrapping_add(1);
        Ok(())
    }
}

impl Body for RecordReader {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        let mut pieces: Vec<_> = act.outs.iter().flatten().copied().collect();
        let (batch, decoders) = (self.source.batch, self.source.decoders.clone());
        let mut outs = Vec::with_capacity(pieces.len());
        for (p, d) in pieces.iter_mut().zip(&decoders) {
            outs.push(file::fill("ofrecord source", p, batch * d.count * d.size())?);
        }
        self.next_batch(&mut outs)
    }
}

pub(crate) fn make(config: &[u8]) -> Result<Box<dyn Body>> {
    Ok(Box::new(RecordSource::parse(config)?.open()?))
}

// ---- protobuf, as far as records use it

struct Fields<'a>(&'a [u8]);

enum Wire<'a> {
    Varint(u64),
    Fixed(&'a [u8]),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for i in 0..10 {
            let (b, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= ((b & 0x7f) as u64).checked_shl(7 * i)?;
            if b & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (a, b) = self.0.split_at_checked(n)?;
        self.0 = b;
        Some(a)
    }
    /// The next field and its number; nothing at the end, or where the bytes make no sense.
    fn next(&mut self) -> Option<Result<(u64, Wire<'a>)>> {
        if self.0.is_empty() {
            return None;
        }
        let mut read = || {
            let key = self.varint()?;
            let wire = match key & 7 {
                0 => Wire::Varint(self.varint()?),
                1 => Wire::Fixed(self.take(8)?),
                2 => {
                    let n = usize::try_from(self.varint()?).ok()?;
                    Wire::Bytes(self.take(n)?)
                }
                5 => Wire::Fixed(self.take(4)?),
                _ => return None,
            };
            Some((key >> 3, wire))
        };
        Some(read().ok_or_else(|| bad("a record is damaged")))
    }
}

/// The bytes of field `number` of a message, the last one.
fn message(bytes: &[u8], number: u64) -> Result<Option<&[u8]>> {
    let (mut fields, mut found) = (Fields(bytes), None);
    while let Some(f) = fields.next() {
        if let (n, Wire::Bytes(b)) = f?
            && n == number
        {
            found = Some(b);
        }
    }
    Ok(found)
}

/// The feature of this name: the kind of its list (1 bytes, 2 float, 3 double, 4 int32, 5 int64) and the list.
fn feature<'a>(record: &'a [u8], name: &str) -> Result<Option<(u64, &'a [u8])>> {
    let mut fields = Fields(record);
    while let Some(f) = fields.next() {
        let (1, Wire::Bytes(entry)) = f? else { continue };
        if message(entry, 1)? != Some(name.as_bytes()) {
            continue;
        }
        let Some(value) = message(entry, 2)? else { continue };
        let mut lists = Fields(value);
        while let Some(f) = lists.next() {
            if let (kind @ 1..=5, Wire::Bytes(list)) = f? {
                return Ok(Some((kind, list)));
            }
        }
    }
    Ok(None)
}

/// The values of one feature of a record.
pub enum Values<'a> {
    Bytes(Vec<&'a [u8]>),
    /// Numbers of a dtype, little-endian.
    Numbers(DType, Vec<u8>),
}

/// The values of the feature of this name, or nothing where the record has none.
pub fn values<'a>(record: &'a [u8], name: &str) -> Result<Option<Values<'a>>> {
    let Some((kind, list)) = feature(record, name)? else { return Ok(None) };
    if kind == 1 {
        let (mut fields, mut all) = (Fields(list), Vec::new());
        while let Some(f) = fields.next() {
            if let (1, Wire::Bytes(b)) = f? {
                all.push(b);
            }
        }
        return Ok(Some(Values::Bytes(all)));
    }
    let dtype = [DType::F32, DType::F64, DType::I32, DType::I64][kind as usize - 2];
    let mut bytes = Vec::new();
    numbers(kind, list, |f, i| match dtype {
        DType::F32 => bytes.extend((f as f32).to_le_bytes()),
        DType::F64 => bytes.extend(f.to_le_bytes()),
        DType::I32 => bytes.extend((i as i32).to_le_bytes()),
        _ => bytes.extend(i.to_le_bytes()),
    })?;
    Ok(Some(Values::Numbers(dtype, bytes)))
}

/// Calls `each` with every number of a list.
fn numbers(kind: u64, list: &[u8], mut each: impl FnMut(f64, i64)) -> Result<()> {
    let mut one = |kind: u64, wire: Wire<'_>| -> Option<()> {
        match (kind, wire) {
            (2, Wire::Fixed(b)) => {
                let v = f32::from_le_bytes(b.try_into().ok()?) as f64;
                each(v, v as i64);
            }
            (3, Wire::Fixed(b)) => {
                let v = f64::from_le_bytes(b.try_into().ok()?);
                each(v, v as i64);
            }
            (4, Wire::Varint(v)) => each(v as i32 as f64, v as i32 as i64),
            (5, Wire::Varint(v)) => each(v as i64 as f64, v as i64),
            _ => return None,
        }
        Some(())
    };
    let mut fields = Fields(list);
    let damaged = || bad("a list is damaged");
    while let Some(f) = fields.next() {
        match f? {
            (1, Wire::Bytes(packed)) => {
                let mut rest = Fields(packed);
                while !rest.0.is_empty() {
                    let wire = match kind {
                        2 => rest.take(4).map(Wire::Fixed),
                        3 => rest.take(8).map(Wire::Fixed),
                        _ => rest.varint().map(Wire::Varint),
                    };
                    wire.and_then(|w| one(kind, w)).ok_or_else(damaged)?;
                }
            }
            (1, wire) => one(kind, wire).ok_or_else(damaged)?,
            _ => {}
        }
    }
    Ok(())
}

/// One record's part.
fn decode(record: &[u8], d: &Decoder, out: &mut [u8]) -> Result<()> {
    let Some((kind, list)) = feature(record, &d.name)? else {
        return Err(bad(format_args!("a record has no feature {:?}", d.name)));
    };
    let size = d.size();
    let mut given = 0usize;
    out.fill(0);
    let mut store = |at: usize, f: f64, i: i64| {
        let Some(to) = out.get_mut(at * size..(at + 1) * size) else { return };
        match d.how {
            How::Raw(DType::F32) => to.copy_from_slice(&(f as f32).to_le_bytes()),
            How::Raw(DType::F64) => to.copy_from_slice(&f.to_le_bytes()),
            How::Raw(DType::I32) => to.copy_from_slice(&(i as i32).to_le_bytes()),
            How::Raw(DType::I64) => to.copy_from_slice(&i.to_le_bytes()),
            _ => to[0] = i as u8,
        }
    };
    if kind == 1 {
        let bytes = message(list, 1)?.unwrap_or(&[]);
        match d.how {
            // Numbers may have been kept as bytes: elements of the dtype one after another.
            How::Raw(_) | How::Bytes => {
                given = bytes.len() / size;
                let n = bytes.len().min(out.len());
                out[..n].copy_from_slice(&bytes[..n]);
            }
        }
    } else if d.how == How::Bytes {
        return Err(bad(format_args!("feature {:?} holds numbers, not bytes", d.name)));
    } else {
        numbers(kind, list, |f, i| {
            store(given, f, i);
            given += 1;
        })?;
    }
    if given != d.count && !d.pad {
        return Err(bad(format_args!("feature {:?} has {given} elements, the decoder takes {}", d.name, d.count)));
    }
    Ok(())
}
