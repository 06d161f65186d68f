"""Grad modes, backward, grad, and the numeric checks themselves."""

import oneflow
import pytest
import torch
from oneflow.autograd import gradcheck, gradgradcheck


def modes(fw):
    seen = []
    x = fw.ones(2, requires_grad=True)

    def look():
        seen.append((fw.is_grad_enabled(), (x * 2).requires_grad))

    look()
    with fw.no_grad():
        look()
        with fw.enable_grad():
            look()
        look()
    with fw.set_grad_enabled(False):
        look()
    fw.set_grad_enabled(False)
    look()
    fw.set_grad_enabled(True)
    fw.no_grad()(look)()
    fw.no_grad(look)()
    fw.set_grad_enabled(False)(look)()
    look()
    with fw.inference_mode():
        look()

    @fw.no_grad()
    def generate():
        look()
        yield 1
        look()

    for _ in generate():
        look()
    try:
        with fw.no_grad():
            raise KeyError
    except KeyError:
        look()
    return seen


def test_modes_equal_torchs():
    assert modes(oneflow) == modes(torch)


def test_generator_wrappers_pass_everything_through():
    @oneflow.no_grad()
    def talk():
        got = yield 1
        try:
            yield got + 1
        except KeyError:
            yield "caught"
        return "end"

    generator = talk()
    assert next(generator) == 1 and generator.send(5) == 6 and generator.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"


def grads(fw):
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    y = fw.tensor(3.0, requires_grad=True)
    z = fw.tensor(1.0, requires_grad=True)
    a = fw.autograd.grad((x * x * y).sum(), [x, y])
    b = fw.autograd.grad((x * y).sum(), [x, z], allow_unused=True)
    c = fw.autograd.grad((x * y).sum(), z, allow_unused=True, materialize_grads=True)
    (first,) = fw.autograd.grad((x * x * x).sum(), x, create_graph=True)
    d = fw.autograd.grad(first.sum(), x)
    e = fw.autograd.grad(x * 2, x, fw.tensor([1.0, 10.0]))
    fw.autograd.backward([(x * 2).sum(), (y * 3).sum()])
    fw.autograd.backward((x * y).sum(), inputs=[y])
    return [[None if g is None else g.tolist() for g in group] for group in (a, b, c, d, e, [x.grad, y.grad, z.grad])]


def test_grad_equals_torch():
    assert grads(oneflow) == grads(torch)


def leaf(fw, *shape):
    return fw.ones(shape, requires_grad=True)


BAD = [
    (RuntimeError, lambda fw: fw.autograd.backward(leaf(fw, 2) * 2)),
    (RuntimeError, lambda fw: fw.autograd.backward(fw.ones(()))),
    (RuntimeError, lambda fw: fw.autograd.grad(leaf(fw, 2).sum(), leaf(fw, 2))),
    (RuntimeError, lambda fw: fw.autograd.backward(leaf(fw, 2) * 2, fw.ones(3))),
    (TypeError, lambda fw: fw.autograd.backward(leaf(fw, 2) * 2, [1.0])),
    (RuntimeError, lambda fw: fw.autograd.backward(leaf(fw, 2).sum(), inputs=[])),
    (ValueError, lambda fw: fw.autograd.grad(leaf(fw), leaf(fw), allow_unused=False, materialize_grads=True)),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors_are_torchs(i):
    kind, function = BAD[i]
    for fw in (oneflow, torch):
        with pytest.raises(kind):
            function(fw)


def test_gradcheck_accepts_right_and_refuses_wrong_gradients():
    x = oneflow.tensor([0.3, -1.2, 2.0], dtype=oneflow.float64, requires_grad=True)
    y = oneflow.tensor([1.0, 2.0, 0.5], dtype=oneflow.float64, requires_grad=True)
    assert gradcheck(lambda x, y: (x * y * y, x.exp()), (x, y))
    assert gradgradcheck(lambda x, y: (x * x * y).sum(), (x, y))
    # The second factor is cut off from the graph: half the gradient is missing.
    assert not gradcheck(lambda x: x * x.detach(), (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(lambda x: x * x.detach(), (x,))
    with pytest.raises(ValueError):
        gradcheck(lambda x: x, (x.detach(),))


CLOSE = [
    (lambda fw: (fw.tensor([1.0, 2.0]), fw.tensor([1.0, 2.0 + 1e-7])), {}, True),
    (lambda fw: (fw.tensor([1.0, 2.0]), fw.tensor([1.0, 2.1])), {}, False),
    (lambda fw: (fw.tensor([1.0, 2.0]), fw.tensor([1.0, 2.1])), {"rtol": 0.1, "atol": 0.0}, True),
    (lambda fw: (fw.tensor([1, 2]), fw.tensor([1, 3])), {}, False),
    (lambda fw: (fw.tensor(1.0), fw.tensor(2.0)), {}, False),
    (lambda fw: (fw.ones(2), fw.ones(3)), {}, False),
    (lambda fw: (fw.ones(2), fw.ones(2, dtype=fw.float64)), {}, False),
    (lambda fw: (fw.ones(2), fw.ones(2, dtype=fw.float64)), {"check_dtype": False}, True),
    (lambda fw: (fw.ones(2, 3).t(), fw.ones(3, 2)), {"check_stride": True}, False),
    (lambda fw: (fw.tensor([float("nan")]), fw.tensor([float("nan")])), {}, False),
    (lambda fw: (fw.tensor([float("nan")]), fw.tensor([float("nan")])), {"equal_nan": True}, True),
    (lambda fw: ([fw.ones(1), 1.0], [fw.ones(1), 2.0]), {}, False),
    (lambda fw: ({"a": 1}, {"b": 1}), {}, False),
    (lambda fw: ([1, 2], [1]), {}, False),
    (lambda fw: (True, False), {}, False),
    (lambda fw: (1.0, 1), {}, False),
    (lambda fw: (None, None), {}, True),
]


@pytest.mark.parametrize("i", range(len(CLOSE)))
def test_assert_close(i):
    make, options, fine = CLOSE[i]
    texts = []
    for fw in (oneflow, torch):
        try:
            fw.testing.assert_close(*make(fw), **options)
            texts.append(None)
        except AssertionError as error:
            texts.append(str(error).split(" ")[:3])
    assert (texts[0] is None) == fine and texts[0] == texts[1]


def test_assert_close_says_where():
    with pytest.raises(AssertionError, match=r"2 / 6 \(33\.3%\)") as info:
        oneflow.testing.assert_close(
            oneflow.tensor([[1.0, 2, 3], [4, 5, 6]]), oneflow.tensor([[1.0, 2, 4], [4, 5, 60]])
        )
    assert "Greatest absolute difference: 54.0 at index (1, 2)" in str(info.value)
    with pytest.raises(TypeError):
        oneflow.testing.assert_close(oneflow.ones(1), [1.0])
    with pytest.raises(AssertionError, match="my text"):
        oneflow.testing.assert_close(1.0, 2.0, msg="my text")


@pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "hardtanh", "relu6", "hardshrink", "softshrink", "threshold", "elu", "hardswish"]
)
def test_second_derivative_of_an_activation_exists_where_it_is_zero(name):
    def second(fw):
        x = fw.tensor([-2.0, -0.3, 0.4, 3.5, 9.0], requires_grad=True)
        args = (0.1, 0.5) if name == "threshold" else ()
        y = getattr(fw.nn.functional, name)(x, *args)
        (g,) = fw.autograd.grad(y.sum(), x, create_graph=True)
        return fw.autograd.grad(g.sum(), x)[0].tolist()

    assert second(oneflow) == pytest.approx(second(torch))


def test_a_hook_keeps_the_size_of_a_gradient():
    x = oneflow.ones(2, requires_grad=True)

    def half(g):
        return g[:1]

    x.register_hook(half)
    with pytest.raises(RuntimeError, match="hook 'half' has changed the size of value"):
        (x * 3).sum().backward()


def test_a_function_with_forward_mode_runs_under_dual_numbers_and_vmap():
    class Cube(oneflow.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 3 * x * x * t

    fw_ad = oneflow.autograd.forward_ad
    with fw_ad.dual_level():
        y = Cube.apply(fw_ad.make_dual(oneflow.tensor([2.0]), oneflow.ones(1)))
        assert fw_ad.unpack_dual(y).tangent.tolist() == [12.0]
    assert oneflow.vmap(Cube.apply)(oneflow.arange(3.0)).tolist() == [0.0, 1.0, 8.0]
    assert oneflow.vmap(oneflow.func.grad(Cube.apply))(oneflow.arange(3.0)).tolist() == [0.0, 3.0, 12.0]
    x = oneflow.ones(2, 3)
    assert x[0]._is_view() and not x._is_view()


def test_gradients_of_many_inputs_reach_each_that_wants_one():
    inputs = [oneflow.ones(1, requires_grad=i % 3 == 1) for i in range(200)]
    (oneflow.cat(inputs) * oneflow.arange(200.0)).sum().backward()
    assert [i for i, x in enumerate(inputs) if x.grad is not None] == [i for i in range(200) if i % 3 == 1]
    assert all(inputs[i].grad.item() == i for i in range(1, 200, 3))


def test_defaults_of_forward_are_inputs_of_setup_context():
    results = []
    for fw in (oneflow, torch):

        class Power(fw.autograd.Function):
            @staticmethod
            def forward(x, y=3, z=1.0):
                return x**y * z

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, ctx.y, ctx.z = inputs
                ctx.save_for_backward(x)

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * ctx.y * x ** (ctx.y - 1) * ctx.z, None, None

        class OfClass(Power):
            @classmethod
            def forward(cls, x, y=4, z=1.0):
                return x**y * z

        for function in (Power, OfClass):
            for arguments in ((), (2,), (2, 0.5)):
                x = fw.tensor(2.0, requires_grad=True)
                function.apply(x, *arguments).backward()
                results.append((fw is torch, x.grad.item()))
    half = len(results) // 2
    assert [g for _, g in results[:half]] == [g for _, g in results[half:]]


def test_hooks_after_accumulation_return_nothing():
    for fw in (oneflow, torch):
        x = fw.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda t: t.grad)
        with pytest.raises(RuntimeError, match="hooks should return None"):
            x.sum().backward()


def test_switches_of_gradients_on_classes_and_threads():
    for fw in (oneflow, torch):
        with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

            @fw.no_grad()
            class Made:
                def __init__(self, fw):
                    self.was_on = fw.is_grad_enabled()

                def is_on(self, fw):
                    return fw.is_grad_enabled()

        made = Made(fw)
        assert not made.was_on and made.is_on(fw)
        ag = fw.autograd
        with ag.set_multithreading_enabled(False):
            assert not ag.is_multithreading_enabled()
            ag.set_multithreading_enabled(True)
            assert ag.is_multithreading_enabled()
        assert ag.is_multithreading_enabled()
        ag.set_multithreading_enabled(False)
        assert not ag.is_multithreading_enabled()
        ag.set_multithreading_enabled(True)
