//! From an op's rule to its candidate rows: what each family of rules means, for one mesh axis.

use oneflow_base::{Error, PKind, Parts, Result, Sbp, wrap_dim};
use oneflow_core::{AnyArg, At, Call, DimGroup, In, InMask, Row, Rows, Tensor};
use smallvec::SmallVec;

/// A row with one entry an input slot (absent inputs count as broadcast).
#[derive(Clone, Debug)]
pub struct Candidate {
    pub row: Row,
    /// The split dimensions must divide evenly by the number of ranks.
    pub even: bool,
    /// Some shards of an input may be empty, where the placement has such.
    pub small: bool,
}

type Split = SmallVec<[Sbp; 4]>;

/// All rows the op offers for these inputs and logical outputs; the first one is all-broadcast.
pub fn candidates(c: &Call<'_>, outs: &[Tensor], parts: Parts) -> Result<Vec<Candidate>> {
    let mut rows = Rules { c, outs, parts, rows: Vec::new() };
    rows.push(SmallVec::from_elem(Sbp::B, c.ins.len()), SmallVec::from_elem(Sbp::B, outs.len()));
    match rule_of(c) {
        Rows::OnlyB { .. } | Rows::Compose | Rows::By(_) => {}
        Rows::Elementwise { linear } => rows.elementwise(linear),
        Rows::Reduce { partial, dims, keepdim } => rows.reduce(partial, dims, keepdim)?,
        Rows::View(f) => rows.view(f, c.t(In::nth(0))?.sizes(), outs[0].sizes())?,
        Rows::Contract(text) => rows.contract(text)?,
        Rows::Batch { not_axes } => rows.batch(not_axes(c)),
        Rows::Custom(f) => {
            let mut custom = Vec::new();
            f(c, &mut custom)?;
            custom.into_iter().try_for_each(|r| rows.custom(r))?;
        }
    }
    Ok(rows.rows)
}

/// The rows of a view on a mesh axis after the first, where earlier axes have left `from` of the input and `to` of the
/// output: once they have split a dimension of a group down to size one, the next one of the group leads. `None` for ops that
/// offer each axis the same.
pub fn later_candidates(
    c: &Call<'_>,
    outs: &[Tensor],
    from: &[i64],
    to: &[i64],
    parts: Parts,
) -> Result<Option<Vec<Candidate>>> {
    let Rows::View(f) = rule_of(c) else { return Ok(None) };
    let mut rows = Rules { c, outs, parts, rows: Vec::new() };
    rows.push(SmallVec::from_elem(Sbp::B, c.ins.len()), SmallVec::from_elem(Sbp::B, outs.len()));
    rows.view(f, from, to)?;
    Ok(Some(rows.rows))
}

/// The rule that holds for these arguments.
pub(crate) fn rule_of(c: &Call<'_>) -> Rows {
    let mut rule = c.op.sbp.rows;
    while let Rows::By(f) = rule {
        rule = f(c);
    }
    rule
}

struct Rules<'a> {
    c: &'a Call<'a>,
    outs: &'a [Tensor],
    parts: Parts,
    rows: Vec<Candidate>,
}

impl Rules<'_> {
    fn push(&mut self, ins: Split, outs: SmallVec<[Sbp; 2]>) {
        // A product over a dimension that not all ranks have is computed by all, as in PyTorch.
        let small = !matches!(rule_of(self.c), Rows::Contract(_));
        self.rows.push(Candidate { row: Row { ins, outs }, even: false, small });
    }

    fn n_ins(&self) -> usize {
        self.c.ins.len()
    }

    /// Rows written by an op count the inputs that are there, or all slots.
    fn custom(&mut self, row: Row) -> Result<()> {
        let present = self.c.ins.iter().flatten().count();
        let ins: Split = if row.ins.len() == self.n_ins() {
            row.ins
        } else if row.ins.len() == present {
            let mut given = row.ins.iter().copied();
            self.c.ins.iter().map(|t| t.and_then(|_| given.next()).unwrap_or(Sbp::B)).collect()
        } else {
            return Err(Error::runtime(format!(
                "{}: an SBP row has {} inputs, the call has {present}",
                self.c.op.name(),
                row.ins.len()
            )));
        };
        if row.outs.len() != self.outs.len() {
            return Err(Error::runtime(format!(
                "{}: an SBP row has {} outputs, the call has {}",
                self.c.op.name(),
                row.outs.len(),
                self.outs.len()
            )));
        }
        self.push(ins, row.outs);
        Ok(())
    }

    /// Splits of every output dim that inputs follow through broadcasting, and the linear rows.
    fn elementwise(&mut self, linear: &[InMask]) {
        let Some(out) = self.outs.first() else { return };
        let least = if self.parts == Parts::Chunks { 0 } else { 2 };
        for d in (0..out.ndim()).filter(|d| out.sizes()[*d] >= least) {
            let follow = |t: Option<&Tensor>| aligned(t, d, out.ndim(), out.sizes()[d]);
            let ins = self.c.ins.iter().map(|t| follow(*t)).collect();
            self.push(ins, SmallVec::from_elem(Sbp::S(d as u8), self.outs.len()));
        }
        for mask in linear {
            let named = |i: usize| i < 32 && mask.bits() >> i & 1 == 1;
            let there = (0..32).filter(|i| named(*i)).all(|i| self.c.opt(In::nth(i)).is_some());
            // A cast that drops digits does not commute with a sum.
            let keeps = (0..self.n_ins()).filter(|i| named(*i)).filter_map(|i| self.c.opt(In::nth(i))).all(|t| {
                self.outs
                    .iter()
                    .all(|o| o.dtype().category() == t.dtype().category() && o.dtype().size() >= t.dtype().size())
            });
            if there && keeps {
                let ins = (0..self.n_ins()).map(|i| if named(i) { Sbp::P_SUM } else { Sbp::B }).collect();
                self.push(ins, SmallVec::from_elem(Sbp::P_SUM, self.outs.len()));
            }
        }
    }

    fn reduce(&mut self, partial: Option<PKind>, dims: AnyArg, keepdim: At<bool>) -> Result<()> {
        let x = self.c.t(In::nth(0))?;
        let n = x.ndim();
        let keep = self.c.bool(keepdim);
        let mut reduced = vec![false; n];
        let arg = self.c.arg(dims);
        let named: SmallVec<[i64; 4]> = match (arg.ints(), arg.int()) {
            (Some(v), _) => SmallVec::from_slice(v),
            (None, Some(d)) => SmallVec::from_slice(&[d]),
            (None, None) => SmallVec::new(),
        };
        for d in &named {
            if n > 0 {
                reduced[wrap_dim(*d, n)?] = true;
            }
        }
        if named.is_empty() {
            reduced.fill(true);
        }
        let mut to = 0u8;
        for (d, gone) in reduced.iter().enumerate() {
            let out = match (gone, partial) {
                (false, _) => Some(Sbp::S(to)),
                (true, Some(kind)) => Some(Sbp::P(kind)),
                (true, None) => None,
            };
            to += (!gone || keep) as u8;
            if let Some(out) = out {
                self.push(SmallVec::from_slice(&[Sbp::S(d as u8)]), SmallVec::from_slice(&[out]));
            }
        }
        let same = self.outs.first().is_some_and(|o| o.dtype() == x.dtype());
        if let Some(kind) = partial
            && same
        {
            self.push(SmallVec::from_slice(&[Sbp::P(kind)]), SmallVec::from_slice(&[Sbp::P(kind)]));
        }
        Ok(())
    }

    /// `from` and `to` are the sizes of the input and the output that this mesh axis may split.
    fn view(
        &mut self,
        f: fn(&Call<'_>, &mut SmallVec<[DimGroup; 6]>) -> Result<()>,
        from: &[i64],
        to: &[i64],
    ) -> Result<()> {
        let mut groups = SmallVec::new();
        f(self.c, &mut groups)?;
        let (x, y) = (self.c.t(In::nth(0))?, &self.outs[0]);
        let n = self.outs.len();
        for g in groups {
            // Dims of size one carry nothing, unless they are split and stay what they are.
            let stays = self.parts == Parts::Chunks && g.ins.len() == 1 && g.outs.len() == 1;
            let carries = |size: i64| stays || size != 1;
            let ins: SmallVec<[u8; 4]> = g.ins.iter().copied().filter(|d| carries(from[*d as usize])).collect();
            let outs: SmallVec<[u8; 4]> = g.outs.iter().copied().filter(|d| carries(to[*d as usize])).collect();
            if let (Some(a), Some(b)) = (ins.first(), outs.first()) {
                self.push(SmallVec::from_slice(&[Sbp::S(*a)]), SmallVec::from_elem(Sbp::S(*b), n));
                if let Some(last) = self.rows.last_mut() {
                    last.even = from[*a as usize] != to[*b as usize];
                }
            }
        }
        // Complex numbers have no order.
        let ordered = !(x.dtype().is_complex() || y.dtype().is_complex());
        for p in [PKind::Sum, PKind::Max, PKind::Min] {
            if p != PKind::Sum && !ordered {
                continue;
            }
            self.push(SmallVec::from_slice(&[Sbp::P(p)]), SmallVec::from_elem(Sbp::P(p), n));
        }
        Ok(())
    }

    /// "b i k, b k j -> b i j": the letters name trailing dims, the leading one all batch dims, with broadcasting. A vector
    /// has only the contracted letter.
    fn contract(&mut self, text: &str) -> Result<()> {
        let bad = || Error::runtime(format!("{}: bad contraction {text:?}", self.c.op.name()));
        let (ins, out) = text.split_once("->").ok_or_else(bad)?;
        let letters = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (out, terms) = (letters(out), ins.split(',').map(letters).collect::<Vec<_>>());
        let batch = out.first().ok_or_else(bad)?.clone();
        let y = &self.outs[0];
        // Dims of each operand by letter; batch dims are numbered from the right.
        let mut named: Vec<Vec<(String, usize)>> = Vec::new();
        for (i, term) in terms.iter().enumerate() {
            let t = self.c.t(In::nth(i))?;
            let mut own: Vec<&String> = term.iter().filter(|l| **l != batch).collect();
            if t.ndim() < own.len() {
                own.retain(|l| !out.contains(l));
            }
            let lead = t.ndim() - own.len().min(t.ndim());
            named.push(own.iter().enumerate().map(|(k, l)| ((*l).clone(), lead + k)).collect());
        }
        let present = |l: &String| named.iter().any(|n| n.iter().any(|(m, _)| m == l));
        let kept: Vec<&String> = out.iter().filter(|l| **l != batch && present(l)).collect();
        let out_batch = y.ndim() - kept.len().min(y.ndim());
        for d in 0..out_batch {
            let ins = (0..terms.len())
                .map(|i| {
                    let n = self.c.t(In::nth(i))?.ndim() - named[i].len();
                    // Only the batch dims broadcast.
                    let at = (d + n).checked_sub(out_batch);
                    let full = at.is_some_and(|a| self.c.ins[i].is_some_and(|t| t.sizes()[a] == y.sizes()[d]));
                    Ok(if full { Sbp::S(at.unwrap_or(0) as u8) } else { Sbp::B })
                })
                .collect::<Result<Split>>()?;
            self.push(ins, SmallVec::from_slice(&[Sbp::S(d as u8)]));
        }
        let mut all: Vec<&String> = named.iter().flatten().map(|(l, _)| l).collect();
        all.sort();
        all.dedup();
        let mut rows = Vec::new();
        for l in all {
            let find = |n: &Vec<(String, usize)>| n.iter().find(|(m, _)| m == l).map(|(_, d)| Sbp::S(*d as u8));
            let ins: Split = named.iter().map(|n| find(n).unwrap_or(Sbp::B)).collect();
            let to = match kept.iter().position(|m| *m == l) {
                Some(k) => Sbp::S((out_batch + k) as u8),
                None => Sbp::P_SUM,
            };
            rows.push((ins, to));
        }
        for i in 0..terms.len() {
            let mut ins: Split = SmallVec::from_elem(Sbp::B, terms.len());
            ins[i] = Sbp::P_SUM;
            rows.push((ins, Sbp::P_SUM));
        }
        for (ins, to) in rows {
            self.push(ins, SmallVec::from_slice(&[to]));
        }
        Ok(())
    }

    /// Every axis of input 0 but the named ones; inputs and outputs of the same rank follow.
    fn batch(&mut self, not: u32) {
        let Some(x) = self.c.opt(In::nth(0)) else { return };
        for d in (0..x.ndim()).filter(|d| not >> d & 1 == 0) {
            let like = |t: &Tensor| t.ndim() == x.ndim() && t.sizes()[d] == x.sizes()[d];
            let side = |t: Option<&Tensor>| if t.is_some_and(like) { Sbp::S(d as u8) } else { Sbp::B };
            if self.outs.iter().all(like) {
                let ins = self.c.ins.iter().map(|t| side(*t)).collect();
                self.push(ins, SmallVec::from_elem(Sbp::S(d as u8), self.outs.len()));
            }
        }
    }
}

/// How an input follows a split of output dim `d` of `ndim`, aligned to the right.
fn aligned(t: Option<&Tensor>, d: usize, ndim: usize, size: i64) -> Sbp {
    let Some(t) = t else { return Sbp::B };
    match (d + t.ndim()).checked_sub(ndim) {
        Some(at) if t.sizes()[at] == size => Sbp::S(at as u8),
        _ => Sbp::B,
    }
}
