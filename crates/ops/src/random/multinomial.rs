//! `multinomial`: Indices drawn with the given (unnormalised) probabilities, row by row.

use crate::named::multinomial;
use crate::prelude::*;

/// With replacement: the place of each uniform number among the cumulated weights of its row. In order of drawing, sums and
/// places are PyTorch's.
fn by_cumulated(p: &Tensor, n: i64, generator: &Generator, is_in_order: bool) -> Result<Tensor> {
    let (rows, k) = (p.sizes()[0], p.sizes()[1]);
    let u = f::rand_with(&[rows, n], Some(generator), Some(DType::F64), Some(p.device()), false)?;
    if !is_in_order {
        let sums = p.cumsum_with(1, Some(DType::F64))?;
        let whole = sums.narrow(1, k - 1, 1)?;
        let usable = || p.amin(&[1], true)?.ge(0.0)?.logical_and(&whole.isfinite()?.logical_and(&whole.gt(0.0)?)?);
        if !super::distributions::all_hold(p, usable)? {
            return Err(unusable());
        }
        // An element of weight zero ends where the one before it does: no number lies between. Rounding may bring a number
        // up to the whole sum, which lies behind all elements: it stays below.
        let at = u.mul(&whole)?.minimum(&whole.nextafter(&whole.zeros_like()?)?)?;
        return sums.searchsorted_with(&at, false, true, None, None);
    }
    let sums = if p.dtype().size() < 4 {
        // Every sum is rounded to the halves it is kept in.
        let mut columns = vec![p.select(1, 0)?];
        for j in 1..k {
            let next = columns[j as usize - 1].add(&p.select(1, j)?)?;
            columns.push(next);
        }
        f::stack(columns.iter(), 1)?
    } else {
        p.cumsum(1)?
    };
    let sums = sums.div(&sums.narrow(1, k - 1, 1)?)?.to_copy_with(Some(DType::F64), None)?;
    sums.searchsorted(&u)?.clamp(None, Some(Scalar::Int(k - 1)))
}

fn unusable() -> Error {
    Error::runtime(
        "multinomial(): probability tensor contains either `inf`, `nan` or element < 0, or a row that sums to 0",
    )
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    ),
    doc: "Indices drawn with the given (unnormalised) probabilities, row by row.

Example::

    >>> oneflow.multinomial(oneflow.tensor([0., 1.]), 1)
    tensor([1])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (x, n) = (c.t(multinomial::INPUT)?, c.int(multinomial::NUM_SAMPLES)?);
        if x.ndim() == 0 || x.ndim() > 2 {
            return Err(Error::runtime(format!("multinomial(): prob_dist must be 1 or 2 dim, got {:?}", x.sizes())));
        }
        super::draw::continuous(c, x.dtype())?;
        let k = x.sizes()[x.ndim() - 1];
        if n <= 0 {
            return Err(Error::runtime("multinomial(): cannot sample n_sample <= 0 samples"));
        }
        if !c.bool(multinomial::REPLACEMENT) && n > k {
            return Err(Error::runtime(
                "multinomial(): cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            ));
        }
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[x.ndim() - 1] = n;
        outs.push(DType::I64, x.device(), &sizes)
    },
    kernel: Kernel::Host(|c, outs| {
        (c.op.infer)(c, outs)?;
        outs.clear();
        let (x, n) = (c.t(multinomial::INPUT)?, c.int(multinomial::NUM_SAMPLES)?);
        let (seed, offset) = c.arg(multinomial::GENERATOR).rng()?;
        let generator = Generator::at(seed, offset);
        let rows = if x.ndim() == 2 { x.sizes()[0] } else { 1 };
        let k = x.sizes()[x.ndim() - 1];
        let is_in_order = super::is_in_order(c.arg(multinomial::GENERATOR));
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[x.ndim() - 1] = n;
        let p = x.reshape(&[rows, k])?;
        if c.bool(multinomial::REPLACEMENT) && !is_in_order {
            outs.give(by_cumulated(&p, n, &generator, is_in_order)?.reshape(&sizes)?);
            return Ok(());
        }
        // Drawn in order, the numbers are of the input's dtype.
        let p = if is_in_order { p.contiguous()? } else { p.to_copy_with(Some(DType::F32), None)? };
        let usable = || {
            let weights = p.isfinite()?.logical_and(&p.ge(0.0)?)?.all(&[1], false)?;
            weights.logical_and(&p.sum(&[1], false)?.gt(0.0)?)
        };
        if !super::distributions::all_hold(&p, usable)? {
            return Err(unusable());
        }
        if c.bool(multinomial::REPLACEMENT) && n > 1 {
            outs.give(by_cumulated(&p, n, &generator, is_in_order)?.reshape(&sizes)?);
            return Ok(());
        }
        // The greatest of p / e with exponential e is a draw with probability p; the n greatest are draws without replacement.
        let p = p.contiguous()?;
        let e = p.empty_like()?;
        e.exponential_with_(1.0, Some(&generator))?;
        let keys = p.div(&e)?;
        let picked = if n == 1 {
            keys.argmax(Some(-1), false)?
        } else {
            let [_, i] = keys.topk(n, -1, true, true)?;
            i
        };
        outs.give(picked.reshape(&sizes)?);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "its draws are numbered by row, and are made on the host" }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.1, 1.0), SampleArg::Int(2)])],
    traits: Traits::RANDOM.or(Traits::ALIAS_OK).or(Traits::EXACT_OUT),
    ..super::draw::DRAW
};
