//! The layouts of an op over a mesh axis: rows of input and output SBP, mostly defined by family.
//!
//! Only the vocabulary: choosing rows and boxing inputs is the global layer's work.

use crate::{AnyArg, At, Call, InMask};
use oneflow_base::{Attrs, PKind, Parts, Result, Sbp};
use smallvec::SmallVec;

/// The rule of an op, for one mesh axis; an n-D signature is a product of rows.
#[derive(Clone, Copy)]
pub struct SbpRule {
    pub rows: Rows,
    pub localize: Localize,
}

impl SbpRule {
    pub const fn of(rows: Rows) -> SbpRule {
        SbpRule { rows, localize: Localize::None }
    }
    pub const fn with(self, localize: Localize) -> SbpRule {
        SbpRule { rows: self.rows, localize }
    }
}

/// Families of rows. All-broadcast is always allowed.
#[derive(Clone, Copy)]
pub enum Rows {
    /// Nothing but broadcast, and why: the whole input decides, or an order over all of it.
    OnlyB {
        why: &'static str,
    },
    /// A rule that depends on the arguments.
    By(fn(&Call<'_>) -> Rows),
    /// Splits of every output axis that inputs follow through broadcasting. Each mask in `linear` is a row where those
    /// inputs are partial and the others broadcast, and the output is partial. add has one mask of both inputs, mul one
    /// of each, relu none.
    Elementwise {
        linear: &'static [InMask],
    },
    /// Reduction of the dims in argument `dims` (an int or list; `None`: all). A split of a reduced dim gives partial
    /// of this kind (`None`: not allowed).
    Reduce {
        partial: Option<PKind>,
        dims: AnyArg,
        keepdim: At<bool>,
    },
    /// Views: groups of input dims that become groups of output dims. A split survives on a group's leading dim if it
    /// divides evenly. Partial passes.
    View(fn(&Call<'_>, &mut SmallVec<[DimGroup; 6]>) -> Result<()>),
    /// A contraction: "b i k, b k j -> b i j" on the trailing named dims; leading letters may be absent by broadcast.
    Contract(&'static str),
    /// Every axis of input 0 except these (bit mask) may be split; all tensor inputs and outputs of the same rank follow.
    Batch {
        not_axes: fn(&Call<'_>) -> u32,
    },
    Custom(fn(&Call<'_>, &mut Vec<Row>) -> Result<()>),
    /// Place the composition instead.
    Compose,
}

/// Some adjacent input dims and the adjacent output dims they become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimGroup {
    pub ins: SmallVec<[u8; 4]>,
    pub outs: SmallVec<[u8; 4]>,
}

/// One signature on one mesh axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub ins: SmallVec<[Sbp; 4]>,
    pub outs: SmallVec<[Sbp; 2]>,
}

/// The whole that a shard is part of, when arguments are made local.
#[derive(Clone, Copy, Debug)]
pub struct Mesh<'a> {
    /// Hierarchy sizes.
    pub sizes: &'a [i64],
    /// How the ranks of an axis share a dimension.
    pub parts: Parts,
    /// This rank's coordinates.
    pub coords: &'a [i64],
    /// nd-SBP of each input and output.
    pub ins: &'a [Option<&'a [Sbp]>],
    pub outs: &'a [&'a [Sbp]],
    /// Logical sizes of the first output.
    pub out_sizes: &'a [i64],
}

/// Rewrites arguments that speak of the logical tensor.
#[derive(Clone, Copy)]
pub enum Localize {
    None,
    /// This argument is the output's sizes (view, expand, full).
    Sizes(At<[i64]>),
    Custom(fn(&Call<'_>, &Mesh<'_>, &mut Attrs) -> Result<()>),
}
