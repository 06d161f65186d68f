//! cuDNN's recurrent networks: all layers and directions of one over a sequence, forward and backward. Networks are kept by the
//! kernels, for one stream each.
//!
//! No dropout between layers, whose random numbers would be the library's own; no clipping, and no input without weights. Of the
//! library's algorithms the standard one, which takes every problem. Nothing of it has run on a GPU: it is written from the
//! library's public declarations, and tested with the emulated library.

use super::cudnn::{Cudnn, Handle, NOT_SUPPORTED, data_type};
use super::discover::{self, Loaded, function_table};
use oneflow_base::{DType, Error, Result};
use std::ffi::{c_int, c_ulonglong, c_void};
use std::ptr::{null, null_mut};

type Raw = *mut c_void;
type Bytes = *const c_void;

// Values of the vendor's enums.
const ALGORITHM_STANDARD: c_int = 0;
const NO_BIAS: c_int = 0;
const DOUBLE_BIAS: c_int = 2;
const LINEAR_INPUT: c_int = 0;
const DEFAULT_MATH: c_int = 0;
const TENSOR_OP_MATH: c_int = 1;
const FMA_MATH: c_int = 3;
const PADDED_IO: u32 = 1;
const STEPS_FIRST: c_int = 0;
const STEPS_PACKED: c_int = 1;
const BATCH_FIRST: c_int = 2;
const INFERENCE: c_int = 0;
const TRAINING: c_int = 1;
const ADD_TO_GRADIENTS: c_int = 0;

function_table! {
    /// The part of cuDNN's C interface that recurrent networks use. Arrays of lengths in device memory may be null: since cuDNN 9 the
    /// library has those of the descriptors.
    Table {
        create_tensor = "cudnnCreateTensorDescriptor": fn(*mut Raw) -> c_int;
        destroy_tensor = "cudnnDestroyTensorDescriptor": fn(Raw) -> c_int;
        set_tensor = "cudnnSetTensorNdDescriptor": fn(Raw, c_int, c_int, *const c_int, *const c_int) -> c_int;
        get_tensor = "cudnnGetTensorNdDescriptor": fn(Raw, c_int, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
        create_dropout = "cudnnCreateDropoutDescriptor": fn(*mut Raw) -> c_int;
        destroy_dropout = "cudnnDestroyDropoutDescriptor": fn(Raw) -> c_int;
        set_dropout = "cudnnSetDropoutDescriptor": fn(Raw, Raw, f32, Raw, usize, c_ulonglong) -> c_int;
        create_data = "cudnnCreateRNNDataDescriptor": fn(*mut Raw) -> c_int;
        destroy_data = "cudnnDestroyRNNDataDescriptor": fn(Raw) -> c_int;
        set_data = "cudnnSetRNNDataDescriptor": fn(Raw, c_int, c_int, c_int, c_int, c_int, *const c_int, Raw) -> c_int;
        create_rnn = "cudnnCreateRNNDescriptor": fn(*mut Raw) -> c_int;
        destroy_rnn = "cudnnDestroyRNNDescriptor": fn(Raw) -> c_int;
        // Algorithm, cell, bias, direction, input, data type, type and kind of math; then sizes, dropout and flags.
        set_rnn = "cudnnSetRNNDescriptor_v8": fn(
            Raw, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int, i32, i32, i32, i32, Raw, u32,
        ) -> c_int;
        weight_bytes = "cudnnGetRNNWeightSpaceSize": fn(Raw, Raw, *mut usize) -> c_int;
        spaces = "cudnnGetRNNTempSpaceSizes": fn(Raw, Raw, c_int, Raw, *mut usize, *mut usize) -> c_int;
        weight = "cudnnGetRNNWeightParams": fn(Raw, Raw, i32, usize, Bytes, i32, Raw, *mut Raw, Raw, *mut Raw) -> c_int;
        // Mode, lengths; descriptor and memory of x and y; descriptor, first and last state of h and c; weights, work, reserve.
        forward = "cudnnRNNForward": fn(
            Raw, Raw, c_int, *const i32, Raw, Bytes, Raw, Raw, Raw, Bytes, Raw, Raw, Bytes, Raw,
            usize, Bytes, usize, Raw, usize, Raw,
        ) -> c_int;
        // Lengths; y and its gradient, x's; h and c: first state, gradients of the last and the first; weights, work, reserve.
        backward_data = "cudnnRNNBackwardData_v8": fn(
            Raw, Raw, *const i32, Raw, Bytes, Bytes, Raw, Raw, Raw, Bytes, Bytes, Raw, Raw, Bytes, Bytes, Raw,
            usize, Bytes, usize, Raw, usize, Raw,
        ) -> c_int;
        // Whether gradients are added, lengths; x, first h, y; gradients of weights, work, reserve.
        backward_weights = "cudnnRNNBackwardWeights_v8": fn(
            Raw, Raw, c_int, *const i32, Raw, Bytes, Raw, Bytes, Raw, Bytes, usize, Raw, usize, Raw, usize, Raw,
        ) -> c_int;
    }
}

fn table() -> Result<&'static Table> {
    static LOADED: Loaded<Table> = Loaded::new();
    LOADED.get(|| Table::load(&discover::open("cudnn", &[9], &[])?))
}

/// The kind of a cell, by the library's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Relu = 0,
    Tanh = 1,
    Lstm = 2,
    Gru = 3,
}

impl Cell {
    fn n_gates(self) -> i32 {
        match self {
            Cell::Relu | Cell::Tanh => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
}

/// How the vectors of a sequence lie, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    StepsFirst,
    BatchFirst,
    /// The rows of one step behind those of the step before.
    Packed,
}

/// A network and the shape of what it is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub cell: Cell,
    pub dtype: DType,
    /// Whether products may round float32 operands to TF32.
    pub tf32: bool,
    pub order: Order,
    pub input: i32,
    pub hidden: i32,
    /// Width of h: `hidden`, unless it is projected.
    pub out: i32,
    pub layers: i32,
    pub directions: i32,
    pub bias: bool,
    pub steps: i32,
    /// Steps of each sequence, the longest first.
    pub lengths: Vec<i32>,
}

/// A descriptor that is destroyed with its owner.
struct Descriptor {
    raw: Raw,
    destroy: unsafe extern "C" fn(Raw) -> c_int,
}
// SAFETY: descriptors are plain data behind the pointer; they are changed only while they are made.
unsafe impl Send for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the object is live and used no more.
        unsafe { (self.destroy)(self.raw) };
    }
}

/// Numbers of the weights that lie side by side in the caller's vector and in the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// In elements.
    pub from: i64,
    pub count: i64,
    /// In bytes.
    pub to: usize,
}

/// A network that a stream's handle is ready to run.
pub struct Network {
    table: &'static Table,
    rnn: Descriptor,
    _dropout: Descriptor,
    x: Descriptor,
    y: Descriptor,
    h: Descriptor,
    c: Descriptor,
    /// Bytes of the weights as the library lays them out.
    pub weights: usize,
    /// Bytes that a run needs beside its operands, for inference and for training.
    pub workspace: [usize; 2],
    /// Bytes that a forward in training leaves for the backward.
    pub reserve: usize,
    /// Where the library has the weights.
    pub pieces: Vec<Piece>,
}

/// Addresses of a forward. Those of cells are null where there are none, and that of the reserve in inference.
pub struct Forward {
    pub x: *mut u8,
    pub y: *mut u8,
    pub h: [*mut u8; 2],
    pub c: [*mut u8; 2],
    pub weights: *mut u8,
    pub workspace: *mut u8,
    pub reserve: *mut u8,
}

/// Addresses of a backward: what the forward read and wrote, gradients of its results, and of its operands.
pub struct Backward {
    pub x: *mut u8,
    pub y: *mut u8,
    pub grad_y: *mut u8,
    pub grad_x: *mut u8,
    /// The first state, the gradients of the last and of the first.
    pub h: [*mut u8; 3],
    pub c: [*mut u8; 3],
    pub weights: *mut u8,
    /// Zeros, to which the gradients are added.
    pub grad_weights: *mut u8,
    pub workspace: *mut u8,
    /// The forward's; it is written to.
    pub reserve: *mut u8,
}

/// False where the library does not take it.
fn taken(cudnn: &Cudnn, what: &str, code: c_int) -> Result<bool> {
    if code / 1000 * 1000 == NOT_SUPPORTED {
        return Ok(false);
    }
    cudnn.check(what, code).map(|()| true)
}

impl Handle {
    /// The network, unless the library does not take it. `weights`: the address of some weights.
    pub fn network(&mut self, p: &Problem, weights: *mut u8) -> Result<Option<Network>> {
        let (table, cudnn, raw) = (table()?, self.cudnn(), self.raw());
        let make = |create: unsafe extern "C" fn(*mut Raw) -> c_int, destroy| {
            let mut raw = null_mut();
            // SAFETY: the place is live.
            cudnn.check("create descriptor", unsafe { create(&mut raw) })?;
            Ok::<_, Error>(Descriptor { raw, destroy })
        };
        let tensor = || make(table.create_tensor, table.destroy_tensor);
        let dtype = data_type(p.dtype)?;
        let dropout = make(table.create_dropout, table.destroy_dropout)?;
        let rnn = make(table.create_rnn, table.destroy_rnn)?;
        let math = match p.dtype {
            DType::F16 | DType::BF16 => TENSOR_OP_MATH,
            DType::F32 if !p.tf32 => FMA_MATH,
            _ => DEFAULT_MATH,
        };
        let flags = if p.order == Order::Packed { 0 } else { PADDED_IO };
        // SAFETY: the descriptors are live. A dropout of zero needs no memory.
        let code = unsafe {
            cudnn.check("set dropout", (table.set_dropout)(dropout.raw, raw, 0.0, null_mut(), 0, 0))?;
            (table.set_rnn)(
                rnn.raw,
                ALGORITHM_STANDARD,
                p.cell as c_int,
                if p.bias { DOUBLE_BIAS } else { NO_BIAS },
                p.directions - 1,
                LINEAR_INPUT,
                dtype,
                data_type(p.dtype.compute())?,
                math,
                p.input,
                p.hidden,
                p.out,
                p.layers,
                dropout.raw,
                flags,
            )
        };
        if !taken(cudnn, "set recurrent network", code)? {
            return Ok(None);
        }
        let batch = p.lengths.len() as c_int;
        let layout = match p.order {
            Order::StepsFirst => STEPS_FIRST,
            Order::BatchFirst => BATCH_FIRST,
            Order::Packed => STEPS_PACKED,
        };
        let data = |width: c_int| {
            let d = make(table.create_data, table.destroy_data)?;
            let lengths = p.lengths.as_ptr();
            // SAFETY: there are as many lengths as rows; nothing is filled into steps that no sequence has.
            let code = unsafe { (table.set_data)(d.raw, dtype, layout, p.steps, batch, width, lengths, null_mut()) };
            Ok::<_, Error>(taken(cudnn, "set sequence", code)?.then_some(d))
        };
        let (Some(x), Some(y)) = (data(p.input)?, data(p.directions * p.out)?) else { return Ok(None) };
        let state = |width: c_int| {
            let (d, sizes) = (tensor()?, [p.layers * p.directions, batch, width]);
            let strides = [batch * width, width, 1];
            // SAFETY: there are three sizes and strides.
            let code = unsafe { (table.set_tensor)(d.raw, dtype, 3, sizes.as_ptr(), strides.as_ptr()) };
            cudnn.check("set state", code)?;
            Ok::<_, Error>(d)
        };
        let (mut bytes, mut workspace, mut reserve) = (0, [0; 2], 0);
        // SAFETY: the descriptors are finished, the places live. Inference keeps nothing.
        let codes = unsafe {
            [
                (table.weight_bytes)(raw, rnn.raw, &mut bytes),
                (table.spaces)(raw, rnn.raw, INFERENCE, x.raw, &mut workspace[0], null_mut()),
                (table.spaces)(raw, rnn.raw, TRAINING, x.raw, &mut workspace[1], &mut reserve),
            ]
        };
        for code in codes {
            if !taken(cudnn, "sizes of a recurrent network", code)? {
                return Ok(None);
            }
        }
        let (h, c) = (state(p.out)?, state(p.hidden)?);
        let [matrix, bias] = [tensor()?, tensor()?];
        let mut network =
            Network { table, rnn, _dropout: dropout, x, y, h, c, weights: bytes, workspace, reserve, pieces: vec![] };
        let mut places = Places { network: &mut network, cudnn, handle: raw, weights, next: 0 };
        places.find(p, [&matrix, &bias])?;
        Ok(Some(network))
    }

    /// Enqueues a forward; false, and nothing was issued, where the library does not take it after all.
    ///
    /// # Safety
    /// The addresses hold the operands of the network's problem, and memory of its sizes; the workspace is used by no other work
    /// outside of `stream`, for which this handle is.
    pub unsafe fn run_network(&mut self, n: &Network, f: &Forward, stream: Raw) -> Result<bool> {
        let training = !f.reserve.is_null();
        let (mode, reserve) = if training { (TRAINING, n.reserve) } else { (INFERENCE, 0) };
        // SAFETY: by the contract.
        let code = unsafe {
            self.use_stream(stream)?;
            (n.table.forward)(
                self.raw(),
                n.rnn.raw,
                mode,
                null(),
                n.x.raw,
                f.x.cast(),
                n.y.raw,
                f.y.cast(),
                n.h.raw,
                f.h[0].cast(),
                f.h[1].cast(),
                n.c.raw,
                f.c[0].cast(),
                f.c[1].cast(),
                n.weights,
                f.weights.cast(),
                n.workspace[training as usize],
                f.workspace.cast(),
                reserve,
                f.reserve.cast(),
            )
        };
        taken(self.cudnn(), "recurrent network", code)
    }

    /// Enqueues the gradients of the operands, then those of the weights; false, and nothing was issued, where the library does not
    /// take it.
    ///
    /// # Safety
    /// As for `run_network`.
    pub unsafe fn run_network_backward(&mut self, n: &Network, b: &Backward, stream: Raw) -> Result<bool> {
        // SAFETY: by the contract.
        unsafe {
            self.use_stream(stream)?;
            let code = (n.table.backward_data)(
                self.raw(),
                n.rnn.raw,
                null(),
                n.y.raw,
                b.y.cast(),
                b.grad_y.cast(),
                n.x.raw,
                b.grad_x.cast(),
                n.h.raw,
                b.h[0].cast(),
                b.h[1].cast(),
                b.h[2].cast(),
                n.c.raw,
                b.c[0].cast(),
                b.c[1].cast(),
                b.c[2].cast(),
                n.weights,
                b.weights.cast(),
                n.workspace[1],
                b.workspace.cast(),
                n.reserve,
                b.reserve.cast(),
            );
            if !taken(self.cudnn(), "backward of a recurrent network", code)? {
                return Ok(false);
            }
            let code = (n.table.backward_weights)(
                self.raw(),
                n.rnn.raw,
                ADD_TO_GRADIENTS,
                null(),
                n.x.raw,
                b.x.cast(),
                n.h.raw,
                b.h[0].cast(),
                n.y.raw,
                b.y.cast(),
                n.weights,
                b.grad_weights.cast(),
                n.workspace[1],
                b.workspace.cast(),
                n.reserve,
                b.reserve.cast(),
            );
            self.cudnn().check("gradients of a recurrent network's weights", code).map(|()| true)
        }
    }
}

/// Finds where the library has the weights, in the order in which the caller gives them.
struct Places<'a> {
    network: &'a mut Network,
    cudnn: &'static Cudnn,
    handle: Raw,
    weights: *mut u8,
    /// Elements of the caller's vector that were found.
    next: i64,
}

impl Places<'_> {
    fn find(&mut self, p: &Problem, descriptors: [&Descriptor; 2]) -> Result<()> {
        let (gates, size) = (p.cell.n_gates(), p.dtype.size());
        // The matrices of the input, of h, and a projection; the biases have the numbers of their matrices.
        let projection = if p.out == p.hidden { 0..0 } else { 2 * gates..2 * gates + 1 };
        for is_bias in [false, true] {
            for layer in 0..p.layers * p.directions {
                let width = if layer < p.directions { p.input } else { p.out * p.directions };
                for id in (0..2 * gates).chain(if is_bias { 0..0 } else { projection.clone() }) {
                    let columns = if id < gates { width } else { p.out };
                    let sizes = match (is_bias, id == 2 * gates) {
                        (true, _) => [p.hidden, 1],
                        (false, true) => [p.out, p.hidden],
                        (false, false) => [p.hidden, columns],
                    };
                    if !is_bias || p.bias {
                        self.add(layer, id, is_bias, sizes, descriptors, size)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        layer: i32,
        id: i32,
        is_bias: bool,
        expected: [i32; 2],
        descriptors: [&Descriptor; 2],
        size: usize,
    ) -> Result<()> {
        let (table, mut found) = (self.network.table, [null_mut(); 2]);
        let (mut dtype, mut n, mut sizes, mut strides) = (0, 0, [0; 3], [0; 3]);
        // SAFETY: the descriptors and places are live; the library counts from the address, and reads nothing there.
        unsafe {
            let [matrix, bias] = &mut found;
            let code = (table.weight)(
                self.handle,
                self.network.rnn.raw,
                layer,
                self.network.weights,
                self.weights.cast(),
                id,
                descriptors[0].raw,
                matrix,
                descriptors[1].raw,
                bias,
            );
            self.cudnn.check("place of weights", code)?;
            let d = descriptors[is_bias as usize].raw;
            let (s, t) = (sizes.as_mut_ptr(), strides.as_mut_ptr());
            self.cudnn.check("sizes of weights", (table.get_tensor)(d, 3, &mut dtype, &mut n, s, t))?;
        }
        let count: i64 = expected.iter().map(|n| *n as i64).product();
        let at = (found[is_bias as usize] as usize).wrapping_sub(self.weights as usize);
        let fits = n == 3 && sizes.iter().map(|n| *n as i64).product::<i64>() == count;
        if !fits || at.checked_add(count as usize * size).is_none_or(|end| end > self.network.weights) {
            let what = if is_bias { "bias" } else { "matrix" };
            return Err(Error::runtime(format!(
                "cuDNN has {what} {id} of layer {layer} as {sizes:?} at byte {at}, expected {expected:?} within {}",
                self.network.weights
            )));
        }
        let from = self.next;
        self.next += count;
        match self.network.pieces.last_mut() {
            Some(p) if p.to + p.count as usize * size == at => p.count += count,
            _ => self.network.pieces.push(Piece { from, count, to: at }),
        }
        Ok(())
    }
}
