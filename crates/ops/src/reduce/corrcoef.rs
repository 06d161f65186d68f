//! `corrcoef`: Pearson's correlation of variables (rows) over observations (columns).

use super::*;
use crate::named::corrcoef;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("corrcoef(Tensor input) -> Tensor"),
    doc: "Pearson's correlation of variables (rows) over observations (columns).

Example::

    >>> oneflow.corrcoef(oneflow.tensor([[0., 1.], [2., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let x = c.t(corrcoef::INPUT)?;
        if x.ndim() > 2 {
            return Err(Error::runtime(format!(
                "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
                x.ndim()
            )));
        }
        let m = x.cov()?;
        if m.ndim() == 0 {
            return give(outs, m.div(&m)?);
        }
        let is_complex = m.dtype().is_complex();
        let variances = if is_complex { m.real()? } else { m.clone() };
        let s = variances.diagonal(0, 0, 1)?.sqrt()?;
        let r = m.div(&s.unsqueeze(1)?)?.div(&s.unsqueeze(0)?)?;
        let limited = |t: &Tensor| t.clamp(Some(Scalar::Float(-1.0)), Some(Scalar::Float(1.0)));
        give(outs, if is_complex { limited(&r.real()?)?.complex(&limited(&r.imag()?)?)? } else { limited(&r)? })
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 6])])],
    ..COMPOSED
};
