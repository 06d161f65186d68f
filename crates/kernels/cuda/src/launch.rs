//! Launching: keys of compiled kernels, grids, scratch memory.

use oneflow_base::{DType, Error, ErrorKind, Result};
use oneflow_ep::cuda::{self, Cuda, Fault, Gpu, Grid, Text};
use oneflow_ep::{Block, Queue};
use oneflow_kernels_prim::{KernelFn, Launch, View};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{LazyLock, Mutex};

/// Which template a kernel comes from.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Family {
    Elementwise,
    Fill,
    Reduce,
    ArgReduce,
    Scan,
    Softmax,
    Norm,
    Loss,
    Embedding,
    Index,
    Segments,
    Radix,
    Sort,
    Nonzero,
    Random,
    Optimizer,
    Unscale,
    Norms,
    Concat,
    Matmul,
    Epilogue,
    Chain,
    Conv,
    Pool,
    ChannelNorm,
    Attention,
    AttentionMma,
    AttentionCudnn,
    ConvMma,
    Row,
    Resample,
    Bag,
    Search,
    LogCumSumExp,
    RandomBy,
    Rnn,
    Scale,
    Solver,
    Ctc,
    Pad,
}

/// A compiled kernel's identity: family, then everything its text depends on.
#[derive(Clone, Copy, Debug)]
pub struct Key(u128);

impl Key {
    pub fn new(family: Family) -> Key {
        // The leading one keeps keys of different lengths apart.
        Key(0x100 | family as u128)
    }
    /// A number below 16.
    pub fn small(self, v: u64) -> Key {
        debug_assert!(v < 16 && self.0 >> 124 == 0);
        Key(self.0 << 4 | v as u128)
    }
    pub fn dtype(self, d: DType) -> Key {
        self.small(d as u64)
    }
    /// A number of an expression or of another table, of at most 56 bits.
    pub fn wide(self, v: u64) -> Key {
        debug_assert!(v >> 56 == 0 && self.0 >> 72 == 0);
        Key(self.0 << 56 | v as u128)
    }
}

/// The address of an argument, valid as long as the argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Place<'a>(*mut c_void, PhantomData<&'a ()>);

impl<'a> Place<'a> {
    pub fn of<T: ?Sized>(v: &'a T) -> Place<'a> {
        Place((&raw const *v).cast::<c_void>().cast_mut(), PhantomData)
    }
}

/// Something whose memory is a kernel parameter's C layout.
pub trait Argument {
    fn place(&self) -> Place<'_> {
        Place::of(self)
    }
}
impl Argument for i32 {}
impl Argument for u32 {}
impl Argument for i64 {}
impl Argument for u64 {}
impl Argument for f32 {}
impl Argument for f64 {}
impl<T> Argument for *mut T {}
impl<T> Argument for *const T {}
/// A number of the compute type C.
#[derive(Clone, Copy)]
pub struct Number(u64);
impl Argument for Number {
    fn place(&self) -> Place<'_> {
        Place::of(&self.0)
    }
}
impl Number {
    pub fn new(compute: DType, v: f64) -> Number {
        Number(match compute {
            DType::F64 => v.to_bits(),
            DType::I64 => v as i64 as u64,
            _ => (v as f32).to_bits() as u64,
        })
    }
}

/// The argument array of a launch, written where the launch is: the driver copies the arguments when it is issued.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { &mut [$($crate::launch::Argument::place(&$arg)),*] };
}
pub(crate) use args;

/// The address of a view that may be absent.
pub fn address(v: Option<View<'_>>) -> *mut u8 {
    v.map_or(std::ptr::null_mut(), |v| v.ptr)
}

thread_local! {
    static IS_QUESTION: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while a kernel is asked whether it takes a launch (`ask`).
pub fn is_question() -> bool {
    IS_QUESTION.get()
}

/// Asks a kernel whether it takes a launch, whose views have no memory: it goes as far as the first thing that it would do on
/// the device. An error where it declines.
pub fn ask(kernel: KernelFn, l: &Launch<'_>) -> Result<()> {
    struct Asking;
    impl Drop for Asking {
        fn drop(&mut self) {
            IS_QUESTION.set(false);
        }
    }
    IS_QUESTION.set(true);
    let _asking = Asking;
    // SAFETY: while it is a question, no launch, no memory and no library is to be had, so nothing reads or writes the views.
    match unsafe { kernel(l) } {
        Err(e) if e.kind() == ErrorKind::NotImplemented => Err(e),
        _ => Ok(()),
    }
}

fn provider() -> Result<&'static Cuda> {
    cuda::provider().ok_or_else(|| Error::runtime("a CUDA kernel was launched but CUDA is not available"))
}

#[cold]
fn only_a_question() -> Error {
    Error::runtime("a kernel was asked about a launch, and would do it")
}

/// The provider, for work on a device. A launch on a CUDA queue implies that there is one.
pub fn cuda() -> Result<&'static Cuda> {
    if is_question() { Err(only_a_question()) } else { provider() }
}

/// What is known of a queue's device.
pub fn gpu(queue: Queue) -> Result<&'static Gpu> {
    provider()?.device(queue.device.index)
}

/// Where kernels of a captured graph find how far the generator has moved (`Cuda::drawn`).
pub fn drawn(queue: Queue) -> Result<*const u64> {
    if is_question() { Ok(std::ptr::null()) } else { Ok(cuda()?.drawn(queue)) }
}

/// Launches a kernel.
///
/// # Safety
/// As `Cuda::launch`: arguments and grid are the kernel's.
pub unsafe fn run(
    queue: Queue,
    key: Key,
    text: impl FnOnce() -> Result<Text>,
    grid: Grid,
    args: &mut [Place<'_>],
) -> Result<()> {
    if is_question() {
        return text().and(Err(only_a_question()));
    }
    let cuda = cuda()?;
    let f = cuda.function(queue.device.index, key.0, text)?;
    // SAFETY: a place is a plain pointer.
    let args = unsafe { std::slice::from_raw_parts_mut(args.as_mut_ptr().cast::<*mut c_void>(), args.len()) };
    // SAFETY: by the contract.
    unsafe { cuda.launch(f, queue, grid, args) }
}

/// Where a device's kernels report wrong values.
pub fn faults(queue: Queue) -> Result<*mut Fault> {
    if is_question() { Ok(std::ptr::null_mut()) } else { cuda()?.faults(queue.device.index) }
}

/// `a / b` rounded up, of numbers that are not negative.
pub fn ceil_div(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// Blocks of 256 threads for `n` pieces of work; kernels loop where there are more.
pub fn linear(n: i64) -> Grid {
    Grid::linear(ceil_div(n, 256).clamp(0, 1 << 30) as u32, 256)
}

/// A grid for rows of work, and the kernels' `by_x`.
///
/// `length`: work along a row. `by_x`: neighbouring threads walk along the row, else across rows. Threads across a row are a
/// power of two; a block has at most 1024.
pub fn rows(n_rows: i64, length: i64, by_x: bool) -> (Grid, i32) {
    let (across, rows) = rows_shape(length, by_x);
    let threads = if by_x { [across, rows, 1] } else { [rows, across, 1] };
    let blocks = ceil_div(n_rows, rows as i64).clamp(0, 1 << 30) as u32;
    (Grid { blocks: [blocks, 1, 1], threads, shared: 0 }, by_x as i32)
}

/// (threads across a row, rows a block).
pub fn rows_shape(length: i64, by_x: bool) -> (u32, u32) {
    let length = length.clamp(1, 1 << 20) as u32;
    if by_x {
        let across = length.next_power_of_two().min(if length >= 8192 { 1024 } else { 256 });
        (across, (256 / across).max(1))
    } else {
        ((length / 4).max(1).next_power_of_two().min(32), 32)
    }
}

/// Device memory for the time of some launches on one queue.
pub struct Scratch {
    cuda: &'static Cuda,
    queue: Queue,
    /// Without memory in a question.
    block: Block,
}

impl Scratch {
    pub fn new(queue: Queue, count: i64, size: usize) -> Result<Scratch> {
        let bytes = (count as usize).checked_mul(size).ok_or_else(|| {
            Error::out_of_memory(format!("CUDA out of memory: scratch of {count} elements of {size} bytes"))
        })?;
        let cuda = provider()?;
        let none = Block { ptr: std::ptr::null_mut(), bytes: 0, tag: 0 };
        Ok(Scratch { cuda, queue, block: if is_question() { none } else { cuda.alloc_on(queue, bytes)? } })
    }
    pub fn ptr(&self) -> *mut u8 {
        self.block.ptr
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.block.ptr.is_null() {
            self.cuda.free_on(self.queue, self.block);
        }
    }
}

/// Counters of arrivals (32 bits each), for kernels in which the last part finishes the work of all: zero, and zero again after a launch.
pub struct Tickets {
    ptr: *mut u8,
    _own: Option<Scratch>,
}

impl Tickets {
    /// Tickets that a queue keeps; more than these are made for the launch.
    const KEPT: i64 = 1 << 15;

    pub fn new(queue: Queue, n: i64) -> Result<Tickets> {
        /// By device and stream: work of a stream runs in order.
        static KEPT: LazyLock<Mutex<HashMap<(u16, usize), usize>>> = LazyLock::new(Default::default);
        if is_question() {
            return Ok(Tickets { ptr: std::ptr::null_mut(), _own: None });
        }
        let cuda = cuda()?;
        let size = size_of::<u32>();
        // A graph may run on another stream beside this one's work.
        if n > Tickets::KEPT || cuda.is_capturing(queue) {
            let own = Scratch::new(queue, n, size)?;
            // SAFETY: the memory was just made for this queue.
            unsafe { cuda.memset(queue, own.ptr(), 0, n as usize * size)? };
            return Ok(Tickets { ptr: own.ptr(), _own: Some(own) });
        }
        let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
        let key = (queue.device.index, queue.raw as usize);
        if let Some(ptr) = kept.get(&key) {
            return Ok(Tickets { ptr: *ptr as *mut u8, _own: None });
        }
        let bytes = Tickets::KEPT as usize * size;
        let block = cuda.alloc_on(queue, bytes)?;
        // SAFETY: as above; the block is never given back.
        unsafe { cuda.memset(queue, block.ptr, 0, bytes)? };
        kept.insert(key, block.ptr as usize);
        Ok(Tickets { ptr: block.ptr, _own: None })
    }
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
}
