//! The file of an epoch or a snapshot: the configuration, the segments it needs, and the location of each row's record.
//!
//! Written under another name, synced and renamed, so a manifest that has its name is whole. Each size is checked against the
//! file's length before anything is allocated.

use crate::config::Config;
use crate::folder::Folder;
use crate::log::Place;
use oneflow_base::{Error, Result};

const MAGIC: &[u8; 8] = b"ofembed1";
/// Bytes of a row's entry: id and place.
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
    bytes.extend(config);
    for (segment, n) in &head.segments {
        bytes.extend(segment.to_le_bytes());
        bytes.extend(n.to_le_bytes());
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
    let sizes = (|| Some((u64_at(8)?, u32_at(16)? as usize, u32_at(20)? as usize, u64_at(24)?)))();
    let (epoch, n_config, n_segments, n_entries) = sizes.ok_or("it ends early")?;
    let head_end = 32 + n_config as u64 + 8 * n_segments as u64;
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
    let config = Config::from_bytes(&bytes[32..32 + n_config]).ok_or("its configuration is none")?;
    let segment = |i: usize| Some((u32_at(32 + n_config + 8 * i)?, u32_at(36 + n_config + 8 * i)?));
    let segments = (0..n_segments).map(segment).collect::<Option<Vec<_>>>().ok_or("it ends early")?;
    Ok(Manifest { head: Head { epoch, config, segments }, bytes, first_entry })
}

impl Manifest {
    /// Ids and places of the rows.
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
        let head = Head { epoch: 9, config, segments: vec![(0, 3), (7, 1)] };
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
