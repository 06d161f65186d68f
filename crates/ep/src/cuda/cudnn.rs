//! cuDNN's graph interface, and convolutions by it (`cudnn_attention` has attention, `cudnn_rnn` recurrent networks). Plans are kept by
//! the kernels.
//!
//! The graph interface, and not the older functions of one call a convolution: those are deprecated in cuDNN 9, take filters in two
//! layouts alone, and have no fused forms. A graph of operations is described by descriptors with attributes; a heuristic
//! lists configurations of engines, the best first, and one of them becomes a plan that runs on addresses given later.

use super::discover::{self, Loaded, function_table};
use oneflow_base::{DType, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};

pub(super) type Raw = *mut c_void;

// Values of the vendor's enums: descriptors,
const CONVOLUTION: c_int = 1;
const ENGINE: c_int = 2;
const ENGINE_CONFIG: c_int = 3;
const HEURISTIC: c_int = 4;
const PLAN: c_int = 5;
const OPERATION_FORWARD: c_int = 10;
const OPERATION_WEIGHT: c_int = 11;
const OPERATION_INPUT: c_int = 12;
const GRAPH: c_int = 15;
const VARIANT_PACK: c_int = 16;
pub(super) const TENSOR: c_int = 17;
const DEVICE: c_int = 38;
// types of attributes,
pub(super) const T_HANDLE: c_int = 0;
pub(super) const T_DATA_TYPE: c_int = 1;
pub(super) const T_INT64: c_int = 3;
pub(super) const T_FLOAT: c_int = 4;
const T_DOUBLE: c_int = 5;
const T_POINTER: c_int = 6;
const T_CONVOLUTION_MODE: c_int = 7;
const T_HEURISTIC_MODE: c_int = 8;
const T_NUMERICAL_NOTE: c_int = 11;
pub(super) const T_DESCRIPTOR: c_int = 15;
const T_CHAR: c_int = 24;
// attributes,
const CONVOLUTION_COMPUTE_TYPE: c_int = 100;
const CONVOLUTION_MODE: c_int = 101;
const CONVOLUTION_DILATIONS: c_int = 102;
const CONVOLUTION_STRIDES: c_int = 103;
const CONVOLUTION_POST_PADDINGS: c_int = 104;
const CONVOLUTION_PRE_PADDINGS: c_int = 105;
const CONVOLUTION_SPATIAL_DIMS: c_int = 106;
const HEURISTIC_MODE: c_int = 200;
const HEURISTIC_GRAPH: c_int = 201;
const HEURISTIC_RESULTS: c_int = 202;
const HEURISTIC_DEVICE: c_int = 204;
const CONFIG_ENGINE: c_int = 300;
const PLAN_HANDLE: c_int = 400;
const PLAN_CONFIG: c_int = 401;
const PLAN_WORKSPACE: c_int = 402;
const PLAN_DEVICE: c_int = 407;
/// Of each of the three operations alpha, and behind it beta, the convolution, w, x and y.
const FORWARD_ALPHA: c_int = 700;
const INPUT_ALPHA: c_int = 706;
const WEIGHT_ALPHA: c_int = 712;
const GRAPH_HANDLE: c_int = 800;
const GRAPH_OPERATIONS: c_int = 801;
pub(super) const TENSOR_ALIGNMENT: c_int = 900;
pub(super) const TENSOR_DATA_TYPE: c_int = 901;
pub(super) const TENSOR_DIMENSIONS: c_int = 902;
pub(super) const TENSOR_STRIDES: c_int = 903;
pub(super) const TENSOR_ID: c_int = 906;
const PACK_IDS: c_int = 1000;
const PACK_POINTERS: c_int = 1001;
const PACK_WORKSPACE: c_int = 1003;
const ENGINE_NOTES: c_int = 1303;
const DEVICE_JSON: c_int = 2702;
// and what attributes hold.
const CROSS_CORRELATION: c_int = 1;
/// Of the heuristic: the most exact list, and the one of engines that take everything.
const HEURISTIC_A: c_int = 3;
const HEURISTIC_FALLBACK: c_int = 2;
const N_NOTES: usize = 10;

/// What an engine may note on its numbers.
#[derive(Clone, Copy)]
pub(super) enum Note {
    TensorCore = 0,
    DownConvert = 1,
    Nondeterministic = 4,
}

/// Releases whose interface is known: those of cuDNN 9.
const OLDEST: usize = 90000;
const TOO_NEW: usize = 100000;
/// Configurations that are tried.
const MAX_CONFIGS: usize = 24;
/// The most memory that a plan may want beside its operands.
const MAX_WORKSPACE: i64 = 1 << 30;
/// Status codes from here to the next thousand say that an engine does not take the problem.
pub(super) const NOT_SUPPORTED: c_int = 3000;

function_table! {
    /// The part of cuDNN's C interface that is used.
    Table {
        version = "cudnnGetVersion": fn() -> usize;
        error_string = "cudnnGetErrorString": fn(c_int) -> *const c_char;
        create = "cudnnCreate": fn(*mut Raw) -> c_int;
        set_stream = "cudnnSetStream": fn(Raw, Raw) -> c_int;
        descriptor = "cudnnBackendCreateDescriptor": fn(c_int, *mut Raw) -> c_int;
        destroy = "cudnnBackendDestroyDescriptor": fn(Raw) -> c_int;
        finalize = "cudnnBackendFinalize": fn(Raw) -> c_int;
        set = "cudnnBackendSetAttribute": fn(Raw, c_int, c_int, i64, *const c_void) -> c_int;
        get = "cudnnBackendGetAttribute": fn(Raw, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
        execute = "cudnnBackendExecute": fn(Raw, Raw, Raw) -> c_int;
    }
}

/// The loaded library.
pub struct Cudnn {
    table: Table,
    version: usize,
}

/// The library, loaded on first use; the error lists the searched paths.
pub fn cudnn() -> Result<&'static Cudnn> {
    static LOADED: Loaded<Cudnn> = Loaded::new();
    LOADED.get(|| {
        let found = discover::open("cudnn", &[9], &[])?;
        let path = found.path.display();
        let table = Table::load(&found)?;
        // SAFETY: the function takes nothing.
        let version = unsafe { (table.version)() };
        if !(OLDEST..TOO_NEW).contains(&version) {
            return Err(format!("{path}: this is cuDNN {version}, cuDNN 9 ({OLDEST} or newer) is needed"));
        }
        Ok(Cudnn { table, version })
    })
}

/// Which of a convolution's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Forward,
    Input,
    Weight,
}

/// Sizes and strides in elements: images, channels, then two or three spatial dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

/// A convolution without bias. The number of groups is that of x's channels in w's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    pub part: Part,
    pub dtype: DType,
    /// Whether engines may round float32 operands to TF32.
    pub tf32: bool,
    pub x: Layout,
    pub w: Layout,
    pub y: Layout,
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
}

/// A handle of the library for one stream. It lives until the process ends. Used by one thread at a time.
pub struct Handle {
    cudnn: &'static Cudnn,
    raw: Raw,
    /// The device that plans are made for, where there is none of the handle's own.
    described: Option<Descriptor>,
}
// SAFETY: a handle is bound to a device, not to a thread, and is used through `&mut`.
unsafe impl Send for Handle {}

/// A plan, and what it was made of.
pub struct Plan {
    raw: Descriptor,
    /// Kept alive: the plan refers to them.
    _parts: Vec<Descriptor>,
    /// Bytes that a launch needs beside its operands.
    pub workspace: usize,
}

/// A descriptor that is destroyed with its owner.
pub(super) struct Descriptor {
    cudnn: &'static Cudnn,
    raw: Raw,
}
// SAFETY: descriptors are plain data behind the pointer; they are changed only while they are made.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the object is live and used no more.
        unsafe { (self.cudnn.table.destroy)(self.raw) };
    }
}

impl Descriptor {
    /// Sets an attribute of as many elements; `T` is the C type of the attribute's type.
    pub(super) fn set<T: Copy>(&self, attribute: c_int, kind: c_int, values: &[T]) -> Result<()> {
        // SAFETY: the values are live, and copied before the call returns.
        let code =
            unsafe { (self.cudnn.table.set)(self.raw, attribute, kind, values.len() as i64, values.as_ptr().cast()) };
        self.cudnn.check("set attribute", code)
    }

    pub(super) fn set_all(&self, attribute: c_int, of: &[&Descriptor]) -> Result<()> {
        let raw: Vec<Raw> = of.iter().map(|d| d.raw).collect();
        self.set(attribute, T_DESCRIPTOR, &raw)
    }

    /// As many elements as there are, at most those that there is room for.
    fn get<T: Copy>(&self, attribute: c_int, kind: c_int, room: &mut [T]) -> Result<usize> {
        let mut n = 0;
        // SAFETY: the room is that of the elements.
        let code = unsafe {
            (self.cudnn.table.get)(self.raw, attribute, kind, room.len() as i64, &mut n, room.as_mut_ptr().cast())
        };
        self.cudnn.check("get attribute", code)?;
        Ok((n.max(0) as usize).min(room.len()))
    }

    /// Ends its making. Returns false where no engine takes it.
    fn finalize(&self) -> Result<bool> {
        // SAFETY: the object is live.
        match unsafe { (self.cudnn.table.finalize)(self.raw) } {
            code if code / 1000 * 1000 == NOT_SUPPORTED => Ok(false),
            code => self.cudnn.check("finalize", code).map(|()| true),
        }
    }

    pub(super) fn finished(self) -> Result<Descriptor> {
        match self.finalize()? {
            true => Ok(self),
            false => Err(Error::not_implemented("cuDNN takes no such operation")),
        }
    }
}

pub(super) fn data_type(dtype: DType) -> Result<c_int> {
    Ok(match dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::F16 => 2,
        DType::BF16 => 9,
        other => return Err(Error::not_implemented(format!("cuDNN computes in no {other}"))),
    })
}

impl Cudnn {
    /// As the library says it: 91002 is 9.10.2.
    pub fn version(&self) -> usize {
        self.version
    }

    /// A handle for the current device of this thread.
    pub fn create(&'static self) -> Result<Handle> {
        let mut handle = Handle { cudnn: self, raw: std::ptr::null_mut(), described: None };
        // SAFETY: the place is live.
        self.check("create", unsafe { (self.table.create)(&mut handle.raw) })?;
        Ok(handle)
    }

    /// For plans of a device that is described and need not be there, from cuDNN 9.8 on; such plans cannot be launched.
    /// `properties`: what the library writes about devices, in JSON.
    pub fn described(&'static self, properties: &str) -> Result<Handle> {
        let device = self.descriptor(DEVICE)?;
        device.set(DEVICE_JSON, T_CHAR, properties.as_bytes())?;
        Ok(Handle { cudnn: self, raw: std::ptr::null_mut(), described: Some(device.finished()?) })
    }

    pub(super) fn descriptor(&'static self, kind: c_int) -> Result<Descriptor> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the place is live.
        self.check("create descriptor", unsafe { (self.table.descriptor)(kind, &mut raw) })?;
        Ok(Descriptor { cudnn: self, raw })
    }

    /// Operands are addressed by numbers when the plan runs.
    fn tensor(&'static self, id: i64, dtype: DType, layout: &Layout) -> Result<Descriptor> {
        let d = self.descriptor(TENSOR)?;
        d.set(TENSOR_DATA_TYPE, T_DATA_TYPE, &[data_type(dtype)?])?;
        d.set(TENSOR_DIMENSIONS, T_INT64, &layout.sizes)?;
        d.set(TENSOR_STRIDES, T_INT64, &layout.strides)?;
        d.set(TENSOR_ID, T_INT64, &[id])?;
        d.set(TENSOR_ALIGNMENT, T_INT64, &[ALIGNMENT])?;
        d.finished()
    }

    pub(super) fn check(&self, what: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a static string for any code.
        let p = unsafe { (self.table.error_string)(code) };
        let name = if p.is_null() {
            "unknown code".into()
        } else {
            // SAFETY: a non-null answer is a C string.
            unsafe { CStr::from_ptr(p) }.to_string_lossy()
        };
        Err(Error::runtime(format!("cuDNN error: {what}: {name} ({code})")))
    }
}

/// Bytes that all operands' addresses are multiples of.
pub const ALIGNMENT: i64 = 16;

impl Handle {
    pub(super) fn cudnn(&self) -> &'static Cudnn {
        self.cudnn
    }

    pub(super) fn raw(&self) -> Raw {
        self.raw
    }

    /// Sends what follows to a stream.
    ///
    /// # Safety
    /// The stream is live, and of the handle's device.
    pub(super) unsafe fn use_stream(&mut self, stream: Raw) -> Result<()> {
        // SAFETY: by the contract.
        self.cudnn.check("set stream", unsafe { (self.cudnn.table.set_stream)(self.raw, stream) })
    }

    /// The plan that the library thinks fastest, among deterministic engines; `None` where none takes the problem.
    pub fn plan(&mut self, problem: &Convolution) -> Result<Option<Plan>> {
        let made = self.graph(problem);
        let (graph, parts) = match made {
            Ok(made) => made,
            Err(e) if e.kind() == oneflow_base::ErrorKind::NotImplemented => return Ok(None),
            Err(e) => return Err(e),
        };
        self.plan_of(graph, parts, |note| {
            let rounds =
                problem.dtype == DType::F32 && !problem.tf32 && (note(Note::TensorCore) || note(Note::DownConvert));
            !rounds && !note(Note::Nondeterministic)
        })
    }

    /// The first plan of the library's list whose engine is wanted, by the notes on its numbers; `None` where none takes the graph.
    pub(super) fn plan_of(
        &mut self,
        graph: Descriptor,
        parts: Vec<Descriptor>,
        is_wanted: impl Fn(&dyn Fn(Note) -> bool) -> bool,
    ) -> Result<Option<Plan>> {
        let cudnn = self.cudnn;
        for mode in [HEURISTIC_A, HEURISTIC_FALLBACK] {
            let heuristic = cudnn.descriptor(HEURISTIC)?;
            heuristic.set_all(HEURISTIC_GRAPH, &[&graph])?;
            heuristic.set(HEURISTIC_MODE, T_HEURISTIC_MODE, &[mode])?;
            if let Some(device) = &self.described {
                heuristic.set_all(HEURISTIC_DEVICE, &[device])?;
            }
            if !heuristic.finalize()? {
                continue;
            }
            // The library writes into descriptors that it is given.
            let configs = (0..MAX_CONFIGS).map(|_| cudnn.descriptor(ENGINE_CONFIG)).collect::<Result<Vec<_>>>()?;
            let mut raw: Vec<Raw> = configs.iter().map(|d| d.raw).collect();
            let n = heuristic.get(HEURISTIC_RESULTS, T_DESCRIPTOR, &mut raw)?;
            for config in configs.into_iter().take(n) {
                let notes = self.notes(&config)?;
                if !is_wanted(&|note| notes.contains(&(note as c_int))) {
                    continue;
                }
                let plan = cudnn.descriptor(PLAN)?;
                match &self.described {
                    Some(device) => plan.set_all(PLAN_DEVICE, &[device])?,
                    None => plan.set(PLAN_HANDLE, T_HANDLE, &[self.raw])?,
                }
                plan.set_all(PLAN_CONFIG, &[&config])?;
                if !plan.finalize()? {
                    continue;
                }
                let mut bytes = [0i64];
                plan.get(PLAN_WORKSPACE, T_INT64, &mut bytes)?;
                if bytes[0] <= MAX_WORKSPACE {
                    let parts = parts.into_iter().chain([graph, heuristic, config]).collect();
                    return Ok(Some(Plan { raw: plan, _parts: parts, workspace: bytes[0].max(0) as usize }));
                }
            }
        }
        Ok(None)
    }

    /// A graph of finished operations.
    pub(super) fn graph_of(&self, operations: &[&Descriptor]) -> Result<Descriptor> {
        let graph = self.cudnn.descriptor(GRAPH)?;
        if self.described.is_none() {
            graph.set(GRAPH_HANDLE, T_HANDLE, &[self.raw])?;
        }
        graph.set_all(GRAPH_OPERATIONS, operations)?;
        graph.finished()
    }

    /// The graph of one operation, and what it refers to.
    fn graph(&mut self, problem: &Convolution) -> Result<(Descriptor, Vec<Descriptor>)> {
        let (cudnn, dtype) = (self.cudnn, problem.dtype);
        let convolution = cudnn.descriptor(CONVOLUTION)?;
        convolution.set(CONVOLUTION_COMPUTE_TYPE, T_DATA_TYPE, &[data_type(dtype.compute())?])?;
        convolution.set(CONVOLUTION_MODE, T_CONVOLUTION_MODE, &[CROSS_CORRELATION])?;
        convolution.set(CONVOLUTION_SPATIAL_DIMS, T_INT64, &[problem.stride.len() as i64])?;
        convolution.set(CONVOLUTION_STRIDES, T_INT64, &problem.stride)?;
        convolution.set(CONVOLUTION_DILATIONS, T_INT64, &problem.dilation)?;
        convolution.set(CONVOLUTION_PRE_PADDINGS, T_INT64, &problem.padding)?;
        convolution.set(CONVOLUTION_POST_PADDINGS, T_INT64, &problem.padding)?;
        let convolution = convolution.finished()?;
        let x = cudnn.tensor(X, dtype, &problem.x)?;
        let w = cudnn.tensor(W, dtype, &problem.w)?;
        let y = cudnn.tensor(Y, dtype, &problem.y)?;
        let (kind, alpha) = match problem.part {
            Part::Forward => (OPERATION_FORWARD, FORWARD_ALPHA),
            Part::Input => (OPERATION_INPUT, INPUT_ALPHA),
            Part::Weight => (OPERATION_WEIGHT, WEIGHT_ALPHA),
        };
        let operation = cudnn.descriptor(kind)?;
        for (at, value) in [(alpha, 1.0), (alpha + 1, 0.0)] {
            match dtype {
                DType::F64 => operation.set(at, T_DOUBLE, &[value])?,
                _ => operation.set(at, T_FLOAT, &[value as f32])?,
            }
        }
        for (at, operand) in (alpha + 2..).zip([&convolution, &w, &x, &y]) {
            operation.set_all(at, &[operand])?;
        }
        let operation = operation.finished()?;
        Ok((self.graph_of(&[&operation])?, vec![convolution, x, w, y, operation]))
    }

    /// What the library notes on the numbers of a configuration's engine.
    fn notes(&self, config: &Descriptor) -> Result<Vec<c_int>> {
        let engine = self.cudnn.descriptor(ENGINE)?;
        let mut raw = [engine.raw];
        config.get(CONFIG_ENGINE, T_DESCRIPTOR, &mut raw)?;
        let mut notes = [-1; N_NOTES];
        let n = engine.get(ENGINE_NOTES, T_NUMERICAL_NOTE, &mut notes)?;
        Ok(notes[..n].to_vec())
    }

    /// Enqueues a plan of this handle.
    ///
    /// # Safety
    /// The addresses hold the operands of the plan's problem, aligned to `ALIGNMENT`; the workspace has the plan's bytes and is used
    /// by no other work outside of `stream`, for which this handle is.
    pub unsafe fn launch(
        &mut self,
        plan: &Plan,
        [x, w, y]: [*mut u8; 3],
        workspace: *mut u8,
        stream: Raw,
    ) -> Result<()> {
        // SAFETY: by the contract.
        unsafe { self.execute(plan, &[X, W, Y], &[x, w, y], workspace, stream) }
    }

    /// Enqueues a plan on the addresses of operands by their numbers.
    ///
    /// # Safety
    /// As for `launch`. Numbers that are given by value are on the host, and read before the call returns.
    pub(super) unsafe fn execute(
        &mut self,
        plan: &Plan,
        ids: &[i64],
        addresses: &[*mut u8],
        workspace: *mut u8,
        stream: Raw,
    ) -> Result<()> {
        let cudnn = self.cudnn;
        let pack = cudnn.descriptor(VARIANT_PACK)?;
        pack.set(PACK_IDS, T_INT64, ids)?;
        pack.set(PACK_POINTERS, T_POINTER, addresses)?;
        pack.set(PACK_WORKSPACE, T_POINTER, &[workspace])?;
        let pack = pack.finished()?;
        // SAFETY: by the contract.
        unsafe {
            self.use_stream(stream)?;
            cudnn.check("execute", (cudnn.table.execute)(self.raw, plan.raw.raw, pack.raw))
        }
    }
}

/// The operands' numbers.
const X: i64 = 1;
const W: i64 = 2;
const Y: i64 = 3;
