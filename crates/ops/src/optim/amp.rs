//! Loss scaling: gradients are divided by the scale and checked in one pass.

use super::BASE;
use crate::prelude::*;

pub static UNSCALE_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] tensors, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
    ),
    doc: "Multiplies all tensors by ``inv_scale`` in place; sets ``found_inf`` to one where an element was not finite.",
    infer: |c, _| {
        let Arg::Len(n) = c.arg(0) else { return Err(Error::type_("tensors must be a list")) };
        for i in 0..2 {
            if c.t(n as usize + i)?.numel() != 1 {
                return Err(Error::runtime(format!(
                    "{}(): {} must be a 1-element tensor.",
                    c.name(),
                    ["found_inf", "inv_scale"][i]
                )));
            }
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &UNSCALE,
        lower: |c, _, l| {
            let Arg::Len(n) = c.arg(0) else { return Err(Error::type_("tensors must be a list")) };
            for i in 0..=n as usize {
                l.written_input(i);
            }
            l.input(n as usize + 1).param(n as i64);
            Ok(())
        },
    },
    ..BASE
};
