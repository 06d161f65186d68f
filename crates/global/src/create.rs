//! Creation straight into a layout: the overloads of creation functions that take a placement and an sbp.
//!
//! Every rank makes its shard only. Random numbers are those a single rank would draw.

use crate::boxing::bytes::{local_only, zeros};
use crate::mesh::{my_coords, part};
use crate::tensor::{Spread, logical_device, wrap};
use oneflow_base::{Arg, DType, Device, Dims, Error, Result, contiguous_strides};
use oneflow_core::{
    AnyArg, At, Call, Dest, Faces, Kernel, OpDef, Outs, Sig, Tensor, Traits, default_dtype, op_by_name, redispatch,
};

/// The arguments of the local op for a shard of this size on this device; the shard's window stands in the generator's argument.
type Local = for<'a> fn(&Call<'a>, &'a [i64], Arg<'a>, Device) -> Vec<Arg<'a>>;

/// Argument slots of a creation op: its sizes, placement, sbp, generator.
struct Slots {
    sizes: usize,
    placement: usize,
    rng: Option<usize>,
}

fn spread(c: &Call<'_>, at: usize, ndim: usize) -> Result<Spread> {
    match (c.arg(AnyArg::nth(at)), c.arg(AnyArg::nth(at + 1))) {
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
    let sizes = c.ints(At::nth(slots.sizes))?;
    let to = spread(c, slots.placement, sizes.len())?;
    let device = logical_device(to.placement.kind);
    let shell = Tensor::shell(dtype, device, Dims::from_slice(sizes), contiguous_strides(sizes))?;
    let local = match my_coords(to.placement) {
        None => None,
        Some(coords) => {
            let mine = part(sizes, &to.placement.hierarchy, to.sbp, &coords);
            let on = crate::boxing::local_device(to.placement.kind);
            let holds = to.sbp.iter().zip(&coords).all(|(s, c)| !s.is_partial() || *c == 0);
            let window: Dims = sizes.iter().chain(&mine.starts).copied().collect();
            let rng = match slots.rng {
                Some(i) => {
                    let (seed, offset) = c.arg(AnyArg::nth(i)).rng()?;
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

fn infer_sized(c: &Call<'_>, sizes: usize, placement: usize, dtype: DType, outs: &mut Outs) -> Result<()> {
    let sizes = c.ints(At::nth(sizes))?;
    outs.push(dtype, logical_device(spread(c, placement, sizes.len())?.placement.kind), sizes)
}

fn dtype_at(c: &Call<'_>, i: usize) -> DType {
    c.dtype_or(At::nth(i), default_dtype())
}

/// `name.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype, bool requires_grad)`.
macro_rules! sized {
    ($text:literal) => {
        OpDef {
            sig: Sig::parse($text),
            doc: "With `placement` and `sbp`: a global tensor, of which every rank makes its shard.",
            faces: Faces::FN,
            infer: |c, outs| infer_sized(c, 0, 1, dtype_at(c, 3), outs),
            kernel: Kernel::Layer(|c, outs| {
                let slots = Slots { sizes: 0, placement: 1, rng: None };
                let args: Local = |c, n, _, d| {
                    vec![Arg::Ints(n), Arg::DType(dtype_at(c, 3)), Arg::Device(d), Arg::Bool(false), Arg::None]
                };
                create(c, "", dtype_at(c, 3), slots, args, outs)
            }),
            ..OpDef::BASE
        }
    };
}

/// `name.global(int[] size, *, Generator? generator, Placement placement, Sbp sbp, DType? dtype, bool requires_grad)`.
macro_rules! random {
    ($text:literal) => {
        OpDef {
            sig: Sig::parse($text),
            doc: "With `placement` and `sbp`: a global tensor, of which every rank draws its part of the one stream.",
            faces: Faces::FN,
            traits: Traits::RANDOM,
            infer: |c, outs| infer_sized(c, 0, 2, dtype_at(c, 4), outs),
            kernel: Kernel::Layer(|c, outs| {
                let slots = Slots { sizes: 0, placement: 2, rng: Some(1) };
                let args: Local = |c, n, rng, d| {
                    vec![Arg::Ints(n), rng, Arg::DType(dtype_at(c, 4)), Arg::Device(d), Arg::Bool(false)]
                };
                create(c, "", dtype_at(c, 4), slots, args, outs)
            }),
            ..OpDef::BASE
        }
    };
}

static ZEROS: OpDef = sized!(
    "zeros.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static ONES: OpDef = sized!(
    "ones.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static EMPTY: OpDef = sized!(
    "empty.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static RAND: OpDef = random!(
    "rand.global(int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);
static RANDN: OpDef = random!(
    "randn.global(int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor"
);

fn full_dtype(c: &Call<'_>) -> Result<DType> {
    let v = c
        .arg(AnyArg::nth(1))
        .scalar()
        .ok_or_else(|| Error::type_(format!("{}(): fill_value must be a number", c.name())))?;
    Ok(c.arg(AnyArg::nth(4)).dtype().unwrap_or_else(|| v.natural_dtype(default_dtype())))
}

static FULL: OpDef = OpDef {
    sig: Sig::parse(
        "full.global(int[] size, Scalar fill_value, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "With `placement` and `sbp`: a global tensor, of which every rank makes its shard.",
    faces: Faces::FN,
    infer: |c, outs| infer_sized(c, 0, 2, full_dtype(c)?, outs),
    kernel: Kernel::Layer(|c, outs| {
        let slots = Slots { sizes: 0, placement: 2, rng: None };
        let dtype = full_dtype(c)?;
        let args: Local = |c, n, _, d| {
            let dtype = full_dtype(c).map_or(Arg::None, Arg::DType);
            vec![Arg::Ints(n), c.arg(AnyArg::nth(1)), dtype, Arg::Device(d), Arg::Bool(false)]
        };
        create(c, "", dtype, slots, args, outs)
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
    infer: |c, outs| infer_sized(c, 2, 4, c.dtype_or(At::nth(6), DType::I64), outs),
    kernel: Kernel::Layer(|c, outs| {
        let slots = Slots { sizes: 2, placement: 4, rng: Some(3) };
        let args: Local = |c, n, rng, d| {
            let dtype = Arg::DType(c.dtype_or(At::nth(6), DType::I64));
            vec![
                c.arg(AnyArg::nth(0)),
                c.arg(AnyArg::nth(1)),
                Arg::Ints(n),
                rng,
                dtype,
                Arg::Device(d),
                Arg::Bool(false),
            ]
        };
        create(c, ".low", c.dtype_or(At::nth(6), DType::I64), slots, args, outs)
    }),
    ..OpDef::BASE
};

pub static TABLE: &[&OpDef] = &[&EMPTY, &FULL, &ONES, &RAND, &RANDINT, &RANDN, &ZEROS];
