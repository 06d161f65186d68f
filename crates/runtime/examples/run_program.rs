//! Runs a program that `oneflow.save(graph, directory)` wrote, on tensors from a file: `run_program directory inputs.safetensors
//! results.safetensors [threads]`. Inputs are taken by name; with more than one thread as many runs go on at the same time, and
//! their results must be the same bytes.
//!
//! Knows no Python: that is the point.

use memmap2::Mmap;
use oneflow_runtime::{DType, Error, Meta, Pool, Result, Tensor, numbers, tensor};
use safetensors::{Dtype, SafeTensors, serialize, tensor::TensorView};
use std::fs::File;

/// A tensor's bytes, row-major, and back.
fn to_bytes(t: &Tensor) -> Result<(Dtype, Vec<u8>)> {
    fn bytes<T: oneflow_runtime::Number, const N: usize>(t: &Tensor, f: fn(T) -> [u8; N]) -> Result<Vec<u8>> {
        Ok(numbers::<T>(t)?.into_iter().flat_map(f).collect())
    }
    Ok(match t.dtype() {
        DType::F32 => (Dtype::F32, bytes(t, f32::to_le_bytes)?),
        DType::F64 => (Dtype::F64, bytes(t, f64::to_le_bytes)?),
        DType::I64 => (Dtype::I64, bytes(t, i64::to_le_bytes)?),
        DType::I32 => (Dtype::I32, bytes(t, i32::to_le_bytes)?),
        DType::Bool => (Dtype::BOOL, bytes(t, |b: bool| [b as u8])?),
        d => return Err(Error::not_implemented(format!("run_program: {d}"))),
    })
}

fn from_bytes(name: &str, want: &Meta, found: &TensorView<'_>) -> Result<Tensor> {
    fn read<T: oneflow_runtime::Number, const N: usize>(
        b: &[u8],
        sizes: &[i64],
        f: fn([u8; N]) -> T,
    ) -> Result<Tensor> {
        let all: Vec<T> = b.as_chunks::<N>().0.iter().map(|c| f(*c)).collect();
        tensor(&all, sizes)
    }
    // The sizes of the file: the program may take many.
    let sizes: Vec<i64> = found.shape().iter().map(|n| *n as i64).collect();
    let (b, sizes) = (found.data(), sizes.as_slice());
    match (want.dtype, found.dtype()) {
        (DType::F32, Dtype::F32) => read(b, sizes, f32::from_le_bytes),
        (DType::F64, Dtype::F64) => read(b, sizes, f64::from_le_bytes),
        (DType::I64, Dtype::I64) => read(b, sizes, i64::from_le_bytes),
        (DType::I32, Dtype::I32) => read(b, sizes, i32::from_le_bytes),
        (DType::Bool, Dtype::BOOL) => read(b, sizes, |[x]: [u8; 1]| x != 0),
        (want, have) => Err(Error::type_(format!("{name:?} is {have:?}, the program takes {want}"))),
    }
}

/// A result as a file holds it: name, dtype, sizes, bytes.
type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [directory, inputs, results, rest @ ..] = args.as_slice() else {
        return Err(Error::value("usage: run_program directory inputs.safetensors results.safetensors [threads]"));
    };
    let threads = rest.first().and_then(|n| n.parse().ok()).unwrap_or(1);
    let pool = Pool::load(directory, threads)?;
    let file = |path: &String, e: &dyn std::fmt::Display| Error::runtime(format!("{path}: {e}"));
    let opened = File::open(inputs).map_err(|e| file(inputs, &e))?;
    // SAFETY: read below and dropped; nobody cuts the file short meanwhile.
    let map = unsafe { Mmap::map(&opened) }.map_err(|e| file(inputs, &e))?;
    let given = SafeTensors::deserialize(&map).map_err(|e| file(inputs, &e))?;
    let wanted = pool.lend()?.inputs();
    let tensors = wanted.iter().map(|(name, meta)| {
        let found = given.tensor(name).map_err(|e| file(inputs, &e))?;
        Ok((name.as_str(), from_bytes(name, meta, &found)?))
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let once = || -> Result<Vec<Stored>> {
        let outputs = pool.lend()?.run_by_name(&tensors)?;
        let read = |(name, t): (String, Tensor)| {
            let (dtype, bytes) = to_bytes(&t)?;
            Ok((name, dtype, t.sizes().iter().map(|n| *n as usize).collect(), bytes))
        };
        outputs.into_iter().map(read).collect()
    };
    let all = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads).map(|_| scope.spawn(once)).collect();
        let ended = |r: std::thread::ScopedJoinHandle<'_, _>| r.join().unwrap_or_else(|_| Err(Error::runtime("panic")));
        runs.into_iter().map(ended).collect::<Result<Vec<_>>>()
    })?;
    if all.iter().any(|run| *run != all[0]) {
        return Err(Error::runtime("runs at the same time gave different results"));
    }
    let views = all[0].iter().map(|(name, dtype, sizes, bytes)| {
        Ok((name, TensorView::new(*dtype, sizes.clone(), bytes).map_err(|e| file(results, &e))?))
    });
    let bytes = serialize(views.collect::<Result<Vec<_>>>()?, None).map_err(|e| file(results, &e))?;
    std::fs::write(results, bytes).map_err(|e| file(results, &e))
}
