"""Texts of objects, warnings, and the places where programs look up classes and submodules: as in PyTorch."""

import importlib
import inspect
import logging
import pickle
import types
import warnings

import oneflow
import pytest
import torch

# Each returns a text, the same under both names of the package.
TEXTS = {
    "constraints": lambda fw: [
        str(getattr(fw.distributions.constraints, name))
        for name in ("positive", "unit_interval", "simplex", "boolean", "real_vector", "nonnegative", "one_hot")
    ],
    "constraints made": lambda fw: [
        str(made)
        for c in [fw.distributions.constraints]
        for made in (c.integer_interval(0, 2), c.half_open_interval(0, 1), c.cat([c.real]), c.multinomial(3))
    ],
    "keys": lambda fw: fw.nn.Linear(1, 1).load_state_dict({"weight": fw.ones(1, 1), "more": fw.ones(1)}, strict=False),
    "all keys": lambda fw: fw.nn.Linear(1, 1).load_state_dict({"weight": fw.ones(1, 1), "bias": fw.ones(1)}),
    "two groups": lambda fw: fw.optim.SGD([{"params": [p]} for p in fw.nn.Linear(1, 1).parameters()], lr=0.1),
    "fan": lambda fw: [fw.nn.init._calculate_correct_fan(fw.zeros(3, 4, 5), f"fan_{way}") for way in ("in", "out")],
    "several results": lambda fw: [fw.tensor([[3.0, 1.0]]).max(1), fw.tensor([2, 1]).sort()],
    "nodes": lambda fw: [
        type(node).__name__
        for x in [fw.ones(2, requires_grad=True)]
        for node in (x.exp().grad_fn, (x * 2).grad_fn, (x * 2).sum().grad_fn.next_functions[0][0])
    ],
    "kept for backward": lambda fw: [
        (x * y).grad_fn._saved_self.tolist()
        + (x * y).grad_fn._saved_other.tolist()
        + x.exp().grad_fn._saved_result.tolist()
        for x, y in [(fw.zeros(1, requires_grad=True), fw.full((1,), 3.0, requires_grad=True))]
    ],
    "submodules": lambda fw: [fw.nn.attention.SDPBackend.MATH.name],
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    ours, theirs = (str(TEXTS[name](fw)) for fw in (oneflow, torch))
    assert ours.replace("oneflow", "torch") == theirs


def outcome(f, fw):
    """The class of what is raised or warned of, and a part of its text."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            f(fw)
        except Exception as error:
            return type(error)
    return [w.category for w in seen]


def shared_twice(fw):
    p = fw.nn.Parameter(fw.ones(1))
    return fw.optim.SGD([p, p], lr=0.1)


def of_no_leaf(fw):
    return (fw.ones(1, requires_grad=True) * 2).grad


def of_no_leaf_that_keeps(fw):
    y = fw.ones(1, requires_grad=True) * 2
    y.retain_grad()
    return y.grad, fw.ones(1).grad, fw.ones(1, requires_grad=True).grad


def freed(fw):
    y = fw.ones(1, requires_grad=True).exp()
    y.backward()
    return y.grad_fn._saved_result


def scheduled(steps):
    """Steps of an optimizer ("o"), of its schedule ("s"), a replaced ``step`` ("r") and other calls, in order."""

    def run(fw):
        optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(1))], lr=1.0)
        schedule = fw.optim.lr_scheduler.StepLR(optimizer, 1)
        step = optimizer.step
        calls = {
            "o": lambda: optimizer.step(),
            "s": lambda: schedule.step(),
            "e": lambda: schedule.step(2),
            "r": lambda: setattr(optimizer, "step", types.MethodType(lambda o: step(), optimizer)),
            "g": lambda: schedule.get_lr(),
            "c": lambda: fw.optim.lr_scheduler.ExponentialLR(optimizer, 0.5).step(),
        }
        for call in steps:
            calls[call]()

    return run


def hooked(hook, register="register_full_backward_hook", module="ReLU", grad=True, output=lambda y: y):
    def run(fw):
        class Outer(fw.nn.Module):
            def forward(self, x):
                return output(getattr(fw.nn, module)()(x) * y)

        y = fw.ones(1, requires_grad=True)
        outer = Outer()
        getattr(outer, register)(hook)
        found = outer(fw.ones(2, requires_grad=grad))
        (found if fw.is_tensor(found) else found["y"]).sum().backward()

    return run


def state_dict_hook(fw, hook):
    module = fw.nn.ReLU()
    module.register_state_dict_post_hook(hook)
    return module


def two_kinds_of_hook(fw):
    def hook(*args):
        return None

    state_dict_hook(fw, hook)._register_state_dict_hook(hook)


def mixed_global_hooks(fw):
    module = fw.nn.modules.module
    with module.register_module_full_backward_hook(lambda *a: None):
        module.register_module_backward_hook(lambda *a: None)


def lost_global_hooks(fw):
    module = fw.nn.modules.module
    module._global_forward_hooks = type(module._global_forward_hooks)()
    with module.register_module_forward_hook(lambda *a: 1 / 0):
        fw.nn.ReLU()(fw.ones(1))


def future_twice(fw):
    future = fw.futures.Future()
    future.set_result(1)
    future.set_result(2)


def done(fw):
    future = fw.futures.Future()
    future.set_result(1)
    return future


def failing_callback(fw):
    # The error is logged.
    logging.getLogger("oneflow.futures").addFilter(lambda record: False)
    done(fw).add_done_callback(lambda f: 1 / 0)


def lazy(names=("weight",), **loaded):
    """A module of placeholders; with arguments, after loading what those make."""

    def make(fw):
        def module(values):
            made = fw.nn.modules.lazy.LazyModuleMixin
            made = type("Lazy", (made, fw.nn.Module), {})()
            for name in names:
                made.register_parameter(name, values)
            return made

        made = module(fw.nn.UninitializedParameter())
        if loaded:
            made.load_state_dict(module(loaded["of"](fw)).state_dict())
        return made

    return make


def parametrized(*inverses):
    """The weight under several parametrizations that add one, whose inverses these are (None: without)."""

    def run(fw):
        layer = fw.nn.Linear(2, 2, bias=False)
        with fw.no_grad():
            layer.weight.fill_(3.0)
        for inverse in inverses:
            body = {"forward": lambda self, x: x + 1}
            if inverse is not None:
                body["right_inverse"] = lambda self, y, inverse=inverse: inverse(y)
            fw.nn.utils.parametrize.register_parametrization(layer, "weight", type("Adds", (fw.nn.Module,), body)())
        return layer.weight.tolist(), layer.parametrizations.weight.original.tolist()

    return run


VALUES = {
    "parametrized once": parametrized(lambda y: y - 1),
    "parametrized twice": parametrized(lambda y: y - 1, lambda y: y - 1),
    "parametrized, the first without inverse": parametrized(None, lambda y: y - 1),
    "parametrized, the second without inverse": parametrized(lambda y: y - 1, None),
    "placeholder of one size": lambda fw: [
        p.materialize(3) or tuple(p.shape) for p in [fw.nn.UninitializedParameter()]
    ],
    "placeholder loads a placeholder": lambda fw: lazy(of=lambda fw: fw.nn.UninitializedParameter())(
        fw
    ).has_uninitialized_params(),
    "placeholder loads values": lambda fw: lazy(of=lambda fw: fw.nn.Parameter(fw.ones(2)))(fw).weight.tolist(),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_values(name):
    assert VALUES[name](oneflow) == VALUES[name](torch)


ORDERS = ["ososo", "sso", "oss", "ss", "rosos", "roses", "oes", "g", "osg", "oscs", "c"]
OUTCOMES = {
    "a transform without a window": lambda fw: fw.stft(fw.ones(8), 4, return_complex=True),
    "a transform as pairs": lambda fw: fw.stft(fw.ones(8), 4, window=fw.ones(4), return_complex=False),
    "a transform with a window": lambda fw: fw.stft(fw.ones(8), 4, window=fw.ones(4), return_complex=True),
    "back without a window": lambda fw: fw.istft(fw.ones(3, 3, dtype=fw.complex64), 4),
    "the older functional_call": lambda fw: fw.nn.utils.stateless.functional_call(fw.nn.ReLU(), {}, fw.ones(1)),
    "a function as transforms": lambda fw: fw.distributions.TransformedDistribution(
        fw.distributions.Normal(0.0, 1.0), lambda x: x
    ),
    "one hook of state dictionaries registered as two kinds": two_kinds_of_hook,
    "hook of state dictionaries that returns something": lambda fw: state_dict_hook(fw, lambda *a: {}).state_dict(),
    **{f"schedule {steps}": scheduled(steps) for steps in ORDERS},
    "rates of another length": lambda fw: fw.optim.swa_utils.SWALR(
        fw.optim.SGD([fw.nn.Parameter(fw.ones(1))], lr=1.0), [0.1, 0.2]
    ),
    "hook gives too few": hooked(lambda m, i, o: ()),
    "hook gives too many": hooked(lambda m, i, o: (*i, *i)),
    "pre-hook gives too few": hooked(lambda m, o: (), "register_full_backward_pre_hook"),
    "pre-hook gives too many": hooked(lambda m, o: (*o, *o), "register_full_backward_pre_hook"),
    "hook of no gradient gives None": hooked(lambda m, i, o: i, grad=False),
    "hook of no gradient gives some": hooked(lambda m, i, o: o, grad=False),
    "hook of a dictionary": hooked(lambda m, i, o: None, output=lambda y: {"y": y}),
    "global hooks of two kinds": mixed_global_hooks,
    "global hooks dropped at once": lost_global_hooks,
    "parametrized by another dtype's inverse": parametrized(lambda y: y - 1, lambda y: y.double()),
    "parametrized by another shape's inverse": parametrized(lambda y: y - 1, lambda y: y[:1]),
    "parametrized by no tensor's inverse": parametrized(lambda y: y - 1, lambda y: (y, y)),
    "weight norm of a placeholder": lambda fw: fw.nn.utils.weight_norm(fw.nn.LazyLinear(2)),
    "spectral norm of a placeholder": lambda fw: fw.nn.utils.spectral_norm(fw.nn.LazyLinear(2)),
    "shared memory of a placeholder": lambda fw: lazy()(fw).share_memory(),
    "future twice": future_twice,
    "future pickled": lambda fw: pickle.dumps(fw.futures.Future()),
    "future of a failing callback": lambda fw: done(fw).then(lambda f: 1 / 0).wait(),
    "future and a failing callback": failing_callback,
    "futures with None": lambda fw: fw.futures.collect_all((done(fw), None)),
    "gradient of no leaf": of_no_leaf,
    "gradient of no leaf that keeps it": of_no_leaf_that_keeps,
    "nothing kept under that name": lambda fw: fw.ones(1, requires_grad=True).exp().grad_fn._saved_water,
    "freed": freed,
    "no probability": lambda fw: fw.nn.BCELoss()(fw.tensor([1.5, 0.5]), fw.ones(2)),
    "no probability, apart": lambda fw: fw.nn.BCELoss(reduction="none")(fw.tensor([-1.0, 0.5]), fw.ones(2)),
    "not a number": lambda fw: fw.nn.BCELoss()(fw.tensor([float("nan"), 0.5]), fw.ones(2)),
    "relu of a number": lambda fw: fw.nn.ReLU()(3),
    "a parameter twice": shared_twice,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes(name):
    assert outcome(OUTCOMES[name], oneflow) == outcome(OUTCOMES[name], torch)


def test_a_grid_of_the_identity_samples_on_the_same_side_of_pixels():
    def gradient(fw):
        theta = fw.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], requires_grad=True)
        image = fw.arange(28.0 * 28).reshape(1, 1, 28, 28).sin()
        grid = fw.nn.functional.affine_grid(theta, (1, 1, 28, 28), align_corners=False)
        fw.nn.functional.grid_sample(image, grid, align_corners=False).pow(2).mean().backward()
        return theta.grad.numpy()

    assert abs(gradient(oneflow) - gradient(torch)).max() < 1e-5


def test_another_librarys_function_says_so():
    with pytest.raises(TypeError, match=r"relu\(\) is no function of oneflow"):
        torch.nn.functional.relu(oneflow.ones(1))
    assert oneflow.ones(1).relu() == 1


PLACES = [
    "nn.modules.activation.MultiheadAttention",
    "nn.modules.linear.Bilinear",
    "nn.modules.linear.NonDynamicallyQuantizableLinear",
    "nn.modules.conv.LazyConvTranspose2d",
    "nn.modules.module._addindent",
    "nn.modules.transformer._get_clones",
    "nn.parallel.distributed.DistributedDataParallel",
    "nn.common_types._size_2_t",
    "optim.adamw.AdamW",
    "optim.rmsprop.RMSprop",
    "optim.radam.RAdam",
    "cuda.amp.grad_scaler.GradScaler",
    "cuda.amp.autocast_mode.autocast",
    "utils.data._utils.collate.default_collate",
    "functional.einsum",
    "_utils._flatten_dense_tensors",
]


@pytest.mark.parametrize("place", PLACES)
def test_things_are_found_where_programs_import_them(place):
    module, _, name = place.rpartition(".")
    for package in ("oneflow", "torch"):
        assert hasattr(importlib.import_module(f"{package}.{module}"), name)


def test_flat_tensors_and_back():
    def there_and_back(fw):
        flat = fw._utils._flatten_dense_tensors([fw.ones(2, 2), fw.zeros(3)])
        return flat.tolist(), [
            t.tolist() for t in fw._utils._unflatten_dense_tensors(flat, [fw.ones(2, 2), fw.zeros(3)])
        ]

    import oneflow._utils

    assert there_and_back(oneflow) == there_and_back(torch)


@pytest.mark.parametrize("name", ["zerso", "Tensr", "sotmax", "nothing_like_it", "_nothing"])
def test_a_misspelt_name_of_the_package_is_put_right(name):
    with pytest.raises(AttributeError, match=f"module 'oneflow' has no attribute '{name}'") as error:
        getattr(oneflow, name)
    right = {"zerso": "zeros", "Tensr": "Tensor", "sotmax": "softmax"}.get(name)
    assert ("Did you mean" in str(error.value)) == (right is not None)
    assert right is None or str(error.value).endswith(f"Did you mean: '{right}'?")


def test_layers_share_the_bases_that_programs_ask_for():
    lost = []
    for name in dir(torch.nn):
        theirs, ours = getattr(torch.nn, name), getattr(oneflow.nn, name, None)
        # Lazy layers and this loss have other base classes.
        own = name.startswith("Lazy") or name == "LinearCrossEntropyLoss"
        if not inspect.isclass(theirs) or ours is None or own:
            continue
        bases = [base for base in theirs.__mro__ if issubclass(base, torch.nn.Module)]
        for base in bases:
            place = importlib.import_module(base.__module__.replace("torch", "oneflow"))
            if getattr(place, base.__name__, None) not in ours.__mro__:
                lost.append((name, base.__module__, base.__name__))
    assert lost == []
