//! Values of images at positions. What calls mean for users is checked by the function above this op.

use crate::named::grid_sample as at;
use crate::prelude::*;

fn mode(c: &Call<'_>) -> Result<GridMode> {
    Ok(match c.str(at::MODE)? {
        "nearest" => GridMode::Nearest,
        "bilinear" => GridMode::Linear,
        "bicubic" => GridMode::Cubic,
        other => return Err(Error::value(format!("{}(): unknown mode {other:?}", c.name()))),
    })
}

fn border(c: &Call<'_>) -> Result<GridBorder> {
    Ok(match c.str(at::PADDING_MODE)? {
        "zeros" => GridBorder::Zeros,
        "border" => GridBorder::Clamp,
        "reflection" => GridBorder::Reflect,
        other => return Err(Error::value(format!("{}(): unknown padding mode {other:?}", c.name()))),
    })
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (x, grid) = (c.t(at::INPUT)?, c.t(at::GRID)?);
    mode(c)?;
    border(c)?;
    let fits = matches!(x.ndim(), 4 | 5)
        && grid.ndim() == x.ndim()
        && grid.sizes()[0] == x.sizes()[0]
        && grid.sizes()[x.ndim() - 1] == x.ndim() as i64 - 2
        && x.sizes()[2..].iter().all(|n| *n > 0);
    if !fits || !x.dtype().is_float() || grid.dtype() != x.dtype() {
        return Err(Error::runtime(format!(
            "{}(): an input {:?} of {} does not fit a grid {:?} of {}",
            c.name(),
            x.sizes(),
            x.dtype(),
            grid.sizes(),
            grid.dtype()
        )));
    }
    let sizes: Dims = x.sizes()[..2].iter().chain(&grid.sizes()[1..x.ndim() - 1]).copied().collect();
    outs.push(x.dtype(), x.device(), &sizes)
}

/// Positions brought onto the image: clipped, or reflected at its borders and clipped.
fn onto(x: Tensor, n: i64, border: GridBorder, align_corners: bool) -> Result<Tensor> {
    let x = match border {
        GridBorder::Zeros => return Ok(x),
        GridBorder::Clamp => x,
        GridBorder::Reflect => {
            let half = if align_corners { 0.0 } else { 0.5 };
            let (low, span) = (-half, (n - 1) as f64 + 2.0 * half);
            if span <= 0.0 {
                x.mul(0.0)?
            } else {
                let away = x.sub(low)?.abs()?;
                let flips = away.div(span)?.floor()?;
                let rest = away.sub(&flips.mul(span)?)?;
                let even = flips.remainder(2.0)?.eq(0.0)?;
                even.r#where(&rest.add(low)?, &rest.neg()?.add(span + low)?)?
            }
        }
    };
    x.clamp(Some(Scalar::Int(0)), Some(Scalar::Int(n - 1)))
}

/// Weights of the four neighbours (Keys, 1981, a = -3/4).
fn cubic(t: &Tensor) -> Result<[Tensor; 4]> {
    const A: f64 = -0.75;
    let near = |x: &Tensor| x.mul(A + 2.0)?.sub(A + 3.0)?.mul(x)?.mul(x)?.add(1.0);
    let far = |x: &Tensor| x.mul(A)?.sub(5.0 * A)?.mul(x)?.add(8.0 * A)?.mul(x)?.sub(4.0 * A);
    let (below, above) = (t.add(1.0)?, t.neg()?.add(1.0)?);
    Ok([far(&below)?, near(t)?, near(&above)?, far(&above.add(1.0)?)?])
}

/// Elements of flattened images [n, c, *] at integral positions, zero outside, times a weight.
fn picked(flat: &Tensor, at: &[Tensor], sizes: &[i64], weight: Option<Tensor>) -> Result<Tensor> {
    let (mut index, mut inside): (Option<Tensor>, Option<Tensor>) = (None, None);
    for (x, &n) in at.iter().zip(sizes) {
        let ok = x.ge(0.0)?.logical_and(&x.le((n - 1) as f64)?)?;
        let ends = (Some(Scalar::Int(0)), Some(Scalar::Int(n - 1)));
        // NaN is nowhere.
        let i = x.clamp(ends.0, ends.1)?.to_copy_with(Some(DType::I64), None)?.clamp(ends.0, ends.1)?;
        inside = Some(match inside {
            Some(all) => all.logical_and(&ok)?,
            None => ok,
        });
        index = Some(match index {
            Some(outer) => outer.mul(n)?.add(&i)?,
            None => i,
        });
    }
    let (Some(index), Some(inside)) = (index, inside) else {
        return Err(Error::runtime("grid_sample: an image has no dimension"));
    };
    let (n, c) = (flat.sizes()[0], flat.sizes()[1]);
    let all = index.numel() / n.max(1);
    let sizes: Dims = [n, c].iter().chain(&index.sizes()[1..]).copied().collect();
    let wide = index.reshape(&[n, 1, all])?.expand(&[n, c, all])?;
    let values = flat.gather(2, &wide)?.reshape(&sizes)?;
    let factor = match weight {
        Some(w) => inside.r#where(&w, 0.0)?,
        None => inside.to_copy_with(Some(flat.dtype()), None)?,
    };
    values.mul(&factor.unsqueeze(1)?)
}

fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    infer(c, &mut Outs::new())?;
    let (x, grid) = (c.t(at::INPUT)?, c.t(at::GRID)?);
    let (mode, border, align_corners) = (mode(c)?, border(c)?, c.bool(at::ALIGN_CORNERS));
    // Positions of half types would miss their elements: all is computed as kernels do and rounded once.
    let (dtype, compute) = (x.dtype(), x.dtype().compute());
    if dtype == compute {
        outs.give(sampled(x, grid, mode, border, align_corners)?);
        return Ok(());
    }
    let wide = |t: &Tensor| t.to_copy_with(Some(compute), None);
    outs.give(sampled(&wide(x)?, &wide(grid)?, mode, border, align_corners)?.to_copy_with(Some(dtype), None)?);
    Ok(())
}

fn sampled(x: &Tensor, grid: &Tensor, mode: GridMode, border: GridBorder, align_corners: bool) -> Result<Tensor> {
    let sizes = &x.sizes()[2..];
    let flat = x.reshape(&[x.sizes()[0], x.sizes()[1], sizes.iter().product()])?;
    // Positions in elements, one tensor a dimension, outermost first.
    let mut at = Vec::new();
    for (i, &n) in sizes.iter().enumerate() {
        let p = grid.select(-1, (sizes.len() - 1 - i) as i64)?.add(1.0)?;
        let p = if align_corners { p.mul((n - 1) as f64 / 2.0)? } else { p.mul(n as f64)?.sub(1.0)?.mul(0.5)? };
        at.push(if mode == GridMode::Cubic { p } else { onto(p, n, border, align_corners)? });
    }
    if mode == GridMode::Nearest {
        let at = at.iter().map(|x| x.round()).collect::<Result<Vec<_>>>()?;
        return picked(&flat, &at, sizes, None);
    }
    // Steps from the corner and their weights, along each dimension.
    let mut corners = Vec::new();
    let mut steps: Vec<Vec<(f64, Tensor)>> = Vec::new();
    for x in &at {
        let low = x.floor()?;
        let part = x.sub(&low)?;
        steps.push(match mode {
            GridMode::Cubic => cubic(&part)?.into_iter().enumerate().map(|(k, w)| (k as f64 - 1.0, w)).collect(),
            _ => vec![(0.0, part.neg()?.add(1.0)?), (1.0, part)],
        });
        corners.push(low);
    }
    let mut result: Option<Tensor> = None;
    let n_places: usize = steps.iter().map(Vec::len).product();
    for k in 0..n_places {
        let (mut rest, mut places, mut weight) = (n_places, Vec::new(), None::<Tensor>);
        for (d, along) in steps.iter().enumerate() {
            rest /= along.len();
            let (step, w) = &along[k / rest % along.len()];
            let place = corners[d].add(*step)?;
            places.push(if mode == GridMode::Cubic { onto(place, sizes[d], border, align_corners)? } else { place });
            weight = Some(match weight {
                Some(all) => all.mul(w)?,
                None => w.clone(),
            });
        }
        let part = picked(&flat, &places, sizes, weight)?;
        result = Some(match result {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    result.ok_or_else(|| Error::runtime("grid_sample: an image has no dimension"))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor"),
    doc: "Values of images (N, C, ...) at positions (N, ..., k) in [-1, 1].",
    faces: Faces::PRIVATE,
    infer,
    kernel: Kernel::Prim {
        prim: &GRID_SAMPLE,
        lower: |c, _, l| {
            l.input(at::INPUT).input(at::GRID).output(at::RESULT).with(GridSampleParams {
                mode: mode(c)?,
                border: border(c)?,
                align_corners: c.bool(at::ALIGN_CORNERS),
            });
            Ok(())
        },
    },
    compose: Some(compose),
    grad: Grad::Compose,
    // Images and, of one grid, channels may be split.
    sbp: SbpRule::of(Rows::Custom(|_, rows| {
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::S(0), Sbp::S(0)]), outs: SmallVec::from_slice(&[Sbp::S(0)]) });
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::S(1), Sbp::B]), outs: SmallVec::from_slice(&[Sbp::S(1)]) });
        Ok(())
    })),
    samples: || {
        let t = |x: &[i64], grid: &[i64], mode, border, align_corners| {
            let grid = SampleArg::range(grid, -1.3, 1.3);
            let args = [SampleArg::f32(x), grid, SampleArg::Str(mode), SampleArg::Str(border)];
            Sample::new(args.into_iter().chain([SampleArg::Bool(align_corners)]).collect())
        };
        let (flat, deep): (&[i64], &[i64]) = (&[2, 3, 4, 5], &[1, 2, 3, 4, 5]);
        vec![
            t(flat, &[2, 3, 7, 2], "bilinear", "zeros", false),
            t(flat, &[2, 3, 7, 2], "bicubic", "border", true),
            t(flat, &[2, 3, 7, 2], "nearest", "reflection", false),
            t(deep, &[1, 2, 3, 4, 3], "bilinear", "reflection", true),
        ]
    },
    amp: Amp { host: AmpCast::Float32, accelerator: AmpCast::Widest },
    ..OpDef::BASE
};
