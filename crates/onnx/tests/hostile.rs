//! Files that nobody should trust: damaged bytes end in an error, tensors stay in their folder.

use oneflow_onnx::proto::*;
use oneflow_onnx::{Bytes, Elements, Folder, decode, encode, parse, read_file, write_file};
use std::path::{Path, PathBuf};

fn tensor(name: &str, elem: i32, dims: &[i64], raw: &[u8]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        data_type: Some(elem),
        dims: dims.to_vec(),
        raw_data: Some(Bytes::copy_from_slice(raw)),
        ..TensorProto::default()
    }
}

fn model() -> ModelProto {
    let attribute =
        AttributeProto { name: Some("perm".into()), r#type: Some(7), ints: vec![1, 0], ..AttributeProto::default() };
    let inner = GraphProto {
        node: vec![NodeProto { op_type: Some("Identity".into()), ..NodeProto::default() }],
        ..GraphProto::default()
    };
    let branch = AttributeProto {
        name: Some("then_branch".into()),
        r#type: Some(5),
        g: Some(inner),
        ..AttributeProto::default()
    };
    let node = NodeProto {
        op_type: Some("Transpose".into()),
        input: vec!["x".into()],
        output: vec!["y".into()],
        attribute: vec![attribute, branch],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("g".into()),
        node: vec![node],
        initializer: vec![tensor("w", 1, &[4], &[0; 16]), tensor("i", 22, &[3], &[0x21, 0x0f])],
        ..GraphProto::default()
    };
    ModelProto { ir_version: Some(8), graph: Some(graph), ..ModelProto::default() }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Reads everything of a model that parses.
fn read_all(bytes: &[u8]) -> bool {
    let Ok(model) = parse(Bytes::copy_from_slice(bytes)) else { return false };
    for t in model.graph.iter().flat_map(|g| &g.initializer) {
        drop(decode(t, None));
    }
    true
}

#[test]
fn what_is_written_is_read() {
    let m = model();
    assert_eq!(parse(encode(&m).unwrap().into()).unwrap(), m);
}

#[test]
fn mutated_files_end_in_errors_or_models() {
    let n = std::env::var("ONEFLOW_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let good = encode(&model()).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut parsed = 0;
    for _ in 0..n {
        let mut bytes = good.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes.insert(at, random.below(256) as u8),
                3 => bytes[at] = [0xff, 0x80, 0x7f, 0][random.below(4)],
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        parsed += read_all(&bytes) as usize;
    }
    assert!(parsed > 0 && parsed < n);
}

#[test]
fn every_truncation_is_noticed_or_ends_between_fields() {
    let good = encode(&model()).unwrap();
    for n in 0..good.len() {
        read_all(&good[..n]);
    }
    assert!(parse(Bytes::new()).is_err());
}

#[test]
fn long_numbers_and_deep_nesting_are_refused() {
    let error = parse(vec![0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1].into()).unwrap_err();
    assert!(error.text().contains("longer than 64 bits"), "{error:?}");
    // A graph in an attribute of a node of a graph, and so on.
    let mut bytes: Vec<u8> = Vec::new();
    let wrap = |tag: u8, inner: &[u8]| {
        let mut out = vec![tag << 3 | 2];
        let mut n = inner.len();
        while n > 127 {
            out.push(n as u8 | 128);
            n >>= 7;
        }
        out.push(n as u8);
        out.extend_from_slice(inner);
        out
    };
    for _ in 0..200 {
        bytes = wrap(6, &bytes);
        bytes = wrap(5, &bytes);
        bytes = wrap(1, &bytes);
    }
    let error = parse(wrap(7, &bytes).into()).unwrap_err();
    assert!(error.text().contains("nested deeper"), "{error:?}");
}

#[test]
fn a_small_file_does_not_become_a_large_tree() {
    // Five million empty nodes in ten megabytes.
    let nodes = [0x0a, 0].repeat(5_000_000);
    let mut bytes = vec![0x3a];
    let mut n = nodes.len();
    while n > 127 {
        bytes.push(n as u8 | 128);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes.extend(nodes);
    assert!(parse(bytes.into()).unwrap_err().text().contains("messages"));
}

#[test]
fn elements_must_fit_the_sizes() {
    let bad = |t: TensorProto, what: &str| {
        let error = decode(&t, None).unwrap_err();
        assert!(error.text().contains(what), "{error:?}");
    };
    bad(tensor("t", 1, &[2], &[0; 4]), "4 bytes, 8 are expected");
    bad(tensor("t", 1, &[-1], &[]), "negative");
    bad(tensor("t", 1, &[i64::MAX, i64::MAX], &[]), "too large");
    bad(tensor("t", 99, &[1], &[0]), "element type 99");
    bad(
        TensorProto { raw_data: None, float_data: vec![1.0], ..tensor("t", 1, &[2], &[]) },
        "1 numbers, 2 are expected",
    );
    let outside = TensorProto { data_location: Some(1), ..tensor("t", 1, &[1], &[]) };
    bad(outside, "no folder");
}

#[test]
fn narrow_elements_take_a_byte_each() {
    let found = decode(&tensor("t", 22, &[3], &[0x8f, 0x07]), None).unwrap();
    assert_eq!(found, Elements::Bytes(vec![0xff, 0xf8, 7].into()));
    let typed = TensorProto { raw_data: None, int32_data: vec![0x39], ..tensor("t", 25, &[4], &[]) };
    assert_eq!(decode(&typed, None).unwrap(), Elements::Bytes(vec![1, 2, 3, 0].into()));
    let half = TensorProto { raw_data: None, int32_data: vec![0x3c00, 0xbc00], ..tensor("t", 10, &[2], &[]) };
    assert_eq!(decode(&half, None).unwrap(), Elements::Bytes(vec![0, 0x3c, 0, 0xbc].into()));
}

/// A folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("oneflow-onnx-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(path.join("model")).unwrap();
    path
}

fn outside(location: &str, offset: &str) -> TensorProto {
    let entry = |k: &str, v: &str| StringStringEntryProto { key: Some(k.into()), value: Some(v.into()) };
    TensorProto {
        external_data: vec![entry("location", location), entry("offset", offset), entry("length", "4")],
        data_location: Some(1),
        raw_data: None,
        ..tensor("t", 1, &[1], &[])
    }
}

fn refuses(folder: &Folder, t: &TensorProto, what: &str) {
    let error = decode(t, Some(folder)).unwrap_err();
    assert!(error.text().contains(what), "{error:?}");
}

#[test]
#[cfg(unix)]
fn tensors_do_not_leave_the_folder() {
    let root = scratch("paths");
    let model = root.join("model/m.onnx");
    std::fs::write(&model, b"x").unwrap();
    std::fs::write(root.join("secret"), [1; 4]).unwrap();
    std::fs::write(root.join("model/data"), [0; 8]).unwrap();
    let folder = Folder::of_model(&model).unwrap();
    assert!(decode(&outside("data", "4"), Some(&folder)).is_ok());
    assert!(decode(&outside("./data", "0"), Some(&folder)).is_ok());
    for path in ["../secret", "/etc/hostname", "a/../../secret", "", "..\\secret"] {
        refuses(&folder, &outside(path, "0"), "leaves the folder");
    }
    std::os::unix::fs::symlink(root.join("secret"), root.join("model/link")).unwrap();
    refuses(&folder, &outside("link", "0"), "link that leaves");
    std::fs::hard_link(root.join("secret"), root.join("model/hard")).unwrap();
    refuses(&folder, &outside("hard", "0"), "hard link");
    refuses(&folder, &outside("data", "5"), "end after the 8");
    refuses(&folder, &outside("data", "18446744073709551615"), "end after the 8");
    refuses(&folder, &outside("data", "-1"), "no size");
    refuses(&folder, &outside("absent", "0"), "absent");
    refuses(&folder, &outside(".", "0"), "no file");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
#[cfg(unix)]
fn a_cache_of_links_inside_one_folder_loads() {
    let root = scratch("cache");
    std::fs::create_dir_all(root.join("blobs")).unwrap();
    std::fs::write(root.join("blobs/1"), b"model").unwrap();
    std::fs::write(root.join("blobs/2"), [7; 4]).unwrap();
    for (name, blob) in [("m.onnx", "1"), ("data", "2")] {
        std::os::unix::fs::symlink(Path::new("../blobs").join(blob), root.join("model").join(name)).unwrap();
    }
    let folder = Folder::of_model(&root.join("model/m.onnx")).unwrap();
    assert_eq!(decode(&outside("data", "0"), Some(&folder)).unwrap(), Elements::Bytes(vec![7; 4].into()));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn large_tensors_go_to_a_second_file() {
    let root = scratch("external");
    let path = root.join("model/m.onnx");
    let mut m = model();
    let large: Vec<u8> = (0..8192).map(|i| i as u8).collect();
    m.graph.as_mut().unwrap().initializer.push(tensor("large", 2, &[8192], &large));
    let data = write_file(m, &path, true).unwrap().unwrap();
    assert_eq!(data, path.with_file_name("m.onnx.data"));
    let source = read_file(&path).unwrap();
    let graph = source.model.graph.unwrap();
    let found = graph.initializer.iter().map(|t| decode(t, source.folder.as_ref()).unwrap()).collect::<Vec<_>>();
    assert_eq!(found[2], Elements::Bytes(large.into()));
    assert!(graph.initializer[0].raw_data.is_some(), "small tensors stay in the model");
    assert_eq!(std::fs::read_dir(root.join("model")).unwrap().count(), 2, "no partial file is left");
    std::fs::remove_dir_all(root).unwrap();
}
