//! The functions behind `oneflow.cuda`: devices, memory, streams and events of the CUDA provider.
//!
//! Tensors on a GPU need nothing from here; they reach the provider as those of any device do.

use crate::autograd::requires_grad;
use crate::gate::{detach, run};
use crate::object::get;
use oneflow_core::Tensor;
use oneflow_core::base::{Device, DeviceType, Error, Result};
use oneflow_ep::cuda::{self, Cuda};
use oneflow_ep::{Provider, Queue};
use oneflow_kernels::prim::{Library, RnnStackParams};
use oneflow_kernels::{AttentionQuestion, attention_refusal, set_attention_deterministic};
use oneflow_ops::attention::native_attention::set_library;
use oneflow_ops::rnn::mode_of;
use pyo3::prelude::*;
use std::cell::Cell;
use std::path::PathBuf;

thread_local! {
    /// The device that "cuda" without an index means on this thread.
    static CURRENT: Cell<u16> = const { Cell::new(0) };
}

/// The device that "cuda" without an index means.
pub fn current() -> Device {
    Device::new(DeviceType::CUDA, CURRENT.get())
}

pub(crate) fn provider() -> Result<&'static Cuda> {
    cuda::provider().ok_or_else(|| {
        Error::runtime(format!("CUDA is not available: {}", cuda::unavailable_reason().unwrap_or_default()))
    })
}

pub(crate) fn checked(index: i64) -> Result<u16> {
    let n = provider()?.device_count();
    if (index as u64) < n as u64 {
        return Ok(index as u16);
    }
    Err(Error::runtime(format!("CUDA error: invalid device ordinal {index}: there are {n}")))
}

#[pyfunction]
fn _cuda_set_search_dirs(dirs: Vec<PathBuf>) {
    cuda::set_search_dirs(dirs);
}

/// Compiles the text of a kernel for an architecture ("sm_90a") into the cache on disk, and returns the length of the code.
/// Needs no GPU, only the compiler. For tools that fill a cache ahead: the options are kept as long as the process.
#[pyfunction]
fn _cuda_compile(py: Python<'_>, name: String, source: String, options: Vec<String>, arch: &str) -> PyResult<usize> {
    let options: Vec<&'static str> = options.into_iter().map(|o| &*o.leak()).collect();
    let text = cuda::Text { name, source, options: options.leak(), shared: 0 };
    run(|| detach(py, || Ok(cuda::compile(&text, arch)?.len())))
}

/// Where the code of kernels and their texts are kept; None where they are not.
#[pyfunction]
fn _cuda_cubin_cache() -> Option<std::path::PathBuf> {
    cuda::cubin_directory()
}

/// Whether convolutions and recurrent networks on a GPU may go to cuDNN, and whether the first may round float32 to TF32 there.
#[pyfunction]
fn _cuda_cudnn_settings(enabled: bool, tf32: bool) {
    oneflow_kernels::set_cudnn(enabled, tf32);
}

/// Whether cuDNN does the attention of calls from now on: 0 not at all, 1 what it takes, 2 all (what it does not take is an error).
#[pyfunction]
fn _cuda_attention_library(library: u64) -> PyResult<()> {
    run(|| {
        let known = Library::from_u64(library);
        set_library(known.ok_or_else(|| Error::value(format!("attention library: {library} is none of 0, 1 and 2")))?);
        Ok(())
    })
}

/// Whether cuDNN's attention has to give the same results in every run.
#[pyfunction]
fn _cuda_attention_deterministic(deterministic: bool) {
    set_attention_deterministic(deterministic);
}

/// Why cuDNN does not do attention of these operands on a GPU; None where it does.
#[pyfunction]
fn _cuda_attention_refusal(
    py: Python<'_>,
    query: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    attn_mask: Option<&Bound<'_, PyAny>>,
    dropout: f64,
    is_causal: bool,
) -> PyResult<Option<String>> {
    run(|| {
        let tensor = |t| get(t).ok_or_else(|| Error::runtime("can_use_cudnn_attention: expected tensors"));
        let (q, k, v) = (tensor(query)?, tensor(key)?, tensor(value)?);
        if q.device().kind != DeviceType::CUDA {
            return Ok(Some(format!("query is on {}, not on a GPU", q.device())));
        }
        if [q, k, v].iter().any(|t| t.ndim() != 4 || t.numel() == 0) {
            return Ok(Some("query, key and value have four dimensions and elements".into()));
        }
        if k.dtype() != q.dtype() || v.dtype() != q.dtype() {
            return Ok(Some(format!("query, key and value are {}, {} and {}", q.dtype(), k.dtype(), v.dtype())));
        }
        let trains = [q, k, v].into_iter().any(requires_grad);
        let question = AttentionQuestion {
            dtype: q.dtype(),
            operands: [q.sizes(), k.sizes(), v.sizes()],
            has_mask: attn_mask.is_some(),
            causal: is_causal,
            drops: dropout > 0.0,
            trains,
        };
        detach(py, || attention_refusal(provider()?.queue(q.device().index), &question))
    })
}

/// Bytes that cuDNN keeps for the backward of a recurrent network whose input has these sizes; None where such networks run by
/// layer. `like`: a tensor of the input's dtype on its device; `out`: the width of h.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn _cuda_rnn_reserve(
    py: Python<'_>,
    like: &Bound<'_, PyAny>,
    sizes: Vec<i64>,
    batch_sizes: Vec<i64>,
    mode: &str,
    hidden: i64,
    out: i64,
    num_layers: i64,
    bias: bool,
    bidirectional: bool,
    batch_first: bool,
    allow_tf32: bool,
) -> PyResult<Option<usize>> {
    run(|| {
        let like = get(like).ok_or_else(|| Error::runtime("_cuda_rnn_reserve: expected a tensor"))?;
        let (dtype, index) = (like.dtype(), like.device().index);
        if like.device().kind != DeviceType::CUDA || sizes.len() != if batch_sizes.is_empty() { 3 } else { 2 } {
            return Ok(None);
        }
        let batch = batch_sizes.first().copied().unwrap_or(sizes[1]);
        let params = RnnStackParams {
            mode: mode_of(mode)?,
            hidden,
            layers: num_layers,
            bidirectional,
            bias,
            batch_first,
            allow_tf32,
            packed: batch_sizes.into_iter().collect(),
        };
        detach(py, || oneflow_kernels::rnn_reserve(provider()?.queue(index), &params, dtype, &sizes, batch, out))
    })
}

/// The release of cuDNN (91002 for 9.10.2); None where it is missing or of another major release.
#[pyfunction]
fn _cuda_cudnn_version(py: Python<'_>) -> Option<usize> {
    detach(py, || Some(cuda::provider()?.cudnn().ok()?.version()))
}

/// None where CUDA can be used.
#[pyfunction]
fn _cuda_unavailable_reason(py: Python<'_>) -> Option<String> {
    detach(py, cuda::unavailable_reason)
}

#[pyfunction]
fn _cuda_device_count() -> usize {
    cuda::provider().map_or(0, Provider::device_count)
}

#[pyfunction]
fn _cuda_current_device() -> u16 {
    CURRENT.get()
}

#[pyfunction]
fn _cuda_set_device(index: i64) -> PyResult<()> {
    run(|| {
        CURRENT.set(checked(index)?);
        Ok(())
    })
}

#[pyfunction]
fn _cuda_synchronize(py: Python<'_>, index: i64) -> PyResult<()> {
    run(|| {
        let index = checked(index)?;
        oneflow_autocast::note_wait();
        detach(py, || provider()?.synchronize(index))
    })
}

/// Bytes that the driver has free, and how many there are.
#[pyfunction]
fn _cuda_driver_memory(index: i64) -> PyResult<(usize, usize)> {
    run(|| provider()?.driver_memory(checked(index)?))
}

#[pyfunction]
fn _cuda_empty_cache(py: Python<'_>) {
    if let Some(p) = cuda::provider() {
        detach(py, || (0..p.device_count()).for_each(|i| p.trim(i as u16)));
    }
}

/// Name, major and minor compute capability, bytes of memory, number of multiprocessors.
#[pyfunction]
fn _cuda_properties(index: i64) -> PyResult<(String, i32, i32, usize, u32)> {
    run(|| {
        let gpu = provider()?.device(checked(index)?)?;
        let (major, minor) = gpu.compute_capability;
        Ok((gpu.name.clone(), major, minor, gpu.total_memory, gpu.n_multiprocessors))
    })
}

/// A queue of one device.
#[pyclass(frozen, name = "_CudaStream", module = "oneflow._oneflow")]
pub(crate) struct PyStream(pub(crate) Queue);

#[pymethods]
impl PyStream {
    /// A new queue.
    #[new]
    fn new(index: i64) -> PyResult<PyStream> {
        run(|| Ok(PyStream(provider()?.new_queue(checked(index)?)?)))
    }
    #[getter]
    fn index(&self) -> u16 {
        self.0.device.index
    }
    #[getter]
    fn handle(&self) -> usize {
        self.0.raw as usize
    }
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        oneflow_autocast::note_wait();
        run(|| detach(py, || provider()?.synchronize_queue(self.0)))
    }
    /// Returns true if all work is done.
    fn query(&self) -> PyResult<bool> {
        oneflow_autocast::note_wait();
        run(|| provider()?.is_done(self.0))
    }
    /// Marks the work issued so far; `timed`: the device notes the time.
    fn record(&self, timed: bool) -> PyResult<PyEvent> {
        run(|| {
            let p = provider()?;
            Ok(PyEvent(if timed { p.record_time(self.0)? } else { p.record(self.0)? }))
        })
    }
    /// Makes later work wait for an event.
    fn wait(&self, event: &Bound<'_, PyEvent>) -> PyResult<()> {
        oneflow_autocast::note_wait();
        run(|| provider()?.wait(self.0, &event.get().0))
    }
}

/// A point in the work of a queue.
#[pyclass(frozen, name = "_CudaEvent", module = "oneflow._oneflow")]
struct PyEvent(cuda::Event);

#[pymethods]
impl PyEvent {
    fn query(&self) -> PyResult<bool> {
        oneflow_autocast::note_wait();
        run(|| self.0.is_done())
    }
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        oneflow_autocast::note_wait();
        run(|| detach(py, || self.0.synchronize()))
    }
    fn milliseconds_to(&self, later: &Bound<'_, PyEvent>) -> PyResult<f32> {
        run(|| self.0.milliseconds_to(&later.get().0))
    }
}

/// The queue that the calling thread issues to; `chosen` False: the device's own.
#[pyfunction]
fn _cuda_stream(index: i64, chosen: bool) -> PyResult<PyStream> {
    run(|| {
        let (p, index) = (provider()?, checked(index)?);
        let now = p.queue(index);
        if chosen {
            return Ok(PyStream(now));
        }
        p.set_queue(index, None);
        let own = p.queue(index);
        if own.raw != now.raw {
            p.set_queue(index, Some(now));
        }
        Ok(PyStream(own))
    })
}

/// Makes a queue the calling thread's.
#[pyfunction]
fn _cuda_set_stream(stream: &Bound<'_, PyStream>) -> PyResult<()> {
    run(|| {
        let queue = stream.get().0;
        provider()?.set_queue(queue.device.index, Some(queue));
        Ok(())
    })
}

/// Notes that work of a stream uses a tensor's memory, which is then handed out again only when that work is done, too.
#[pyfunction]
fn _cuda_record_stream(tensor: &Bound<'_, PyAny>, stream: &Bound<'_, PyStream>) -> PyResult<()> {
    run(|| {
        let t = get(tensor).ok_or_else(|| Error::type_("record_stream(): expected a tensor"))?;
        let queue = stream.get().0;
        if t.device() != queue.device {
            let (at, of) = (t.device(), queue.device);
            return Err(Error::runtime(format!("record_stream(): the tensor is on {at}, the stream is one of {of}")));
        }
        if let Some(s) = t.storage() {
            s.record_use(queue);
        }
        Ok(())
    })
}

/// Returns true if a tensor lies in pinned memory of the host.
pub fn is_pinned(t: &Tensor) -> bool {
    let Some(s) = t.storage().filter(|s| t.device().is_cpu() && s.bytes() > 0) else { return false };
    s.pinned_for().is_some() || cuda::provider().is_some_and(|p| p.is_pinned(s.ptr()))
}

/// Before a tensor of a device goes to another library: the stream that this one names (DLPack's numbers: 1 is the legacy default
/// stream) waits for what the calling thread has issued.
pub fn hand_over(device: Device, handle: usize) -> Result<()> {
    let p = provider()?;
    let (mine, theirs) = (p.queue(device.index), Queue { device, raw: handle as *mut _ });
    if mine.raw == theirs.raw { Ok(()) } else { p.order(mine, theirs) }
}

/// The handle of the stream that the calling thread issues a device's work to.
pub fn current_handle(device: Device) -> Result<usize> {
    Ok(provider()?.queue(checked(device.index as i64)?).raw as usize)
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_cuda_set_search_dirs, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_compile, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_cubin_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_cudnn_settings, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_attention_library, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_attention_deterministic, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_attention_refusal, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_cudnn_version, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_rnn_reserve, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_unavailable_reason, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_device_count, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_current_device, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_set_device, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_driver_memory, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_empty_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_properties, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_stream, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_set_stream, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_record_stream, m)?)?;
    m.add_class::<PyStream>()?;
    m.add_class::<PyEvent>()
}
