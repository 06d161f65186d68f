"""What programs do on the way to their results: complex numbers, strided views, reads of constants, changed modules."""

import oneflow as flow
import pytest
from interchange.exporting import check
from oneflow import nn
from oneflow.export import Dim

OPEN = ({0: "batch", 1: "length"},)


def sizes(last=6):
    """Inputs at the traced and two other sizes."""
    flow.manual_seed(0)
    first, *others = [(flow.randn(n, m, last),) for n, m in ((2, 5), (3, 8), (1, 7))]
    return first, others


def parts(z):
    return flow.view_as_real(z)


def rotary(x):
    """Rotary positions by complex numbers, as Llama's first code has them."""
    angles = flow.outer(flow.arange(x.shape[1]).float(), 1 / 10 ** flow.arange(0, 1, 0.5))
    turned = flow.view_as_complex(x[..., :4].reshape(*x.shape[:-1], 2, 2)) * flow.polar(flow.ones_like(angles), angles)
    return parts(turned).flatten(-2)


COMPLEX = {
    "fourier mixing": lambda x: flow.fft.fftn(x, dim=(1, 2)).real,
    "fft": lambda x: parts(flow.fft.fft(x, norm="ortho")),
    "fft along an open dimension": lambda x: parts(flow.fft.ifft(flow.fft.fft(x, dim=1), dim=1, norm="ortho")),
    "rfft": lambda x: parts(flow.fft.rfft(x)),
    "rfft2": lambda x: parts(flow.fft.rfft2(x, norm="forward")),
    "irfft": lambda x: flow.fft.irfft(flow.fft.rfft(x) * (2 - 1j), n=6, norm="ortho"),
    "irfft odd": lambda x: flow.fft.irfft(flow.fft.rfft(x), n=5),
    "irfftn": lambda x: flow.fft.irfftn(flow.fft.rfftn(x, dim=(1, 2)), s=(-1, 6), dim=(1, 2)),
    "rotary": rotary,
    "arithmetic": lambda x: parts((flow.complex(x, -x) + 3) * 1j / flow.complex(x + 5, x) - x),
    "conjugate": lambda x: parts(flow.complex(x, 2 * x).conj().neg() * x.exp()),
    "size": lambda x: flow.complex(x, x + 1).abs(),
    "matmul": lambda x: parts(flow.complex(x, -x) @ flow.complex(x, x).transpose(-1, -2)),
    "views": lambda x: parts(
        flow.stack([flow.complex(x, x + 1).permute(2, 0, 1)[-1], flow.complex(x, x)[:, :, 0]], -1).unsqueeze(1).sum(-1)
    ),
    "cat": lambda x: flow.cat([flow.complex(x, x), flow.complex(x, -x)], dim=-1).mean(-2).imag,
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("opset", [17, 20])
def test_complex_numbers(session, name, opset):
    x, others = sizes()
    check(session, COMPLEX[name], x, others, dynamic_shapes=OPEN, opset_version=opset)


def test_a_complex_buffer_is_part_of_the_model(session):
    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", flow.complex(flow.arange(4).float(), flow.ones(4)))

        def forward(self, x):
            return flow.fft.irfft(flow.fft.rfft(x) * self.weight, n=6)

    x, others = sizes()
    check(session, Filter(), x, others, dynamic_shapes=OPEN)


def test_complex_results_and_ops_without_a_rule_are_refused():
    x = flow.ones(2, 3)
    with pytest.raises(NotImplementedError, match=r"'output' is complex.*view_as_real"):
        flow.onnx.export(lambda x: flow.complex(x, x), (x,))
    with pytest.raises(NotImplementedError, match=r"exp\(\) of complex numbers has no ONNX form"):
        flow.onnx.export(lambda x: parts(flow.complex(x, x).exp()), (x,))


def masked(x):
    y = x * 1
    y[:, 1:, ::2] = 7
    return y


def turned(x):
    y = (x * 1).transpose(1, 2)
    y[:, 0] -= 1
    return y[:, :, 1:]


def diagonal(x):
    y = x * 1
    y.diagonal(1, 0, 2).fill_(3)
    return y, y.diagonal(0, 0, 2), flow.diagonal_scatter(x, x[0].T[: x.shape[0]].T * 2, 0, 0, 2)


def shifted(x):
    y = x * 1
    rows = y.as_strided((x.shape[0], x.shape[1] - 1, 6), (x.shape[1] * 6, 6, 1), 6)
    rows += 1
    return y


STRIDED = {
    "writes into slices": masked,
    "writes into a transposed view": turned,
    "diagonals": diagonal,
    "as_strided": shifted,
    "overlapping windows": lambda x: x.as_strided((x.shape[1] - 1, 12), (6, 1)),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "slice_scatter": lambda x: flow.slice_scatter(x, x[:, 1:-1] * 2, 1, 1, x.shape[1] - 1),
    "slice_scatter from the end": lambda x: flow.slice_scatter(x, x[:, -2:] * 2, 1, -2),
    "select_scatter": lambda x: flow.select_scatter(x, x[:, 0] * 3, 1, -1),
    "nothing": lambda x: (x.repeat(1, 0, 1), x[:, :1].expand(-1, 4, -1)[:, :0]),
    "eye": lambda x: flow.eye(x.shape[1]) @ x,
}


@pytest.mark.parametrize("name", STRIDED)
def test_views_whose_strides_follow_from_open_dimensions(session, name):
    x, others = sizes()
    # A diagonal is as long as the shorter of two dimensions.
    rows = Dim("batch", max=5) if name == "diagonals" else "batch"
    check(session, STRIDED[name], x, others, dynamic_shapes=({0: rows, 1: "length"},))


def halved(x):
    """Reads numbers that follow from sizes alone."""
    n = flow.tensor([x.shape[1]]).sum() - 1
    if flow.ones(x.shape[1]).all():
        x = x[:, : int(n)]
    return x * flow.arange(4).max().item()


def test_constants_are_read_while_a_program_is_traced(session):
    x, others = sizes()
    check(session, halved, x, others, dynamic_shapes=OPEN)


def test_reads_of_inputs_are_refused():
    weight = nn.Parameter(flow.ones(2))
    with pytest.raises(RuntimeError, match="data-dependent"):
        flow.onnx.export(lambda x: x * (flow.ones(2) + x).sum().item(), (flow.ones(2),))
    model = nn.ParameterList([weight])
    model.forward = lambda x: x * (model[0] * 2).sum().item()
    with pytest.raises(RuntimeError, match="data-dependent"):
        flow.onnx.export(model, (flow.ones(2),))


def test_a_module_that_changes_itself_once_is_as_before(session):
    class Rescaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.is_scaled = nn.Parameter(flow.full((6,), 8.0)), False

        def forward(self, x):
            if not self.is_scaled:
                with flow.no_grad():
                    self.weight.div_(2)
                self.is_scaled, self.last = True, x
            return x * self.weight

    model = Rescaled()
    x, others = sizes()
    flow.onnx.export(model, x, dynamic_shapes=OPEN)
    assert model.is_scaled is False and not hasattr(model, "last")
    assert model.weight.tolist() == [8.0] * 6
    check(session, model, x, others, dynamic_shapes=OPEN)
    assert model.weight.tolist() == [4.0] * 6


def spans(x):
    """Makes tensors of sizes, which other tensors meet."""
    n, both = flow.tensor(x.shape[1]), flow.tensor([[x.shape[0] * 2, 3, x.shape[1] - 1]])
    limited = flow.arange(9).clamp(1, x.shape[1] - 2)
    return x[..., 0].clamp(max=n / 4), both + flow.arange(x.shape[1])[:, None], n.to(flow.float32), limited


def test_tensors_made_of_sizes_follow_from_them(session):
    x, others = sizes()
    check(session, spans, x, others, dynamic_shapes=OPEN)
    with pytest.raises(ValueError, match=r"the constant .* depends on a named dimension"):
        flow.onnx.export(lambda x: x + flow.tensor(x.shape[1] ** 0.5), x, dynamic_shapes=OPEN)
    with pytest.raises(ValueError, match=r"the constant .* does not follow from the named dimensions"):
        flow.onnx.export(lambda x: x + flow.tensor(x.shape[1] ** 3), x, dynamic_shapes=OPEN)


DRAWS = {
    "uniform": (lambda x: flow.rand_like(x) + x.clone().uniform_(2, 3), 2.0, 4.0, 3.0),
    "normal": (lambda x: flow.normal(x * 0 + 1, 0.1), 0.2, 1.8, 1.0),
    "integers": (lambda x: flow.randint(-2, 3, x.shape) + flow.randint_like(x, 4), -2.0, 5.0, 1.5),
    "integers in place": (lambda x: x.clone().random_(3, 9), 3.0, 8.0, 5.5),
    "bernoulli": (lambda x: x.clone().bernoulli_(0.25), 0.0, 1.0, 0.25),
    "exponential": (lambda x: x.clone().exponential_(2.0), 0.0, 20.0, 0.5),
    "choices": (lambda x: flow.multinomial((x[0] * 0 + 1).reshape(-1), 3), 0.0, 3999.0, 2000.0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_have_the_distribution_of_the_program(session, name):
    draw, low, high, mean = DRAWS[name]
    x = flow.ones(1, 2, 2000)
    data = flow.onnx.export(draw, (x,), input_names=["x"], dynamic_shapes=({0: "batch"},)).to_bytes()
    wanted = draw(x)
    made = session(data)({"x": flow.ones(4, 2, 2000).numpy()})[0]
    assert str(made.dtype) == str(wanted.dtype).partition(".")[2] and made.ndim == wanted.ndim
    assert low <= made.min() and made.max() <= high
    if name != "choices":
        assert made.shape == (4, 2, 2000) and abs(made.mean() - mean) < 0.06 * (high - low)
    if "integers" in name:
        assert set(made.ravel()) == set(range(int(low), int(high) + 1))


def test_special_functions(session):
    x = flow.cat([flow.linspace(-4.9, 30, 700), flow.tensor([0.0, -0.0, 1e-5, 1.0, 2.0, float("inf"), float("nan")])])
    check(session, lambda x: (x.lgamma(), x.digamma()), (x,), tolerance=2e-5)
    inside = flow.cat([flow.linspace(-0.9999, 0.9999, 500), flow.tensor([-1.0, 0.0, 1.0, 2.0])])
    check(session, lambda x: x.erfinv(), (inside,), tolerance=2e-5)
