//! Programs on disk: a directory with `plan.bin` (the plan, versioned) and `weights.safetensors` (its variables by name).
//!
//! Neither file is trusted: the plan is checked as a whole before it runs, and a weight must have the dtype and sizes that the
//! plan names. Whoever saves writes the weights first, so that a directory with a plan is complete.

use crate::plan::{Buffer, Plan};
use crate::session::Session;
use memmap2::Mmap;
use oneflow_base::{DType, Device, Error, Meta, Result};
use oneflow_core::{Storage, Tensor, copy_into, copy_to_host};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const PLAN: &str = "plan.bin";
const WEIGHTS: &str = "weights.safetensors";

impl Session {
    /// Reads what `save` (or `oneflow.save` of a graph) wrote.
    pub fn load(dir: impl AsRef<Path>) -> Result<Session> {
        let dir = dir.as_ref();
        let plan = dir.join(PLAN);
        let bytes = fs::read(&plan).map_err(|e| failed("read", &plan, e))?;
        let read = Plan::from_bytes(&bytes).map_err(|e| e.context(format_args!("{}: ", plan.display())))?;
        let weights = dir.join(WEIGHTS);
        let file = File::open(&weights).map_err(|e| failed("read", &weights, e))?;
        // SAFETY: the map is read once, below; a file that another process cuts short meanwhile is this machine's fault to have.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| failed("read", &weights, e))?;
        assemble(read, &map).map_err(|e| e.context(format_args!("{}: ", dir.display())))
    }

    /// The same from memory.
    pub fn from_bytes(plan: &[u8], weights: &[u8]) -> Result<Session> {
        assemble(Plan::from_bytes(plan)?, weights)
    }

    /// The plan and the variables' present values, as the two files hold them.
    pub fn to_bytes(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let plan = self.plan();
        let host = plan.variables.iter().zip(self.variables()).map(|(v, s)| {
            let t = Tensor::from_storage(s.clone(), v.meta.dtype, v.meta.sizes.clone(), v.meta.strides.clone(), 0)?;
            copy_to_host(&t)
        });
        let host = host.collect::<Result<Vec<_>>>()?;
        let views = plan.variables.iter().zip(names(plan)).zip(&host).map(|((v, name), t)| {
            let (dtype, sizes) = stored(&v.meta);
            // SAFETY: a contiguous host tensor holds `numel` elements of its dtype; no run is under way.
            let data = unsafe { std::slice::from_raw_parts(t.data_ptr(), t.numel() as usize * v.meta.dtype.size()) };
            let view = TensorView::new(dtype, sizes, data);
            Ok((name, view.map_err(|e| Error::value(format!("variable {:?}: {e}", v.name)))?))
        });
        let views = views.collect::<Result<Vec<_>>>()?;
        let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let weights = safetensors::serialize(views, Some(about)).map_err(|e| Error::value(format!("weights: {e}")))?;
        Ok((plan.to_bytes(), weights))
    }

    /// Writes the program and its variables into a directory, which is created if it does not exist.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        let (plan, weights) = self.to_bytes()?;
        fs::create_dir_all(dir).map_err(|e| failed("make", dir, e))?;
        for (name, bytes) in [(WEIGHTS, weights), (PLAN, plan)] {
            // The old file stays until the new one is whole.
            let (part, whole) = (dir.join(format!("{name}.part")), dir.join(name));
            let write = || {
                let mut file = File::create(&part)?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                fs::rename(&part, &whole)
            };
            write().map_err(|e| {
                let _ = fs::remove_file(&part);
                failed("write", &whole, e)
            })?;
        }
        Ok(())
    }
}

/// A checked plan with its weights.
fn assemble(plan: Plan, weights: &[u8]) -> Result<Session> {
    crate::register();
    let weights = SafeTensors::deserialize(weights).map_err(|e| Error::value(format!("weights: {e}")))?;
    let names = names(&plan);
    let variables = plan.variables.iter().zip(&names).map(|(v, name)| {
        let b = &plan.buffers[v.buffer as usize];
        let found = weights.tensor(name).map_err(|e| Error::value(format!("weights: variable {name:?}: {e}")))?;
        read(name, &v.meta, b, &found)
    });
    let variables = variables.collect::<Result<_>>()?;
    Session::new(plan, variables)
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::runtime(format!("cannot {what} {}: {e}", path.display()))
}

/// A name for each variable; of several with one name the later ones get a number.
fn names(plan: &Plan) -> Vec<String> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let all = plan.variables.iter().map(|v| {
        let n = seen.entry(&v.name).or_default();
        *n += 1;
        if *n == 1 { v.name.clone() } else { format!("{}#{n}", v.name) }
    });
    all.collect()
}

/// dtype and sizes in the file: complex numbers are pairs of reals there.
fn stored(m: &Meta) -> (Dtype, Vec<usize>) {
    let mut sizes: Vec<usize> = m.sizes.iter().map(|s| *s as usize).collect();
    let dtype = match m.dtype {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::F16 | DType::C32 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 | DType::C64 => Dtype::F32,
        DType::F64 | DType::C128 => Dtype::F64,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::F8E4M3FN => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::F8E8M0FNU => Dtype::F8_E8M0,
        // Formats without a name there are kept as bytes; the plan says what they are.
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => Dtype::U8,
    };
    if m.dtype.is_complex() {
        sizes.push(2);
    }
    (dtype, sizes)
}

/// A variable's memory, filled from the file.
fn read(name: &str, m: &Meta, b: &Buffer, found: &TensorView<'_>) -> Result<Storage> {
    let (dtype, sizes) = stored(m);
    if found.dtype() != dtype || found.shape() != sizes {
        return Err(Error::value(format!(
            "weights: variable {name:?} is {:?} {:?}, the plan was compiled for {} {:?}",
            found.dtype(),
            found.shape(),
            m.dtype,
            m.sizes.as_slice()
        )));
    }
    let data = found.data();
    if m.dtype == DType::Bool && data.iter().any(|b| *b > 1) {
        return Err(Error::value(format!("weights: variable {name:?} holds bytes that are neither true nor false")));
    }
    let host = Storage::new(Device::CPU, b.bytes as usize)?;
    // SAFETY: the new host storage holds these bytes: the plan was checked, and the sizes above.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), host.ptr(), data.len()) };
    if b.device.is_cpu() {
        return Ok(host);
    }
    let (sizes, strides) = (m.sizes.clone(), m.strides.clone());
    let from = Tensor::from_storage(host, m.dtype, sizes.clone(), strides.clone(), 0)?;
    let storage = Storage::new(b.device, b.bytes as usize)?;
    copy_into(&Tensor::from_storage(storage.clone(), m.dtype, sizes, strides, 0)?, &from)?;
    Ok(storage)
}
