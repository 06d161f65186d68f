//! One launch of a primitive, and the primitive's table of implementations.

use crate::{Encode, Expr, View, Words};
use oneflow_base::{DType, DeviceType, Error, ErrorKind, Result};
use oneflow_ep::Queue;
use smallvec::SmallVec;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A launch parameter: an integer or a float, by the primitive's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub u64);

/// Launch parameters, kept as words so that a plan can store them.
pub type Params = SmallVec<[Word; 8]>;

impl Word {
    #[inline]
    pub fn i64(self) -> i64 {
        self.0 as i64
    }
    #[inline]
    pub fn u64(self) -> u64 {
        self.0
    }
    #[inline]
    pub fn usize(self) -> usize {
        self.0 as usize
    }
    #[inline]
    pub fn f64(self) -> f64 {
        f64::from_bits(self.0)
    }
    #[inline]
    pub fn bool(self) -> bool {
        self.0 != 0
    }
    /// A dtype parameter; anything unknown reads as `F32`.
    #[inline]
    pub fn dtype(self) -> DType {
        DType::from_u8(self.0 as u8).unwrap_or(DType::F32)
    }
}
impl From<i64> for Word {
    #[inline]
    fn from(v: i64) -> Self {
        Word(v as u64)
    }
}
impl From<u64> for Word {
    #[inline]
    fn from(v: u64) -> Self {
        Word(v)
    }
}
impl From<usize> for Word {
    #[inline]
    fn from(v: usize) -> Self {
        Word(v as u64)
    }
}
impl From<f64> for Word {
    #[inline]
    fn from(v: f64) -> Self {
        Word(v.to_bits())
    }
}
impl From<bool> for Word {
    #[inline]
    fn from(v: bool) -> Self {
        Word(v as u64)
    }
}
impl From<DType> for Word {
    #[inline]
    fn from(v: DType) -> Self {
        Word(v as u64)
    }
}

/// Everything a kernel gets. All views lie on one device. Outputs never partly overlap inputs; an output may be exactly
/// an input (same pointer, sizes and strides) for elementwise primitives.
pub struct Launch<'a> {
    pub outs: &'a [Option<View<'a>>],
    pub ins: &'a [Option<View<'a>>],
    pub params: &'a [Word],
    /// The expression of an `ELEMENTWISE` launch.
    pub expr: Option<&'static Expr>,
    pub queue: Queue,
}

impl<'a> Launch<'a> {
    /// Input `i`; its absence is an error of the op's definition, reported by name.
    #[inline]
    pub fn input(&self, i: usize) -> Result<View<'a>> {
        self.ins.get(i).copied().flatten().ok_or_else(|| missing("input", i))
    }
    #[inline]
    pub fn output(&self, i: usize) -> Result<View<'a>> {
        self.outs.get(i).copied().flatten().ok_or_else(|| missing("output", i))
    }
    #[inline]
    pub fn opt_input(&self, i: usize) -> Option<View<'a>> {
        self.ins.get(i).copied().flatten()
    }
    #[inline]
    pub fn opt_output(&self, i: usize) -> Option<View<'a>> {
        self.outs.get(i).copied().flatten()
    }
    /// The primitive's parameters.
    #[inline]
    pub fn read<P: Encode>(&self) -> Result<P> {
        Words::new(self.params).all()
    }
    /// The compute dtype of an `ELEMENTWISE` launch and the scalars of its expression.
    #[inline]
    pub fn scalars(&self) -> Result<(DType, &'a [Word])> {
        let (dtype, scalars) = self.params.split_first().ok_or_else(|| missing("parameter", 0))?;
        Ok((dtype.dtype(), scalars))
    }
}

#[cold]
fn missing(what: &str, i: usize) -> Error {
    Error::runtime(format!("kernel launch: {what} {i} is missing"))
}

/// A provider's implementation. It may be called from any thread.
///
/// # Safety (of the pointee)
/// The views of the launch are valid for reads (inputs) and writes (outputs) of their dtype, on the queue's device.
pub type KernelFn = unsafe fn(&Launch<'_>) -> Result<()>;

/// How kernels of a device are asked whether they take a launch, whose views have no memory: an error of the kind NotImplemented
/// where they decline.
pub type QuestionFn = fn(KernelFn, &Launch<'_>) -> Result<()>;

static QUESTIONS: [OnceLock<QuestionFn>; DeviceType::MAX] = [const { OnceLock::new() }; DeviceType::MAX];

/// Says how kernels of a device type are asked. Called at start-up.
pub fn provide_question(kind: DeviceType, ask: QuestionFn) {
    let _ = QUESTIONS[kind.0 as usize].set(ask);
}

/// Returns true if a device's kernel is known to decline a launch, whose views need no memory. Kernels that cannot be asked are
/// taken to do all.
pub fn declines(kind: DeviceType, kernel: KernelFn, l: &Launch<'_>) -> bool {
    let ask = QUESTIONS[kind.0 as usize].get();
    ask.is_some_and(|ask| matches!(ask(kernel, l), Err(e) if e.kind() == ErrorKind::NotImplemented))
}

/// What a primitive's kernels make of dtypes that are `DType::is_limited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// They do not know them: such a launch is declined before a kernel is called.
    Numbers,
    /// They move elements without looking at them, and are given the `DType::carrier` instead.
    Bytes,
    /// They take them as they are, or decline themselves.
    Any,
}

/// Operands of a primitive that not every device's kernel takes, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    pub ins: u32,
    pub outs: u32,
}

impl Extras {
    pub const NONE: Extras = Extras { ins: 0, outs: 0 };
}

/// One kernel family's entry: a name, and one implementation a device type.
pub struct Primitive {
    pub name: &'static str,
    pub elements: Elements,
    pub extras: Extras,
    slots: [AtomicPtr<()>; DeviceType::MAX],
    /// Devices whose kernel takes the extras too.
    takes_extras: [AtomicBool; DeviceType::MAX],
    /// Devices whose kernel reads gradients narrower than what they are of.
    takes_narrow: [AtomicBool; DeviceType::MAX],
}

impl Primitive {
    pub const fn new(name: &'static str) -> Primitive {
        Primitive::of(name, Elements::Numbers)
    }

    pub const fn of(name: &'static str, elements: Elements) -> Primitive {
        Primitive {
            name,
            elements,
            extras: Extras::NONE,
            slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; DeviceType::MAX],
            takes_extras: [const { AtomicBool::new(false) }; DeviceType::MAX],
            takes_narrow: [const { AtomicBool::new(false) }; DeviceType::MAX],
        }
    }

    /// The same, with operands that a device may not take.
    pub const fn with_extras(mut self, extras: Extras) -> Primitive {
        self.extras = extras;
        self
    }

    /// The dtype in which an operand is handed to a kernel, or that the kernels do not know it.
    #[inline]
    pub fn operand(&self, dtype: DType) -> Result<DType> {
        if dtype.is_limited() { self.limited(dtype) } else { Ok(dtype) }
    }

    #[cold]
    fn limited(&self, dtype: DType) -> Result<DType> {
        match self.elements {
            Elements::Numbers => {
                let text = format!("\"{}\" not implemented for '{}'", self.name, dtype.scalar_type_name());
                Err(Error::not_implemented(text))
            }
            Elements::Bytes => Ok(dtype.carrier()),
            Elements::Any => Ok(dtype),
        }
    }

    /// Puts an implementation into a device type's slot, for launches without the extras. Called at start-up.
    pub fn provide(&self, kind: DeviceType, f: KernelFn) {
        self.takes_extras[kind.0 as usize].store(false, Ordering::Relaxed);
        self.slots[kind.0 as usize].store(f as *mut (), Ordering::Release);
    }

    /// As `provide`, of an implementation that takes the extras as well.
    pub fn provide_with_extras(&self, kind: DeviceType, f: KernelFn) {
        self.takes_extras[kind.0 as usize].store(true, Ordering::Relaxed);
        self.slots[kind.0 as usize].store(f as *mut (), Ordering::Release);
    }

    /// As `provide_with_extras`, of an implementation that also reads gradients in half types where all else is float32.
    pub fn provide_mixed(&self, kind: DeviceType, f: KernelFn) {
        self.takes_narrow[kind.0 as usize].store(true, Ordering::Relaxed);
        self.provide_with_extras(kind, f);
    }

    /// Whether a device's kernel takes the extras.
    #[inline]
    pub fn takes_extras(&self, kind: DeviceType) -> bool {
        self.takes_extras[kind.0 as usize].load(Ordering::Relaxed)
    }

    /// Whether a device's kernel reads gradients in half types where all else is float32.
    #[inline]
    pub fn takes_narrow(&self, kind: DeviceType) -> bool {
        self.takes_narrow[kind.0 as usize].load(Ordering::Relaxed)
    }

    /// The implementation for a device type and a launch with these operands.
    #[inline]
    pub fn kernel<I, O>(&self, kind: DeviceType, ins: &[Option<I>], outs: &[Option<O>]) -> Result<KernelFn> {
        let f = self.on(kind)?;
        if self.extras != Extras::NONE {
            self.check_extras(kind, ins, outs)?;
        }
        Ok(f)
    }

    fn check_extras<I, O>(&self, kind: DeviceType, ins: &[Option<I>], outs: &[Option<O>]) -> Result<()> {
        if self.takes_extras(kind) {
            return Ok(());
        }
        let named = |bits: u32, i: usize| i < 32 && bits >> i & 1 == 1;
        let input = ins.iter().enumerate().position(|(i, x)| x.is_some() && named(self.extras.ins, i));
        let output = outs.iter().enumerate().position(|(i, x)| x.is_some() && named(self.extras.outs, i));
        let (what, i) = match (input, output) {
            (Some(i), _) => ("input", i),
            (None, Some(i)) => ("output", i),
            (None, None) => return Ok(()),
        };
        Err(Error::not_implemented(format!("{}: the kernel for {} takes no {what} {i}", self.name, kind.name())))
    }

    /// Whether a device type has an implementation.
    #[inline]
    pub fn is_provided(&self, kind: DeviceType) -> bool {
        !self.slots[kind.0 as usize].load(Ordering::Acquire).is_null()
    }

    /// The implementation for a device type.
    #[inline]
    pub fn on(&self, kind: DeviceType) -> Result<KernelFn> {
        let p = self.slots[kind.0 as usize].load(Ordering::Acquire);
        if p.is_null() {
            return Err(Error::not_implemented(format!("{}: no kernel for device type {:?}", self.name, kind.name())));
        }
        // SAFETY: only `provide` stores into a slot, and it stores a `KernelFn`.
        Ok(unsafe { std::mem::transmute::<*mut (), KernelFn>(p) })
    }
}

impl std::fmt::Debug for Primitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
