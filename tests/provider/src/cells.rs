//! What the kernels work with: numbers of any dtype, views by multi-index, and a launch's operands.
//!
//! The only file of the kernels that touches memory.

use crate::Toy;
use oneflow_base::{DType, Error, Result, bf16, f16};
use oneflow_kernels_prim::{Encode, Launch, View};
use std::cmp::Ordering;

/// A number on its way between dtypes: floats in f64, integers and bools in i64.
#[derive(Clone, Copy, Debug)]
pub enum Val {
    F(f64),
    I(i64),
}
use Val::{F, I};

impl Val {
    pub fn f(self) -> f64 {
        match self {
            F(v) => v,
            I(v) => v as f64,
        }
    }
    pub fn i(self) -> i64 {
        match self {
            F(v) => v as i64,
            I(v) => v,
        }
    }
    pub fn is_true(self) -> bool {
        match self {
            F(v) => v != 0.0,
            I(v) => v != 0,
        }
    }
    /// The number as values of `dtype` are computed with.
    pub fn of(self, dtype: DType) -> Val {
        if dtype.is_float() { F(self.f()) } else { I(self.i()) }
    }
    pub fn plus(self, o: Val) -> Val {
        match (self, o) {
            (I(a), I(b)) => I(a.wrapping_add(b)),
            (a, b) => F(a.f() + b.f()),
        }
    }
    pub fn times(self, o: Val) -> Val {
        match (self, o) {
            (I(a), I(b)) => I(a.wrapping_mul(b)),
            (a, b) => F(a.f() * b.f()),
        }
    }
    /// Total order in which NaN is the greatest.
    pub fn order(self, o: Val) -> Ordering {
        match (self, o) {
            (I(a), I(b)) => a.cmp(&b),
            (a, b) => a.f().partial_cmp(&b.f()).unwrap_or_else(|| a.f().is_nan().cmp(&b.f().is_nan())),
        }
    }
    /// Whether this is more extreme than `o`: greater or smaller, and NaN beats numbers.
    pub fn beats(self, o: Val, is_max: bool) -> bool {
        match (self.f().is_nan(), o.f().is_nan()) {
            (false, false) => self.order(o) == if is_max { Ordering::Greater } else { Ordering::Less },
            (nan, other) => nan && !other,
        }
    }
}

/// The elements of a view, by multi-index.
#[derive(Clone)]
pub struct Cells {
    ptr: *mut u8,
    pub dtype: DType,
    pub sizes: Vec<i64>,
    strides: Vec<i64>,
}

/// Calls a function of the dtype's Rust type.
macro_rules! by_dtype {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F64 => $f::<f64>($($arg),*),
            DType::F32 => $f::<f32>($($arg),*),
            DType::BF16 => $f::<bf16>($($arg),*),
            DType::F16 => $f::<f16>($($arg),*),
            DType::I64 => $f::<i64>($($arg),*),
            DType::I32 => $f::<i32>($($arg),*),
            DType::I16 => $f::<i16>($($arg),*),
            DType::I8 => $f::<i8>($($arg),*),
            _ => $f::<u8>($($arg),*),
        }
    };
}

unsafe fn read<T: Item>(at: *const u8, i: isize) -> Val {
    // SAFETY: the caller's.
    unsafe { at.cast::<T>().offset(i).read() }.val()
}

unsafe fn write<T: Item>(at: *mut u8, i: isize, v: Val) {
    // SAFETY: the caller's.
    unsafe { at.cast::<T>().offset(i).write(T::from(v)) }
}

trait Item: Copy {
    fn val(self) -> Val;
    fn from(v: Val) -> Self;
}
macro_rules! item {
    ($($t:ty: |$x:ident| $val:expr, |$v:ident| $from:expr;)*) => {
        $(impl Item for $t {
            fn val(self) -> Val { let $x = self; $val }
            fn from($v: Val) -> Self { $from }
        })*
    };
}
item! {
    f64: |x| F(x), |v| v.f();
    f32: |x| F(x as f64), |v| v.f() as f32;
    bf16: |x| F(x.to_f64()), |v| bf16::from_f32(v.f() as f32);
    f16: |x| F(x.to_f64()), |v| f16::from_f32(v.f() as f32);
    i64: |x| I(x), |v| v.i();
    i32: |x| I(x as i64), |v| v.i() as i32;
    i16: |x| I(x as i64), |v| v.i() as i16;
    i8: |x| I(x as i64), |v| v.i() as i8;
    u8: |x| I(x as i64), |v| v.i() as u8;
}

impl Cells {
    /// # Safety
    /// The view is valid for as long as the cells are used.
    unsafe fn new(toy: &Toy, v: &View<'_>) -> Result<Cells> {
        if v.dtype.is_complex() {
            return Err(Error::not_implemented(format!("no kernel of this provider takes {}", v.dtype)));
        }
        let reach = |below: bool| -> i64 {
            let steps = v.sizes.iter().zip(v.strides).map(|(n, s)| (n - 1).max(0) * s);
            steps.filter(|s| (*s < 0) == below).sum()
        };
        let item = v.dtype.size() as i64;
        let (low, high) = if v.numel() == 0 { (0, 0) } else { (reach(true) * item, (reach(false) + 1) * item) };
        let first = toy.host(v.ptr.wrapping_offset(low as isize), (high - low) as usize)?;
        let ptr = first.wrapping_offset(-low as isize);
        Ok(Cells { ptr, dtype: v.dtype, sizes: v.sizes.to_vec(), strides: v.strides.to_vec() })
    }

    pub fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }
    /// A number seen as a vector of one.
    pub fn with_a_dim(mut self) -> Cells {
        if self.sizes.is_empty() {
            self.sizes.push(1);
            self.strides.push(1);
        }
        self
    }

    fn at(&self, index: &[i64]) -> isize {
        assert!(index.len() == self.sizes.len() && index.iter().zip(&self.sizes).all(|(i, n)| (0..*n).contains(i)));
        index.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<i64>() as isize
    }
    pub fn get(&self, index: &[i64]) -> Val {
        // SAFETY: the index is checked by `at`, the view is valid by `new`.
        unsafe { by_dtype!(self.dtype, read(self.ptr, self.at(index))) }
    }
    pub fn set(&self, index: &[i64], v: Val) {
        let v = if self.dtype == DType::Bool { I(v.is_true() as i64) } else { v };
        // SAFETY: as for `get`.
        unsafe { by_dtype!(self.dtype, write(self.ptr, self.at(index), v)) }
    }

    /// All values, row-major.
    pub fn vals(&self) -> Vec<Val> {
        let mut all = Vec::with_capacity(self.numel());
        each(&self.sizes, |i| all.push(self.get(i)));
        all
    }
    pub fn floats(&self) -> Vec<f64> {
        self.vals().into_iter().map(Val::f).collect()
    }
    pub fn ints(&self) -> Vec<i64> {
        self.vals().into_iter().map(Val::i).collect()
    }
    /// Writes all values, row-major.
    pub fn write(&self, vals: impl IntoIterator<Item = Val>) {
        let mut vals = vals.into_iter();
        each(&self.sizes, |i| {
            if let Some(v) = vals.next() {
                self.set(i, v);
            }
        });
    }
    pub fn write_floats(&self, vals: impl IntoIterator<Item = f64>) {
        self.write(vals.into_iter().map(F));
    }

    /// The values along a dimension through `index`.
    pub fn line(&self, index: &[i64], dim: usize) -> Vec<Val> {
        (0..self.sizes[dim]).map(|k| self.get(&replaced(index, dim, k))).collect()
    }
    pub fn write_line(&self, index: &[i64], dim: usize, vals: impl IntoIterator<Item = Val>) {
        for (k, v) in vals.into_iter().enumerate() {
            self.set(&replaced(index, dim, k as i64), v);
        }
    }
}

/// Every multi-index of a shape, row-major.
pub fn each(sizes: &[i64], mut f: impl FnMut(&[i64])) {
    let n: i64 = sizes.iter().product();
    let mut index = vec![0; sizes.len()];
    for _ in 0..n {
        f(&index);
        for d in (0..sizes.len()).rev() {
            index[d] += 1;
            if index[d] < sizes[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

/// The first index of every line along a dimension.
pub fn each_line(sizes: &[i64], dim: usize, f: impl FnMut(&[i64])) {
    each(&replaced(sizes, dim, 1), f);
}

/// The index with another value at one dimension.
pub fn replaced(index: &[i64], dim: usize, value: i64) -> Vec<i64> {
    let mut index = index.to_vec();
    index[dim] = value;
    index
}

/// A launch's operands as cells.
pub struct Args<'a> {
    pub launch: &'a Launch<'a>,
}

impl<'a> Args<'a> {
    /// # Safety
    /// The launch's contract, for as long as the operands are used.
    pub unsafe fn new(launch: &'a Launch<'a>) -> Args<'a> {
        Args { launch }
    }
    fn cells(&self, v: &View<'_>) -> Result<Cells> {
        // SAFETY: by `new`.
        unsafe { Cells::new(Toy::of(self.launch.queue.device.kind)?, v) }
    }
    pub fn input(&self, i: usize) -> Result<Cells> {
        self.cells(&self.launch.input(i)?)
    }
    pub fn output(&self, i: usize) -> Result<Cells> {
        self.cells(&self.launch.output(i)?)
    }
    pub fn opt_input(&self, i: usize) -> Result<Option<Cells>> {
        self.launch.opt_input(i).map(|v| self.cells(&v)).transpose()
    }
    pub fn opt_output(&self, i: usize) -> Result<Option<Cells>> {
        self.launch.opt_output(i).map(|v| self.cells(&v)).transpose()
    }
    /// The number in a 0-dim input.
    pub fn number(&self, i: usize) -> Result<Option<f64>> {
        Ok(self.opt_input(i)?.map(|c| c.get(&[]).f()))
    }
    /// The primitive's parameters.
    pub fn read<P: Encode>(&self) -> Result<P> {
        self.launch.read()
    }
}
