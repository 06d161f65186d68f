//! Readers of files written here byte by byte: values, order, and damaged files, which are errors and never panics.

use oneflow_base::DType;
use oneflow_data::{Decoder, How, IndexedSource, IndexedTokens, RawSource, RecordSource};
use std::path::{Path, PathBuf};

fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("oneflow-readers-{}-{name}", std::process::id()))
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = place(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn raw_records_come_in_the_order_asked_for() {
    let bytes: Vec<u8> = [9u8; 3].into_iter().chain((0..40).flat_map(|i| [i, i, i, i])).collect();
    let path = write("raw", &bytes);
    let source = |shuffle, position| RawSource {
        path: path.clone(),
        header: 3,
        record: 4,
        batch: 8,
        shuffle,
        seed: 5,
        position,
    };
    assert_eq!(RawSource::parse(&source(true, 3).config().unwrap()).unwrap(), source(true, 3));
    let read = |s: RawSource, n: usize| -> Vec<u8> {
        let mut r = s.open().unwrap();
        let mut out = Vec::new();
        for _ in 0..n {
            let mut batch = vec![0; 32];
            r.next_batch(&mut batch);
            out.extend(batch.chunks(4).map(|c| c[0]));
        }
        out
    };
    assert_eq!(read(source(false, 0), 5), (0..40).collect::<Vec<u8>>());
    let mixed = read(source(true, 0), 10);
    assert_ne!(mixed[..40], mixed[40..]);
    let mut epoch = mixed[..40].to_vec();
    epoch.sort();
    assert_eq!(epoch, (0..40).collect::<Vec<u8>>());
    // A checkpoint is the position.
    assert_eq!(read(source(true, 4), 2), mixed[32..48]);
    assert!(RawSource { record: 7, ..source(false, 0) }.open().is_err());
    assert!(RawSource { record: 0, ..source(false, 0) }.open().is_err());
    assert!(RawSource { header: 1000, ..source(false, 0) }.open().is_err());
    assert!(RawSource::parse(b"path x\nheader -1\n").is_err());
    std::fs::remove_file(path).unwrap();
}

/// The two files of a list of sequences.
fn indexed(name: &str, sequences: &[&[u16]]) -> (PathBuf, Vec<u8>) {
    let mut idx = b"MMIDIDX\0\0".to_vec();
    idx.extend(1u64.to_le_bytes());
    idx.push(8);
    idx.extend((sequences.len() as u64).to_le_bytes());
    idx.extend((sequences.len() as u64 + 1).to_le_bytes());
    sequences.iter().for_each(|s| idx.extend((s.len() as i32).to_le_bytes()));
    let mut at = 0i64;
    for s in sequences {
        idx.extend(at.to_le_bytes());
        at += 2 * s.len() as i64;
    }
    (0..=sequences.len() as i64).for_each(|d| idx.extend(d.to_le_bytes()));
    write(&format!("{name}.idx"), &idx);
    let tokens: Vec<u8> = sequences.iter().flat_map(|s| s.iter().flat_map(|t| t.to_le_bytes())).collect();
    write(&format!("{name}.bin"), &tokens);
    (place(name), idx)
}

#[test]
fn indexed_tokens_are_one_stream_in_windows() {
    let (prefix, idx) = indexed("tokens", &[&[1, 2, 3], &[], &[40000, 5], &[6, 7, 8, 9]]);
    let t = IndexedTokens::open(&prefix).unwrap();
    assert_eq!((t.len(), t.n_sequences()), (9, 4));
    let mut out = [0i64; 5];
    t.read(2, &mut out);
    assert_eq!(out, [3, 40000, 5, 6, 7]);
    let s = IndexedSource { prefix: prefix.clone(), batch: 2, window: 3, shuffle: false, seed: 0, position: 0 };
    assert_eq!(IndexedSource::parse(&s.config().unwrap()).unwrap(), s);
    let mut r = s.open().unwrap();
    let mut batch = [0i64; 6];
    r.next_batch(&mut batch);
    assert_eq!(batch, [1, 2, 3, 3, 40000, 5]);
    // Every damage of the index is an error, or gives tokens of the file.
    let path = place("tokens.idx");
    for n in 0..idx.len() - 40 {
        std::fs::write(&path, &idx[..n]).unwrap();
        assert!(IndexedTokens::open(&prefix).is_err(), "cut at {n}");
    }
    for i in 0..idx.len() {
        let mut bad = idx.clone();
        bad[i] ^= 0xff;
        std::fs::write(&path, &bad).unwrap();
        if let Ok(t) = IndexedTokens::open(&prefix) {
            let mut all = vec![0; t.len().min(64) as usize];
            t.read(0, &mut all);
        }
    }
    for end in [".idx", ".bin"] {
        std::fs::remove_file(place(&format!("tokens{end}"))).unwrap();
    }
    assert!(s.open().is_err());
}

fn varint(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

fn entry(name: &str, kind: u64, list: &[u8]) -> Vec<u8> {
    let value = field(kind, &field(1, list));
    field(1, &[field(1, name.as_bytes()), field(2, &value)].concat())
}

fn record(label: i64, image: &[f32], text: &[u8]) -> Vec<u8> {
    let mut labels = Vec::new();
    varint(label as u64, &mut labels);
    let floats: Vec<u8> = image.iter().flat_map(|f| f.to_le_bytes()).collect();
    let body = [entry("image", 2, &floats), entry("text", 1, text), entry("label", 5, &labels)].concat();
    [(body.len() as i64).to_le_bytes().to_vec(), body].concat()
}

fn decoder(name: &str, how: How, count: usize, pad: bool) -> Decoder {
    Decoder { name: name.into(), how, count, pad }
}

fn source(files: &[&Path], decoders: Vec<Decoder>) -> RecordSource {
    let files = files.iter().map(|p| p.to_path_buf()).collect();
    RecordSource { files, decoders, batch: 2, shuffle: false, seed: 1, position: 0 }
}

#[test]
fn records_are_decoded_by_name() {
    let one: Vec<u8> = [record(-3, &[1.5, 2.5], b"ab"), record(7, &[0.25, -1.0], b"xyz")].concat();
    let (a, b) = (write("part-0", &one), write("part-1", &record(8, &[4.0, 5.0], b"")));
    let decoders = vec![
        decoder("image", How::Raw(DType::F32), 2, false),
        decoder("label", How::Raw(DType::I32), 1, false),
        decoder("text", How::Bytes, 3, true),
    ];
    let s = source(&[&a, &b], decoders);
    assert_eq!(RecordSource::parse(&s.config().unwrap()).unwrap(), s);
    let mut r = s.open().unwrap();
    assert_eq!(r.len(), 3);
    let (mut image, mut label, mut text) = ([0u8; 16], [0u8; 8], [0u8; 6]);
    r.next_batch(&mut [&mut image, &mut label, &mut text]).unwrap();
    let floats: Vec<f32> = image.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let labels: Vec<i32> = label.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!((floats, labels, &text), (vec![1.5, 2.5, 0.25, -1.0], vec![-3, 7], b"ab\0xyz"));
    // The next batch ends this epoch and begins another one.
    r.next_batch(&mut [&mut image, &mut label, &mut text]).unwrap();
    assert_eq!(&text, b"\0\0\0ab\0");
    let wrong = |d: Decoder, text: &str| {
        let mut r = source(&[&a], vec![d]).open().unwrap();
        let e = r.next_batch(&mut [&mut [0u8; 64]]).unwrap_err();
        assert!(e.to_string().contains(text), "{e}");
    };
    wrong(decoder("nothing", How::Bytes, 1, true), "no feature \"nothing\"");
    wrong(decoder("label", How::Bytes, 1, true), "holds numbers");
    wrong(decoder("image", How::Raw(DType::F32), 3, false), "has 2 elements");
    // Damage is an error or other values, never a panic.
    for i in 0..one.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = one.clone();
            bad[i] ^= flip;
            std::fs::write(&a, &bad).unwrap();
            if let Ok(mut r) = s.open() {
                let _ = r.next_batch(&mut [&mut image, &mut label, &mut text]);
            }
        }
        std::fs::write(&a, &one[..i]).unwrap();
        assert!(
            i == 0 || i == 8 + i64::from_le_bytes(one[..8].try_into().unwrap()) as usize || s.open().is_err(),
            "cut at {i}"
        );
    }
    [a, b].iter().for_each(|p| std::fs::remove_file(p).unwrap());
}
