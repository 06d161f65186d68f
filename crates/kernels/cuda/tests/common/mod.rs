//! Arrays of any layout, and one launch on the CPU beside the same launch on the (emulated) device.

#![allow(dead_code)]

pub mod attention;
pub mod emulator;

use oneflow_base::{DType, Device, DeviceType, bf16, f16};
use oneflow_ep::{Copy, Queue, provider};
use oneflow_kernels_prim::{Expr, Launch, Primitive, View, Word};
use std::sync::{PoisonError, RwLock};

/// A fault of a kernel is reported by the next call that waits for the device, whoever makes it: launches that are to fail run
/// while no other test uses the device.
static DEVICE: RwLock<()> = RwLock::new(());

pub const F32: DType = DType::F32;
pub const F64: DType = DType::F64;
pub const BF16: DType = DType::BF16;
pub const F16: DType = DType::F16;
pub const I64: DType = DType::I64;
pub const BOOL: DType = DType::Bool;

pub struct Rng(u64);
impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
    /// [-2, 2)
    pub fn real(&mut self) -> f64 {
        self.below(1 << 24) as f64 / (1 << 22) as f64 - 2.0
    }
}

/// An array: its storage on the host, and where its elements lie in it.
#[derive(Clone)]
pub struct Arr {
    pub dtype: DType,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub offset: i64,
    pub bytes: Vec<u8>,
}

/// How the elements lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lay {
    Rows,
    /// Dimensions in reverse order.
    Reversed,
    /// Every second element, not from the start.
    Stepped,
    /// One number for all: inputs only.
    One,
    /// The last dimension repeats: inputs only.
    Repeated,
}

pub const OUT_LAYOUTS: [Lay; 3] = [Lay::Rows, Lay::Reversed, Lay::Stepped];
pub const IN_LAYOUTS: [Lay; 5] = [Lay::Rows, Lay::Reversed, Lay::Stepped, Lay::One, Lay::Repeated];

impl Arr {
    pub fn empty(dtype: DType, sizes: &[i64], lay: Lay) -> Arr {
        let mut strides = vec![0; sizes.len()];
        let order: Vec<usize> =
            if lay == Lay::Reversed { (0..sizes.len()).collect() } else { (0..sizes.len()).rev().collect() };
        let mut n = if lay == Lay::Stepped { 2 } else { 1 };
        for d in order {
            if lay == Lay::One || (lay == Lay::Repeated && d + 1 == sizes.len()) {
                continue;
            }
            strides[d] = n;
            n *= sizes[d].max(1);
        }
        let offset = if lay == Lay::Stepped { 1 } else { 0 };
        let bytes = vec![0xAB; (n + offset) as usize * dtype.size()];
        Arr { dtype, sizes: sizes.into(), strides, offset, bytes }
    }

    pub fn fill(mut self, mut f: impl FnMut(usize) -> f64) -> Arr {
        for i in 0..self.numel() {
            let v = f(i);
            self.set(i, v);
        }
        self
    }

    pub fn random(dtype: DType, sizes: &[i64], lay: Lay, seed: u64) -> Arr {
        let mut r = Rng::new(seed);
        Arr::empty(dtype, sizes, lay).fill(|_| match dtype {
            DType::Bool => r.below(2) as f64,
            d if d.is_int() => r.below(9) as f64 - if d == DType::U8 { 0.0 } else { 4.0 },
            _ => r.real(),
        })
    }

    /// Integers below `n`.
    pub fn indices(sizes: &[i64], lay: Lay, n: i64, seed: u64) -> Arr {
        let mut r = Rng::new(seed);
        Arr::empty(I64, sizes, lay).fill(|_| r.below(n as u64) as f64)
    }

    pub fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    fn at(&self, i: usize) -> usize {
        let (mut rest, mut at) = (i as i64, self.offset);
        for d in (0..self.sizes.len()).rev() {
            at += rest % self.sizes[d] * self.strides[d];
            rest /= self.sizes[d];
        }
        at as usize * self.dtype.size()
    }

    pub fn get(&self, i: usize) -> f64 {
        let b = &self.bytes[self.at(i)..];
        macro_rules! read {
            ($t:ty) => {
                <$t>::from_le_bytes(b[..size_of::<$t>()].try_into().unwrap())
            };
        }
        match self.dtype {
            DType::Bool | DType::U8 => b[0] as f64,
            DType::I8 => b[0] as i8 as f64,
            DType::I16 => read!(i16) as f64,
            DType::I32 => read!(i32) as f64,
            DType::I64 => read!(i64) as f64,
            DType::F16 => read!(f16).to_f64(),
            DType::BF16 => read!(bf16).to_f64(),
            DType::F32 => read!(f32) as f64,
            _ => read!(f64),
        }
    }

    pub fn set(&mut self, i: usize, v: f64) {
        let at = self.at(i);
        macro_rules! write {
            ($v:expr) => {{
                let v = $v.to_le_bytes();
                self.bytes[at..at + v.len()].copy_from_slice(&v)
            }};
        }
        match self.dtype {
            DType::Bool => write!((v != 0.0) as u8),
            DType::U8 => write!(v as u8),
            DType::I8 => write!(v as i8),
            DType::I16 => write!(v as i16),
            DType::I32 => write!(v as i32),
            DType::I64 => write!(v as i64),
            DType::F16 => write!(f16::from_f64(v)),
            DType::BF16 => write!(bf16::from_f64(v)),
            DType::F32 => write!(v as f32),
            _ => write!(v),
        }
    }

    fn view_at(&self, base: *mut u8) -> View<'_> {
        let ptr = base.wrapping_add(self.offset as usize * self.dtype.size());
        View { ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides }
    }
}

/// The same values with the channels of images side by side.
pub fn channels_last(a: Arr) -> Arr {
    let mut out = Arr { bytes: vec![0xAB; a.numel().max(1) * a.dtype.size()], offset: 0, ..a.clone() };
    let mut step = 1;
    for d in std::iter::once(1).chain((2..a.sizes.len()).rev()).chain([0]) {
        out.strides[d] = step;
        step *= a.sizes[d].max(1);
    }
    (0..a.numel()).for_each(|i| out.set(i, a.get(i)));
    out
}

/// An array with strides of its own, its first element `offset` elements into its storage.
pub fn strided(dtype: DType, sizes: &[i64], strides: &[i64], offset: i64, seed: u64) -> Arr {
    let reach: i64 = sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum::<i64>() + 1 + offset;
    let mut r = Rng::new(seed);
    let a = Arr {
        dtype,
        sizes: sizes.into(),
        strides: strides.into(),
        offset,
        bytes: vec![0; reach as usize * dtype.size()],
    };
    a.fill(|_| r.real())
}

/// A launch to run on both sides.
pub struct Case<'a> {
    pub primitive: &'a Primitive,
    pub outs: Vec<Option<Arr>>,
    pub ins: Vec<Option<Arr>>,
    pub params: Vec<Word>,
    pub expr: Option<&'static Expr>,
    /// Relative to the larger of one and the value.
    pub tolerance: f64,
    pub name: String,
}

impl<'a> Case<'a> {
    pub fn new(primitive: &'a Primitive, outs: Vec<Arr>, ins: Vec<Arr>, params: &[Word]) -> Case<'a> {
        let some = |v: Vec<Arr>| v.into_iter().map(Some).collect();
        Case {
            primitive,
            outs: some(outs),
            ins: some(ins),
            params: params.into(),
            expr: None,
            tolerance: 0.0,
            name: primitive.name.to_string(),
        }
    }
    pub fn named(mut self, name: impl std::fmt::Display) -> Self {
        self.name = format!("{} {name}", self.primitive.name);
        self
    }
    pub fn within(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }
    pub fn expr(mut self, e: &'static Expr) -> Self {
        self.expr = Some(e);
        self
    }

    pub fn on_cpu(&mut self) -> oneflow_base::Result<()> {
        let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
        fn view(a: &Option<Arr>) -> Option<View<'_>> {
            a.as_ref().map(|a| a.view_at(a.bytes.as_ptr().cast_mut()))
        }
        let (outs, ins): (Vec<_>, Vec<_>) = (self.outs.iter().map(view).collect(), self.ins.iter().map(view).collect());
        let l = Launch { outs: &outs, ins: &ins, params: &self.params, expr: self.expr, queue };
        // SAFETY: live arrays.
        unsafe { self.primitive.on(DeviceType::CPU)?(&l) }
    }

    fn on_cuda(&mut self) -> oneflow_base::Result<()> {
        let cuda = provider(DeviceType::CUDA)?;
        let queue = cuda.queue(0);
        let up = |a: &Option<Arr>| {
            a.as_ref().map(|a| {
                let block = cuda.alloc(0, a.bytes.len()).unwrap();
                // SAFETY: the block holds the bytes.
                unsafe { cuda.copy(queue, Copy::HostToDevice, block.ptr, a.bytes.as_ptr(), a.bytes.len()).unwrap() };
                block
            })
        };
        let blocks: Vec<_> = self.outs.iter().map(up).collect();
        let in_blocks: Vec<_> = self.ins.iter().map(up).collect();
        let view = |(a, b): (&'_ Option<Arr>, &Option<oneflow_ep::Block>)| {
            let a: Option<&Arr> = a.as_ref();
            // SAFETY: the arrays outlive the launch below.
            a.zip(*b).map(|(a, b)| unsafe { std::mem::transmute::<View<'_>, View<'static>>(a.view_at(b.ptr)) })
        };
        let outs: Vec<_> = self.outs.iter().zip(&blocks).map(view).collect();
        let ins: Vec<_> = self.ins.iter().zip(&in_blocks).map(view).collect();
        let l = Launch { outs: &outs, ins: &ins, params: &self.params, expr: self.expr, queue };
        // SAFETY: live memory.
        let done = unsafe { self.primitive.on(DeviceType::CUDA)?(&l) };
        for (a, b) in self.outs.iter_mut().zip(&blocks) {
            if let (Some(a), Some(b)) = (a, b) {
                // SAFETY: the block holds the bytes.
                unsafe { cuda.copy(queue, Copy::DeviceToHost, a.bytes.as_mut_ptr(), b.ptr, a.bytes.len())? };
            }
        }
        for b in blocks.iter().chain(&in_blocks).flatten() {
            // SAFETY: ours, and used no more.
            unsafe { cuda.free(0, *b) };
        }
        done
    }

    /// Runs both and compares every byte of every output's storage, numbers within the tolerance.
    pub fn check(mut self) {
        let _others = DEVICE.read().unwrap_or_else(PoisonError::into_inner);
        let mut cuda = Case {
            outs: self.outs.clone(),
            ins: self.ins.clone(),
            params: self.params.clone(),
            name: self.name.clone(),
            ..self
        };
        let r = self.on_cpu();
        let s = cuda.on_cuda();
        assert_eq!(r.is_ok(), s.is_ok(), "{}: cpu {r:?}, cuda {s:?}", self.name);
        r.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        for (k, (a, b)) in self.outs.iter().zip(&cuda.outs).enumerate() {
            let (Some(a), Some(b)) = (a, b) else { continue };
            for i in 0..a.numel() {
                let (want, got) = (a.get(i), b.get(i));
                let near = (want - got).abs() <= self.tolerance * want.abs().max(1.0);
                assert!(
                    want == got || near || (want.is_nan() && got.is_nan()),
                    "{} (out {k}, {} {:?} strides {:?}) at {i}: cpu {want}, cuda {got}",
                    self.name,
                    a.dtype,
                    a.sizes,
                    a.strides
                );
            }
            // Nothing beside the view was touched.
            let mut blank = (a.clone(), b.clone());
            for i in 0..a.numel() {
                blank.0.set(i, 0.0);
                blank.1.set(i, 0.0);
            }
            assert!(blank.0.bytes == blank.1.bytes, "{}: wrote outside of output {k}", self.name);
        }
    }

    /// The error of the CUDA side.
    pub fn error(mut self) -> oneflow_base::Error {
        let _alone = DEVICE.write().unwrap_or_else(PoisonError::into_inner);
        self.on_cuda().expect_err(&self.name.clone())
    }
}
