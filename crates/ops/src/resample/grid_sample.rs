//! Values of images at positions. What calls mean for users is checked by the function above this op.

use crate::named::{grid_sample as at, grid_sample_backward as back};
use crate::nn::{narrow, wide};
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

/// Sizes of the values of an image `x` at the positions of a grid.
fn sizes_of(c: &Call<'_>, x: &Tensor, grid: &Tensor) -> Result<Dims> {
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
    Ok(x.sizes()[..2].iter().chain(&grid.sizes()[1..x.ndim() - 1]).copied().collect())
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let x = c.t(at::INPUT)?;
    outs.push(x.dtype(), x.device(), &sizes_of(c, x, c.t(at::GRID)?)?)
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

/// Slopes of those weights.
fn cubic_slopes(t: &Tensor) -> Result<[Tensor; 4]> {
    const A: f64 = -0.75;
    let near = |x: &Tensor| x.mul(3.0 * (A + 2.0))?.sub(2.0 * (A + 3.0))?.mul(x);
    let far = |x: &Tensor| x.mul(3.0 * A)?.sub(10.0 * A)?.mul(x)?.add(8.0 * A);
    let (below, above) = (t.add(1.0)?, t.neg()?.add(1.0)?);
    Ok([far(&below)?, near(t)?, near(&above)?.neg()?, far(&above.add(1.0)?)?.neg()?])
}

/// How a place moves as `onto` brings it onto the image: 1, -1 or 0. On the outermost elements nothing moves, as in PyTorch.
fn way(x: &Tensor, n: i64, border: GridBorder, align_corners: bool) -> Result<Option<Tensor>> {
    let one = || x.ones_like_with(None, None, false, None);
    let ends = |onto: &Tensor| onto.le(0.0)?.logical_or(&onto.ge((n - 1) as f64)?);
    let (onto, ways) = match border {
        GridBorder::Zeros => return Ok(None),
        GridBorder::Clamp => (x.clone(), one()?),
        GridBorder::Reflect => {
            let half = if align_corners { 0.0 } else { 0.5 };
            let span = (n - 1) as f64 + 2.0 * half;
            if span <= 0.0 {
                return Ok(Some(one()?.mul(0.0)?));
            }
            let away = x.add(half)?;
            let even = away.abs()?.div(span)?.floor()?.remainder(2.0)?.eq(0.0)?;
            let forwards = even.logical_xor(&away.lt(0.0)?)?;
            (onto(x.clone(), n, border, align_corners)?, forwards.r#where(&one()?, &one()?.neg()?)?)
        }
    };
    Ok(Some(ends(&onto)?.r#where(0.0, &ways)?))
}

/// Where the elements at integral positions lie in flattened images [n, c, *], as [n, c, positions], and whether they are inside.
fn located(flat: &Tensor, at: &[Tensor], sizes: &[i64]) -> Result<(Tensor, Tensor)> {
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
    Ok((index.reshape(&[n, 1, all])?.expand(&[n, c, all])?, inside))
}

/// A factor of each position: a weight where the element is inside, else zero.
fn factor(inside: &Tensor, weight: Option<&Tensor>, dtype: DType) -> Result<Tensor> {
    match weight {
        Some(w) => inside.r#where(w, 0.0),
        None => inside.to_copy_with(Some(dtype), None),
    }
}

/// One of the neighbours of each position.
struct Tap {
    /// Its integral place along each dimension.
    places: Vec<Tensor>,
    weight: Option<Tensor>,
    /// Derivatives of the weight by the place along each dimension, where they are wanted.
    slopes: Vec<Tensor>,
}

/// How a call maps positions to elements.
#[derive(Clone, Copy)]
struct Map {
    mode: GridMode,
    border: GridBorder,
    align_corners: bool,
}

impl Map {
    fn of(c: &Call<'_>) -> Result<Map> {
        Ok(Map { mode: mode(c)?, border: border(c)?, align_corners: c.bool(at::ALIGN_CORNERS) })
    }

    fn params(self) -> GridSampleParams {
        GridSampleParams { mode: self.mode, border: self.border, align_corners: self.align_corners }
    }

    /// How far a place moves with its coordinate.
    fn scale(self, n: i64) -> f64 {
        (if self.align_corners { n - 1 } else { n }) as f64 / 2.0
    }

    /// Positions in elements before they are brought onto the image, one tensor a dimension, outermost first.
    fn places(self, grid: &Tensor, sizes: &[i64]) -> Result<Vec<Tensor>> {
        let along = |(i, &n): (usize, &i64)| {
            let p = grid.select(-1, (sizes.len() - 1 - i) as i64)?.add(1.0)?;
            if self.align_corners { p.mul((n - 1) as f64 / 2.0) } else { p.mul(n as f64)?.sub(1.0)?.mul(0.5) }
        };
        sizes.iter().enumerate().map(along).collect()
    }

    fn onto(self, x: Tensor, n: i64) -> Result<Tensor> {
        onto(x, n, self.border, self.align_corners)
    }

    fn taps(self, places: &[Tensor], sizes: &[i64], slopes: bool) -> Result<Vec<Tap>> {
        let at = places.iter().zip(sizes);
        let at = at.map(|(p, &n)| if self.mode == GridMode::Cubic { Ok(p.clone()) } else { self.onto(p.clone(), n) });
        let at = at.collect::<Result<Vec<_>>>()?;
        if self.mode == GridMode::Nearest {
            let places = at.iter().map(|x| x.round()).collect::<Result<Vec<_>>>()?;
            return Ok(vec![Tap { places, weight: None, slopes: Vec::new() }]);
        }
        // Steps from the corner, their weights and slopes, along each dimension.
        let mut corners = Vec::new();
        let mut steps: Vec<Vec<(f64, Tensor, Option<Tensor>)>> = Vec::new();
        for x in &at {
            let low = x.floor()?;
            let part = x.sub(&low)?;
            let (first, weights, mut along) = match self.mode {
                GridMode::Cubic => {
                    let along = if slopes { Vec::from(cubic_slopes(&part)?) } else { Vec::new() };
                    (-1.0, Vec::from(cubic(&part)?), along)
                }
                _ => {
                    let along = if slopes {
                        let one = part.ones_like_with(None, None, false, None)?;
                        vec![one.neg()?, one]
                    } else {
                        Vec::new()
                    };
                    (0.0, vec![part.neg()?.add(1.0)?, part], along)
                }
            };
            let mut along = along.drain(..);
            steps.push(weights.into_iter().enumerate().map(|(k, w)| (first + k as f64, w, along.next())).collect());
            corners.push(low);
        }
        let product = |a: Option<Tensor>, b: &Tensor| match a {
            Some(a) => a.mul(b),
            None => Ok(b.clone()),
        };
        let n_taps: usize = steps.iter().map(Vec::len).product();
        let mut taps = Vec::with_capacity(n_taps);
        for k in 0..n_taps {
            let mut rest = n_taps;
            let mut chosen = Vec::new();
            for along in &steps {
                rest /= along.len();
                chosen.push(&along[k / rest % along.len()]);
            }
            let mut tap = Tap { places: Vec::new(), weight: None, slopes: Vec::new() };
            for (d, (step, w, _)) in chosen.iter().enumerate() {
                let place = corners[d].add(*step)?;
                tap.places.push(if self.mode == GridMode::Cubic { self.onto(place, sizes[d])? } else { place });
                tap.weight = Some(product(tap.weight, w)?);
            }
            for d in 0..if slopes { chosen.len() } else { 0 } {
                let mut slope = None;
                for (e, (_, w, s)) in chosen.iter().enumerate() {
                    slope = Some(product(slope, if d == e { s.as_ref().unwrap_or(w) } else { w })?);
                }
                tap.slopes.extend(slope);
            }
            taps.push(tap);
        }
        Ok(taps)
    }
}

fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    infer(c, &mut Outs::new())?;
    let (x, grid) = (c.t(at::INPUT)?, c.t(at::GRID)?);
    // Positions of half types would miss their elements: all is computed as kernels do and rounded once.
    outs.give(narrow(sampled(&wide(x)?, &wide(grid)?, Map::of(c)?)?, x.dtype())?);
    Ok(())
}

fn flattened(x: &Tensor) -> Result<Tensor> {
    x.reshape(&[x.sizes()[0], x.sizes()[1], x.sizes()[2..].iter().product()])
}

fn sampled(x: &Tensor, grid: &Tensor, map: Map) -> Result<Tensor> {
    let (sizes, flat) = (&x.sizes()[2..], flattened(x)?);
    let out: Dims = x.sizes()[..2].iter().chain(&grid.sizes()[1..x.ndim() - 1]).copied().collect();
    let mut result: Option<Tensor> = None;
    for tap in map.taps(&map.places(grid, sizes)?, sizes, false)? {
        let (index, inside) = located(&flat, &tap.places, sizes)?;
        let values = flat.gather(2, &index)?.reshape(&out)?;
        let part = values.mul(&factor(&inside, tap.weight.as_ref(), x.dtype())?.unsqueeze(1)?)?;
        result = Some(match result {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    result.ok_or_else(|| Error::runtime("grid_sample: an image has no dimension"))
}

/// What the gradient of an image is, by ops.
fn image_gradient(g: &Tensor, x: &Tensor, grid: &Tensor, map: Map) -> Result<Tensor> {
    let sizes = &x.sizes()[2..];
    let mut sum = x.new_zeros(&[x.sizes()[0], x.sizes()[1], sizes.iter().product()])?;
    for tap in map.taps(&map.places(grid, sizes)?, sizes, false)? {
        let (index, inside) = located(&sum, &tap.places, sizes)?;
        let part = g.mul(&factor(&inside, tap.weight.as_ref(), x.dtype())?.unsqueeze(1)?)?;
        sum = sum.scatter_add(2, &index, &part.reshape(index.sizes())?)?;
    }
    sum.reshape(x.sizes())
}

/// What the gradient of the positions is, by ops.
fn grid_gradient(g: &Tensor, x: &Tensor, grid: &Tensor, map: Map) -> Result<Tensor> {
    if map.mode == GridMode::Nearest {
        return grid.new_zeros(grid.sizes());
    }
    let (sizes, flat) = (&x.sizes()[2..], flattened(x)?);
    let places = map.places(grid, sizes)?;
    let mut sums: Vec<Option<Tensor>> = vec![None; sizes.len()];
    for tap in map.taps(&places, sizes, true)? {
        let (index, inside) = located(&flat, &tap.places, sizes)?;
        let worth = flat.gather(2, &index)?.reshape(g.sizes())?.mul(g)?.sum(&[1], false)?;
        for (sum, slope) in sums.iter_mut().zip(&tap.slopes) {
            let part = worth.mul(&factor(&inside, Some(slope), x.dtype())?)?;
            *sum = Some(match sum.take() {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
    }
    let mut parts = Vec::new();
    for (d, sum) in sums.into_iter().enumerate().rev() {
        let sum = sum.ok_or_else(|| Error::runtime("grid_sample: an image has no neighbour"))?;
        let scaled = sum.mul(map.scale(sizes[d]))?;
        let way =
            if map.mode == GridMode::Cubic { None } else { way(&places[d], sizes[d], map.border, map.align_corners)? };
        parts.push(match way {
            Some(way) => scaled.mul(&way)?,
            None => scaled,
        });
    }
    f::stack(&parts, -1)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor"),
    doc: "Values of images (N, C, ...) at positions (N, ..., k) in [-1, 1].",
    faces: Faces::PRIVATE,
    infer,
    kernel: Kernel::Prim {
        prim: &GRID_SAMPLE,
        lower: |c, _, l| {
            l.input(at::INPUT).input(at::GRID).output(at::RESULT).with(Map::of(c)?.params());
            Ok(())
        },
    },
    compose: Some(compose),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT, at::GRID]), Save::of(at::GRID, &[at::INPUT, at::GRID])],
        fix: Fix::None,
        f: |c, out| {
            let (x, grid) = (c.x(at::INPUT)?, c.x(at::GRID)?);
            let (mode, border) = (c.arg(at::MODE).str().unwrap_or(""), c.arg(at::PADDING_MODE).str().unwrap_or(""));
            let (of_x, of_grid) = (out.needs(at::INPUT), out.needs(at::GRID));
            let align_corners = c.arg(at::ALIGN_CORNERS).bool();
            let [gx, gg] = wide(c.g()?)?.grid_sample_backward(
                &wide(x)?,
                &wide(grid)?,
                mode,
                border,
                align_corners,
                of_x,
                of_grid,
            )?;
            out.set(at::INPUT, || narrow(gx, x.dtype()))?;
            out.set(at::GRID, || narrow(gg, grid.dtype()))
        },
    },
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

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "grid_sample_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners, bool of_input, bool of_grid) -> (Tensor grad_input, Tensor grad_grid)",
    ),
    doc: "Gradients of grid_sample, in single or double precision; one that is not wanted is empty.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (g, x, grid) = (c.t(back::GRAD_OUTPUT)?, c.t(back::INPUT)?, c.t(back::GRID)?);
        let fits = sizes_of(c, x, grid)?[..] == *g.sizes() && g.dtype() == x.dtype();
        if !fits || x.dtype() != x.dtype().compute() {
            return Err(Error::runtime(format!(
                "{}(): a gradient {:?} of {} does not fit an input {:?} of {} and a grid {:?}",
                c.name(),
                g.sizes(),
                g.dtype(),
                x.sizes(),
                x.dtype(),
                grid.sizes()
            )));
        }
        let empty: &[i64] = &[0];
        outs.push(x.dtype(), x.device(), if c.bool(back::OF_INPUT) { x.sizes() } else { empty })?;
        outs.push(x.dtype(), x.device(), if c.bool(back::OF_GRID) { grid.sizes() } else { empty })
    },
    kernel: Kernel::Prim {
        prim: &GRID_SAMPLE_BACKWARD,
        lower: |c, _, l| {
            l.input(back::GRAD_OUTPUT).input(back::INPUT).input(back::GRID);
            for (at, wanted) in [(back::GRAD_INPUT, back::OF_INPUT), (back::GRAD_GRID, back::OF_GRID)] {
                if c.bool(wanted) {
                    l.output(at)
                } else {
                    l.no_output()
                };
            }
            l.with(Map::of(c)?.params());
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, grid, map) = (c.t(back::GRAD_OUTPUT)?, c.t(back::INPUT)?, c.t(back::GRID)?, Map::of(c)?);
        let wanted = |at, f: fn(&Tensor, &Tensor, &Tensor, Map) -> Result<Tensor>| {
            if c.bool(at) { f(g, x, grid, map) } else { x.new_empty(&[0]) }
        };
        outs.give(wanted(back::OF_INPUT, image_gradient)?);
        outs.give(wanted(back::OF_GRID, grid_gradient)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        // A gradient that is not wanted is the same everywhere.
        let wanted = |at, sbp| if c.bool(at) { sbp } else { Sbp::B };
        let mut row = |ins: [Sbp; 3], x, grid| {
            let outs = SmallVec::from_slice(&[wanted(back::OF_INPUT, x), wanted(back::OF_GRID, grid)]);
            rows.push(Row { ins: SmallVec::from_slice(&ins), outs });
        };
        let (images, channels) = (Sbp::S(0), Sbp::S(1));
        row([images; 3], images, images);
        row([channels, channels, Sbp::B], channels, Sbp::P_SUM);
        Ok(())
    })),
    samples: || {
        let t = |g: &[i64], x: &[i64], grid: &[i64], mode, border, align_corners| {
            let args = [SampleArg::f32(g), SampleArg::f32(x), SampleArg::range(grid, -1.3, 1.3)];
            let settings = [SampleArg::Str(mode), SampleArg::Str(border), SampleArg::Bool(align_corners)];
            let wanted = [SampleArg::Bool(true), SampleArg::Bool(true)];
            Sample::new(args.into_iter().chain(settings).chain(wanted).collect())
        };
        let (g, x, grid): (&[i64], &[i64], &[i64]) = (&[2, 5, 3, 7], &[2, 5, 4, 5], &[2, 3, 7, 2]);
        vec![
            t(g, x, grid, "bilinear", "zeros", false),
            t(g, x, grid, "bilinear", "border", false),
            t(g, x, grid, "bicubic", "reflection", true),
            t(g, x, grid, "nearest", "border", false),
            t(&[1, 2, 2, 3, 4], &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 3], "bilinear", "reflection", true),
        ]
    },
    ..OpDef::BASE
};
