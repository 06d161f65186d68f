//! Resizing of the trailing dimensions by weighted neighbours, and its adjoint; each is the other's gradient.

pub mod grid_sample;
mod matrix;

use crate::named::{resample, resample_backward};
use crate::nn::{formatted, narrow, wide};
use crate::prelude::*;
use matrix::{Map, matrix};

fn mode(c: &Call<'_>) -> Result<ResampleMode> {
    Ok(match c.str(resample::MODE)? {
        "nearest" => ResampleMode::Nearest,
        "nearest-exact" => ResampleMode::NearestExact,
        "linear" => ResampleMode::Linear,
        "cubic" => ResampleMode::Cubic,
        "area" => ResampleMode::Area,
        other => return Err(Error::value(format!("{}(): unknown mode {other:?}", c.name()))),
    })
}

fn scales<'a>(arg: Arg<'a>) -> &'a [f64] {
    match arg {
        Arg::Floats(v) => v,
        _ => &[],
    }
}

/// The sizes of the trailing dims become argument 0; channels last stays so.
fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (x, size) = (c.t(resample::INPUT)?, c.ints(resample::SIZE)?);
    mode(c)?;
    if !x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"{}\" not implemented for '{}'",
            c.name(),
            x.dtype().scalar_type_name()
        )));
    }
    let lead = match x.ndim().checked_sub(size.len()) {
        Some(n @ 1..) => n,
        _ => {
            return Err(Error::runtime(format!(
                "{}(): cannot resize {} dimensions of an input {:?}",
                c.name(),
                size.len(),
                x.sizes()
            )));
        }
    };
    if x.sizes()[lead..].iter().chain(size).any(|n| *n <= 0) {
        return Err(Error::runtime(format!(
            "Input and output sizes should be greater than 0, but got input {:?} and output {size:?}",
            x.sizes()
        )));
    }
    let sizes: Dims = x.sizes()[..lead].iter().chain(size).copied().collect();
    crate::nn::push_format(x, &sizes, outs)
}

fn lower(c: &Call<'_>, l: &mut Lowered, transposed: bool) -> Result<()> {
    let k = c.ints(resample::SIZE)?.len();
    l.input(resample::INPUT).output(resample::RESULT).with(ResampleParams {
        mode: mode(c)?,
        align_corners: c.bool(resample::ALIGN_CORNERS),
        antialias: c.bool(resample::ANTIALIAS),
        transposed,
        scales: (0..k).map(|i| scales(c.arg(resample::SCALES)).get(i).copied().unwrap_or(0.0)).collect(),
    });
    Ok(())
}

fn compose(c: &Call<'_>, outs: &mut Outs, transposed: bool) -> Result<()> {
    infer(c, &mut Outs::new())?;
    let (x, size) = (c.t(resample::INPUT)?, c.ints(resample::SIZE)?);
    let lead = x.ndim() - size.len();
    let mut y = wide(x)?;
    for (k, n) in size.iter().enumerate() {
        let (d, scale) = ((lead + k) as i64, scales(c.arg(resample::SCALES)).get(k).copied().unwrap_or(0.0));
        let map = Map {
            mode: mode(c)?,
            align_corners: c.bool(resample::ALIGN_CORNERS),
            antialias: c.bool(resample::ANTIALIAS),
            scale,
        };
        let had = x.sizes()[lead + k];
        let weights = match transposed {
            false => matrix(map, had, *n, &y)?.t()?,
            true => matrix(map, *n, had, &y)?,
        };
        y = y.movedim(&[d], &[-1])?.matmul(&weights)?.movedim(&[-1], &[d])?;
    }
    outs.give(formatted(narrow(y, x.dtype())?, x)?);
    Ok(())
}

/// Samples and channels may be split; the map is linear.
fn rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let lead = c.t(resample::INPUT)?.ndim() - c.ints(resample::SIZE)?.len();
    for s in (0..lead as u8).map(Sbp::S).chain([Sbp::P_SUM]) {
        rows.push(Row { ins: SmallVec::from_slice(&[s]), outs: SmallVec::from_slice(&[s]) });
    }
    Ok(())
}

const BASE: OpDef = OpDef { faces: Faces::PRIVATE, infer, sbp: SbpRule::of(Rows::Custom(rows)), ..OpDef::BASE };

fn samples() -> Vec<Sample> {
    let t = |s: &[i64], size: &[i64], mode, align_corners, antialias| {
        Sample::new(vec![
            SampleArg::f32(s),
            SampleArg::Ints(size.to_vec()),
            SampleArg::Str(mode),
            SampleArg::Bool(align_corners),
            SampleArg::Bool(antialias),
        ])
    };
    vec![
        t(&[2, 3, 5], &[8], "nearest", false, false),
        t(&[2, 3, 5, 4], &[7, 9], "linear", false, false),
        t(&[2, 3, 5, 4], &[3, 8], "linear", true, false),
        t(&[1, 2, 6, 5], &[4, 4], "cubic", false, true),
        t(&[1, 2, 3, 4, 5], &[5, 2, 5], "area", false, false),
    ]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "resample(Tensor input, int[] size, str mode, bool align_corners, bool antialias, float[]? scales=None) -> Tensor",
    ),
    doc: "The trailing dimensions resized to `size` by mode nearest, nearest-exact, linear, cubic or area. `scales` are input elements an output element, 0: by the sizes.",
    kernel: Kernel::Prim { prim: &RESAMPLE, lower: |c, _, l| lower(c, l, false) },
    compose: Some(|c, outs| compose(c, outs, false)),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(resample::INPUT, || {
                let (x, k) = (c.in_meta(resample::INPUT)?, c.arg(resample::SIZE).ints().map_or(0, <[i64]>::len));
                let (mode, scales) = (c.arg(resample::MODE).str().unwrap_or(""), scales(c.arg(resample::SCALES)));
                let size = &x.sizes[x.sizes.len() - k..];
                c.g()?.resample_backward(
                    size,
                    mode,
                    c.arg(resample::ALIGN_CORNERS).bool(),
                    c.arg(resample::ANTIALIAS).bool(),
                    scales,
                )
            })
        },
    },
    samples,
    ..BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "resample_backward(Tensor grad_output, int[] size, str mode, bool align_corners, bool antialias, float[]? scales=None) -> Tensor",
    ),
    doc: "Gradient of an input whose trailing dimensions were `size`.",
    kernel: Kernel::Prim { prim: &RESAMPLE, lower: |c, _, l| lower(c, l, true) },
    compose: Some(|c, outs| compose(c, outs, true)),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(resample_backward::GRAD_OUTPUT, || {
                let (x, k) = (
                    c.in_meta(resample_backward::GRAD_OUTPUT)?,
                    c.arg(resample_backward::SIZE).ints().map_or(0, <[i64]>::len),
                );
                let (mode, scales) =
                    (c.arg(resample_backward::MODE).str().unwrap_or(""), scales(c.arg(resample_backward::SCALES)));
                let size = &x.sizes[x.sizes.len() - k..];
                c.g()?.resample(
                    size,
                    mode,
                    c.arg(resample_backward::ALIGN_CORNERS).bool(),
                    c.arg(resample_backward::ANTIALIAS).bool(),
                    scales,
                )
            })
        },
    },
    samples,
    ..BASE
};
