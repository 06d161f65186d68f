//! `randperm`: A random permutation of 0 .. n-1.

use crate::named::randperm;
use crate::prelude::*;

/// The longest permutation whose numbers a dtype holds exactly.
fn most_of(dtype: DType) -> i64 {
    match dtype {
        DType::U8 => 1 << 8,
        DType::I8 => 1 << 7,
        DType::I16 => 1 << 15,
        DType::U16 => 1 << 16,
        DType::I32 => 1 << 31,
        DType::U32 => 1 << 32,
        DType::BF16 => (1 << 8) + 1,
        DType::F16 => (1 << 11) + 1,
        DType::F32 => (1 << 24) + 1,
        DType::F64 => (1 << 53) + 1,
        _ => i64::MAX,
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "randperm(int n, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "A random permutation of 0 .. n-1.

Example::

    >>> sorted(oneflow.randperm(3).tolist())
    [0, 1, 2]",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let dtype = c.arg(randperm::DTYPE).dtype().unwrap_or(DType::I64);
        crate::creation::push(c, &[c.int(randperm::N)?], Arg::DType(dtype), c.arg(randperm::DEVICE), outs)
    },
    compose: Some(|c, outs| {
        let (seed, offset) = c.arg(randperm::GENERATOR).rng()?;
        let n = c.int(randperm::N)?;
        if n < 0 {
            return Err(Error::runtime(format!("randperm(): n must be non-negative, got {n}")));
        }
        let dtype = c.arg(randperm::DTYPE).dtype().unwrap_or(DType::I64);
        let most = most_of(dtype);
        if n > most {
            return Err(Error::runtime(format!(
                "randperm(): n cannot be greater than {most} for {}, got {n}",
                dtype.name()
            )));
        }
        // By whatever engine the CPU has it, which others get it from.
        let like = f::empty_with(&[n], Some(dtype), None, false, None)?;
        let order = like.draw_in_order_with(
            RandomKind::Permutation as u64 as i64,
            0.0,
            0.0,
            Some(&Generator::at(seed, offset)),
        )?;
        let device = c.arg(randperm::DEVICE).device().unwrap_or(Device::CPU);
        outs.give(if device == Device::CPU { order } else { order.to_copy_with(None, Some(device))? });
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "a permutation is one order over all elements" }),
    samples: || vec![Sample::new(vec![SampleArg::Int(7)])],
    ..super::draw::DRAW
};
