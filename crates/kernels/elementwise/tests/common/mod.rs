//! A strided array for tests, and launches on it.
#![allow(dead_code)]

use oneflow_base::{DType, Device, Result, bf16, contiguous_strides, f16};
use oneflow_ep::Queue;
use oneflow_kernels_prim::{Expr, Launch, Primitive, View, Word};
use std::sync::Once;

pub const REAL: [DType; 10] = {
    use DType::*;
    [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64]
};

#[derive(Clone, Debug)]
pub struct Arr {
    data: Vec<u64>,
    pub dtype: DType,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub offset: i64,
}

impl Arr {
    pub fn new(dtype: DType, sizes: &[i64], f: impl Fn(usize) -> f64) -> Arr {
        let n: i64 = sizes.iter().product();
        let mut a = Arr {
            data: vec![0; (n as usize * dtype.size()).div_ceil(8) + 1],
            dtype,
            sizes: sizes.to_vec(),
            strides: contiguous_strides(sizes).to_vec(),
            offset: 0,
        };
        (0..n as usize).for_each(|i| a.write(i as i64, f(i)));
        a
    }
    /// Small numbers every dtype holds.
    pub fn small(dtype: DType, sizes: &[i64]) -> Arr {
        Arr::new(dtype, sizes, |i| match dtype {
            DType::Bool => (i % 3 == 0) as u8 as f64,
            DType::U8 => (i * 7 % 11) as f64,
            _ => (i * 7 % 11) as f64 - 5.0,
        })
    }
    /// Numbers in (-1, 1) of all bits.
    pub fn noise(dtype: DType, sizes: &[i64], seed: u64) -> Arr {
        Arr::new(dtype, sizes, |i| {
            let mut h = (i as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15) ^ seed.wrapping_mul(0xbf58476d1ce4e5b9);
            h ^= h >> 31;
            h = h.wrapping_mul(0x94d049bb133111eb);
            h ^= h >> 29;
            let v = (h >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            if dtype.is_float() { v } else { (v * 50.0).abs().round() }
        })
    }
    fn at(&self, element: i64) -> *mut u8 {
        self.data.as_ptr().cast::<u8>().cast_mut().wrapping_offset(element as isize * self.dtype.size() as isize)
    }
    fn write(&mut self, element: i64, v: f64) {
        let p = self.at(element);
        // SAFETY: the element lies in the data.
        unsafe {
            match self.dtype {
                DType::Bool => p.write((v != 0.0) as u8),
                DType::U8 => p.write(v as u8),
                DType::I8 => p.cast::<i8>().write(v as i8),
                DType::I16 => p.cast::<i16>().write(v as i16),
                DType::I32 => p.cast::<i32>().write(v as i32),
                DType::I64 => p.cast::<i64>().write(v as i64),
                DType::F16 => p.cast::<f16>().write(f16::from_f32(v as f32)),
                DType::BF16 => p.cast::<bf16>().write(bf16::from_f32(v as f32)),
                DType::F32 | DType::C64 => p.cast::<f32>().write(v as f32),
                DType::F64 | DType::C128 => p.cast::<f64>().write(v),
                limited => unreachable!("{limited}"),
            }
        }
    }
    pub fn element(&self, element: i64) -> f64 {
        let p = self.at(element);
        // SAFETY: the element lies in the data.
        unsafe {
            match self.dtype {
                DType::Bool | DType::U8 => p.read() as f64,
                DType::I8 => p.cast::<i8>().read() as f64,
                DType::I16 => p.cast::<i16>().read() as f64,
                DType::I32 => p.cast::<i32>().read() as f64,
                DType::I64 => p.cast::<i64>().read() as f64,
                DType::F16 => p.cast::<f16>().read().to_f64(),
                DType::BF16 => p.cast::<bf16>().read().to_f64(),
                DType::F32 | DType::C64 => p.cast::<f32>().read() as f64,
                DType::F64 | DType::C128 => p.cast::<f64>().read(),
                limited => unreachable!("{limited}"),
            }
        }
    }
    /// The value at a row-major position.
    pub fn get(&self, mut i: usize) -> f64 {
        let mut e = self.offset;
        for d in (0..self.sizes.len()).rev() {
            e += (i as i64 % self.sizes[d]) * self.strides[d];
            i /= self.sizes[d] as usize;
        }
        self.element(e)
    }
    pub fn values(&self) -> Vec<f64> {
        (0..self.numel()).map(|i| self.get(i)).collect()
    }
    pub fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }
    pub fn view(&self) -> View<'_> {
        View { ptr: self.at(self.offset), dtype: self.dtype, sizes: &self.sizes, strides: &self.strides }
    }
    pub fn permute(mut self, dims: &[usize]) -> Arr {
        self.sizes = dims.iter().map(|d| self.sizes[*d]).collect::<Vec<_>>();
        self.strides = dims.iter().map(|d| self.strides[*d]).collect::<Vec<_>>();
        self
    }
    pub fn flip(mut self, d: usize) -> Arr {
        self.offset += (self.sizes[d] - 1).max(0) * self.strides[d];
        self.strides[d] = -self.strides[d];
        self
    }
    pub fn every(mut self, d: usize, step: i64) -> Arr {
        self.sizes[d] = (self.sizes[d] + step - 1) / step;
        self.strides[d] *= step;
        self
    }
    pub fn expand(mut self, d: usize, size: i64) -> Arr {
        assert_eq!(self.sizes[d], 1);
        self.sizes[d] = size;
        self.strides[d] = 0;
        self
    }
}

/// The same shape in many layouts.
pub fn layouts(sizes: &[i64], make: &dyn Fn(&[i64]) -> Arr) -> Vec<Arr> {
    let n = sizes.len();
    let mut all = vec![make(sizes)];
    if n >= 1 {
        all.push(make(sizes).flip(n - 1));
        all.push(make(sizes).flip(0));
        let mut wide = sizes.to_vec();
        wide[n - 1] *= 2;
        all.push(make(&wide).every(n - 1, 2));
        let reversed: Vec<i64> = sizes.iter().rev().copied().collect();
        let dims: Vec<usize> = (0..n).rev().collect();
        all.push(make(&reversed).permute(&dims));
        for d in [0, n - 1] {
            let mut one = sizes.to_vec();
            one[d] = 1;
            all.push(make(&one).expand(d, sizes[d]));
        }
    }
    if n >= 3 {
        // A rotation of the dimensions.
        let rotated: Vec<i64> = (0..n).map(|d| sizes[(d + 1) % n]).collect();
        let dims: Vec<usize> = (0..n).map(|d| (d + n - 1) % n).collect();
        all.push(make(&rotated).permute(&dims));
    }
    for a in &mut all {
        if a.sizes != sizes {
            a.sizes = sizes.to_vec();
        }
    }
    all
}

pub fn queue() -> Queue {
    Queue { device: Device::CPU, raw: std::ptr::null_mut() }
}

pub fn launch(
    p: &Primitive,
    outs: &[Option<&Arr>],
    ins: &[Option<&Arr>],
    params: &[Word],
    expr: Option<&'static Expr>,
) -> Result<()> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(oneflow_kernels_elementwise::register);
    let outs: Vec<_> = outs.iter().map(|o| o.map(Arr::view)).collect();
    let ins: Vec<_> = ins.iter().map(|i| i.map(Arr::view)).collect();
    let f = p.on(oneflow_base::DeviceType::CPU)?;
    // SAFETY: the views are of live arrays.
    unsafe { f(&Launch { outs: &outs, ins: &ins, params, expr, queue: queue() }) }
}

/// Whether two numbers agree to a relative tolerance.
pub fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs())
}

pub fn compare(got: &Arr, want: impl Fn(usize) -> f64, tolerance: f64, what: &str) {
    for i in 0..got.numel() {
        let (g, w) = (got.get(i), want(i));
        assert!(close(g, w, tolerance), "{what}: element {i} of {:?} is {g}, not {w}", got.sizes);
    }
}
