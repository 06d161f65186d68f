//! An optimizer's rule: what one step does to a parameter, its gradient and its states, compiled for every ISA and
//! compute dtype, and as text.
//!
//! A rule is two formulas. `scalars` turns hyper-parameters and the numbers of the step (lr, step count) into constants,
//! once a launch in f64. `step` updates one element. Knows no views: the shells of the providers walk memory.

use crate::lanes::{Isa, Lanes, Num, Register, texts};
use oneflow_base::{DType, Error, Result};
use std::fmt::Write;
use std::sync::RwLock;

/// States an element of a parameter may have.
pub const MAX_STATES: usize = 3;
/// Hyper-parameters a rule may read.
pub const MAX_HYPER: usize = 8;
/// Numbers of the step (0-dim tensors) a rule may read.
pub const MAX_NUMBERS: usize = 4;
/// Constants a step may read.
pub const MAX_SCALARS: usize = 12;

/// A rule's formulas. Both must be `#[inline(always)]`.
pub trait UpdateFormula {
    /// The constants of one step, from hyper-parameters `h` and numbers `x`.
    fn scalars<L: Lanes>(h: &[L], x: &[L]) -> [L; MAX_SCALARS];
    /// The new parameter and states, from parameter, gradient, states and constants.
    fn step<L: Lanes>(p: L, g: L, s: [L; MAX_STATES], c: &[L]) -> (L, [L; MAX_STATES]);
}

/// A compiled rule over `n` elements of parameter, gradient and states. `c` holds what gradients are multiplied by, then
/// `MAX_SCALARS` constants.
///
/// # Safety (of the pointee)
/// `at` holds two pointers more than the rule has states, each valid for `n` elements and, but for the gradient's, for
/// writes; they do not overlap. `c` is valid for `MAX_SCALARS + 1` reads.
pub type UpdateTile<T> = unsafe fn(n: usize, at: *const *mut T, c: *const T);

type Step<T> = fn(T, T, [T; MAX_STATES], &[T]) -> (T, [T; MAX_STATES]);

/// A rule by name.
pub struct Rule {
    pub name: &'static str,
    pub n_states: usize,
    pub n_hyper: usize,
    pub n_numbers: usize,
    /// The constants of a step.
    pub scalars: fn(&[f64; MAX_HYPER], &[f64; MAX_NUMBERS]) -> [f64; MAX_SCALARS],
    /// The reference.
    pub step: Step<f64>,
    f32: [UpdateTile<f32>; 3],
    f64: [UpdateTile<f64>; 3],
    text: fn(DType, &Rule) -> String,
}

impl Rule {
    pub const fn new<F: UpdateFormula>(name: &'static str, n_states: usize, n_hyper: usize, n_numbers: usize) -> Rule {
        assert!(n_states <= MAX_STATES && n_hyper <= MAX_HYPER && n_numbers <= MAX_NUMBERS);
        let (f32, f64) = match n_states {
            0 => tiles::<F, 0>(),
            1 => tiles::<F, 1>(),
            2 => tiles::<F, 2>(),
            _ => tiles::<F, 3>(),
        };
        Rule {
            name,
            n_states,
            n_hyper,
            n_numbers,
            scalars: |h, x| F::scalars::<f64>(h, x),
            step: F::step::<f64>,
            f32,
            f64,
            text: text_of::<F>,
        }
    }

    /// What a launch and a saved plan name the rule by.
    pub const fn id(&self) -> u64 {
        // FNV-1a: the same in every process.
        let (bytes, mut hash, mut i) = (self.name.as_bytes(), 0xcbf29ce484222325u64, 0);
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100000001b3);
            i += 1;
        }
        hash
    }

    #[inline]
    pub fn tile_f32(&self, isa: Isa) -> UpdateTile<f32> {
        self.f32[isa.lanes() as usize]
    }
    #[inline]
    pub fn tile_f64(&self, isa: Isa) -> UpdateTile<f64> {
        self.f64[isa.lanes() as usize]
    }

    /// Two C++ functions: `scalars(const double* h, const double* x, double* c)` and
    /// `step(C& p, C g, C* s, const C* c)` with `C` the compute dtype's type.
    pub fn cuda_text(&self, compute: DType) -> String {
        (self.text)(compute, self)
    }

    /// All registered rules.
    pub fn all() -> Vec<&'static Rule> {
        REGISTRY.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// A registered rule by its id.
    pub fn by_id(id: u64) -> Result<&'static Rule> {
        find(|r| r.id() == id).ok_or_else(|| Error::runtime("optimizer update: unknown rule"))
    }
    /// A registered rule by its name.
    pub fn by_name(name: &str) -> Result<&'static Rule> {
        find(|r| r.name == name).ok_or_else(|| Error::value(format!("optimizer update: unknown rule {name:?}")))
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

static REGISTRY: RwLock<Vec<&'static Rule>> = RwLock::new(Vec::new());

/// Makes a rule known. Called at start-up.
pub fn register_rule(rule: &'static Rule) {
    let mut table = REGISTRY.write().unwrap_or_else(|e| e.into_inner());
    if !table.iter().any(|r| r.name == rule.name) {
        table.push(rule);
    }
}

fn find(wanted: impl Fn(&Rule) -> bool) -> Option<&'static Rule> {
    REGISTRY.read().unwrap_or_else(|e| e.into_inner()).iter().copied().find(|r| wanted(r))
}

type Tiles = ([UpdateTile<f32>; 3], [UpdateTile<f64>; 3]);

#[cfg(target_arch = "x86_64")]
const fn tiles<F: UpdateFormula, const NS: usize>() -> Tiles {
    (
        [tile::<f32, F, NS>, tile_avx2::<crate::F32x8, F, NS>, tile_avx512::<crate::F32x16, F, NS>],
        [tile::<f64, F, NS>, tile_avx2::<crate::F64x4, F, NS>, tile_avx512::<crate::F64x8, F, NS>],
    )
}
#[cfg(not(target_arch = "x86_64"))]
const fn tiles<F: UpdateFormula, const NS: usize>() -> Tiles {
    ([tile::<f32, F, NS>; 3], [tile::<f64, F, NS>; 3])
}

#[inline(always)]
unsafe fn tile<R: Register, F: UpdateFormula, const NS: usize>(n: usize, at: *const *mut R::Elem, c: *const R::Elem) {
    // SAFETY: `UpdateTile`'s contract: whole registers while they fit, then the rest by partial loads and stores.
    unsafe {
        let factor = R::all_of(*c);
        let mut consts = [R::splat(0.0); MAX_SCALARS];
        for (k, v) in consts.iter_mut().enumerate() {
            *v = R::all_of(*c.add(1 + k));
        }
        let (p_at, g_at) = (*at, *at.add(1));
        let mut i = 0;
        while i + R::WIDTH <= n {
            let mut s = [R::splat(0.0); MAX_STATES];
            for k in 0..NS {
                s[k] = R::load((*at.add(2 + k)).add(i));
            }
            let (p, s) = F::step(R::load(p_at.add(i)), R::load(g_at.add(i)) * factor, s, &consts);
            p.store(p_at.add(i));
            for k in 0..NS {
                s[k].store((*at.add(2 + k)).add(i));
            }
            i += R::WIDTH;
        }
        let rest = n - i;
        if rest > 0 {
            let mut s = [R::splat(0.0); MAX_STATES];
            for k in 0..NS {
                s[k] = R::load_partial((*at.add(2 + k)).add(i), rest);
            }
            let g = R::load_partial(g_at.add(i), rest) * factor;
            let (p, s) = F::step(R::load_partial(p_at.add(i), rest), g, s, &consts);
            p.store_partial(p_at.add(i), rest);
            for k in 0..NS {
                s[k].store_partial((*at.add(2 + k)).add(i), rest);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn tile_avx2<R: Register, F: UpdateFormula, const NS: usize>(
    n: usize,
    at: *const *mut R::Elem,
    c: *const R::Elem,
) {
    // SAFETY: the caller's.
    unsafe { tile::<R, F, NS>(n, at, c) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn tile_avx512<R: Register, F: UpdateFormula, const NS: usize>(
    n: usize,
    at: *const *mut R::Elem,
    c: *const R::Elem,
) {
    // SAFETY: the caller's.
    unsafe { tile::<R, F, NS>(n, at, c) }
}

fn text_of<F: UpdateFormula>(compute: DType, rule: &Rule) -> String {
    let mut out = String::from("__device__ void scalars(const double* h, const double* x, double* c) {\n");
    let (n_hyper, n_numbers) = (rule.n_hyper, rule.n_numbers);
    for k in 0..n_hyper {
        let _ = writeln!(out, "const double p{k} = h[{k}];");
    }
    for k in 0..n_numbers {
        let _ = writeln!(out, "const double x{k} = x[{k}];");
    }
    let (body, values) = texts(DType::F64, n_numbers, MAX_HYPER, |x, h| {
        let mut numbers = x.to_vec();
        numbers.resize(MAX_NUMBERS, Num::splat(0.0));
        F::scalars(h, &numbers).to_vec()
    });
    out += &body;
    for (k, v) in values.iter().enumerate() {
        let _ = writeln!(out, "c[{k}] = {v};");
    }
    out += "}\n__device__ void step(C& p, C g, C* s, const C* c) {\nconst C x0 = p, x1 = g;\n";
    for k in 0..rule.n_states {
        let _ = writeln!(out, "const C x{} = s[{k}];", k + 2);
    }
    for k in 0..MAX_SCALARS {
        let _ = writeln!(out, "const C p{k} = c[{k}];");
    }
    let n_states = rule.n_states;
    let (body, values) = texts(compute, 2 + n_states, MAX_SCALARS, |x, c| {
        let s = std::array::from_fn(|k| x.get(2 + k).copied().unwrap_or(Num::splat(0.0)));
        let (p, s) = F::step(x[0], x[1], s, c);
        [&[p], &s[..n_states]].concat()
    });
    out += &body;
    for (k, v) in values.iter().enumerate() {
        let _ = if k == 0 { writeln!(out, "p = {v};") } else { writeln!(out, "s[{}] = {v};", k - 1) };
    }
    out + "}\n"
}
