//! What hides keys from rows, as the fused op takes it: causal, where a constant says so, and one mask for all the rest.

use super::Writer;
use super::find::{Match, Step};
use crate::ir::{Graph, ValueId};
use crate::passes::fusion::ops;
use crate::passes::fusion::pattern::{arg, is};
use oneflow_base::{Arg, DType, Result};
use oneflow_core::{Tensor, copy_to_host};
use oneflow_ops::TensorOps;
use oneflow_ops::named::{eq, full};

/// The elements of a value that is known while compiling.
pub struct Constants {
    values: Vec<f32>,
    sizes: Vec<i64>,
}

impl Constants {
    pub fn of(g: &Graph, v: ValueId) -> Option<Constants> {
        let (x, sizes) = (&g.values[v as usize], g.meta(v).sizes.to_vec());
        if let Some(filled) = filled(g, v) {
            return sizes.is_empty().then(|| Constants { values: vec![filled], sizes });
        }
        let c = g.variables.of(x.root).filter(|c| c.constant)?;
        let (m, storage) = (x.meta.clone(), c.storage.clone());
        let t = Tensor::from_storage(storage, m.dtype, m.sizes, m.strides, x.offset).ok()?;
        let t = copy_to_host(&t.to_copy_with(Some(DType::F32), None).ok()?).ok()?;
        // SAFETY: the copy is dense, of floats, and lives until the end of this line.
        let values = unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<f32>(), t.numel() as usize) }.to_vec();
        Some(Constants { values, sizes })
    }

    pub fn number(&self) -> Option<f64> {
        self.sizes.is_empty().then(|| self.values[0].into())
    }

    /// Whether every row sees some key. A mask `keeps` what it names, or hides it.
    pub fn every_row(&self, scores: &[i64], keeps: bool) -> bool {
        let n = self.sizes.last().copied().unwrap_or(1).max(1);
        self.sizes.len() <= scores.len()
            && self.values.chunks_exact(n as usize).all(|row| row.iter().any(|x| (*x != 0.0) == keeps))
    }

    /// Whether row `i` sees exactly the keys up to `i`. `hidden` tells that an element hides, or `None` that it does more.
    fn is_causal(&self, [.., rows, keys]: [i64; 4], hidden: impl Fn(f32) -> Option<bool>) -> bool {
        let [lead @ .., l, s] = self.sizes.as_slice() else { return false };
        let at = |i: usize| (i % keys as usize) > (i / keys as usize);
        lead.iter().all(|n| *n == 1)
            && (*l, *s) == (rows, keys)
            && self.values.iter().enumerate().all(|(i, x)| hidden(*x) == Some(at(i)))
    }
}

/// The number that all elements of a value are, if a node of the program fills it.
fn filled(g: &Graph, v: ValueId) -> Option<f32> {
    let n = g.nodes.iter().find(|n| n.outs.contains(&v)).filter(|n| is(n, &ops::FULL))?;
    arg(n, full::FILL_VALUE).float().map(|x| x as f32)
}

/// Whether the op's own causal mask is one of the match's, and the mask that is left, seen with the scores' four dimensions.
/// Nothing where the op cannot take them.
pub fn combined(w: &mut Writer<'_>, m: &Match) -> Result<Option<(bool, Option<ValueId>)>> {
    let (mut causal, mut shown, mut added) = (false, None, None);
    for step in &m.masks {
        match *step {
            Step::Fill { mask, keeps, .. } => {
                let constant = Constants::of(w.g, mask);
                if constant.is_some_and(|c| c.is_causal(m.sizes, |x| Some((x != 0.0) != keeps))) {
                    causal = true;
                    continue;
                }
                let visible = if keeps { Some(mask) } else { opposite(w, mask)? };
                let Some(visible) = visible.map(|v| aligned(w, m, v)).transpose()?.flatten() else { return Ok(None) };
                shown = match shown {
                    None => Some(visible),
                    Some(other) => w.one(&ops::LOGICAL_AND, &[other, visible], &[])?,
                };
            }
            Step::Add(mask) => {
                let hides = |x: f32| if x == 0.0 { Some(false) } else { (x <= -1e4).then_some(true) };
                if Constants::of(w.g, mask).is_some_and(|c| c.is_causal(m.sizes, hides)) {
                    causal = true;
                    continue;
                }
                let (have, want) = (w.g.meta(mask).dtype, w.g.meta(m.query).dtype);
                let fits = have == want || have == DType::F32 && want != DType::F64;
                let Some(mask) = aligned(w, m, mask)?.filter(|_| fits) else { return Ok(None) };
                added = Some(mask);
            }
            Step::Factor(_) | Step::Cast => {}
        }
    }
    let mask = match (shown, added) {
        (Some(shown), Some(added)) => {
            let least = [Arg::None, Arg::Float(f64::NEG_INFINITY)];
            let Some(outs) = w.push(&ops::WHERE, &[Some(shown), Some(added), None], &least)? else { return Ok(None) };
            Some(outs[0])
        }
        (shown, added) => shown.or(added),
    };
    Ok(Some((causal, mask)))
}

/// The mask that names what this one does not.
fn opposite(w: &mut Writer<'_>, mask: ValueId) -> Result<Option<ValueId>> {
    let maker = w.g.nodes.iter().find(|n| n.outs.contains(&mask)).cloned();
    if let Some(n) = maker.filter(|n| is(n, &ops::EQ)) {
        let ins: Vec<_> = n.ins.to_vec();
        return Ok(w.push(&ops::NE, &ins, &[arg(&n, eq::OTHER_SCALAR)])?.map(|outs| outs[0]));
    }
    w.one(&ops::LOGICAL_NOT, &[mask], &[])
}

/// A mask against scores of four dimensions. Those of three have their heads in the first.
fn aligned(w: &mut Writer<'_>, m: &Match, mask: ValueId) -> Result<Option<ValueId>> {
    match (m.scores.len(), w.g.meta(mask).sizes.len()) {
        (3, 3) => w.one(&ops::UNSQUEEZE, &[mask], &[Arg::Int(1)]),
        (4, _) | (_, ..=2) => Ok(Some(mask)),
        (5.., 3) => Ok(Some(mask)),
        _ => Ok(None),
    }
}
