//! Loss scaling: gradients are divided by the scale and checked in one pass.

use super::BASE;
use crate::named::_amp_foreach_non_finite_check_and_unscale_ as at;
use crate::prelude::*;

pub static UNSCALE_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] tensors, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
    ),
    doc: "Multiplies all tensors by ``inv_scale`` in place; sets ``found_inf`` to one where an element was not finite.",
    infer: |c, _| {
        for (number, name) in [(at::FOUND_INF, "found_inf"), (at::INV_SCALE, "inv_scale")] {
            if c.t(c.place(number))?.numel() != 1 {
                return Err(Error::runtime(format!("{}(): {name} must be a 1-element tensor.", c.name())));
            }
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &UNSCALE,
        lower: |c, _, l| {
            for tensor in at::TENSORS.all(c.args) {
                l.written_input(tensor);
            }
            l.written_input(c.place(at::FOUND_INF))
                .input(c.place(at::INV_SCALE))
                .with(UnscaleParams { n: at::TENSORS.len(c.args) });
            Ok(())
        },
    },
    ..BASE
};
