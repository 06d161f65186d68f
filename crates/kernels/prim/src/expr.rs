//! An elementwise expression: one formula, compiled for every ISA and compute dtype, and as text.
//!
//! An op's file writes the formula once and makes a static of it:
//!
//! ```
//! use oneflow_kernels_prim::{Expr, Lanes, Num, expr};
//! pub static SILU: Expr = expr!(float "silu", |x| x * x.sigmoid());
//! pub static ADD: Expr = expr!(num "add", |x, y; p| x + p[0] * y);
//! assert_eq!(ADD.eval_i64(&[1, 2], &[10]), Some(21));
//! assert_eq!(SILU.cuda_text(oneflow_base::DType::F32).unwrap(), "return x0 * (1.0f / (1.0f + expf((-x0))));");
//! ```
//!
//! Knows no views: the shells of the elementwise crate walk memory and call the tiles.

mod tiles;

use crate::lanes::{Cx, I32, I64, Ints, Isa, Lanes, Num, Sym, U8, U16, text};
use oneflow_base::DType;
use std::sync::RwLock;
use tiles::{AsFloat, AsInt, AsNum, Eval, FloatTiles, Tiles, complex_tile, int_tiles};

/// Scalars a formula may read; a tile's parameter pointer is valid for this many.
pub const MAX_PARAMS: usize = 6;
/// Inputs a formula may have.
pub const MAX_INPUTS: usize = 8;

/// A formula on floats. `p` holds `MAX_PARAMS` launch scalars in every lane. `eval` must be `#[inline(always)]`; `expr!` sees to it.
pub trait Formula<const N: usize> {
    fn eval<L: Lanes>(x: [L; N], p: &[L]) -> L;
}

/// A formula on floats and integers.
pub trait NumFormula<const N: usize> {
    fn eval<L: Num>(x: [L; N], p: &[L]) -> L;
}

/// A formula on integers.
pub trait IntFormula<const N: usize> {
    fn eval<L: Ints>(x: [L; N], p: &[L]) -> L;
}

/// A formula on complex numbers.
pub trait ComplexFormula<const N: usize> {
    fn eval<L: Lanes>(x: [Cx<L>; N], p: &[Cx<L>]) -> Cx<L>;
}

/// A compiled formula: `out[i] = f(ins[0][i * steps[0]], ..)` for `i < n`.
///
/// # Safety (of the pointee)
/// `ins` and `steps` hold arity entries, steps are 0 or 1; inputs are readable and `out` writable for `n` elements (one where the step is
/// 0); `p` points at `MAX_PARAMS` scalars. `out` may be exactly an input with step 1, and overlaps inputs in no other way.
pub type Tile<T, P = T> = unsafe fn(n: usize, ins: *const *const T, steps: *const usize, out: *mut T, p: *const P);

/// A formula on one number: inputs and scalars.
type Reference<T> = fn(&[T], &[T]) -> T;

/// What a formula on all numbers is compiled for beyond floats and wide integers: the bits of bfloat16 and float16 numbers,
/// which are computed in f32, integers of 32 bits, and bytes.
#[derive(Clone, Copy)]
struct Narrow {
    bf16: Option<Tiles<u16, f32>>,
    f16: Option<Tiles<u16, f32>>,
    i32: Option<Tiles<i32>>,
    u8: Option<Tiles<u8>>,
    /// The same of a half type's bits, where bits alone give the result.
    bits: Option<Tiles<u16>>,
}

impl Narrow {
    const NONE: Narrow = Narrow { bf16: None, f16: None, i32: None, u8: None, bits: None };

    const fn ints<F: Eval<N, I32> + Eval<N, U8>, const N: usize>() -> Narrow {
        Narrow { i32: Some(int_tiles::<I32, F, N>()), u8: Some(int_tiles::<U8, F, N>()), ..Narrow::NONE }
    }
}

/// A formula on complex numbers, compiled one number at a time. Made by `complex!`.
#[derive(Clone, Copy)]
pub struct Complex {
    arity: usize,
    c64: Tile<Cx<f32>>,
    c128: Tile<Cx<f64>>,
}

impl Complex {
    pub const fn of<F: ComplexFormula<N>, const N: usize>() -> Complex {
        Complex { arity: N, c64: complex_tile::<f32, F, N>, c128: complex_tile::<f64, F, N> }
    }
}

/// A formula on the bits of half types, which gives what the formula on numbers gives. Made by `bits!`.
#[derive(Clone, Copy)]
pub struct Bits {
    arity: usize,
    tiles: Tiles<u16>,
}

impl Bits {
    pub const fn of<F: IntFormula<N>, const N: usize>() -> Bits {
        Bits { arity: N, tiles: int_tiles::<U16, AsInt<F>, N>() }
    }
}

/// A formula compiled for every ISA and compute dtype, and as a symbol.
pub struct Expr {
    pub name: &'static str,
    pub arity: usize,
    /// The input that must not be zero where the compute dtype is integer (a division).
    pub nonzero: Option<usize>,
    /// Whether it gives zero or one, of truths where it is a formula on bits.
    pub truth: bool,
    f32: Option<Tiles<f32>>,
    f64: Option<Tiles<f64>>,
    i64: Option<Tiles<i64>>,
    narrow: Narrow,
    complex: Option<Complex>,
    eval_f32: Option<Reference<f32>>,
    eval_f64: Option<Reference<f64>>,
    eval_i64: Option<Reference<i64>>,
    text: fn(DType) -> (String, usize),
}

impl Expr {
    /// An expression of a formula on floats.
    pub const fn float<F: Formula<N>, const N: usize>(name: &'static str) -> Expr {
        Expr { i64: None, eval_i64: None, text: text_of::<AsFloat<F>, N>, ..Expr::floats::<AsFloat<F>, N>(name) }
    }

    /// An expression of a formula on floats that is compiled for half types too: one so short that casting counts.
    pub const fn half<F: Formula<N>, const N: usize>(name: &'static str) -> Expr {
        Expr {
            narrow: Narrow { bf16: Some(AsFloat::<F>::BF16), f16: Some(AsFloat::<F>::F16), ..Narrow::NONE },
            ..Expr::float::<F, N>(name)
        }
    }

    /// An expression of a formula on floats and integers.
    pub const fn num<F: NumFormula<N>, const N: usize>(name: &'static str) -> Expr {
        Expr {
            i64: Some(int_tiles::<I64, AsNum<F>, N>()),
            narrow: Narrow {
                bf16: Some(AsNum::<F>::BF16),
                f16: Some(AsNum::<F>::F16),
                ..Narrow::ints::<AsNum<F>, N>()
            },
            eval_i64: Some(eval_int::<AsNum<F>, N>),
            text: text_of::<AsNum<F>, N>,
            ..Expr::floats::<AsNum<F>, N>(name)
        }
    }

    /// An expression of a formula on integers.
    pub const fn int<F: IntFormula<N>, const N: usize>(name: &'static str) -> Expr {
        Expr {
            name,
            arity: N,
            nonzero: None,
            truth: false,
            f32: None,
            f64: None,
            i64: Some(int_tiles::<I64, AsInt<F>, N>()),
            narrow: Narrow::ints::<AsInt<F>, N>(),
            complex: None,
            eval_f32: None,
            eval_f64: None,
            eval_i64: Some(eval_int::<AsInt<F>, N>),
            text: text_of::<AsInt<F>, N>,
        }
    }

    const fn floats<F, const N: usize>(name: &'static str) -> Expr
    where
        F: Eval<N, f32> + Eval<N, f64> + Eval<N, Sym> + FloatTiles<N>,
    {
        assert!(N > 0 && N <= MAX_INPUTS);
        Expr {
            name,
            arity: N,
            nonzero: None,
            truth: false,
            f32: Some(F::F32),
            f64: Some(F::F64),
            i64: None,
            narrow: Narrow::NONE,
            complex: None,
            eval_f32: Some(eval_float::<f32, F, N>),
            eval_f64: Some(eval_float::<f64, F, N>),
            eval_i64: None,
            text: text_of::<F, N>,
        }
    }

    /// The same expression with a formula for complex numbers.
    pub const fn complex(mut self, c: Complex) -> Expr {
        assert!(c.arity == self.arity);
        self.complex = Some(c);
        self
    }

    /// The same expression, which gives zero or one.
    pub const fn truth(mut self) -> Expr {
        self.truth = true;
        self
    }

    /// The same expression with a formula on the bits of half types.
    pub const fn bits(mut self, b: Bits) -> Expr {
        assert!(b.arity == self.arity);
        self.narrow.bits = Some(b.tiles);
        self
    }

    /// An expression that has a meaning on complex numbers alone.
    pub const fn complex_only(name: &'static str, c: Complex) -> Expr {
        Expr {
            name,
            arity: c.arity,
            nonzero: None,
            truth: false,
            f32: None,
            f64: None,
            i64: None,
            narrow: Narrow::NONE,
            complex: Some(c),
            eval_f32: None,
            eval_f64: None,
            eval_i64: None,
            text: |_| (String::new(), 0),
        }
    }

    /// The same expression whose integer launches refuse a zero in input `i`.
    pub const fn nonzero(mut self, i: usize) -> Expr {
        self.nonzero = Some(i);
        self
    }

    /// Whether the formula can be computed in F32, F64, I64, C64 or C128.
    pub fn computes_in(&self, dtype: DType) -> bool {
        match dtype {
            DType::F32 => self.f32.is_some(),
            DType::F64 => self.f64.is_some(),
            DType::I64 => self.i64.is_some(),
            DType::C64 | DType::C128 => self.complex.is_some(),
            _ => false,
        }
    }

    /// The body of `T f(T x0, .., T p0, ..)` (T = float, double or long long) as CUDA and C++ text, ending in a return.
    /// `None` where the formula has no meaning in the dtype.
    pub fn cuda_text(&self, dtype: DType) -> Option<String> {
        (self.computes_in(dtype) && !dtype.is_complex()).then(|| (self.text)(dtype).0)
    }

    /// Number of launch scalars the formula reads.
    pub fn n_params(&self) -> usize {
        (self.text)(if self.f32.is_some() { DType::F32 } else { DType::I64 }).1
    }

    #[inline]
    pub fn tile_f32(&self, isa: Isa) -> Option<Tile<f32>> {
        self.f32.as_ref().map(|t| t[isa.lanes() as usize])
    }
    #[inline]
    pub fn tile_f64(&self, isa: Isa) -> Option<Tile<f64>> {
        self.f64.as_ref().map(|t| t[isa.lanes() as usize])
    }
    #[inline]
    pub fn tile_i64(&self, isa: Isa) -> Option<Tile<i64>> {
        self.i64.as_ref().map(|t| t[isa.lanes() as usize])
    }

    /// Of 32-bit integers. Wrapped to the width of a tensor of up to 32 bits, results are those of `tile_i64` where all
    /// launch scalars fit.
    #[inline]
    pub fn tile_i32(&self, isa: Isa) -> Option<Tile<i32>> {
        self.narrow.i32.as_ref().map(|t| t[isa.lanes() as usize])
    }
    /// As `tile_i32`, of bytes without a sign.
    #[inline]
    pub fn tile_u8(&self, isa: Isa) -> Option<Tile<u8>> {
        self.narrow.u8.as_ref().map(|t| t[isa.lanes() as usize])
    }
    /// Of the bits of either half type, without arithmetic; it reads no launch scalars.
    #[inline]
    pub fn tile_bits(&self, isa: Isa) -> Option<Tile<u16>> {
        self.narrow.bits.as_ref().map(|t| t[isa.lanes() as usize])
    }
    /// Of the bits of a half type, computed in f32 and rounded once.
    #[inline]
    pub fn tile_half(&self, dtype: DType, isa: Isa) -> Option<Tile<u16, f32>> {
        let tiles = match dtype {
            DType::BF16 => &self.narrow.bf16,
            DType::F16 => &self.narrow.f16,
            _ => &None,
        };
        tiles.as_ref().map(|t| t[isa.lanes() as usize])
    }

    #[inline]
    pub fn tile_c64(&self) -> Option<Tile<Cx<f32>>> {
        self.complex.map(|c| c.c64)
    }
    #[inline]
    pub fn tile_c128(&self) -> Option<Tile<Cx<f64>>> {
        self.complex.map(|c| c.c128)
    }

    /// The reference value in f32. `x` has arity entries; missing scalars read as zero.
    pub fn eval_f32(&self, x: &[f32], p: &[f32]) -> Option<f32> {
        self.eval_f32.filter(|_| x.len() == self.arity).map(|f| f(x, p))
    }
    /// The reference value in f64.
    pub fn eval_f64(&self, x: &[f64], p: &[f64]) -> Option<f64> {
        self.eval_f64.filter(|_| x.len() == self.arity).map(|f| f(x, p))
    }
    /// The reference value in i64.
    pub fn eval_i64(&self, x: &[i64], p: &[i64]) -> Option<i64> {
        self.eval_i64.filter(|_| x.len() == self.arity).map(|f| f(x, p))
    }
}

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Writes a formula in place: `expr!(float "name", |x, y; p| ..)`, with `num` or `int` for formulas that work on all numbers
/// or on integers, `half` for short ones on floats. Inside, `L` is the number's type (`L::splat(0.5)`), and `p` (may be left out) holds the launch scalars.
#[macro_export]
macro_rules! expr {
    (float $name:literal, |$($x:ident),+ $(; $p:ident)?| $body:expr) => {
        $crate::expr!(@make Formula Lanes float $name [$($x)+] [$($p)?] $body)
    };
    (half $name:literal, |$($x:ident),+ $(; $p:ident)?| $body:expr) => {
        $crate::expr!(@make Formula Lanes half $name [$($x)+] [$($p)?] $body)
    };
    (num $name:literal, |$($x:ident),+ $(; $p:ident)?| $body:expr) => {
        $crate::expr!(@make NumFormula Num num $name [$($x)+] [$($p)?] $body)
    };
    (int $name:literal, |$($x:ident),+ $(; $p:ident)?| $body:expr) => {
        $crate::expr!(@make IntFormula Ints int $name [$($x)+] [$($p)?] $body)
    };
    (@make $formula:ident $bound:ident $make:ident $name:literal [$($x:ident)+] [] $body:expr) => {
        $crate::expr!(@make $formula $bound $make $name [$($x)+] [_p] $body)
    };
    (@make $formula:ident $bound:ident $make:ident $name:literal [$($x:ident)+] [$p:ident] $body:expr) => {{
        struct F;
        const N: usize = [$(stringify!($x)),+].len();
        impl $crate::$formula<N> for F {
            #[inline(always)]
            fn eval<L: $crate::$bound>([$($x),+]: [L; N], $p: &[L]) -> L {
                $body
            }
        }
        $crate::Expr::$make::<F, N>($name)
    }};
}

/// A formula on complex numbers for `Expr::complex`: `complex!(|x, y; p| x * y + p[0])`. Inside, `L` is the parts' type and
/// numbers are `Cx<L>`.
#[macro_export]
macro_rules! complex {
    (|$($x:ident),+ $(; $p:ident)?| $body:expr) => {
        $crate::complex!(@make [$($x)+] [$($p)?] $body)
    };
    (@make [$($x:ident)+] [] $body:expr) => {
        $crate::complex!(@make [$($x)+] [_p] $body)
    };
    (@make [$($x:ident)+] [$p:ident] $body:expr) => {{
        struct F;
        const N: usize = [$(stringify!($x)),+].len();
        impl $crate::ComplexFormula<N> for F {
            #[inline(always)]
            fn eval<L: $crate::Lanes>([$($x),+]: [$crate::Cx<L>; N], $p: &[$crate::Cx<L>]) -> $crate::Cx<L> {
                $body
            }
        }
        $crate::Complex::of::<F, N>()
    }};
}

/// A formula on the bits of half types for `Expr::bits`: `bits!(|x| x.bit_xor(L::splat(32768.0)))`.
#[macro_export]
macro_rules! bits {
    (|$($x:ident),+| $body:expr) => {{
        struct F;
        const N: usize = [$(stringify!($x)),+].len();
        impl $crate::IntFormula<N> for F {
            #[inline(always)]
            fn eval<L: $crate::Ints>([$($x),+]: [L; N], _: &[L]) -> L {
                $body
            }
        }
        $crate::Bits::of::<F, N>()
    }};
}

// ---- registry --------------------------------------------------------------------------------------------------------

static REGISTRY: RwLock<Vec<&'static Expr>> = RwLock::new(Vec::new());

/// Makes an expression known by name and gives its id, the same one each time. Called by ops at start-up.
pub fn register_expr(e: &'static Expr) -> u32 {
    let mut table = REGISTRY.write().unwrap_or_else(|e| e.into_inner());
    if let Some(i) = table.iter().position(|x| x.name == e.name) {
        return i as u32;
    }
    table.push(e);
    table.len() as u32 - 1
}

impl Expr {
    /// A registered expression by its name.
    pub fn by_name(name: &str) -> Option<&'static Expr> {
        let table = REGISTRY.read().unwrap_or_else(|e| e.into_inner());
        table.iter().copied().find(|e| e.name == name)
    }
    /// A registered expression by its id.
    pub fn by_id(id: u32) -> Option<&'static Expr> {
        let table = REGISTRY.read().unwrap_or_else(|e| e.into_inner());
        table.get(id as usize).copied()
    }
    /// The id of a registered expression.
    pub fn id(&self) -> Option<u32> {
        let table = REGISTRY.read().unwrap_or_else(|e| e.into_inner());
        table.iter().position(|e| std::ptr::eq(*e, self)).map(|i| i as u32)
    }
}

// ---- references and text ---------------------------------------------------------------------------------------------

/// Launch scalars, padded with zeros.
fn padded<L: Num>(p: &[L]) -> [L; MAX_PARAMS] {
    std::array::from_fn(|i| p.get(i).copied().unwrap_or(L::splat(0.0)))
}

fn eval_float<T: Lanes, F: Eval<N, T>, const N: usize>(x: &[T], p: &[T]) -> T {
    F::call(std::array::from_fn(|i| x[i]), &padded(p))
}

fn eval_int<F: Eval<N, I64>, const N: usize>(x: &[i64], p: &[i64]) -> i64 {
    let p: [I64; MAX_PARAMS] = std::array::from_fn(|i| I64(p.get(i).copied().unwrap_or(0)));
    F::call(std::array::from_fn(|i| I64(x[i])), &p).0
}

fn text_of<F: Eval<N, Sym>, const N: usize>(dtype: DType) -> (String, usize) {
    text(dtype, N, MAX_PARAMS, |x, p| F::call(std::array::from_fn(|i| x[i]), p))
}
