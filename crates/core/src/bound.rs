//! A sample of an op bound to its signature: owned inputs and arguments, ready to be called in any world.
//!
//! Every generic test uses this file, so a test states what it checks and not how arguments are laid out.

use crate::{Call, Dest, Generator, OpDef, Sample, SampleArg, Tensor, Ty};
use oneflow_base::{Arg, Attrs, DType, Error, Result, intern};

/// Inputs and arguments of one call.
pub struct BoundSample {
    pub op: &'static OpDef,
    pub ins: Vec<Option<Tensor>>,
    pub attrs: Attrs,
}

/// A tensor of a sample: dtype, sizes, range, and its position among the sample's tensors.
pub type Wanted<'a> = (DType, &'a [i64], f64, f64, usize);

impl BoundSample {
    /// Binds a sample; `make` creates each tensor. Random ops get a fixed key.
    pub fn new(
        op: &'static OpDef,
        s: &Sample,
        make: &mut dyn FnMut(Wanted<'_>) -> Result<Tensor>,
    ) -> Result<BoundSample> {
        let mut ins = Vec::new();
        let mut count = 0;
        let mut tensor = |a: &SampleArg, ins: &mut Vec<Option<Tensor>>| -> Result<bool> {
            match a {
                SampleArg::Tensor { dtype, sizes, low, high } => {
                    ins.push(Some(make((*dtype, sizes, *low, *high, count))?));
                    count += 1;
                    Ok(true)
                }
                _ => Ok(false),
            }
        };
        let mut attrs: Vec<Owned> = Vec::new();
        let mut position = 0;
        for p in op.sig.params() {
            let given = match s.kwargs.iter().find(|(k, _)| *k == p.name) {
                Some((_, v)) => Some(v),
                None if !p.kw_only => {
                    position += 1;
                    s.args.get(position - 1)
                }
                None => None,
            };
            match (p.ty, given) {
                (Ty::Tensor, Some(a)) => {
                    if !tensor(a, &mut ins)? {
                        ins.push(None);
                    }
                }
                (Ty::Tensor, None) => ins.push(None),
                (Ty::TensorList, Some(SampleArg::List(items))) => {
                    for a in items {
                        if !tensor(a, &mut ins)? {
                            ins.push(None);
                        }
                    }
                    attrs.push(Owned::Len(items.len() as u32));
                }
                (Ty::TensorList, _) => attrs.push(Owned::Len(0)),
                (Ty::TensorOrScalar, Some(a)) => {
                    if tensor(a, &mut ins)? {
                        attrs.push(Owned::None);
                    } else {
                        ins.push(None);
                        attrs.push(owned(a, p.ty)?);
                    }
                }
                (Ty::TensorOrScalar, None) => {
                    ins.push(None);
                    attrs.push(default(p.default, p.ty)?);
                }
                (Ty::Generator, _) => attrs.push(Owned::Rng),
                (_, Some(a)) => attrs.push(owned(a, p.ty)?),
                (_, None) => attrs.push(default(p.default, p.ty)?),
            }
        }
        let args: Vec<Arg<'_>> = attrs.iter().map(Owned::arg).collect();
        Ok(BoundSample { op, ins, attrs: Attrs::new(&args) })
    }

    /// Runs `f` with the call.
    pub fn with<R>(&self, f: impl FnOnce(&Call<'_>) -> R) -> R {
        let ins: Vec<Option<&Tensor>> = self.ins.iter().map(Option::as_ref).collect();
        let args = self.attrs.args();
        f(&Call { op: self.op, ins: &ins, args: &args, dest: Dest::Fresh })
    }

    /// A host tensor of pseudo-random values, the same for the same position and shape.
    pub fn fill((dtype, sizes, low, high, position): Wanted<'_>) -> Result<Tensor> {
        let n: i64 = sizes.iter().product();
        let t = Tensor::empty(DType::F64, oneflow_base::Device::CPU, sizes)?;
        let mut state = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(position as u64 + 1);
        for i in 0..n as usize {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            let v = low + unit * (high - low);
            let v = if dtype.is_differentiable() { v } else { v.floor() };
            // SAFETY: the tensor holds `n` doubles.
            unsafe { t.data_ptr().cast::<f64>().add(i).write(v) };
        }
        if dtype == DType::F64 {
            return Ok(t);
        }
        let out = Tensor::empty(dtype, oneflow_base::Device::CPU, sizes)?;
        crate::copy_into(&out, &t)?;
        Ok(out)
    }
}

enum Owned {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Str(String),
    DType(DType),
    Len(u32),
    Rng,
}

impl Owned {
    fn arg(&self) -> Arg<'_> {
        match self {
            Owned::None => Arg::None,
            Owned::Bool(b) => Arg::Bool(*b),
            Owned::Int(i) => Arg::Int(*i),
            Owned::Float(f) => Arg::Float(*f),
            Owned::Ints(v) => Arg::Ints(v),
            Owned::Floats(v) => Arg::Floats(v),
            Owned::Str(s) => Arg::Sym(intern(s)),
            Owned::DType(d) => Arg::DType(*d),
            Owned::Len(n) => Arg::Len(*n),
            Owned::Rng => {
                let g = Generator::new();
                Arg::Rng { seed: g.seed(), offset: g.offset() }
            }
        }
    }
}

fn owned(a: &SampleArg, ty: Ty) -> Result<Owned> {
    Ok(match (a, ty) {
        (SampleArg::None, _) => Owned::None,
        (SampleArg::Bool(b), _) => Owned::Bool(*b),
        (SampleArg::Int(i), Ty::Float) => Owned::Float(*i as f64),
        (SampleArg::Int(i), Ty::Ints) => Owned::Ints(vec![*i]),
        (SampleArg::Int(i), _) => Owned::Int(*i),
        (SampleArg::Float(f), _) => Owned::Float(*f),
        (SampleArg::Ints(v), _) => Owned::Ints(v.clone()),
        (SampleArg::Str(s), _) => Owned::Str((*s).to_owned()),
        (SampleArg::DType(d), _) => Owned::DType(*d),
        _ => return Err(Error::type_("sample: a tensor stands where the signature wants none")),
    })
}

/// A default, read from the signature's text.
fn default(text: &str, ty: Ty) -> Result<Owned> {
    let number = |t: &str| t.trim().parse::<f64>().map_err(|_| Error::value(format!("default {text:?} is no number")));
    Ok(match (text, ty) {
        ("" | "None", Ty::Scalar | Ty::TensorOrScalar) | ("None", _) => Owned::None,
        ("True", _) => Owned::Bool(true),
        ("False", _) => Owned::Bool(false),
        (t, _) if t.starts_with('"') => Owned::Str(t.trim_matches('"').to_owned()),
        (t, Ty::Ints | Ty::Floats) if t.starts_with('[') => {
            let items = t.trim_matches(['[', ']']).split(',').filter(|s| !s.trim().is_empty());
            let values = items.map(number).collect::<Result<Vec<_>>>()?;
            if ty == Ty::Ints { Owned::Ints(values.iter().map(|v| *v as i64).collect()) } else { Owned::Floats(values) }
        }
        ("", _) => return Err(Error::type_("sample: a required argument is missing")),
        (t, Ty::Float) => Owned::Float(number(t)?),
        (t, Ty::Ints) => Owned::Ints(vec![number(t)? as i64]),
        (t, _) if t.contains(['.', 'e']) => Owned::Float(number(t)?),
        (t, _) => Owned::Int(number(t)? as i64),
    })
}
