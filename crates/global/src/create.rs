//! Creation straight into a layout: the overloads of creation functions that take a placement and an sbp.
//!
//! Every rank makes its shard only. Random numbers are those a single rank would draw.

use crate::boxing::bytes::{local_only, zeros};
use crate::mesh::{my_coords, part};
use crate::named::{empty_global, full_global, ones_global, rand_global, randint_global, randn_global, zeros_global};
use crate::tensor::{Spread, logical_device, wrap};
use oneflow_base::{Arg, DType, Device, Dims, Error, NdSbpId, PlacementId, Result, Sbp, contiguous_strides};
use oneflow_core::{
    At, Call, Dest, Faces, Kernel, OpDef, Outs, Rng, Sig, Tensor, Traits, default_dtype, op_by_name, redispatch,
};

/// The arguments of the local op for a shard of this size on this device; the shard's window stands in the generator's argument.
type Local = for<'a> fn(&Call<'a>, &'a [i64], Arg<'a>, Device) -> Vec<Arg<'a>>;

/// Arguments of a creation op: its sizes, its layout, its generator.
struct Slots {
    sizes: At<[i64]>,
    layout: (At<PlacementId>, At<NdSbpId>),
    rng: Option<At<Rng>>,
}

fn spread(c: &Call<'_>, (placement, sbp): (At<PlacementId>, At<NdSbpId>), ndim: usize) -> Result<Spread> {
    match (c.arg(placement), c.arg(sbp)) {
        (Arg::Placement(p), Arg::Sbp(s)) => {
            let sizes = vec![1; ndim];
            Spread::new(p, s)?.check(&sizes, &format!("{}()", c.name()))
        }
        _ => Err(Error::type_(format!("{}(): needs both 'placement' and 'sbp'", c.name()))),
    }
}

/// The local op is the one of the same name; `overload` where that has none of its own.
fn create(c: &Call<'_>, overload: &str, dtype: DType, slots: Slots, args: Local, outs: &mut Outs) -> Result<()> {
    let base = format!("{}{overload}", c.op.sig.name);
    if !matches!(c.dest, Dest::Fresh) {
        return Err(Error::runtime(format!("{}(): has no out= form with a placement", c.name())));
    }
    let sizes = c.ints(slots.sizes)?;
    let to = spread(c, slots.layout, sizes.len())?;
    let device = logical_device(to.placement.kind);
    let shell = Tensor::shell(dtype, device, Dims::from_slice(sizes), contiguous_strides(sizes))?;
    let local = match my_coords(to.placement) {
        None => None,
        Some(coords) => {
            let mine = part(sizes, to.placement, to.sbp, &coords);
            let on = crate::boxing::local_device(to.placement.kind);
            // The greatest of equal values is that value; of terms of a sum one has it.
            let holds = to.sbp.iter().zip(&coords).all(|(s, c)| *s != Sbp::P_SUM || *c == 0);
            let window: Dims = sizes.iter().chain(&mine.starts).copied().collect();
            let rng = match slots.rng {
                Some(at) => {
                    let (seed, offset) = c.arg(at).rng()?;
                    Arg::RngAt { seed, offset, window: &window }
                }
                None => Arg::None,
            };
            Some(match holds {
                true => run(&base, &args(c, &mine.sizes, rng, on))?,
                false => zeros(dtype, on, &mine.sizes)?,
            })
        }
    };
    wrap(&shell, to, local, false);
    outs.give(shell);
    Ok(())
}

fn run(base: &str, args: &[Arg<'_>]) -> Result<Tensor> {
    let op = op_by_name(base).ok_or_else(|| Error::runtime(format!("{base}: no such op")))?;
    // Some take an argument more, which is left out here.
    let n_args = op.sig.params().iter().filter(|p| p.is_arg()).count();
    let mut outs = Outs::new();
    let _guard = local_only();
    redispatch(&Call::new(op, &[], &args[..n_args.min(args.len())]), crate::boxing::traced::below(), &mut outs)?;
    outs.into_tensors().pop().ok_or_else(|| Error::runtime(format!("{base}(): gave no result")))
}

fn infer_sized(c: &Call<'_>, slots: Slots, dtype: DType, outs: &mut Outs) -> Result<()> {
    let sizes = c.ints(slots.sizes)?;
    outs.push(dtype, logical_device(spread(c, slots.layout, sizes.len())?.placement.kind), sizes)
}

/// Where an op has its sizes and its layout, and the generator of those that draw.
macro_rules! slots {
    ($at:ident) => {
        Slots { sizes: $at::SIZE, layout: ($at::PLACEMENT, $at::SBP), rng: None }
    };
    ($at:ident draws) => {
        Slots { rng: Some($at::GENERATOR), ..slots!($at) }
    };
}

/// `name.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype, bool requires_grad)`.
macro_rules! sized {
    ($at:ident, $text:literal) => {
        OpDef {
            sig: Sig::parse($text),
            doc: "With `placement` and `sbp`: a global tensor, of which every rank makes its shard.",
            faces: Faces::FN,
            infer: |c, outs| infer_sized(c, slots!($at), c.dtype_or($at::DTYPE, default_dtype()), outs),
            kernel: Kernel::Layer(|c, outs| {
                let args: Local = |c, n, _, d| {
                    let dtype = Arg::DType(c.dtype_or($at::DTYPE, default_dtype()));
                    vec![Arg::Ints(n), dtype, Arg::Device(d), Arg::Bool(false), Arg::None]
                };
                create(c, "", c.dtype_or($at::DTYPE, default_dtype()), slots!($at), args, outs)
            }),
            ..OpDef::BASE
        }
    };
}

/// `name.global(int[] size, *, Generator? generator, Placement placement, Sbp sbp, DType? dtype, bool requires_grad)`.
macro_rules! random {
    ($at:ident, $text:literal) => {
        OpDef {
            sig: Sig::parse($text),
            doc: "With `placement` and `sbp`: a global tensor, of which every rank draws its part of the one stream.",
            faces: Faces::FN,
            traits: Traits::RANDOM,
            infer: |c, outs| infer_sized(c, slots!($at), c.dtype_or($at::DTYPE, default_dtype()), outs),
            kernel: Kernel::Layer(|c, outs| {
                let args: Local = |c, n, rng, d| {
                    let dtype = Arg::DType(c.dtype_or($at::DTYPE, default_dtype()));
                    vec![Arg::Ints(n), rng, dtype, Arg::Device(d), Arg::Bool(false)]
                };
                create(c, "", c.dtype_or($at::DTYPE, default_dtype()), slots!($at draws), args, outs)
            }),
            ..OpDef::BASE
        }
    };
}

static ZEROS: OpDef = sized!(
    zeros_global,
    "zeros.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static ONES: OpDef = sized!(
    ones_global,
    "ones.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static EMPTY: OpDef = sized!(
    empty_global,
    "empty.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static RAND: OpDef = random!(
    rand_global,
    "rand.global(int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static RANDN: OpDef = random!(
    randn_global,
    "randn.global(int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);

fn full_dtype(c: &Call<'_>) -> Result<DType> {
    let v = c
        .arg(full_global::FILL_VALUE)
        .scalar()
        .ok_or_else(|| Error::type_(format!("{}(): fill_value must be a number", c.name())))?;
    Ok(c.arg(full_global::DTYPE).dtype().unwrap_or_else(|| v.natural_dtype(default_dtype())))
}

static FULL: OpDef = OpDef {
    sig: Sig::parse(
        "full.global(int[] size, Scalar fill_value, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "With `placement` and `sbp`: a global tensor, of which every rank makes its shard.",
    faces: Faces::FN,
    infer: |c, outs| infer_sized(c, slots!(full_global), full_dtype(c)?, outs),
    kernel: Kernel::Layer(|c, outs| {
        let dtype = full_dtype(c)?;
        let args: Local = |c, n, _, d| {
            let dtype = full_dtype(c).map_or(Arg::None, Arg::DType);
            vec![Arg::Ints(n), c.arg(full_global::FILL_VALUE), dtype, Arg::Device(d), Arg::Bool(false)]
        };
        create(c, "", dtype, slots!(full_global), args, outs)
    }),
    ..OpDef::BASE
};

static RANDINT: OpDef = OpDef {
    sig: Sig::parse(
        "randint.global(int low, int high, int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "With `placement` and `sbp`: a global tensor, of which every rank draws its part of the one stream.",
    faces: Faces::FN,
    traits: Traits::RANDOM,
    infer: |c, outs| infer_sized(c, slots!(randint_global), c.dtype_or(randint_global::DTYPE, DType::I64), outs),
    kernel: Kernel::Layer(|c, outs| {
        let args: Local = |c, n, rng, d| {
            let dtype = Arg::DType(c.dtype_or(randint_global::DTYPE, DType::I64));
            vec![
                c.arg(randint_global::LOW),
                c.arg(randint_global::HIGH),
                Arg::Ints(n),
                rng,
                dtype,
                Arg::Device(d),
                Arg::Bool(false),
            ]
        };
        create(c, ".low", c.dtype_or(randint_global::DTYPE, DType::I64), slots!(randint_global draws), args, outs)
    }),
    ..OpDef::BASE
};

pub static TABLE: &[&OpDef] = &[&EMPTY, &FULL, &ONES, &RAND, &RANDINT, &RANDN, &ZEROS];
