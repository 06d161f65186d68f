//! The file of an epoch or a snapshot: the configuration, the segments and the files of pages it needs, and the location of each
//! record in the segments. A row in a page is found by the file of pages itself.
//!
//! Written under another name, synced and renamed, so a manifest that has its name is whole. Each size is checked against the
//! file's length before anything is allocated.

use crate::config::Config;
use crate::folder::Folder;
use crate::log::Place;
use crate::page::PagesHead;
use oneflow_base::{Error, Result};

const MAGIC: &[u8; 8] = b"ofembed2";
/// Bytes before the configuration, of a segment, of a file of pages, and of a row's entry: id and place.
const START: usize = 44;
const SEGMENT: usize = 8;
const FILE: usize = 16;
const ENTRY: usize = 16;
/// Entries that are written at once.
const CHUNK: usize = 1 << 16;

/// All of a manifest but its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub epoch: u64,
    pub config: Config,
    /// Numbers of segments and the number of records of each in the epoch.
    pub segments: Vec<(u32, u32)>,
    pub pages: Vec<PagesHead>,
    /// Rows, in segments and in pages.
    pub n_rows: u64,
}

impl Head {
    /// The numbers of all files that it needs.
    pub fn files(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|s| s.0).chain(self.pages.iter().map(|p| p.segment))
    }
}

pub struct Manifest {
    pub head: Head,
    bytes: Vec<u8>,
    first_entry: usize,
}

/// Writes a manifest and renames it to its final name, so that it lasts.
pub fn write(
    folder: &Folder,
    name: &str,
    head: &Head,
    n_entries: usize,
    entries: impl Iterator<Item = (u64, Place)>,
) -> Result<()> {
    let config = head.config.to_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend(head.epoch.to_le_bytes());
    bytes.extend((config.len() as u32).to_le_bytes());
    bytes.extend((head.segments.len() as u32).to_le_bytes());
    bytes.extend((n_entries as u64).to_le_bytes());
    bytes.extend(head.n_rows.to_le_bytes());
    bytes.extend((head.pages.len() as u32).to_le_bytes());
    bytes.extend(config);
    for (segment, n) in &head.segments {
        bytes.extend(segment.to_le_bytes());
        bytes.extend(n.to_le_bytes());
    }
    for file in &head.pages {
        let words = [file.segment, file.n_blocks, file.n_pages, file.n_records];
        words.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    }
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());

    let temporary = format!("{name}.tmp");
    let file = folder.create(&temporary)?;
    let mut offset = 0;
    let mut hasher = crc32fast::Hasher::new();
    for (id, place) in entries {
        let start = bytes.len();
        bytes.extend(id.to_le_bytes());
        bytes.extend(place.0.to_le_bytes());
        hasher.update(&bytes[start..]);
        if bytes.len() >= CHUNK * ENTRY {
            folder.write_at(&file, &temporary, &bytes, offset)?;
            offset += bytes.len() as u64;
            bytes.clear();
        }
    }
    bytes.extend(hasher.finalize().to_le_bytes());
    folder.write_at(&file, &temporary, &bytes, offset)?;
    folder.sync(&file, &temporary)?;
    folder.rename(&temporary, name)
}

/// Reads a manifest and checks its sums and sizes.
pub fn read(folder: &Folder, name: &str) -> Result<Manifest> {
    let bytes = folder.read(name)?;
    parse(bytes).map_err(|what| {
        Error::runtime(format!("embedding: the manifest {} is damaged: {what}", folder.file(name).display()))
    })
}

fn parse(bytes: Vec<u8>) -> Result<Manifest, &'static str> {
    let u32_at = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let u64_at = |at: usize| Some(u32_at(at)? as u64 | (u32_at(at + 4)? as u64) << 32);
    if bytes.get(..8) != Some(MAGIC.as_slice()) {
        return Err("it does not begin as one");
    }
    let sizes =
        (|| Some([u64_at(8)?, u32_at(16)? as u64, u32_at(20)? as u64, u64_at(24)?, u64_at(32)?, u32_at(40)? as u64]))();
    let [epoch, n_config, n_segments, n_entries, n_rows, n_files] = sizes.ok_or("it ends early")?;
    let lists = START as u64 + n_config;
    let head_end = lists + SEGMENT as u64 * n_segments + FILE as u64 * n_files;
    let end = n_entries.checked_mul(ENTRY as u64).and_then(|n| n.checked_add(head_end + 8));
    if end != Some(bytes.len() as u64) {
        return Err("its length is not what its sizes say");
    }
    // Fits: it is less than the length of the file in memory.
    let head_end = head_end as usize;
    if u32_at(head_end) != Some(crc32fast::hash(&bytes[..head_end])) {
        return Err("the checksum of its head does not fit");
    }
    let first_entry = head_end + 4;
    if u32_at(bytes.len() - 4) != Some(crc32fast::hash(&bytes[first_entry..bytes.len() - 4])) {
        return Err("the checksum of its entries does not fit");
    }
    let (lists, n_segments, n_files) = (lists as usize, n_segments as usize, n_files as usize);
    let config = Config::from_bytes(&bytes[START..lists]).ok_or("its configuration is none")?;
    let segment = |i: usize| Some((u32_at(lists + SEGMENT * i)?, u32_at(lists + SEGMENT * i + 4)?));
    let segments = (0..n_segments).map(segment).collect::<Option<Vec<_>>>().ok_or("it ends early")?;
    let file = |i: usize| {
        let at = lists + SEGMENT * n_segments + FILE * i;
        let (segment, n_blocks) = (u32_at(at)?, u32_at(at + 4)?);
        Some(PagesHead { segment, n_blocks, n_pages: u32_at(at + 8)?, n_records: u32_at(at + 12)? })
    };
    let pages = (0..n_files).map(file).collect::<Option<Vec<_>>>().ok_or("it ends early")?;
    Ok(Manifest { head: Head { epoch, config, segments, pages, n_rows }, bytes, first_entry })
}

impl Manifest {
    /// Ids and places of the records, and of rows that are gone from their pages.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u64, Place)> {
        let bytes = &self.bytes[self.first_entry..self.bytes.len() - 4];
        bytes.chunks_exact(ENTRY).map(|e| {
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| e[at + i]));
            (word(0), Place(word(8)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initial::Initializer;

    #[test]
    fn any_flipped_byte_and_any_cut_is_found() {
        let path = std::env::temp_dir().join(format!("oneflow_embedding_manifest_{}", std::process::id()));
        let folder = Folder::open(&path, None).unwrap();
        let tables = vec![vec![Initializer::Uniform { low: 0.0, high: 1.0 }]; 2];
        let config = Config { column_dims: vec![4], state_width: 4, tables, seed: 3 };
        let pages = vec![PagesHead { segment: 8, n_blocks: 5, n_pages: 4, n_records: 70 }];
        let head = Head { epoch: 9, config, segments: vec![(0, 3), (7, 1)], pages, n_rows: 74 };
        let entries: Vec<_> = (0..4).map(|i| (u64::MAX - i, Place::new(7, i as u32, 1))).collect();
        write(&folder, "m", &head, 4, entries.iter().copied()).unwrap();
        let back = read(&folder, "m").unwrap();
        assert_eq!((back.head.clone(), back.entries().collect::<Vec<_>>()), (head, entries));
        let bytes = folder.read("m").unwrap();
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0x10;
            assert!(parse(damaged).is_err(), "byte {i}");
            assert!(parse(bytes[..i].to_vec()).is_err(), "cut at {i}");
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
