//! Views: ops whose result is another layout of the input's storage. The rules they share.

pub mod adjoint;
pub mod as_strided;
pub mod atleast;
pub mod block_diag;
pub mod broadcast_tensors;
pub mod broadcast_to;
pub mod cartesian_prod;
pub mod cat;
pub mod chunk;
pub mod column_stack;
pub mod concat;
pub mod diag;
pub mod diag_embed;
pub mod diagflat;
pub mod diagonal;
pub mod dsplit;
pub mod dstack;
pub mod expand;
pub mod flatten;
pub mod flip;
pub mod hsplit;
pub mod hstack;
pub mod meshgrid;
pub mod movedim;
pub mod narrow;
pub mod pad;
pub mod permute;
pub mod ravel;
pub mod repeat;
pub mod reshape;
pub mod roll;
pub mod rot90;
pub mod select;
pub mod select_scatter;
pub mod slice;
pub mod slice_scatter;
pub mod split;
pub mod split_with_sizes;
pub mod squeeze;
pub mod stack;
pub mod straight;
pub mod sum_to_size;
pub mod swapaxes;
pub mod t;
pub mod tensor_split;
pub mod tile;
pub mod transpose;
pub mod unbind;
pub mod unflatten;
pub mod unfold;
pub mod unsqueeze;
#[allow(clippy::module_inception)]
pub mod view;
pub mod view_copies;
pub mod vsplit;
pub mod vstack;

use crate::prelude::*;

/// A view: nothing to compute, nothing to lower.
pub const VIEW: OpDef =
    OpDef { faces: Faces::FN_METHOD, kernel: Kernel::View, cost: |_, _| Cost::default(), ..OpDef::BASE };

/// An op that is its composition: no kernel of its own, gradients and splits by its parts.
pub const COMPOSED: OpDef =
    OpDef { faces: Faces::FN_METHOD, grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), ..OpDef::BASE };

/// The one result of a composition.
pub fn give(outs: &mut Outs, t: Tensor) -> Result<()> {
    outs.give(t);
    Ok(())
}

/// Several results of a composition.
pub fn give_all(outs: &mut Outs, all: impl IntoIterator<Item = Tensor>) -> Result<()> {
    all.into_iter().for_each(|t| outs.give(t));
    Ok(())
}

/// Sizes with one `-1` filled in so that the product is `numel`.
pub fn infer_sizes(name: &str, sizes: &[i64], numel: i64, of: &[i64]) -> Result<Dims> {
    let mut out = Dims::from_slice(sizes);
    let mut unknown = None;
    let mut product = 1i64;
    for (i, &s) in sizes.iter().enumerate() {
        match s {
            -1 if unknown.is_some() => {
                return Err(Error::runtime(format!(
                    "{name}(): only one dimension can be inferred, in shape {sizes:?}"
                )));
            }
            -1 => unknown = Some(i),
            s if s < 0 => {
                return Err(Error::runtime(format!("{name}(): invalid shape dimension {s} in shape {sizes:?}")));
            }
            s => product = product.checked_mul(s).ok_or_else(|| bad_shape(name, sizes, of, numel))?,
        }
    }
    match unknown {
        Some(i) if product > 0 && numel % product == 0 => out[i] = numel / product,
        Some(_) if product == 0 && numel == 0 => {
            return Err(Error::runtime(format!(
                "{name}(): cannot reshape tensor of 0 elements into shape {sizes:?} because the unspecified dimension size -1 can be any value and is ambiguous"
            )));
        }
        None if product == numel => {}
        _ => return Err(bad_shape(name, sizes, of, numel)),
    }
    Ok(out)
}

fn bad_shape(name: &str, sizes: &[i64], of: &[i64], numel: i64) -> Error {
    Error::runtime(format!("{name}(): shape '{sizes:?}' is invalid for input of size {numel} (shape {of:?})"))
}

/// Strides of the same elements under other sizes, where that is possible without copying.
pub fn view_strides(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<Dims> {
    if sizes.contains(&0) {
        return Some(contiguous_strides(new));
    }
    let mut out: Dims = SmallVec::from_elem(1, new.len());
    let mut v = new.len();
    let mut chunk_numel = 1;
    let mut view_numel = 1;
    let mut base = *strides.last().unwrap_or(&1);
    for d in (0..sizes.len()).rev() {
        chunk_numel *= sizes[d];
        // The chunk of mergeable dims ends here.
        if d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk_numel * base) {
            while v > 0 && (view_numel < chunk_numel || new[v - 1] == 1) {
                v -= 1;
                out[v] = view_numel * base;
                view_numel *= new[v];
            }
            if view_numel != chunk_numel {
                return None;
            }
            if d > 0 {
                base = strides[d - 1];
                chunk_numel = 1;
                view_numel = 1;
            }
        }
    }
    while v > 0 {
        v -= 1;
        out[v] = base;
    }
    (sizes.iter().product::<i64>() == new.iter().product::<i64>()).then_some(out)
}

/// Groups of adjacent dims that a reshape maps onto each other.
pub fn reshape_groups(from: &[i64], to: &[i64], groups: &mut SmallVec<[DimGroup; 6]>) {
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        let mut g = DimGroup { ins: SmallVec::new(), outs: SmallVec::new() };
        let (mut a, mut b) = (1i64, 1i64);
        if i < from.len() {
            a *= from[i];
            g.ins.push(i as u8);
            i += 1;
        }
        if j < to.len() {
            b *= to[j];
            g.outs.push(j as u8);
            j += 1;
        }
        while a != b {
            if a < b && i < from.len() {
                a *= from[i];
                g.ins.push(i as u8);
                i += 1;
            } else if j < to.len() {
                b *= to[j];
                g.outs.push(j as u8);
                j += 1;
            } else {
                break;
            }
        }
        groups.push(g);
    }
}
