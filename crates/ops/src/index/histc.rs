//! `histc`: how many elements lie in each of some equal intervals.

use super::give;
use crate::named::histc;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"),
    doc:
        "How many elements lie in each of `bins` equal parts of `[min, max]` (of the data's range where both are equal);
others do not count.

Example::

    >>> oneflow.histc(oneflow.tensor([1., 2., 1.]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])",
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, bins) = (c.t(histc::INPUT)?, c.int(histc::BINS)?);
        let limit =
            |at: At<Scalar>| c.arg(at).float().ok_or_else(|| Error::type_("histc(): min and max must be numbers"));
        let (mut low, mut high) = (limit(histc::MIN)?, limit(histc::MAX)?);
        if bins <= 0 {
            return Err(Error::runtime(format!("torch.histc(): bins must be > 0, but got {bins}")));
        }
        let flat = x.reshape(&[-1])?;
        // In the input's precision, as the edges of bins are defined.
        let exact = if flat.dtype() == DType::F32 { flat.clone() } else { flat.to_copy_with(Some(DType::F64), None)? };
        if low == high && flat.numel() > 0 {
            let ends = f::stack([&exact.amin(&[], false)?, &exact.amax(&[], false)?], 0)?;
            let host = copy_to_host(&ends.to_copy_with(Some(DType::F64), None)?)?;
            // SAFETY: the host copy holds two float64.
            (low, high) =
                unsafe { (host.data_ptr().cast::<f64>().read(), host.data_ptr().cast::<f64>().add(1).read()) };
        }
        if low == high {
            (low, high) = (low - 1.0, high + 1.0);
        }
        if !low.is_finite() || !high.is_finite() {
            return Err(Error::runtime(format!("torch.histc: range of [{low}, {high}] is not finite")));
        }
        if low > high {
            return Err(Error::runtime("torch.histc: max must be larger than min"));
        }
        let inside = exact.ge(low)?.logical_and(&exact.le(high)?)?;
        let scaled = inside.r#where(&exact, low)?.sub(low)?.div(high - low)?.mul(bins as f64)?;
        let at = scaled.to_copy_with(Some(DType::I64), None)?.clamp(None, Some(Scalar::Int(bins - 1)))?;
        let counts = at.new_zeros(&[bins])?.index_add(0, &at, &inside.to_copy_with(Some(DType::I64), None)?)?;
        give(outs, counts.to_copy_with(Some(x.dtype()), None)?)
    }),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[3, 4]), i(5), i(-1), i(1)])]
    },
    shape: ShapeOf::Inputs,
    traits: Traits::HOST_SYNC.or(Traits::EXACT_OUT),
    sbp: SbpRule::of(Rows::OnlyB { why: "the range may be that of all the data" }),
    ..super::bincount::COUNTED
};
