//! What an instruction costs by its ops' own accounts: operations and bytes, from metas alone.

use crate::lower::{find, shell};
use crate::plan::{Instr, Operand, PlanArg, Ref, Step};
use oneflow_base::{Arg, Device, Error, Meta, Result};
use oneflow_core::{Call, Cost, Outs, Tensor, Traits};

/// What an instruction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    pub cost: Cost,
    /// True if it talks with other ranks.
    pub collective: bool,
    /// True if it writes what it reads: an update of parameters.
    pub updates: bool,
}

fn bytes(o: &Operand) -> f64 {
    o.sizes.iter().product::<i64>() as f64 * o.dtype.size() as f64
}

/// The cost of an instruction on a device.
///
/// # Errors
/// ValueError: an op does not exist, or its operands break its rules.
pub fn price(i: &Instr, device: Device) -> Result<Price> {
    let made = match i.steps.as_slice() {
        [] => Ok(Price::default()),
        [one] => single(i, one, device),
        many => chain(i, many),
    };
    made.map_err(|e| e.context(format_args!("{}: ", i.origin)))
}

/// Every operand is moved once; each step works on each element.
fn chain(i: &Instr, steps: &[Step]) -> Result<Price> {
    let n = i.outs.iter().map(|o| o.sizes.iter().product::<i64>()).max().unwrap_or(0) as f64;
    let moved = i.ins.iter().chain(&i.outs).map(bytes).sum();
    Ok(Price { cost: Cost { flops: n * steps.len() as f64, bytes: moved, products: false }, ..Price::default() })
}

fn single(i: &Instr, s: &Step, device: Device) -> Result<Price> {
    let op = find(&s.op)?;
    let at = |r: &Ref| match r {
        Ref::In(k) => i.ins.get(*k as usize),
        Ref::Out(k) => i.outs.get(*k as usize),
        Ref::Temp(..) => None,
    };
    let missing = || Error::value(format!("plan: {}: an operand does not exist", s.op));
    let mut ins: Vec<Option<Tensor>> = Vec::with_capacity(s.ins.len());
    for r in &s.ins {
        let o = r.as_ref().map(|r| at(r).ok_or_else(missing)).transpose()?;
        ins.push(o.map(|o| shell(&o.meta(device), o.offset)).transpose()?);
    }
    let refs: Vec<Option<&Tensor>> = ins.iter().map(Option::as_ref).collect();
    let args: Vec<Arg<'_>> = s.args.iter().map(|a: &PlanArg| a.arg((0, 0))).collect();
    let c = Call::new(op, &refs, &args);
    let mut outs = Outs::new();
    (op.infer)(&c, &mut outs)?;
    let metas: Vec<Meta> = outs.tensors().iter().map(Tensor::meta).collect();
    let mut cost = (op.cost)(&c, &metas);
    let updates = op.traits.has(Traits::MUTATES);
    if updates {
        let written: f64 = written(&c).map(|k| refs.get(k).copied().flatten().map_or(0.0, size)).sum();
        let read: f64 = refs.iter().flatten().map(|t| t.numel() as f64).sum();
        (cost.flops, cost.bytes) = (cost.flops.max(read), cost.bytes + written);
    }
    Ok(Price { cost, collective: op.traits.has(Traits::COLLECTIVE), updates })
}

fn size(t: &Tensor) -> f64 {
    t.numel() as f64 * t.dtype().size() as f64
}

/// Positions of the inputs that a call writes.
fn written<'a>(c: &'a Call<'_>) -> impl Iterator<Item = usize> + 'a {
    let (mut at, mut arg) = (0, 0);
    c.op.sig.params().iter().flat_map(move |p| {
        let n = c.n_inputs_of(p, arg);
        let range = if p.written { at..at + n } else { 0..0 };
        at += n;
        arg += p.is_arg() as usize;
        range
    })
}

impl Instr {
    /// What it computes on operands of which form, wherever they lie: instructions of one signature take the same time.
    pub fn signature(&self) -> String {
        let mut text = String::new();
        for s in &self.steps {
            let args = s.args.iter().map(|a| match a {
                PlanArg::Rng(_) | PlanArg::RngAt(..) => "rng".to_owned(),
                a => format!("{a:?}"),
            });
            text += &format!("{}({})", s.op, args.collect::<Vec<_>>().join(","));
            text += &format!("{:?}>{:?};", s.ins, s.outs);
        }
        for o in self.ins.iter().chain(&self.outs) {
            text += &format!("{:?}{:?}{:?}", o.dtype, o.sizes.as_slice(), o.strides.as_slice());
        }
        text
    }
}
