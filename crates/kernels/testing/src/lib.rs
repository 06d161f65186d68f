//! What the kernel crates' tests share: strided buffers of any dtype with values as f64, launches on them, comparisons;
//! and what their `examples/bench_*` share: times.
//!
//! Nothing of the framework depends on it.

mod bench;
pub use bench::*;

use oneflow_base::{DType, Device, Result, bf16, contiguous_strides, f16};
use oneflow_ep::Queue;
use oneflow_ep::cpu::set_thread_num_threads;
use oneflow_kernels_prim::{Isa, Launch, Primitive, View, Word};

pub const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lay {
    /// Row-major without gaps.
    Plain,
    /// The dimensions lie in reversed order.
    Reversed,
    /// Every second element, so that no dimension has stride one.
    Gaps,
    /// The last dimension runs backwards.
    Backward,
}
pub const LAYS: [Lay; 4] = [Lay::Plain, Lay::Reversed, Lay::Gaps, Lay::Backward];

/// Buffers begin at cache lines, as the allocator's do.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    _halves: [u16; 32],
}

#[derive(Clone, Debug)]
pub struct Buf {
    pub dtype: DType,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    first: i64,
    data: Vec<Line>,
}

impl Buf {
    pub fn new(dtype: DType, sizes: &[i64], lay: Lay) -> Buf {
        let n = sizes.iter().product::<i64>();
        let mut strides = contiguous_strides(sizes).to_vec();
        let mut first = 0;
        match lay {
            Lay::Plain => {}
            Lay::Reversed => {
                let turned: Vec<i64> = sizes.iter().rev().copied().collect();
                strides = contiguous_strides(&turned).iter().rev().copied().collect();
            }
            Lay::Gaps => strides.iter_mut().for_each(|s| *s *= 2),
            Lay::Backward => {
                if let (Some(s), Some(n)) = (strides.last_mut(), sizes.last()) {
                    first = (n - 1).max(0);
                    *s = -1;
                }
            }
        }
        let room = if lay == Lay::Gaps { 2 * n } else { n };
        let lines = (room as usize + 2) * dtype.size() / 64 + 1;
        Buf { dtype, sizes: sizes.to_vec(), strides, first, data: vec![Line { _halves: [0x7fc1; 32] }; lines] }
    }
    pub fn of(dtype: DType, sizes: &[i64], lay: Lay, f: impl Fn(usize) -> f64) -> Buf {
        let mut b = Buf::new(dtype, sizes, lay);
        (0..b.len()).for_each(|i| b.set(i, f(i)));
        b
    }
    /// A plain buffer of these values.
    pub fn from(dtype: DType, sizes: &[i64], v: &[f64]) -> Buf {
        Buf::of(dtype, sizes, Lay::Plain, |i| v[i])
    }
    pub fn ints(sizes: &[i64], v: &[i64]) -> Buf {
        Buf::of(DType::I64, sizes, Lay::Plain, |i| v[i] as f64)
    }
    pub fn len(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn at(&self, i: usize) -> *mut u8 {
        let (mut rest, mut off) = (i as i64, self.first);
        for d in (0..self.sizes.len()).rev() {
            off += rest % self.sizes[d] * self.strides[d];
            rest /= self.sizes[d];
        }
        // SAFETY: the offset lies inside the buffer, which has room for the layout.
        unsafe { (self.data.as_ptr() as *mut u8).offset(off as isize * self.dtype.size() as isize) }
    }
    pub fn get(&self, i: usize) -> f64 {
        let p = self.at(i);
        // SAFETY: `at` points at an element of the dtype.
        unsafe {
            match self.dtype {
                DType::Bool | DType::U8 => *p as f64,
                DType::I8 => *p.cast::<i8>() as f64,
                DType::I16 => *p.cast::<i16>() as f64,
                DType::I32 => *p.cast::<i32>() as f64,
                DType::I64 => *p.cast::<i64>() as f64,
                DType::F16 => (*p.cast::<f16>()).to_f64(),
                DType::BF16 => (*p.cast::<bf16>()).to_f64(),
                DType::F32 | DType::C64 => *p.cast::<f32>() as f64,
                DType::F64 | DType::C128 => *p.cast::<f64>(),
                limited => panic!("{limited} has no kernels to test"),
            }
        }
    }
    pub fn set(&mut self, i: usize, v: f64) {
        let p = self.at(i);
        // SAFETY: `at` points at an element of the dtype.
        unsafe {
            match self.dtype {
                DType::Bool => *p = (v != 0.0) as u8,
                DType::U8 => *p = v as u8,
                DType::I8 => *p.cast::<i8>() = v as i8,
                DType::I16 => *p.cast::<i16>() = v as i16,
                DType::I32 => *p.cast::<i32>() = v as i32,
                DType::I64 => *p.cast::<i64>() = v as i64,
                DType::F16 => *p.cast::<f16>() = f16::from_f64(v),
                DType::BF16 => *p.cast::<bf16>() = bf16::from_f64(v),
                DType::F32 => *p.cast::<f32>() = v as f32,
                DType::F64 => *p.cast::<f64>() = v,
                DType::C64 => *p.cast::<[f32; 2]>() = [v as f32, -v as f32],
                DType::C128 => *p.cast::<[f64; 2]>() = [v, -v],
                limited => panic!("{limited} has no kernels to test"),
            }
        }
    }
    pub fn values(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.get(i)).collect()
    }
    pub fn view(&self) -> View<'_> {
        // SAFETY: the first element lies inside the buffer.
        let ptr = unsafe { (self.data.as_ptr() as *mut u8).offset(self.first as isize * self.dtype.size() as isize) };
        View { ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides }
    }
}

fn views<'a>(bufs: &[Option<&'a Buf>]) -> Vec<Option<View<'a>>> {
    bufs.iter().map(|b| b.map(Buf::view)).collect()
}

/// Launches a primitive on the CPU.
pub fn run(p: &Primitive, outs: &[Option<&Buf>], ins: &[Option<&Buf>], params: &[Word]) -> Result<()> {
    let (outs, ins) = (views(outs), views(ins));
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    let f = p.on(oneflow_base::DeviceType::CPU)?;
    // SAFETY: the views are those of live buffers.
    unsafe { f(&Launch { outs: &outs, ins: &ins, params, expr: None, queue }) }
}

/// Words of a mixed parameter list.
#[macro_export]
macro_rules! words {
    ($($v:expr),* $(,)?) => { &[$(oneflow_kernels_prim::Word::from($v)),*] };
}

/// A small deterministic sequence in [-1, 1), different by `salt`.
pub fn noise(salt: u64) -> impl Fn(usize) -> f64 {
    move |i| {
        let mut z =
            (i as u64).wrapping_add(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^= z >> 29;
        z = z.wrapping_mul(0x94D0_49BB_1331_11EB);
        (z >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }
}

/// Row-major coordinates of a linear position.
pub fn coords(mut i: usize, sizes: &[i64]) -> Vec<usize> {
    let mut c = vec![0; sizes.len()];
    for d in (0..sizes.len()).rev() {
        c[d] = i % sizes[d] as usize;
        i /= sizes[d] as usize;
    }
    c
}
pub fn linear(c: &[usize], sizes: &[i64]) -> usize {
    c.iter().zip(sizes).fold(0, |a, (c, n)| a * *n as usize + c)
}

#[track_caller]
pub fn close(got: &Buf, want: &[f64], tol: f64, what: &str) {
    let eps = match got.dtype {
        DType::BF16 => 8e-3,
        DType::F16 => 1e-3,
        DType::F32 => 1.2e-7,
        _ => 2.3e-16,
    } * tol;
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, w) in want.iter().enumerate() {
        let g = got.get(i);
        let same = g == *w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= eps * w.abs().max(1.0);
        assert!(same, "{what}: element {i} is {g}, expected {w}");
    }
}

/// Runs a case with one, two and seven threads and compares every bit; gives the values.
pub fn same_for_any_threads(what: &str, f: impl Fn() -> Vec<Buf>) -> Vec<Vec<f64>> {
    let values = |n| {
        set_thread_num_threads(Some(n));
        let out: Vec<Vec<f64>> = f().iter().map(Buf::values).collect();
        set_thread_num_threads(None);
        out
    };
    let bits = |v: &[Vec<f64>]| v.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    let one = values(1);
    for n in [2, 7] {
        assert!(bits(&values(n)) == bits(&one), "{what}: {n} threads");
    }
    one
}

/// Runs this binary's tests again on every instruction set of the machine with narrower registers, and on that
/// without tiles.
pub fn again_on_other_isas() {
    if std::env::var_os("ONEFLOW_CPU_ISA").is_some() {
        return;
    }
    let best = Isa::best();
    let differs = |isa: &&Isa| isa.lanes() < best.lanes() || **isa == Isa::Avx512Bf16 && best > **isa;
    for isa in Isa::available().iter().filter(differs) {
        let name = format!("{isa:?}").to_lowercase();
        let exe = std::env::current_exe().expect("a test has a path");
        let out = std::process::Command::new(exe).env("ONEFLOW_CPU_ISA", &name).output().expect("the test starts");
        assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stdout));
    }
}
