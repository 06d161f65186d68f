"""gradcheck, gradgradcheck and the strict mode of autograd.functional: PyTorch's verdicts, and its reasons."""

import warnings

import oneflow
import pytest
import torch

# Errors must agree on a phrase of PyTorch's that names the failed check.
REASONS = [
    "Jacobian mismatch for output",
    "Jacobian computed with forward mode mismatch",
    "Backward is not reentrant",
    "backward not multiplied by grad_output",
    "expected to be zero",
    "to require gradient",
    "dimension with stride 0",
    "with the same shape when inputs are perturbed",
    "with the same dtype when inputs are perturbed",
    "Expected at least one of",
    "check_batched_grad",
    "check_batched_forward_grad",
    "does not require gradients",
    "is independent of",
    "should contain a single Tensor",
    "invalid length",
    "not supported together",
]


def _verdict(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            said = " ".join(str(error).split())
            return next((reason for reason in REASONS if reason in said), "another error")


def _real(m):
    return [m.tensor([[0.3, -1.2], [0.7, 2.0]], dtype=m.float64, requires_grad=True)]


def _complex(m):
    return [m.tensor([0.3 + 1j, -1.2 - 0.5j], dtype=m.complex128, requires_grad=True)]


def _two(m):
    return [*_real(m), m.tensor([0.5, -0.25], dtype=m.float64, requires_grad=True)]


def _hooked(change):
    def function(x):
        y = x.clone()
        y.register_hook(change)
        return y

    return function


def _scaled(m, backward, forward):
    """Twice its input, with derivatives of one's own."""

    class Scaled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * backward

        @staticmethod
        def jvp(ctx, t):
            return t * forward

    return Scaled.apply


def _uncertain(m):
    class Uncertain(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * (1 + m.rand_like(g) * 1e-7)

    return Uncertain.apply


# name: (function of the framework, inputs)
FUNCTIONS = {
    "product": (lambda m: lambda x: x * x.sin(), _real),
    "two inputs, two outputs": (lambda m: lambda x, y: (x @ y, x.sum() * y), _two),
    "complex": (lambda m: lambda z: z * z.conj() + z.exp(), _complex),
    "real of complex": (lambda m: lambda z: z.real * z.imag, _complex),
    "complex of real": (lambda m: lambda x: m.complex(x, x * x), _real),
    "own derivatives": (lambda m: _scaled(m, 2.0, 2.0), _real),
    "wrong backward": (lambda m: _scaled(m, 2.1, 2.0), _real),
    "wrong complex backward": (lambda m: _hooked(lambda g: g * 1j), _complex),
    "wrong jvp": (lambda m: _scaled(m, 2.0, 2.1), _real),
    "not linear": (lambda m: _hooked(lambda g: g + 1e-7), _real),
    "not the same twice": (lambda m: _uncertain(m), _real),
    "no gradient": (lambda m: lambda x: x.detach() * 2, _real),
    "no slope": (lambda m: lambda x: x.detach().sign(), _real),
    "nothing asked": (lambda m: lambda x: x * 2, lambda m: [m.ones(2, dtype=m.float64)]),
    "expanded": (lambda m: lambda x: x * 2, lambda m: [_real(m)[0].expand(3, 2, 2)]),
    "shape by value": (lambda m: lambda x: m.cat([x, x]) if (x >= x.detach().round(decimals=9)).all() else x, _real),
    "dtype by value": (lambda m: lambda x: x.float() if (x >= x.detach().round(decimals=9)).all() else x, _real),
}
OPTIONS = [
    {},
    {"fast_mode": True},
    {"check_forward_ad": True, "check_batched_grad": True},
    {"check_forward_ad": True, "check_backward_ad": False},
    {"check_forward_ad": True, "check_batched_forward_grad": True, "fast_mode": True},
    {"check_backward_ad": False},
    {"check_backward_ad": False, "check_batched_grad": True, "check_forward_ad": True},
    {"check_batched_forward_grad": True},
    {"nondet_tol": 1e-3, "raise_exception": False},
]
FORWARD = {"check_forward_ad", "check_batched_forward_grad"}
# Tangents here are those of the backward, hooks included; PyTorch has separate rules (and no vmap of complex ones).
TIED = ("wrong backward", "wrong complex backward", "not the same twice", "complex")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck_judges_as_pytorch(name):
    function, inputs = FUNCTIONS[name]
    found = []
    for m in (oneflow, torch):
        made = function(m)
        chosen = [o for o in OPTIONS if not (o.keys() & FORWARD and name in TIED)]
        found.append([_verdict(lambda o=o: m.autograd.gradcheck(made, inputs(m), **o)) for o in chosen])  # noqa: B023
        if name in ("product", "two inputs, two outputs", "wrong backward"):
            second = [{}, {"fast_mode": True}, {"check_rev_over_rev": False}]
            second += [] if name in TIED else [{"check_fwd_over_rev": True}]
            found[-1] += [_verdict(lambda o=o: m.autograd.gradgradcheck(made, inputs(m), **o)) for o in second]  # noqa: B023
    ours, theirs = found
    assert ours == theirs


def _vectors(m):
    return m.tensor([0.5, -1.0, 2.0], dtype=m.float64)


SHAPES = {
    "curved": lambda x: (x**3).sum(),
    "linear": lambda x: (3 * x).sum(),
    "apart": lambda x: x.long().double().requires_grad_().clone().sum(),
    "detached": lambda x: x.detach().sum(),
    "vector": lambda x: x.exp(),
    "identity": lambda x: x.clone(),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"])
def test_strict_mode_refuses_what_pytorch_refuses(name, shape):
    results = []
    for m in (oneflow, torch):
        x = _vectors(m)
        takes_vector = name not in ("jacobian", "hessian")
        for options in ({}, {"strict": True}, {"strict": True, "create_graph": True}):
            size = x if name in ("jvp", "vhp", "hvp") else SHAPES[shape](x)
            for v in (m.ones_like(size), (m.ones_like(size),) * 2) if takes_vector else (None,):
                arguments = (SHAPES[shape], x) if v is None else (SHAPES[shape], x, v)
                found = _verdict(lambda: getattr(m.autograd.functional, name)(*arguments, **options))  # noqa: B023
                if not isinstance(found, str):
                    found = [t.detach().tolist() for t in (found if isinstance(found, tuple) else (found,))]
                results.append(found)
    half = len(results) // 2
    assert results[:half] == results[half:]


@pytest.mark.parametrize("fast", [False, True])
def test_functions_that_put_the_generator_back_are_checked(fast):
    def verdicts(fw):
        def noisy(x):
            state = fw.get_rng_state()
            try:
                return fw.nn.functional.rrelu(x, 0.1, 0.9, training=True)
            finally:
                fw.set_rng_state(state)

        x = (fw.arange(6.0, dtype=fw.float64) - 4.5).reshape(2, 3).requires_grad_()
        checks = (fw.autograd.gradcheck, fw.autograd.gradgradcheck)
        return [check(noisy, (x,), fast_mode=fast) for check in checks]

    assert verdicts(oneflow) == verdicts(torch) == [True, True]


LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _sparse(m, layout, dtype="float64"):
    x = m.tensor([[0, 2.0, 0, 0], [1.0, 0, 0, 3.0]], dtype=getattr(m, dtype))
    x = x * (1 + 2j) if dtype.startswith("complex") else x
    return x.to_sparse(layout=getattr(m, layout), blocksize=(1, 2) if "bs" in layout else None).requires_grad_()


def _stored(x):
    return x.coalesce().values() if "coo" in str(x.layout) else x.values()


SPARSE_FUNCTIONS = {
    "dense": lambda m, x, masked: x.to_dense(masked_grad=masked),
    "squares": lambda m, x, masked: x.to_dense(masked_grad=masked) ** 2,
    "times two": lambda m, x, masked: (x * 2).to_dense(masked_grad=masked),
    "a wrong one": lambda m, x, masked: x.to_dense(masked_grad=masked).detach() * x.to_dense(masked_grad=masked),
    "no dense output": lambda m, x, masked: x * 2,
    "no part of it": lambda m, x, masked: x.to_dense(masked_grad=masked).detach() + m.ones(2, 4, requires_grad=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_inputs(layout, masked, fast):
    def verdicts(m):
        for dtype in ("float64", "complex128"):
            for name, f in SPARSE_FUNCTIONS.items():
                try:
                    check = m.autograd.gradcheck
                    found = check(
                        lambda x, f=f: f(m, x, masked), (_sparse(m, layout, dtype),), masked=masked, fast_mode=fast
                    )
                except (RuntimeError, ValueError) as error:
                    found = next((r for r in (*REASONS, "Sparse output") if r in str(error)), str(error))
                yield dtype, name, found

    for ours, theirs in zip(verdicts(oneflow), verdicts(torch), strict=True):
        assert ours == theirs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_inputs_by_what_they_store(layout):
    x = _sparse(oneflow, layout)
    before = x.detach().to_dense().tolist()
    assert oneflow.autograd.gradcheck(lambda x: _stored(x) ** 2, (x,), masked=True)
    with pytest.raises(oneflow.autograd.GradcheckError, match="Jacobian mismatch"):
        oneflow.autograd.gradcheck(lambda x: _stored(x).detach() * _stored(x), (x,), masked=True)
    weight = oneflow.ones(4, 3, dtype=oneflow.float64, requires_grad=True)
    assert oneflow.autograd.gradcheck(lambda x, w: x.to_dense() @ w, (x, weight), masked=True)
    # What the check has written while it measured is as it was.
    assert x.detach().to_dense().tolist() == before


THROUGH_VALUES = {
    "layouts": lambda m, x: x.to_sparse() * 2,
    "dense": lambda m, x: x.to_dense() ** 2,
    "a wrong one": lambda m, x: x.to_dense().detach() * x.to_dense(),
    "products": lambda m, x: m.mm(x.to_sparse(), m.ones(4, 3, dtype=x.dtype)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_sparse_gradcheck(layout, masked):
    """Functions that take and return sparse tensors, by the values of these."""

    def verdicts(m):
        check = m.sparse.as_sparse_gradcheck(m.autograd.gradcheck)
        for name, f in THROUGH_VALUES.items():
            try:
                found = check(lambda x, f=f: f(m, x), (_sparse(m, layout),), masked=masked)
            except RuntimeError as error:
                found = next((r for r in REASONS if r in str(error)), str(error))
            yield name, found

    ours = list(verdicts(oneflow))
    assert ours == list(verdicts(torch))
    assert [name for name, found in ours if found is not True] == ["a wrong one"]
    # PyTorch adds no two gradients of some layouts.
    check = oneflow.sparse.as_sparse_gradcheck(oneflow.autograd.gradcheck)
    weight = oneflow.ones(4, dtype=oneflow.float64, requires_grad=True)
    assert check(lambda x, w: [x, x.to_dense() * w], (_sparse(oneflow, layout), weight), masked=masked)
