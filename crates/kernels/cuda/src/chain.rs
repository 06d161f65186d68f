//! ELEMENTWISE_CHAIN: a program of expressions becomes one kernel, its scalars the kernel's parameters.

use crate::launch::{Argument, Family, Key, Place, linear, run};
use crate::nest::Nest;
use crate::text::{Builder, PACK, c_type, unsupported};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{ChainParams, Expr, Launch, MAX_PARAMS, View, Word};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{LazyLock, Mutex};

/// Scalars of all steps together.
const MAX_SCALARS: usize = 64;
/// Inputs and outputs.
const MAX_OPERANDS: usize = 16;

/// What the text depends on. A step is its expression's id, number of scalars, operands and destination.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Program {
    pub compute: DType,
    pub ins: SmallVec<[DType; 8]>,
    pub outs: SmallVec<[DType; 2]>,
    pub steps: Vec<(u32, usize, SmallVec<[usize; 4]>, usize)>,
}

impl Program {
    /// Neighbouring elements that a thread takes at once: sixteen bytes of the widest operand, but at least four.
    fn pack(&self) -> i64 {
        let widest = self.ins.iter().chain(&self.outs).map(|d| d.size()).max().unwrap_or(8);
        if widest <= 2 { 8 } else { 4 }
    }
}

/// The program and the scalars of a launch.
fn decode(l: &Launch<'_>) -> Result<(Program, SmallVec<[u64; 16]>)> {
    let bad = |what: String| Error::runtime(format!("elementwise_chain: {what}"));
    let dtypes = |views: &[Option<View<'_>>]| views.iter().flatten().map(|v| v.dtype).collect::<SmallVec<[DType; 8]>>();
    let (ins, outs) = (dtypes(l.ins), dtypes(l.outs));
    if ins.len() != l.ins.len() || outs.len() != l.outs.len() || outs.is_empty() {
        return Err(bad("an operand is missing".into()));
    }
    if ins.len() + outs.len() > MAX_OPERANDS {
        return Err(Error::not_implemented(format!("elementwise_chain: more than {MAX_OPERANDS} operands")));
    }
    let n_slots = ins.len() + outs.len() + 64;
    let ChainParams { compute, steps: chain } = l.read()?;
    let (mut steps, mut scalars) = (Vec::new(), SmallVec::new());
    for step in chain {
        let name = step.expr.name;
        if scalars.len() + step.scalars.len() > MAX_SCALARS {
            return Err(bad(format!("{name}: too many scalars")));
        }
        let narrow = |w: &Word| if compute == DType::F32 { (w.f64() as f32).to_bits() as u64 } else { w.0 };
        scalars.extend(step.scalars.iter().map(narrow));
        if step.dest < ins.len() || step.operands.iter().chain([&step.dest]).any(|s| *s >= n_slots) {
            return Err(bad(format!("{name}: a slot is out of range")));
        }
        let id = step.expr.id().ok_or_else(|| bad(format!("{name} is not registered")))?;
        steps.push((id, step.scalars.len(), step.operands, step.dest));
    }
    Ok((Program { compute, ins, outs: outs.into_iter().collect(), steps }, scalars))
}

/// A small number that stands for a program.
fn id_of(program: &Program) -> u64 {
    static PROGRAMS: LazyLock<Mutex<HashMap<Program, u64>>> = LazyLock::new(Default::default);
    let mut programs = PROGRAMS.lock().unwrap_or_else(|e| e.into_inner());
    let next = programs.len() as u64;
    match programs.get(program) {
        Some(id) => *id,
        None => *programs.entry(program.clone()).or_insert(next),
    }
}

pub fn text(program: &Program) -> Result<Text> {
    const NAME: &str = "elementwise_chain";
    let n_ins = program.ins.len();
    let n = n_ins + program.outs.len();
    let (mut fields, mut functions, mut steps, mut name) = (String::new(), String::new(), String::new(), String::new());
    let (mut load, mut store, mut slots) = (String::new(), String::new(), n);
    let (mut load_packs, mut unpack, mut pack, mut store_packs) =
        (String::new(), String::new(), String::new(), String::new());
    for (k, d) in program.ins.iter().chain(&program.outs).enumerate() {
        let _ = write!(fields, "{}{}* p{k}; ", if k < n_ins { "const " } else { "" }, c_type(NAME, *d)?);
        let t = c_type(NAME, *d)?;
        if k < n_ins {
            let _ = write!(load, "s{k} = get<C>(o.p{k} + at[{k}]); ");
            let _ = write!(load_packs, "const Pack<{t}> q{k} = load_pack(o.p{k} + at[{k}], along >> {k} & 1); ");
            let _ = write!(unpack, "s{k} = get<C>(&q{k}.v[j]); ");
        } else {
            let _ = write!(store, "put(o.p{k} + at[{k}], s{k}); ");
            let _ = write!(load_packs, "Pack<{t}> q{k}; ");
            let _ = write!(pack, "put(&q{k}.v[j], s{k}); ");
            let _ = write!(store_packs, "*(Pack<{t}>*)(o.p{k} + at[{k}]) = q{k}; ");
        }
    }
    let mut scalar = 0;
    for (step, (id, n_scalars, operands, dest)) in program.steps.iter().enumerate() {
        let expr = Expr::by_id(*id).ok_or_else(|| Error::runtime(format!("{NAME}: no expression has the id {id}")))?;
        let body = expr.cuda_text(program.compute).ok_or_else(|| unsupported(expr.name, program.compute))?;
        let formals = (0..expr.arity).map(|k| format!("C x{k}")).chain((0..MAX_PARAMS).map(|k| format!("C p{k}")));
        let formals = formals.collect::<Vec<_>>().join(", ");
        let _ = writeln!(functions, "D C f{step}({formals}) {{\n{body}\n}}");
        let given = (0..*n_scalars).map(|k| format!("p.v[{}]", scalar + k));
        let absent = (*n_scalars..MAX_PARAMS).map(|_| "(C)0".to_string());
        let actuals =
            operands.iter().map(|s| format!("s{s}")).chain(given).chain(absent).collect::<Vec<_>>().join(", ");
        let _ = write!(steps, "s{dest} = f{step}({actuals}); ");
        let _ = write!(name, " {}", expr.name);
        scalar += n_scalars;
        slots = slots.max(dest + 1).max(operands.iter().max().map_or(0, |s| s + 1));
    }
    let declared = (0..slots).map(|k| format!("s{k}{{}}")).collect::<Vec<_>>().join(", ");
    let b = Builder::new(format!("chain of{name}")).compute("C", program.compute)?;
    let b =
        b.define("N", n).define("SLOTS", declared).define("LOAD", load).define("STEPS", steps).define("STORE", store);
    let b = b.define("V", program.pack()).define("LOAD_PACKS", load_packs).define("UNPACK", unpack);
    let b = b.define("PACK", pack).define("STORE_PACKS", store_packs);
    let b = b
        .push(PACK)
        .push(&format!("struct Operands {{ {fields}}};\nstruct Params {{ C v[{MAX_SCALARS}]; }};\n{functions}"));
    Ok(b.push(include_str!("text/chain.cu")).finish())
}

pub unsafe fn elementwise_chain(l: &Launch<'_>) -> Result<()> {
    let (program, scalars) = decode(l)?;
    let views: SmallVec<[View<'_>; 8]> = l.ins.iter().chain(l.outs).flatten().copied().collect();
    let sizes = l.output(0)?.sizes;
    // Ordered by the first output.
    let first_out = l.ins.len();
    let mut nest = Nest::from_rows(sizes, views.len(), |k| views[k].strides).ordered_by(first_out).merged();
    let along = nest.pack(&views, u32::MAX << first_out, program.pack());
    let geo = nest.geo_unmerged("elementwise_chain")?;
    let pointers: SmallVec<[*mut u8; MAX_OPERANDS]> = views.iter().map(|v| v.ptr).collect();
    let (mut narrow, mut wide) = ([0u32; MAX_SCALARS], [0u64; MAX_SCALARS]);
    for (k, v) in scalars.iter().enumerate() {
        (narrow[k], wide[k]) = (*v as u32, *v);
    }
    let scalars = if program.compute == DType::F32 { Place::of(&narrow) } else { Place::of(&wide) };
    let key = Key::new(Family::Chain).wide(id_of(&program));
    let args = &mut [along.place(), geo.place(), Place::of(pointers.as_slice()), scalars];
    // SAFETY: the arguments are the template's; the views are valid by the launch's contract.
    unsafe { run(l.queue, key, || text(&program), linear(geo.n()), args) }
}
