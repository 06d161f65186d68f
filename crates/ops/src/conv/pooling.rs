//! The public poolings: unbatched inputs, numbers for lists, sizes and torch's errors, over the two fused ops.

use super::*;
use crate::named::{adaptive_avg_pool1d, avg_pool1d, avg_pool2d, max_pool1d};

/// A pooling call's window, one number a dimension.
struct Window {
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
}

/// "a single int, or a tuple of two ints".
fn list(name: &str, what: &str, v: &[i64], spatial: usize, rule: &str) -> Result<Dims> {
    match v.len() {
        n if n == spatial => Ok(Dims::from_slice(v)),
        1 => Ok(SmallVec::from_elem(v[0], spatial)),
        _ => {
            let number = ["one int", "two ints", "three ints"][spatial - 1];
            Err(Error::runtime(format!(
                "{name}: {what} must {rule}be a single int, or a tuple of {number}, but got {v:?}"
            )))
        }
    }
}

impl Window {
    fn new(
        name: &str,
        spatial: usize,
        kernel: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
    ) -> Result<Window> {
        let kernel = list(name, "kernel_size", kernel, spatial, "")?;
        let stride = match stride.is_empty() {
            true => kernel.clone(),
            false => list(name, "stride", stride, spatial, "either be omitted, ")?,
        };
        let padding = list(name, "padding", padding, spatial, "")?;
        let dilation = list(name, "dilation", dilation, spatial, "")?;
        for (what, v) in [("kernel_size", &kernel), ("stride", &stride), ("dilation", &dilation)] {
            if v.iter().any(|n| *n <= 0) {
                // Each as torch says it.
                let verb = if what == "stride" { "must" } else { "should" };
                return Err(Error::runtime(format!(
                    "{name}: {what} {verb} be greater than zero, but got {:?}",
                    v.as_slice()
                )));
            }
        }
        for (what, v) in [("kernel_size", &kernel), ("stride", &stride), ("padding", &padding), ("dilation", &dilation)]
        {
            size::within_32_bits(name, what, v)?;
        }
        for d in 0..spatial {
            if padding[d] < 0 {
                return Err(Error::runtime(format!("{name}: pad must be non-negative, but got pad: {}", padding[d])));
            }
            if i128::from(padding[d]) > size::extent(kernel[d], dilation[d]) / 2 {
                return Err(Error::runtime(format!(
                    "{name}: pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                    padding[d], kernel[d], dilation[d]
                )));
            }
        }
        Ok(Window { kernel, stride, padding, dilation })
    }

    /// Output sizes; with `ceil` windows that begin in the input or its left padding count too.
    fn out(&self, name: &str, x: &Tensor, ceil: bool) -> Result<Dims> {
        let input = &x.sizes()[2..];
        let size = |d: usize| {
            let extent = size::extent(self.kernel[d], self.dilation[d]);
            size::fits(name, size::count(input[d], self.padding[d], extent, self.stride[d], ceil))
        };
        let out: Dims = (0..input.len()).map(size).collect::<Result<_>>()?;
        if out.iter().any(|n| *n < 1) {
            let joined = |c: i64, v: &[i64]| {
                std::iter::once(c).chain(v.iter().copied()).map(|n| n.to_string()).collect::<Vec<_>>().join("x")
            };
            return Err(Error::runtime(format!(
                "{name}: Given input size: ({}). Calculated output size: ({}). Output size is too small",
                joined(x.sizes()[1], input),
                joined(x.sizes()[1], &out)
            )));
        }
        Ok(out)
    }
}

/// The input with a batch dimension; only the batch may be empty.
fn image(c: &Call<'_>, spatial: usize) -> Result<(Tensor, bool)> {
    let x = c.t(max_pool1d::INPUT)?;
    let (n, added) = (x.ndim(), x.ndim() == spatial + 1);
    let filled = |from: usize| x.sizes()[from..].iter().all(|s| *s > 0);
    if !(added && filled(0) || n == spatial + 2 && filled(1)) {
        return Err(Error::runtime(format!(
            "{}(): Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {:?}",
            c.name(),
            spatial + 1,
            spatial + 2,
            x.sizes()
        )));
    }
    Ok((if added { x.unsqueeze(0)? } else { x.clone() }, added))
}

fn max(c: &Call<'_>, outs: &mut Outs, spatial: usize, indices: bool) -> Result<()> {
    let name = c.name();
    // Over sequences torch takes a stride beyond every length: there is one window.
    let most = if spatial == 1 { i64::from(i32::MAX) } else { i64::MAX };
    let stride: Dims = c.ints(max_pool1d::STRIDE)?.iter().map(|s| (*s).min(most)).collect();
    let w = Window::new(
        name,
        spatial,
        c.ints(max_pool1d::KERNEL_SIZE)?,
        &stride,
        c.ints(max_pool1d::PADDING)?,
        c.ints(max_pool1d::DILATION)?,
    )?;
    let (x, added) = image(c, spatial)?;
    let out = w.out(name, &x, c.bool(max_pool1d::CEIL_MODE))?;
    let [y, index] = x.native_max_pool(&w.kernel, &w.stride, &w.padding, &w.dilation, &out)?;
    outs.give(unbatched(y, added)?);
    if indices {
        outs.give(unbatched(index, added)?);
    }
    Ok(())
}

/// Means are of floats, on every device.
fn floating(c: &Call<'_>) -> Result<()> {
    let d = c.t(avg_pool1d::INPUT)?.dtype();
    if d.is_float() {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"{}\" not implemented for '{}'", c.name(), d.scalar_type_name())))
}

fn avg(c: &Call<'_>, outs: &mut Outs, spatial: usize) -> Result<()> {
    let name = c.name();
    let w = Window::new(
        name,
        spatial,
        c.ints(avg_pool1d::KERNEL_SIZE)?,
        c.ints(avg_pool1d::STRIDE)?,
        c.ints(avg_pool1d::PADDING)?,
        &[1],
    )?;
    let (x, added) = image(c, spatial)?;
    let out = w.out(name, &x, c.bool(avg_pool1d::CEIL_MODE))?;
    let divisor = c.arg(avg_pool2d::DIVISOR_OVERRIDE).int();
    if divisor == Some(0) {
        return Err(Error::runtime("divisor must be not zero"));
    }
    // Of int64 the quotient is cut, as torch divides.
    let integral = x.dtype() == DType::I64;
    if !integral {
        floating(c)?;
    }
    let x = if integral { x.to_copy_with(Some(DType::F64), None)? } else { x };
    let y = x.native_avg_pool(
        &w.kernel,
        &w.stride,
        &w.padding,
        c.bool(avg_pool1d::COUNT_INCLUDE_PAD),
        divisor.unwrap_or(0),
        &out,
    )?;
    let y = if integral { y.trunc()?.to_copy_with(Some(DType::I64), None)? } else { y };
    outs.give(unbatched(y, added)?);
    Ok(())
}

fn adaptive(c: &Call<'_>, outs: &mut Outs, spatial: usize, maximum: bool) -> Result<()> {
    let (x, name) = (c.t(adaptive_avg_pool1d::INPUT)?, c.name());
    let n = x.ndim();
    if n != spatial + 1 && n != spatial + 2 {
        return Err(Error::runtime(format!(
            "{name}(): Expected {}D or {}D tensor, but got {:?}",
            spatial + 1,
            spatial + 2,
            x.sizes()
        )));
    }
    let size = c.ints(adaptive_avg_pool1d::OUTPUT_SIZE)?;
    let out = match size.len() {
        k if k == spatial => Dims::from_slice(size),
        1 => SmallVec::from_elem(size[0], spatial),
        _ => return Err(Error::runtime(format!("{name}: output_size must be {spatial}"))),
    };
    if out.iter().any(|k| *k < 0) {
        return Err(Error::runtime(format!(
            "{name}: elements of output_size must be greater than or equal to 0 but received {:?}",
            out.as_slice()
        )));
    }
    let first = if maximum { 1 } else { n - spatial };
    if let Some(d) = (first..n).find(|d| x.sizes()[*d] == 0) {
        return Err(Error::runtime(format!(
            "{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {:?} with dimension {d} being empty",
            x.sizes()
        )));
    }
    let added = n == spatial + 1;
    let x = if added { x.unsqueeze(0)? } else { x.clone() };
    let (zero, one): (Dims, Dims) = (SmallVec::from_elem(0, spatial), SmallVec::from_elem(1, spatial));
    if maximum {
        let [y, index] = x.native_max_pool(&zero, &one, &zero, &one, &out)?;
        outs.give(unbatched(y, added)?);
        outs.give(unbatched(index, added)?);
    } else {
        floating(c)?;
        outs.give(unbatched(x.native_avg_pool(&zero, &one, &zero, true, 0, &out)?, added)?);
    }
    Ok(())
}

fn shape(spatial: usize, batch: bool) -> SampleArg {
    let lead: &[i64] = if batch { &[2, 3] } else { &[3] };
    SampleArg::f32(&[lead, &[7, 6, 5][..spatial]].concat())
}

fn window_samples(spatial: usize) -> Vec<Sample> {
    let t = |batch: bool, k: i64, s: i64, p: i64| {
        let all = |v: i64| SampleArg::Ints(vec![v; spatial]);
        Sample::new(vec![shape(spatial, batch), all(k), all(s), all(p)])
    };
    vec![t(true, 3, 2, 1), t(false, 2, 1, 0), t(true, 3, 3, 0).kw("ceil_mode", SampleArg::Bool(true))]
}

fn adaptive_samples(spatial: usize) -> Vec<Sample> {
    let t = |batch: bool, o: i64| Sample::new(vec![shape(spatial, batch), SampleArg::Ints(vec![o; spatial])]);
    vec![t(true, 3), t(false, 1), t(true, 5)]
}

/// What all of them share.
const POOLING: OpDef = OpDef { faces: Faces::FN, grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), ..OpDef::BASE };
/// PyTorch lists pools of volumes for the host, but not those that also give indices.
const POOLING_3D: OpDef = OpDef { amp: Amp::FLOAT32_ON_HOST, ..POOLING };

pub static MAX1D: OpDef = OpDef {
    sig: Sig::parse("max_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor"),
    doc: "Maxima of windows over sequences: input (n, c, l) or (c, l). The stride is the kernel's size where none is given.

Example::

    >>> oneflow.max_pool1d(oneflow.tensor([[1., 3., 2., 4.]]), 2)
    tensor([[3., 4.]])",
    compose: Some(|c, outs| max(c, outs, 1, false)),
    samples: || window_samples(1),
    ..POOLING
};

pub static MAX2D: OpDef = OpDef {
    sig: Sig::parse("max_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"),
    doc: "Maxima of windows over images: input (n, c, h, w) or (c, h, w). The stride is the kernel's size where none is given.

Example::

    >>> oneflow.max_pool2d(oneflow.arange(4.).reshape(1, 2, 2), 2)
    tensor([[[3.]]])",
    compose: Some(|c, outs| max(c, outs, 2, false)),
    samples: || window_samples(2),
    ..POOLING
};

pub static MAX3D: OpDef = OpDef {
    sig: Sig::parse("max_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor"),
    doc: "Maxima of windows over volumes: input (n, c, d, h, w) or (c, d, h, w). The stride is the kernel's size where none is given.

Example::

    >>> oneflow.max_pool3d(oneflow.arange(8.).reshape(1, 2, 2, 2), 2).item()
    7.0",
    compose: Some(|c, outs| max(c, outs, 3, false)),
    samples: || window_samples(3),
    ..POOLING_3D
};

pub static INDICES1D: OpDef = OpDef {
    sig: Sig::parse(
        "max_pool1d_with_indices(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    ),
    doc: "As `max_pool1d`, with the maxima's positions in the sequence.

Example::

    >>> oneflow.max_pool1d_with_indices(oneflow.tensor([[1., 3., 2., 4.]]), 2)[1]
    tensor([[1, 3]])",
    compose: Some(|c, outs| max(c, outs, 1, true)),
    samples: || window_samples(1),
    ..POOLING
};

pub static INDICES2D: OpDef = OpDef {
    sig: Sig::parse(
        "max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    ),
    doc: "As `max_pool2d`, with the maxima's row-major positions in the plane.

Example::

    >>> oneflow.nn.functional.max_pool2d_with_indices(oneflow.arange(4.).reshape(1, 2, 2), 2)[1]
    tensor([[[3]]])",
    faces: Faces::NN,
    compose: Some(|c, outs| max(c, outs, 2, true)),
    samples: || window_samples(2),
    ..POOLING
};

pub static INDICES3D: OpDef = OpDef {
    sig: Sig::parse(
        "max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    ),
    doc: "As `max_pool3d`, with the maxima's row-major positions in the volume.

Example::

    >>> oneflow.nn.functional.max_pool3d_with_indices(oneflow.arange(8.).reshape(1, 2, 2, 2), 2)[1].item()
    7",
    faces: Faces::NN,
    compose: Some(|c, outs| max(c, outs, 3, true)),
    samples: || window_samples(3),
    ..POOLING
};

pub static AVG1D: OpDef = OpDef {
    sig: Sig::parse("avg_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> Tensor"),
    doc: "Means of windows over sequences: input (n, c, l) or (c, l). Padded zeros count unless `count_include_pad` is false.

Example::

    >>> oneflow.avg_pool1d(oneflow.tensor([[1., 3., 2., 4.]]), 2)
    tensor([[2., 3.]])",
    compose: Some(|c, outs| avg(c, outs, 1)),
    samples: || window_samples(1),
    ..POOLING
};

pub static AVG2D: OpDef = OpDef {
    sig: Sig::parse("avg_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"),
    doc: "Means of windows over images: input (n, c, h, w) or (c, h, w). `divisor_override` divides in place of the window's size.

Example::

    >>> oneflow.nn.functional.avg_pool2d(oneflow.arange(4.).reshape(1, 2, 2), 2)
    tensor([[[1.5000]]])",
    faces: Faces::NN.or(Faces::OUT),
    compose: Some(|c, outs| avg(c, outs, 2)),
    samples: || window_samples(2),
    ..POOLING
};

pub static AVG3D: OpDef = OpDef {
    sig: Sig::parse("avg_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"),
    doc: "Means of windows over volumes: input (n, c, d, h, w) or (c, d, h, w). `divisor_override` divides in place of the window's size.

Example::

    >>> oneflow.nn.functional.avg_pool3d(oneflow.arange(8.).reshape(1, 2, 2, 2), 2).item()
    3.5",
    faces: Faces::NN.or(Faces::OUT),
    compose: Some(|c, outs| avg(c, outs, 3)),
    samples: || window_samples(3),
    ..POOLING_3D
};

pub static ADAPTIVE_AVG1D: OpDef = OpDef {
    sig: Sig::parse("adaptive_avg_pool1d(Tensor input, int[1] output_size) -> Tensor"),
    doc: "Means of `output_size` windows that cover a sequence evenly.

Example::

    >>> oneflow.adaptive_avg_pool1d(oneflow.tensor([[1., 3., 2., 4.]]), 2)
    tensor([[2., 3.]])",
    compose: Some(|c, outs| adaptive(c, outs, 1, false)),
    samples: || adaptive_samples(1),
    ..POOLING
};

pub static ADAPTIVE_AVG2D: OpDef = OpDef {
    sig: Sig::parse("adaptive_avg_pool2d(Tensor input, int[2] output_size) -> Tensor"),
    doc: "Means of `output_size` windows that cover an image evenly.

Example::

    >>> oneflow.nn.functional.adaptive_avg_pool2d(oneflow.ones(1, 4, 4), 1)
    tensor([[[1.]]])",
    faces: Faces::NN,
    compose: Some(|c, outs| adaptive(c, outs, 2, false)),
    samples: || adaptive_samples(2),
    ..POOLING
};

pub static ADAPTIVE_AVG3D: OpDef = OpDef {
    sig: Sig::parse("adaptive_avg_pool3d(Tensor input, int[3] output_size) -> Tensor"),
    doc: "Means of `output_size` windows that cover a volume evenly.

Example::

    >>> oneflow.nn.functional.adaptive_avg_pool3d(oneflow.ones(1, 2, 2, 2), 1).item()
    1.0",
    faces: Faces::NN,
    compose: Some(|c, outs| adaptive(c, outs, 3, false)),
    samples: || adaptive_samples(3),
    ..POOLING_3D
};

pub static ADAPTIVE_MAX1D: OpDef = OpDef {
    sig: Sig::parse("adaptive_max_pool1d(Tensor input, int[1] output_size) -> (Tensor, Tensor)"),
    doc: "Maxima of `output_size` windows that cover a sequence evenly, and their positions.

Example::

    >>> oneflow.adaptive_max_pool1d(oneflow.tensor([[1., 3., 2., 4.]]), 2)[0]
    tensor([[3., 4.]])",
    compose: Some(|c, outs| adaptive(c, outs, 1, true)),
    samples: || adaptive_samples(1),
    ..POOLING
};

pub static ADAPTIVE_MAX2D: OpDef = OpDef {
    sig: Sig::parse("adaptive_max_pool2d(Tensor input, int[2] output_size) -> (Tensor, Tensor)"),
    doc: "Maxima of `output_size` windows that cover an image evenly, and their row-major positions.

Example::

    >>> oneflow.nn.functional.adaptive_max_pool2d(oneflow.ones(1, 4, 4), 1)
    tensor([[[1.]]])",
    faces: Faces::NN,
    compose: Some(|c, outs| adaptive(c, outs, 2, true)),
    samples: || adaptive_samples(2),
    ..POOLING
};

pub static ADAPTIVE_MAX3D: OpDef = OpDef {
    sig: Sig::parse("adaptive_max_pool3d(Tensor input, int[3] output_size) -> (Tensor, Tensor)"),
    doc: "Maxima of `output_size` windows that cover a volume evenly, and their row-major positions.

Example::

    >>> oneflow.nn.functional.adaptive_max_pool3d(oneflow.ones(1, 2, 2, 2), 1).item()
    1.0",
    faces: Faces::NN,
    compose: Some(|c, outs| adaptive(c, outs, 3, true)),
    samples: || adaptive_samples(3),
    ..POOLING_3D
};
