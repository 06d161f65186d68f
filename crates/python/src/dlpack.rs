//! DLPack capsules in and out: the memory of other libraries' tensors, without a copy. Layout of the structures: dlpack.h 1.0.

use crate::entry::HandFn;
use crate::gate::{self, OrPending, checked};
use crate::hand::{bind, given};
use crate::object::{self_tensor, wrap};
use crate::parse::Given;
use crate::value;
use oneflow_autograd as ag;
use oneflow_core::base::{DType, Device, DeviceType, Dims, Error, Result, contiguous_strides};
use oneflow_core::{Storage, Tensor};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

pub const METHODS: &[(&str, &str, HandFn)] = &[
    ("__dlpack__", "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n", export),
    ("__dlpack_device__", "__dlpack_device__($self)\n--\n\n", device),
];

pub const FUNCTIONS: &[(&str, &str, HandFn)] = &[(
    "from_dlpack",
    "from_dlpack(ext_tensor)\n--\n\nA tensor over the memory of another library's tensor.\n\nExample::\n\n    >>> oneflow.from_dlpack(oneflow.ones(2))\n    tensor([1., 1.])",
    from_dlpack_function,
)];

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const NAME_V1: &CStr = c"dltensor_versioned";
const USED_V1: &CStr = c"used_dltensor_versioned";

const CPU: i32 = 1;
const CUDA: i32 = 2;

/// Type code and bits.
fn code(d: DType) -> (u8, u8) {
    let bits = (d.size() * 8) as u8;
    match d {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => (0, bits),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (1, bits),
        DType::F8E4M3FN => (10, bits),
        DType::F8E4M3FNUZ => (11, bits),
        DType::F8E5M2 => (12, bits),
        DType::F8E5M2FNUZ => (13, bits),
        DType::F8E8M0FNU => (14, bits),
        DType::F16 | DType::F32 | DType::F64 => (2, bits),
        DType::BF16 => (4, bits),
        DType::C32 | DType::C64 | DType::C128 => (5, bits),
        DType::Bool => (6, bits),
    }
}

fn device_code(d: Device) -> Result<(i32, i32)> {
    match d.kind {
        DeviceType::CPU => Ok((CPU, 0)),
        DeviceType::CUDA => Ok((CUDA, d.index as i32)),
        _ => Err(Error::value(format!("Unknown device type {d} for DLPack"))),
    }
}

/// The owner of an exported structure: the tensor, and its layout in the form the structure points to.
struct Owned<S> {
    header: S,
    _tensor: Tensor,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

fn describe(t: &Tensor, sizes: &mut [i64], strides: &mut [i64]) -> Result<DlTensor> {
    let (code, bits) = code(t.dtype());
    let (device_type, device_id) = device_code(t.device())?;
    t.check_memory()?;
    // The structure keeps the address.
    t.storage().iter().for_each(|s| s.set_exported());
    Ok(DlTensor {
        data: t.data_ptr().cast(),
        device_type,
        device_id,
        ndim: t.ndim() as i32,
        code,
        bits,
        lanes: 1,
        shape: sizes.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    })
}

unsafe extern "C" fn delete_managed(m: *mut Managed) {
    // SAFETY: the structure was made by `export` with this deleter, which is called once.
    gate::called_from_outside(|| drop(unsafe { Box::from_raw((*m).context.cast::<Owned<Managed>>()) }));
}

unsafe extern "C" fn delete_versioned(m: *mut Versioned) {
    // SAFETY: as above.
    gate::called_from_outside(|| drop(unsafe { Box::from_raw((*m).context.cast::<Owned<Versioned>>()) }));
}

/// Frees what nobody took out of the capsule.
unsafe extern "C" fn drop_capsule(capsule: *mut PyObject) {
    // SAFETY: called by Python for a capsule made here; a taken one has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            let m = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<Managed>();
            delete_managed(m);
        } else if ffi::PyCapsule_IsValid(capsule, NAME_V1.as_ptr()) != 0 {
            let m = ffi::PyCapsule_GetPointer(capsule, NAME_V1.as_ptr()).cast::<Versioned>();
            delete_versioned(m);
        }
    }
}

unsafe fn export(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [stream, version, _device, copy] =
            bind("__dlpack__", ["stream", "max_version", "dl_device", "copy"], 1, 0, g)?;
        if ag::requires_grad(t) {
            let text = "Can't export tensors that require gradient, use tensor.detach()";
            return Err(gate::pending(py, pyo3::exceptions::PyBufferError::new_err(text)));
        }
        if t.storage().is_none() {
            return Err(Error::value("Can't export a tensor without data"));
        }
        let stream = match given(stream) {
            None => None,
            Some(s) if ffi::PyLong_CheckExact(s) != 0 => {
                Some(Bound::from_borrowed_ptr(py, s).extract::<i64>().pend(py)?)
            }
            Some(_) => return Err(Error::type_("stream must be ``int`` or ``none``")),
        };
        let copy = given(copy) == Some(ffi::Py_True());
        let t = if copy {
            crate::operators::TO_COPY.one(py, &[Some(t)], &[oneflow_core::base::Arg::None; 2])?
        } else {
            t.shallow()
        };
        if t.device().kind == DeviceType::CUDA {
            consumer_waits(py, t.device(), stream)?;
        }
        let mut sizes = t.sizes().to_vec();
        let mut strides = t.strides().to_vec();
        let tensor = describe(&t, &mut sizes, &mut strides)?;
        let v1 = match given(version) {
            None => false,
            Some(v) => Bound::from_borrowed_ptr(py, v).extract::<(i64, i64)>().pend(py)?.0 >= 1,
        };
        let (pointer, name) = if v1 {
            let flags = if copy { 2 } else { 0 };
            let header =
                Versioned { major: 1, minor: 0, context: null_mut(), deleter: Some(delete_versioned), flags, tensor };
            let p = Box::into_raw(Box::new(Owned { header, _tensor: t, sizes, strides }));
            (*p).header.context = p.cast();
            point(&mut (*p).header.tensor, &mut (*p).sizes, &mut (*p).strides);
            ((&raw mut (*p).header).cast::<c_void>(), NAME_V1)
        } else {
            let header = Managed { tensor, context: null_mut(), deleter: Some(delete_managed) };
            let p = Box::into_raw(Box::new(Owned { header, _tensor: t, sizes, strides }));
            (*p).header.context = p.cast();
            point(&mut (*p).header.tensor, &mut (*p).sizes, &mut (*p).strides);
            ((&raw mut (*p).header).cast::<c_void>(), NAME)
        };
        checked(ffi::PyCapsule_New(pointer, name.as_ptr(), Some(drop_capsule)))
    }
}

/// Makes the consumer's stream wait for what is issued so far. DLPack's numbers: none or 1 the legacy default stream, 2 the default
/// stream of each thread, -1 no wait.
fn consumer_waits(py: Python<'_>, device: Device, stream: Option<i64>) -> Result<()> {
    match stream.unwrap_or(1) {
        -1 => Ok(()),
        2 => {
            let text = "per-thread default stream is not supported.";
            Err(gate::pending(py, pyo3::exceptions::PyBufferError::new_err(text)))
        }
        handle if handle > 0 => crate::cuda::hand_over(device, handle as usize),
        other => Err(Error::value(format!("__dlpack__(): unsupported stream on CUDA: {other}"))),
    }
}

/// Points the structure to the vectors at their final place.
fn point(t: &mut DlTensor, sizes: &mut [i64], strides: &mut [i64]) {
    t.shape = sizes.as_mut_ptr();
    t.strides = strides.as_mut_ptr();
}

unsafe fn device(_py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        bind::<0>("__dlpack_device__", [], 0, 0, g)?;
        let (kind, id) = device_code(self_tensor(o)?.device())?;
        value::int_tuple(&[kind as i64, id as i64])
    }
}

unsafe fn from_dlpack_function(py: Python<'_>, _: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a function call.
    unsafe {
        let [o] = bind("from_dlpack", ["ext_tensor"], 1, 1, g)?;
        wrap(py, from_dlpack(&Bound::from_borrowed_ptr(py, o))?)
    }
}

/// A tensor over the memory behind a capsule, or of an object that exports one.
pub fn from_dlpack(o: &Bound<'_, PyAny>) -> Result<Tensor> {
    let py = o.py();
    // SAFETY: a live object.
    let is_capsule = unsafe { ffi::PyCapsule_CheckExact(o.as_ptr()) } != 0;
    if !is_capsule && !o.hasattr("__dlpack__").pend(py)? {
        return Err(Error::runtime(format!(
            "from_dlpack received an invalid capsule: a {} has no __dlpack__",
            crate::value::type_name(py, o.as_ptr())
        )));
    }
    let capsule = if is_capsule {
        o.clone()
    } else {
        let kwargs = PyDict::new(py);
        kwargs.set_item("max_version", PyTuple::new(py, [1, 0]).pend(py)?).pend(py)?;
        let stream = stream_for(o)?;
        if let Some(handle) = stream {
            kwargs.set_item("stream", handle).pend(py)?;
        }
        match o.call_method("__dlpack__", (), Some(&kwargs)) {
            Ok(c) => c,
            // Older producers know no versions.
            Err(e) if e.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
                kwargs.del_item("max_version").pend(py)?;
                o.call_method("__dlpack__", (), Some(&kwargs)).pend(py)?
            }
            Err(e) => return Err(gate::pending(py, e)),
        }
    };
    // SAFETY: the capsule's name says what it points to; it is renamed so that nobody else frees it.
    unsafe {
        let c = capsule.as_ptr();
        if ffi::PyCapsule_IsValid(c, NAME_V1.as_ptr()) != 0 {
            let m = ffi::PyCapsule_GetPointer(c, NAME_V1.as_ptr()).cast::<Versioned>();
            if (*m).major != 1 {
                return Err(Error::runtime(format!(
                    "from_dlpack(): version {}.{} is not supported",
                    (*m).major,
                    (*m).minor
                )));
            }
            let deleter = (*m).deleter;
            ffi::PyCapsule_SetName(c, USED_V1.as_ptr());
            let keep = Foreign(
                Box::new(move |m: usize| {
                    if let Some(d) = deleter {
                        d(m as *mut Versioned);
                    }
                }),
                m as usize,
            );
            return import(&(*m).tensor, keep);
        }
        if ffi::PyCapsule_IsValid(c, NAME.as_ptr()) != 0 {
            let m = ffi::PyCapsule_GetPointer(c, NAME.as_ptr()).cast::<Managed>();
            let deleter = (*m).deleter;
            ffi::PyCapsule_SetName(c, USED.as_ptr());
            let keep = Foreign(
                Box::new(move |m: usize| {
                    if let Some(d) = deleter {
                        d(m as *mut Managed);
                    }
                }),
                m as usize,
            );
            return import(&(*m).tensor, keep);
        }
    }
    Err(Error::runtime(
        "from_dlpack received an invalid capsule. Note that a DLTensor capsule can be consumed only once.",
    ))
}

/// The stream that a producer on a GPU makes wait for its own work: the one that this thread issues to. `None` for a producer that
/// is not on a GPU, or does not say.
fn stream_for(o: &Bound<'_, PyAny>) -> Result<Option<usize>> {
    let py = o.py();
    if !o.hasattr("__dlpack_device__").pend(py)? {
        return Ok(None);
    }
    let (kind, index) = o.call_method0("__dlpack_device__").pend(py)?.extract::<(i32, i32)>().pend(py)?;
    if kind != CUDA {
        return Ok(None);
    }
    let device = u16::try_from(index).map_err(|_| Error::runtime(format!("from_dlpack(): device {index} of CUDA")))?;
    crate::cuda::current_handle(Device::new(DeviceType::CUDA, device)).map(Some)
}

/// A structure of another library; its deleter runs with the interpreter held, as producers written in Python need. On a
/// thread that outlives the interpreter the memory is left to the end of the process.
struct Foreign(Box<dyn Fn(usize) + Send + Sync>, usize);

impl Drop for Foreign {
    fn drop(&mut self) {
        gate::attach_if_alive(|_| (self.0)(self.1));
    }
}

/// # Safety
/// The structure describes live memory that `keep` frees.
unsafe fn import(d: &DlTensor, keep: Foreign) -> Result<Tensor> {
    let bits = d.bits as usize;
    let dtype = DType::ALL.into_iter().find(|t| code(*t) == (d.code, d.bits) && d.lanes == 1).ok_or_else(|| {
        Error::new(
            oneflow_core::base::ErrorKind::Runtime,
            format!("Unsupported DLPack type: code {}, {bits} bits, {} lanes", d.code, d.lanes),
        )
    })?;
    let device = match d.device_type {
        CPU => Device::CPU,
        CUDA => Device::new(DeviceType::CUDA, d.device_id as u16),
        other => return Err(Error::runtime(format!("Unsupported device_type: {other}"))),
    };
    let n = d.ndim.max(0) as usize;
    // SAFETY: shape and strides hold `ndim` numbers (strides may be absent).
    let (sizes, strides) = unsafe {
        let sizes = if n == 0 { Dims::new() } else { Dims::from_slice(std::slice::from_raw_parts(d.shape, n)) };
        let strides = if d.strides.is_null() || n == 0 {
            contiguous_strides(&sizes)
        } else {
            Dims::from_slice(std::slice::from_raw_parts(d.strides, n))
        };
        (sizes, strides)
    };
    if strides.iter().any(|s| *s < 0) {
        return Err(Error::value("from_dlpack(): negative strides are not supported"));
    }
    let reach = |end: i64, (n, s): (&i64, &i64)| (n - 1).max(0).checked_mul(*s)?.checked_add(end);
    let bytes = sizes.iter().zip(&strides).try_fold(1, reach).and_then(|n| n.checked_mul(dtype.size() as i64));
    let bytes = bytes.ok_or_else(|| Error::runtime(format!("from_dlpack(): sizes {sizes:?} are too large")))?;
    let bytes = if sizes.contains(&0) { 0 } else { bytes as usize };
    let ptr = d.data.cast::<u8>().wrapping_add(d.byte_offset as usize);
    // SAFETY: the producer's memory covers its elements until the deleter runs.
    let storage = unsafe { Storage::foreign(device, ptr, bytes, Box::new(keep)) };
    Tensor::from_storage(storage, dtype, sizes, strides, 0)
}
