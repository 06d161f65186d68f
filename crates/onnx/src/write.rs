//! A model to a file, with its tensors in a second one where they are large.

use crate::proto::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
use crate::sink::Sink;
use oneflow_base::{Error, Result};
use prost::Message;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A message of protocol buffers cannot be larger than two gigabytes.
pub const EXTERNAL_ABOVE: usize = i32::MAX as usize - (1 << 20);
/// Smaller tensors stay in the model, so that sizes and constants can be read without the other file.
const SMALL: usize = 1024;
/// Tensors in the second file begin at multiples of this, so that it can be mapped.
const ALIGNMENT: u64 = 4096;

/// Writes a model. With `external`, or if it is larger than a message may be, its initializers go to `<name>.data` beside it.
/// Either file appears whole or not at all. Returns the other file's path, if there is one.
pub fn write_file(mut model: ModelProto, path: &Path, external: bool) -> Result<Option<PathBuf>> {
    let mut data = None;
    if external || model.encoded_len() > EXTERNAL_ABOVE {
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            return Err(Error::value(format!("ONNX: {} is no path of a file", path.display())));
        };
        let name = format!("{name}.data");
        let place = path.with_file_name(&name);
        if let Some(graph) = &mut model.graph {
            write_whole(&place, |file| move_tensors(graph, &name, file))?;
            data = Some(place);
        }
    }
    let size = model.encoded_len();
    if size > i32::MAX as usize {
        return Err(Error::value(format!("ONNX: the model without its tensors has {size} bytes; 2 GB is the most")));
    }
    write_whole(path, |file| {
        let mut sink = Sink::new(file);
        model.encode(&mut sink).map_err(std::io::Error::other)?;
        sink.finish()
    })?;
    Ok(data)
}

/// The bytes of a model with its tensors in it.
pub fn encode(model: &ModelProto) -> Result<Vec<u8>> {
    let size = model.encoded_len();
    if size > EXTERNAL_ABOVE {
        return Err(Error::value(format!(
            "ONNX: the model has {size} bytes; 2 GB is the most without a file of its own"
        )));
    }
    Ok(model.encode_to_vec())
}

fn move_tensors(graph: &mut GraphProto, name: &str, file: &mut BufWriter<File>) -> std::io::Result<()> {
    let mut end = 0u64;
    for t in &mut graph.initializer {
        let Some(raw) = t.raw_data.take_if(|raw| raw.len() >= SMALL) else { continue };
        let start = end.next_multiple_of(ALIGNMENT);
        file.write_all(&vec![0; (start - end) as usize])?;
        file.write_all(&raw)?;
        end = start + raw.len() as u64;
        place(t, name, start, raw.len());
    }
    Ok(())
}

fn place(t: &mut TensorProto, name: &str, start: u64, len: usize) {
    let entry = |key: &str, value: String| StringStringEntryProto { key: Some(key.into()), value: Some(value) };
    t.external_data =
        vec![entry("location", name.into()), entry("offset", start.to_string()), entry("length", len.to_string())];
    t.data_location = Some(1);
}

/// Writes beside the path and renames.
fn write_whole(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = (|| {
        let mut file = BufWriter::new(File::create(&partial)?);
        fill(&mut file)?;
        file.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        std::fs::rename(&partial, path)
    })();
    written.map_err(|e| {
        drop(std::fs::remove_file(&partial));
        Error::runtime(format!("ONNX: {}: {e}", path.display()))
    })
}
