//! One op: everything that defines it, in one static value.

use crate::{Call, Grad, OutMask, Outs, Rows, SbpRule, Sig};
use oneflow_base::{Args, DType, DeviceType, Error, Meta, Result};
use oneflow_kernels_prim::{Expr, Params, Primitive};

/// The definition of an op. Written as `OpDef { sig: Sig::parse("..."), ..., ..OpDef::BASE }`.
pub struct OpDef {
    /// The schema, parsed at compile time.
    pub sig: Sig,
    /// torch-style documentation with an example; becomes `__doc__`, the stub and the API page.
    pub doc: &'static str,
    /// The public forms of the op. In-place and `out=` are this very definition with another destination.
    pub faces: Faces,
    /// Metas in, output shells out. Every error that follows from metas is raised here, before memory is touched.
    pub infer: fn(&Call<'_>, &mut Outs) -> Result<()>,
    pub shape: ShapeOf,
    /// The fast path. May be absent for a device or a dtype: `compose` steps in.
    pub kernel: Kernel,
    /// The same meaning by other ops: fallback of every layer, and the kernel's test oracle.
    pub compose: Option<fn(&Call<'_>, &mut Outs) -> Result<()>>,
    pub grad: Grad,
    /// The outputs a gradient can come back through; statistics kept for the backward are not among them.
    pub differentiable: OutMask,
    pub sbp: SbpRule,
    /// How one call serves all samples of a batch (`vmap`).
    pub batch: Batching,
    /// Floating point operations and bytes, from local metas.
    pub cost: fn(&Call<'_>, &[Meta]) -> Cost,
    pub amp: Amp,
    pub traits: Traits,
    /// Writes the result into the first input where several of its elements are one in memory (an expanded tensor), for an op that
    /// changes some elements alone; `None` refuses such a destination.
    pub into_overlapped: Option<fn(result: &crate::Tensor, to: &crate::Tensor) -> Result<()>>,
    /// The op's results for dtypes that most kernels do not support (`DType::is_limited`).
    pub limited: Limited,
    /// Its form for sparse tensors.
    pub sparse: Sparse,
    /// Layer bits forced by the arguments.
    pub keys: fn(Args<'_>) -> u32,
    /// Inputs that every generic test feeds from.
    pub samples: fn() -> Vec<Sample>,
}

/// Most ops force no layer.
pub fn no_keys(_: Args<'_>) -> u32 {
    0
}

impl OpDef {
    /// The defaults of a definition.
    pub const BASE: OpDef = OpDef {
        sig: Sig::parse("undefined() -> ()"),
        doc: "",
        faces: Faces::FN,
        infer: |c, _| Err(Error::not_implemented(format!("{}(): has no meta rule", c.name()))),
        shape: ShapeOf::Inputs,
        kernel: Kernel::None,
        compose: None,
        grad: Grad::Never,
        differentiable: OutMask::ALL,
        sbp: SbpRule { rows: Rows::OnlyB { why: "" }, localize: crate::Localize::None },
        batch: Batching::Family,
        cost: Cost::bytes_only,
        amp: Amp::FOLLOW,
        traits: Traits::NONE,
        into_overlapped: None,
        limited: Limited::NONE,
        sparse: Sparse::Compose,
        keys: no_keys,
        samples: Vec::new,
    };

    /// "max" or "max.dim".
    pub fn name(&self) -> &'static str {
        self.sig.full_name()
    }
}

impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sig.text)
    }
}

/// Whether shapes follow from metas or need the data (eager runs those, tracing refuses them by name).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeOf {
    Inputs,
    Data,
}

/// How one call serves all samples of a batch, whose dimension comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// As its family does: a view, an elementwise op, a reduction, or one with dimensions as arguments. Else by its
    /// composition.
    Family,
    /// It takes any number of leading dimensions of its first input; the others are the same for all samples.
    Leading,
    /// The samples' products are independent, or are rows of one.
    Product,
    /// The batch joins the first dimension of the first input, and of the argument `input_size`.
    Folded,
    /// Its second input has any shape, which the result takes.
    Second,
    /// Advanced indexing.
    Index,
    /// The result has the sizes in its arguments.
    Sizes,
}

/// The op's handling of sparse tensors (COO: indices and values of a tensor that is zero elsewhere).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparse {
    /// No sparse form: its composition runs, or the call is refused.
    Compose,
    /// Runs on the values: zero stays zero.
    Values,
    /// Runs on the values, and is linear: an index may be there twice.
    LinearValues,
    /// Adds the second operand, times `alpha` and this sign; a sparse one also into a dense one in place.
    Add(i64),
    Product,
    Quotient,
    Clone,
    /// Gives its input back.
    Same,
    Cast,
    /// A tensor without entries.
    Zeros,
    /// A tensor of other sizes without entries.
    New,
    /// Runs on the values of a compressed tensor and keeps their places; has no form by coordinates.
    Places,
    /// As `Places`; by coordinates a tensor without entries.
    Empty,
    Copy,
    Sum,
    MatrixProduct,
    /// Swaps two dimensions that have indices.
    Transpose,
    /// Runs on all values, in one vector.
    AllValues,
    /// A power by a number, of the values.
    Power,
    /// Move entries, and drop those that are not chosen.
    Cat,
    Select,
    Slice,
    Unsqueeze,
    Permute,
    IndexSelect,
    Unbind,
}

/// How an op is computed on local memory.
#[derive(Clone, Copy)]
pub enum Kernel {
    /// Only `compose`.
    None,
    /// `infer`'s alias is the whole result.
    View,
    /// An elementwise expression over the present tensor inputs, broadcast to the output. The function names the expression
    /// (a scalar operand needs another one than a tensor) and pushes the compute dtype and the expression's scalars.
    Elementwise(fn(&Call<'_>, &Outs, &mut Params) -> Result<&'static Expr>),
    /// One primitive. `lower` fills operands and parameters, from metas alone, so that a plan can keep them.
    Prim { prim: &'static Primitive, lower: fn(&Call<'_>, &Outs, &mut crate::Lowered) -> Result<()> },
    /// Work on the host with data (results whose shape needs the data, copies between devices).
    Host(fn(&Call<'_>, &mut Outs) -> Result<()>),
    /// The op is what a layer does (collectives, boxing).
    Layer(fn(&Call<'_>, &mut Outs) -> Result<()>),
}

/// The public forms of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faces(pub u8);

impl Faces {
    /// `oneflow.name(...)`
    pub const FN: Faces = Faces(1);
    /// `x.name(...)`
    pub const METHOD: Faces = Faces(2);
    /// `x.name_(...)`
    pub const INPLACE: Faces = Faces(4);
    /// `oneflow.name(..., out=)`
    pub const OUT: Faces = Faces(8);
    /// Only under `oneflow._C`, for the package's own use.
    pub const PRIVATE: Faces = Faces(16);
    /// Only under `oneflow.nn.functional`'s private table (`oneflow._C._nn`).
    pub const NN: Faces = Faces(32);
    /// Function, method, in-place and `out=`.
    pub const ALL: Faces = Faces(15);
    /// Function, method and `out=`.
    pub const FN_METHOD_OUT: Faces = Faces(11);
    pub const FN_METHOD: Faces = Faces(3);

    pub const fn or(self, other: Faces) -> Faces {
        Faces(self.0 | other.0)
    }
    pub const fn has(self, other: Faces) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Autocast's treatment of an op's floating inputs, on the host and on other devices. PyTorch's lists of the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amp {
    pub host: AmpCast,
    pub accelerator: AmpCast,
}

impl Amp {
    pub const LOWER: Amp = Amp::both(AmpCast::Lower);
    pub const WIDEST: Amp = Amp::both(AmpCast::Widest);
    pub const FLOAT32: Amp = Amp::both(AmpCast::Float32);
    pub const FOLLOW: Amp = Amp::both(AmpCast::Follow);
    pub const FLOAT32_ON_HOST: Amp = Amp { host: AmpCast::Float32, accelerator: AmpCast::Follow };

    const fn both(cast: AmpCast) -> Amp {
        Amp { host: cast, accelerator: cast }
    }

    pub fn on(self, device: DeviceType) -> AmpCast {
        if device == DeviceType::CPU { self.host } else { self.accelerator }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmpCast {
    /// Cast to the autocast dtype (matmul).
    Lower,
    /// Cast all to the widest dtype among them.
    Widest,
    /// Compute in float32 (losses).
    Float32,
    /// Leave as they come.
    Follow,
}

/// Facts about an op that layers and passes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits(pub u32);

impl Traits {
    pub const NONE: Traits = Traits(0);
    pub const RANDOM: Traits = Traits(1);
    pub const COMMUTES: Traits = Traits(2);
    /// The kernel reads its inputs contiguous: copies are inserted.
    pub const NEEDS_CONTIGUOUS: Traits = Traits(4);
    /// The destination may be exactly an input: of elementwise ops, and of others the first one on the host.
    pub const ALIAS_OK: Traits = Traits(8);
    pub const NO_RECOMPUTE: Traits = Traits(16);
    /// Waits for the device and reads data on the host.
    pub const HOST_SYNC: Traits = Traits(32);
    pub const COLLECTIVE: Traits = Traits(64);
    /// Collectives of which this rank's part is to send to ranks of another placement, or to receive from them.
    pub const SENDS: Traits = Traits(4096);
    pub const RECEIVES: Traits = Traits(8192);
    /// Writes some of its inputs (`Tensor(a!)`), returns nothing fresh for them.
    pub const MUTATES: Traits = Traits(128);
    /// From Python a number may replace any of its tensors.
    pub const NUMBERS: Traits = Traits(256);
    /// From Python a number may replace the first operand, if another one is a tensor.
    pub const NUMBER_FIRST: Traits = Traits(512);
    /// `out=` must have the result's dtype.
    pub const EXACT_OUT: Traits = Traits(1024);
    /// The result starts as a copy of the first input (`Lowered::init`), which may be the destination itself.
    pub const STARTS_AS_FIRST: Traits = Traits(2048);
    /// Writes by index while it reads: the destination may share memory with no input but the first.
    pub const READS_DISJOINT: Traits = Traits(16384);
    /// `out=` may be of any dtype: the result is zeros and ones.
    pub const ANY_OUT: Traits = Traits(32768);
    /// Linear at each input; a gradient that is to be differentiated is still tied to the inputs, by derivatives of zeros.
    pub const FLAT: Traits = Traits(65536);
    /// Writes one value everywhere: several elements of the destination may be one in memory, and it writes that once.
    pub const FILLS: Traits = Traits(131072);
    /// Of half floats: a number as the second operand is read as float32 (`narrow_operands`).
    pub const WIDE_NUMBER: Traits = Traits(262144);
    /// The gradient rule reads gradients in half types of results in float32.
    pub const NARROW_GRADIENTS: Traits = Traits(524288);

    pub const fn or(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }
    pub const fn has(self, other: Traits) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Dtypes that are `DType::is_limited` and that an op computes nevertheless. Views, moves, casts and compositions need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited(pub u8);

impl Limited {
    pub const NONE: Limited = Limited(0);
    /// Unsigned integers, by what is right modulo two to the power of their bits.
    pub const UNSIGNED: Limited = Limited(1);
    /// Unsigned integers, by their order alone: results are elements, places or truth values.
    pub const ORDER: Limited = Limited(3);
    /// The eight-bit floats that have a mantissa.
    pub const FLOAT8: Limited = Limited(4);
    /// Powers of two in eight bits.
    pub const E8M0: Limited = Limited(8);
    /// Complex numbers of half floats.
    pub const COMPLEX: Limited = Limited(16);
    /// Every one, by what needs no order.
    pub const ALL: Limited = Limited(29);

    pub const fn or(self, other: Limited) -> Limited {
        Limited(self.0 | other.0)
    }
    pub const fn has(self, other: Limited) -> bool {
        self.0 & other.0 == other.0
    }
    /// True if the order of elements matters.
    pub const fn is_order(self) -> bool {
        self.has(Limited::ORDER)
    }
    /// Returns true if the op computes this dtype; every op computes dtypes that are not limited.
    pub const fn covers(self, dtype: DType) -> bool {
        match dtype {
            DType::U16 | DType::U32 | DType::U64 => self.has(Limited::UNSIGNED),
            DType::C32 => self.has(Limited::COMPLEX),
            DType::F8E8M0FNU => self.has(Limited::E8M0),
            d if d.is_float8() => self.has(Limited::FLOAT8),
            _ => true,
        }
    }
}

/// The cost of an op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub flops: f64,
    pub bytes: f64,
    /// True if these are sums of products (matmul, convolution, attention), as counted in a model's FLOPs.
    pub products: bool,
}

impl Cost {
    /// Every input read once and every output written once, one operation an output element.
    pub fn bytes_only(c: &Call<'_>, outs: &[Meta]) -> Cost {
        let read: usize = c.ins.iter().flatten().map(|t| t.numel() as usize * t.dtype().size()).sum();
        let written: usize = outs.iter().map(Meta::bytes).sum();
        Cost { flops: outs.iter().map(|m| m.numel() as f64).sum(), bytes: (read + written) as f64, products: false }
    }
}

/// One argument of a sample. Tensors are described, not held: each test creates them in its own world.
#[derive(Clone, Debug)]
pub enum SampleArg {
    /// A tensor of this dtype and shape, filled from a seeded range [low, high).
    Tensor {
        dtype: DType,
        sizes: Vec<i64>,
        low: f64,
        high: f64,
    },
    /// A list of tensors.
    List(Vec<SampleArg>),
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(Vec<i64>),
    Str(&'static str),
    DType(DType),
}

/// Arguments of one call in signature order; what is left out takes its default.
#[derive(Clone, Debug)]
pub struct Sample {
    pub args: Vec<SampleArg>,
    /// Keyword arguments.
    pub kwargs: Vec<(&'static str, SampleArg)>,
}

impl Sample {
    pub fn new(args: Vec<SampleArg>) -> Sample {
        Sample { args, kwargs: Vec::new() }
    }
    pub fn kw(mut self, name: &'static str, value: SampleArg) -> Sample {
        self.kwargs.push((name, value));
        self
    }
}

impl SampleArg {
    /// float32 in [-2, 2).
    pub fn f32(sizes: &[i64]) -> SampleArg {
        SampleArg::Tensor { dtype: DType::F32, sizes: sizes.to_vec(), low: -2.0, high: 2.0 }
    }
    /// float32 in a range.
    pub fn range(sizes: &[i64], low: f64, high: f64) -> SampleArg {
        SampleArg::Tensor { dtype: DType::F32, sizes: sizes.to_vec(), low, high }
    }
    /// int64 in a range.
    pub fn i64(sizes: &[i64], low: i64, high: i64) -> SampleArg {
        SampleArg::Tensor { dtype: DType::I64, sizes: sizes.to_vec(), low: low as f64, high: high as f64 }
    }
    pub fn bool(sizes: &[i64]) -> SampleArg {
        SampleArg::Tensor { dtype: DType::Bool, sizes: sizes.to_vec(), low: 0.0, high: 2.0 }
    }
}
