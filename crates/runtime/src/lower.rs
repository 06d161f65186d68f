//! From an instruction to launches: shells with the operands' layouts go through the op's own `infer` and lowering rule.
//!
//! The compiler asks the same functions whether an op can be lowered at all (`can_lower`).

use crate::plan::{Instr, Operand as PlanOperand, PlanArg, Ref, Step};
use oneflow_base::{Arg, DType, Device, Dims, Error, ErrorKind, Meta, Result};
use oneflow_core::{
    Call, In, Kernel, Lowered, OpDef, Operand, Out, Outs, Slot, Tensor, Traits, elementwise_takes, instead, op_by_name,
};
use oneflow_ep::Queue;
use oneflow_kernels::prim::expr;
use oneflow_kernels::prim::{
    COPY, ChainParams, ChainStep, ELEMENTWISE, ELEMENTWISE_CHAIN, Expr, KernelFn, Launch, Params, Primitive, View,
    Word, declines, words,
};
use smallvec::SmallVec;

/// Stand-ins for a seed and the position of site 0: words of the lowered launch that equal them are replaced at run time.
const SEED: u64 = 0x9d3c_51f2_76ab_08e5;
const OFFSET: u64 = 0x5b17_e4c8_2f90_a600;

/// One kernel call, operands by buffer.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    pub prim: &'static Primitive,
    pub expr: Option<&'static Expr>,
    pub params: Params,
    pub ins: Vec<Option<PlanOperand>>,
    pub outs: Vec<Option<PlanOperand>>,
    /// Words of `params` that hold the seed, and those that hold the position of a site.
    pub seeds: SmallVec<[usize; 1]>,
    pub offsets: SmallVec<[(usize, u64); 1]>,
}

/// A tensor that has a layout and no memory.
pub fn shell(meta: &Meta, offset: i64) -> Result<Tensor> {
    let plain = Tensor::shell(meta.dtype, meta.device, meta.sizes.clone(), meta.strides.clone())?;
    if offset == 0 {
        return Ok(plain);
    }
    let mut outs = Outs::new();
    outs.view(In::nth(0), &plain, meta.sizes.clone(), meta.strides.clone(), offset)?;
    outs.into_tensors().pop().ok_or_else(|| Error::runtime("no shell"))
}

/// The launch of one call, if its op has a kernel that takes these layouts.
fn lowered(c: &Call<'_>, outs: &Outs) -> Result<Lowered> {
    match c.op.kernel {
        Kernel::Elementwise(lower) => {
            let mut l = Lowered::new(&ELEMENTWISE);
            l.expr = Some(lower(c, outs, &mut l.params)?);
            let sizes = Dims::from_slice(outs[0].sizes());
            for (i, t) in c.ins.iter().enumerate() {
                if let Some(t) = t {
                    l.input_expanded(In::nth(i), t, &sizes);
                }
            }
            l.output(Out::nth(0));
            if c.ins.iter().flatten().map(|t| t.dtype()).chain([outs[0].dtype()]).any(DType::is_limited) {
                elementwise_takes(c, outs[0].dtype())?;
            }
            Ok(l)
        }
        Kernel::Prim { prim, lower } => {
            let mut l = Lowered::new(prim);
            lower(c, outs, &mut l)?;
            let operands = c.ins.iter().flatten().copied().chain(outs.tensors());
            operands.map(|t| prim.operand(t.dtype())).collect::<Result<SmallVec<[DType; 4]>>>()?;
            Ok(l)
        }
        _ => Err(Error::not_implemented(format!("{}(): has no kernel a plan can hold", c.name()))),
    }
}

/// Whether the op's kernel takes these inputs, or its composition has to be traced.
pub fn can_lower(c: &Call<'_>, outs: &Outs) -> Result<bool> {
    let device =
        outs.tensors().iter().chain(c.ins.iter().flatten().copied()).next().map_or(Device::CPU, Tensor::device);
    match lowered(c, outs) {
        Ok(l) => Ok(match l.prim.kernel(device.kind, &l.ins, &l.outs) {
            Ok(kernel) => instead(c).is_none() || !is_declined(c, outs, &l, device, kernel)?,
            Err(_) => false,
        }),
        Err(e) if e.kind() == ErrorKind::NotImplemented => Ok(false),
        Err(e) => Err(e),
    }
}

/// Asks the kernel of a device that can be asked, by views of these layouts that have no memory.
fn is_declined(c: &Call<'_>, outs: &Outs, l: &Lowered, device: Device, kernel: KernelFn) -> Result<bool> {
    let (ins, outs) = (views_of(c, outs, l.prim, &l.ins)?, views_of(c, outs, l.prim, &l.outs)?);
    let queue = Queue { device, raw: std::ptr::null_mut() };
    Ok(declines(device.kind, kernel, &Launch { outs: &outs, ins: &ins, params: &l.params, expr: l.expr, queue }))
}

type Views<'a> = SmallVec<[Option<View<'a>>; 8]>;

/// Views of a lowered call's operands, at an address that nothing reads or writes.
fn views_of<'a>(c: &Call<'a>, outs: &'a Outs, prim: &Primitive, operands: &'a [Option<Operand>]) -> Result<Views<'a>> {
    let mut views = Views::new();
    for o in operands {
        let tensor = o.as_ref().and_then(|o| match o.slot {
            Slot::In(i) => c.ins.get(usize::from(i)).copied().flatten(),
            Slot::Out(i) => outs.tensors().get(usize::from(i)),
        });
        let Some((o, t)) = o.as_ref().zip(tensor) else {
            views.push(None);
            continue;
        };
        let (ptr, dtype) = (std::ptr::without_provenance_mut(1 << 12), prim.operand(t.dtype())?);
        views.push(Some(match &o.layout {
            None => View { ptr, dtype, sizes: t.sizes(), strides: t.strides() },
            Some((sizes, strides, _)) => View { ptr, dtype, sizes, strides },
        }));
    }
    Ok(views)
}

/// The input whose values the op's first output starts from (scatter and friends write only parts).
pub fn init_input(c: &Call<'_>, outs: &Outs) -> Result<Option<usize>> {
    Ok(lowered(c, outs)?.init.map(usize::from))
}

/// The expression and scalars of an elementwise call, for chains.
pub fn expression(c: &Call<'_>, outs: &Outs) -> Result<Option<(&'static Expr, Params)>> {
    if c.ins.iter().flatten().copied().chain(outs.tensors()).any(|t| t.dtype().is_limited()) {
        return Ok(None);
    }
    match c.op.kernel {
        Kernel::Elementwise(lower) => {
            let mut p = Params::new();
            let e = lower(c, outs, &mut p)?;
            Ok(Some((e, p)))
        }
        // Inside a chain a cast between float32 and a half type is the identity: casts happen on loading and storing.
        Kernel::Prim { prim, .. }
            if std::ptr::eq(prim, &COPY) && std::ptr::eq(c.op, &oneflow_ops::creation::to_copy::OP) =>
        {
            static CAST: Expr = expr!(float "cast", |x| x);
            let narrow = |d: DType| matches!(d, DType::F32 | DType::BF16 | DType::F16);
            let (x, y) = (c.t(In::nth(0))?, &outs[0]);
            let same = x.device() == y.device() && narrow(x.dtype()) && narrow(y.dtype());
            Ok(same.then(|| (&CAST, Params::from_iter([Word::from(DType::F32)]))))
        }
        _ => Ok(None),
    }
}

/// The launches of an instruction.
pub fn launches(i: &Instr, device: Device) -> Result<Vec<LaunchSpec>> {
    let made = match i.steps.as_slice() {
        [] => Err(Error::value("plan: an instruction without a step")),
        [one] => single(i, one, device),
        many => chain(i, many, device).and_then(|l| checked(l, |_| true)).map(|l| vec![l]),
    };
    made.map_err(|e| e.context(format_args!("{}: ", i.origin)))
}

/// A launch whose results lie apart from each other and from what is read, but for inputs that they may replace element by
/// element: a kernel looks at an index before it writes, not again behind it.
fn checked(l: LaunchSpec, replaces: impl Fn(usize) -> bool) -> Result<LaunchSpec> {
    let outs = || l.outs.iter().flatten();
    for (k, o) in outs().enumerate() {
        if !o.is_injective() {
            return Err(Error::value(format!("plan: result {k} of {} names an element twice", l.prim.name)));
        }
        if outs().take(k).any(|other| other.meets(o)) {
            return Err(Error::value(format!("plan: two results of {} lie on the same bytes", l.prim.name)));
        }
        for (i, x) in l.ins.iter().enumerate().filter_map(|(i, x)| Some((i, x.as_ref()?))) {
            if x.meets(o) && !(replaces(i) && x.is_same(o)) {
                return Err(Error::value(format!("plan: {} writes over its operand {i}", l.prim.name)));
            }
        }
    }
    Ok(l)
}

pub(crate) fn find(name: &str) -> Result<&'static OpDef> {
    op_by_name(name).ok_or_else(|| Error::value(format!("plan: there is no op {name:?}")))
}

/// Compares what an op says its results are with what the plan holds room for.
fn check_outs(c: &Call<'_>, outs: &Outs, held: &[Meta]) -> Result<()> {
    let same = outs.len() == held.len()
        && outs.tensors().iter().zip(held).all(|(t, m)| {
            t.dtype() == m.dtype
                && t.sizes() == m.sizes.as_slice()
                && (is_same_layout(&m.sizes, t.strides(), &m.strides) || t.is_contiguous() && m.is_contiguous())
        });
    if same {
        return Ok(());
    }
    Err(Error::value(format!("plan: {}() gives {:?}, the plan holds {held:?}", c.name(), outs.tensors())))
}

/// Returns true if the strides of all dimensions that have a next element are the same.
fn is_same_layout(sizes: &[i64], one: &[i64], other: &[i64]) -> bool {
    one.len() == other.len() && sizes.iter().zip(one.iter().zip(other)).all(|(n, (a, b))| *n < 2 || a == b)
}

fn single(i: &Instr, s: &Step, device: Device) -> Result<Vec<LaunchSpec>> {
    let op = find(&s.op)?;
    let at = |r: &Ref| match r {
        Ref::In(k) => i.ins.get(*k as usize),
        Ref::Out(k) => i.outs.get(*k as usize),
        Ref::Temp(..) => None,
    };
    let missing = || Error::value(format!("plan: {}: an operand does not exist", s.op));
    let mut ins: Vec<Option<(&PlanOperand, Tensor)>> = Vec::with_capacity(s.ins.len());
    for r in &s.ins {
        ins.push(match r {
            None => None,
            Some(r) => {
                let o = at(r).ok_or_else(missing)?;
                Some((o, shell(&o.meta(device), o.offset)?))
            }
        });
    }
    let outs_at: Vec<&PlanOperand> = s.outs.iter().map(|r| at(r).ok_or_else(missing)).collect::<Result<_>>()?;
    let held: Vec<Meta> = outs_at.iter().map(|o| o.meta(device)).collect();
    let refs: Vec<Option<&Tensor>> = ins.iter().map(|x| x.as_ref().map(|x| &x.1)).collect();
    let args: Vec<Arg<'_>> = s.args.iter().map(|a| a.arg((SEED, OFFSET))).collect();
    check_call(op, &refs, &args)?;
    if op.traits.has(Traits::NEEDS_CONTIGUOUS) && refs.iter().flatten().any(|t| !t.is_contiguous()) {
        return Err(Error::value(format!("plan: {}() takes contiguous inputs", s.op)));
    }
    let c = Call::new(op, &refs, &args);
    let mut outs = Outs::new();
    (op.infer)(&c, &mut outs)?;
    check_outs(&c, &outs, &held)?;
    if matches!(op.kernel, Kernel::Host(_)) && refs.iter().all(|t| t.is_none_or(|t| t.storage().is_none())) {
        // Memory without values (`empty`): there is nothing to launch.
        return Ok(Vec::new());
    }
    let l = lowered(&c, &outs)?;
    let place = |o: &Operand| -> Result<PlanOperand> {
        let (whole, own) = match o.slot {
            Slot::In(k) => ins.get(k as usize).and_then(Option::as_ref).map(|x| (x.0, x.1.offset())),
            Slot::Out(k) => outs_at.get(k as usize).map(|o| (*o, 0)),
        }
        .ok_or_else(missing)?;
        Ok(match &o.layout {
            None => whole.clone(),
            Some((sizes, strides, offset)) => PlanOperand {
                sizes: sizes.clone(),
                strides: strides.clone(),
                offset: whole.offset + offset - own,
                ..whole.clone()
            },
        })
    };
    let mut out = Vec::new();
    if let Some(k) = l.init {
        let (src, dst) = (ins.get(k as usize).and_then(Option::as_ref).ok_or_else(missing)?.0, outs_at.first());
        let dst = *dst.ok_or_else(missing)?;
        if src.buffer != dst.buffer || src.offset != dst.offset || src.strides != dst.strides {
            out.push(checked(copy(expanded(src, &dst.sizes)?, dst.clone()), |_| false)?);
        }
    }
    let side = |v: &[Option<Operand>]| v.iter().map(|o| o.as_ref().map(&place).transpose()).collect::<Result<Vec<_>>>();
    let anywhere = op.traits.has(Traits::ALIAS_OK) || op.traits.has(Traits::MUTATES);
    let start = l.init.map(|k| Slot::In(k.into()));
    let initial = |i: usize| start.is_some() && l.ins.get(i).and_then(|o| o.as_ref()).map(|o| o.slot) == start;
    let launch = LaunchSpec {
        prim: l.prim,
        expr: l.expr,
        ins: side(&l.ins)?,
        outs: side(&l.outs)?,
        seeds: l.params.iter().enumerate().filter(|(_, w)| w.0 == SEED).map(|(i, _)| i).collect(),
        offsets: s
            .args
            .iter()
            .filter_map(|a| match a {
                PlanArg::Rng(site) | PlanArg::RngAt(site, _) => Some(*site),
                _ => None,
            })
            .flat_map(|site| {
                let word = OFFSET.wrapping_add(site);
                l.params.iter().enumerate().filter(move |(_, w)| w.0 == word).map(move |(i, _)| (i, site))
            })
            .collect(),
        params: l.params.clone(),
    };
    out.push(checked(launch, |i| anywhere || initial(i))?);
    Ok(out)
}

/// A plain copy.
pub fn copy(src: PlanOperand, dst: PlanOperand) -> LaunchSpec {
    LaunchSpec {
        prim: &COPY,
        expr: None,
        params: Params::new(),
        ins: vec![Some(src)],
        outs: vec![Some(dst)],
        seeds: SmallVec::new(),
        offsets: SmallVec::new(),
    }
}

/// The operand broadcast to `sizes`.
fn expanded(o: &PlanOperand, sizes: &Dims) -> Result<PlanOperand> {
    if o.sizes == *sizes {
        return Ok(o.clone());
    }
    let lead = sizes.len().checked_sub(o.sizes.len());
    let lead = lead.ok_or_else(|| Error::value(format!("plan: {:?} does not broadcast to {sizes:?}", o.sizes)))?;
    let mut strides: Dims = SmallVec::from_elem(0, sizes.len());
    for (i, (n, s)) in o.sizes.iter().zip(&o.strides).enumerate() {
        if *n == sizes[lead + i] {
            strides[lead + i] = *s;
        } else if *n != 1 {
            return Err(Error::value(format!("plan: {:?} does not broadcast to {sizes:?}", o.sizes)));
        }
    }
    Ok(PlanOperand { sizes: sizes.clone(), strides, ..o.clone() })
}

/// As many inputs and arguments as the signature asks for, lists counted.
fn check_call(op: &OpDef, ins: &[Option<&Tensor>], args: &[Arg<'_>]) -> Result<()> {
    let n_args = op.sig.params().iter().filter(|p| p.is_arg()).count();
    let mut n_ins = 0usize;
    let mut arg = 0;
    for p in op.sig.params() {
        if p.ty == oneflow_core::Ty::TensorList {
            n_ins += match args.get(arg) {
                Some(Arg::Len(n)) => *n as usize,
                _ => 0,
            };
        } else if p.is_input() {
            n_ins += 1;
        }
        arg += p.is_arg() as usize;
    }
    if n_args != args.len() || n_ins != ins.len() {
        return Err(Error::value(format!(
            "plan: {}() takes {n_ins} inputs and {n_args} arguments, the plan gives {} and {}",
            op.name(),
            ins.len(),
            args.len()
        )));
    }
    Ok(())
}

/// Several elementwise steps as one launch.
fn chain(i: &Instr, steps: &[Step], device: Device) -> Result<LaunchSpec> {
    let bad = |what: &str| Error::value(format!("plan: chain: {what}"));
    let sizes = &i.outs.first().ok_or_else(|| bad("no output"))?.sizes;
    if i.outs.iter().any(|o| o.sizes != *sizes) {
        return Err(bad("its outputs differ in size"));
    }
    let (n_ins, n_outs) = (i.ins.len(), i.outs.len());
    let slot = |r: &Ref| match r {
        Ref::In(k) => *k as usize,
        Ref::Out(k) => n_ins + *k as usize,
        Ref::Temp(k, _) => n_ins + n_outs + *k as usize,
    };
    let meta = |r: &Ref| -> Result<Meta> {
        Ok(match r {
            Ref::In(k) => i.ins.get(*k as usize).ok_or_else(|| bad("an operand does not exist"))?.meta(device),
            Ref::Out(k) => i.outs.get(*k as usize).ok_or_else(|| bad("an operand does not exist"))?.meta(device),
            Ref::Temp(_, d) => Meta::contiguous(*d, device, sizes),
        })
    };
    let mut chain = SmallVec::new();
    let mut compute: Option<DType> = None;
    let mut written = vec![false; n_ins + n_outs];
    for s in steps {
        let op = find(&s.op)?;
        let mut shells: Vec<Option<Tensor>> = Vec::new();
        for r in &s.ins {
            if let Some(r @ (Ref::Out(_) | Ref::Temp(..))) = r
                && !written.get(slot(r)).copied().unwrap_or(false)
            {
                return Err(bad("a value is read before it is made"));
            }
            shells.push(r.as_ref().map(|r| shell(&meta(r)?, 0)).transpose()?);
        }
        let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
        let args: Vec<Arg<'_>> = s.args.iter().map(|a| a.arg((SEED, OFFSET))).collect();
        check_call(op, &refs, &args)?;
        let c = Call::new(op, &refs, &args);
        let mut outs = Outs::new();
        (op.infer)(&c, &mut outs)?;
        let [dest] = s.outs.as_slice() else { return Err(bad("a step has one result")) };
        let out = outs.tensors().first().ok_or_else(|| bad("a step has one result"))?;
        if out.sizes() != sizes.as_slice() || out.dtype() != meta(dest)?.dtype || matches!(dest, Ref::In(_)) {
            return Err(bad("a step's result does not fit"));
        }
        let (expr, scalars) = expression(&c, &outs)?.ok_or_else(|| bad("a step is not elementwise"))?;
        let (d, scalars) = scalars.split_first().ok_or_else(|| bad("a step has no compute dtype"))?;
        if *compute.get_or_insert(d.dtype()) != d.dtype() {
            return Err(bad("its steps compute in different dtypes"));
        }
        let operands: SmallVec<_> = s.ins.iter().flatten().map(slot).collect();
        if operands.len() != expr.arity {
            return Err(bad("a step's operands do not fit its expression"));
        }
        let d = slot(dest);
        chain.push(ChainStep { expr, scalars: SmallVec::from_slice(scalars), operands, dest: d });
        if written.len() <= d {
            written.resize(d + 1, false);
        }
        written[d] = true;
    }
    if written[n_ins..n_ins + n_outs].contains(&false) {
        return Err(bad("an output is never written"));
    }
    Ok(LaunchSpec {
        prim: &ELEMENTWISE_CHAIN,
        expr: None,
        params: words(&ChainParams { compute: compute.unwrap_or(DType::F32), steps: chain }),
        ins: i.ins.iter().map(|o| expanded(o, sizes).map(Some)).collect::<Result<_>>()?,
        outs: i.outs.iter().cloned().map(Some).collect(),
        seeds: SmallVec::new(),
        offsets: SmallVec::new(),
    })
}
