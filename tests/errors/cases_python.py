"""Bad input of modules, optimizers, schedules, data, autograd and files."""

from __future__ import annotations

import io
import pickle
import zipfile

from errors.builders import f, i, leaf


def linear(fw):
    return fw.nn.Linear(2, 3)


def load_state(fw, change, strict=True):
    module = linear(fw)
    state = dict(module.state_dict())
    change(fw, state)
    module.load_state_dict(state, strict=strict)


def missing(fw, state):
    del state["bias"]


def unexpected(fw, state):
    state["other"] = f(fw, 1)


def misshaped(fw, state):
    state["weight"] = f(fw, 5, 5)


def not_a_tensor(fw, state):
    state["weight"] = 3


def load(fw, data, **options):
    return fw.load(io.BytesIO(data), **options)


class Opaque:
    """A class that is not on the list of a restricted unpickler."""


def saved(fw, value):
    file = io.BytesIO()
    fw.save(value, file)
    return file.getvalue()


def truncated(fw):
    load(fw, saved(fw, f(fw, 100))[:-200])


def no_pickle_inside(fw):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/other", b"")
    load(fw, file.getvalue())


def register_twice(fw):
    m = linear(fw)
    m.register_buffer("weight", f(fw, 1))


def forward_missing(fw):
    class M(fw.nn.Module):
        pass

    M()(1)


def early_assignment(fw):
    class M(fw.nn.Module):
        def __init__(self):
            self.inner = linear(fw)

    M()


def early_parameter(fw):
    class M(fw.nn.Module):
        def __init__(self):
            self.w = fw.nn.Parameter(f(fw, 1))

    M()


def overlapping_groups(fw):
    p = fw.nn.Parameter(f(fw, 1))
    fw.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)


def not_a_leaf(fw):
    fw.optim.SGD([leaf(fw, 1) * 2], lr=0.1)


def missing_lr(fw):
    p = fw.nn.Parameter(f(fw, 1))
    o = fw.optim.SGD([p], lr=0.1)
    o.load_state_dict({"state": {}, "param_groups": []})


def group_sizes(fw):
    a = fw.optim.SGD([fw.nn.Parameter(f(fw, 1))], lr=0.1)
    b = fw.optim.SGD([fw.nn.Parameter(f(fw, 1)), fw.nn.Parameter(f(fw, 1))], lr=0.1)
    a.load_state_dict(b.state_dict())


def p(fw):
    return [fw.nn.Parameter(f(fw, 1))]


def sgd(fw):
    return fw.optim.SGD(p(fw), lr=0.1)


def S(fw):
    return fw.optim.lr_scheduler


def dataset(fw, n=4):
    return fw.utils.data.TensorDataset(f(fw, n))


def ragged_batch(fw):
    return next(iter(fw.utils.data.DataLoader([f(fw, 1), f(fw, 2)], batch_size=2)))


def unknown_kind(fw):
    return next(iter(fw.utils.data.DataLoader([object(), object()], batch_size=2)))


class Bad:
    def __getitem__(self, n):
        raise KeyError("broken sample")

    def __len__(self):
        return 2


def function(fw, forward, backward=None):
    return type(
        "F",
        (fw.autograd.Function,),
        {
            "forward": staticmethod(forward),
            **({} if backward is None else {"backward": staticmethod(backward)}),
        },
    )


def too_few_gradients(fw):
    function(fw, lambda ctx, x, y: x * y, lambda ctx, g: g).apply(leaf(fw, 2), leaf(fw, 2)).sum().backward()


def gradient_of_other_shape(fw):
    function(fw, lambda ctx, x: x * 2, lambda ctx, g: f(fw, 7)).apply(leaf(fw, 2)).sum().backward()


def no_backward(fw):
    function(fw, lambda ctx, x: x * 2).apply(leaf(fw, 2)).sum().backward()


def gradient_of_number(fw):
    function(fw, lambda ctx, x: x * 2, lambda ctx, g: 3).apply(leaf(fw, 2)).sum().backward()


def hook_result(fw):
    x = leaf(fw, 2)
    x.register_hook(lambda g: "x")
    (x * 2).sum().backward()


def freed(fw):
    x = leaf(fw, 2)
    y = x.exp()
    fw.autograd.grad(y.sum(), x)
    fw.autograd.grad(y.sum(), x)


def inference_saved(fw):
    with fw.inference_mode():
        x = f(fw, 2)
    (leaf(fw, 2) * x).sum().backward()


def inference_written(fw):
    with fw.inference_mode():
        x = f(fw, 2)
    x.add_(1)
    x.requires_grad_()


def base_written(fw):
    x = leaf(fw, 4) * 1
    y = x[:2]
    with fw.no_grad():
        z = x[2:]
    z.mul_(2)
    return y


def unbound_written(fw):
    (leaf(fw, 2) * 1).unbind()[0].mul_(2)


def version_check(fw):
    x = leaf(fw, 2)
    w = f(fw, 2)
    y = x * w
    w.mul_(3)
    y.sum().backward()


def retained(fw):
    f(fw, 2).retain_grad()


CASES = {
    # ---- modules
    ("load_state_dict", "missing key"): (lambda fw: load_state(fw, missing), ['Missing key(s) in state_dict: "bias"']),
    ("load_state_dict", "unexpected key"): (
        lambda fw: load_state(fw, unexpected),
        ['Unexpected key(s) in state_dict: "other"'],
    ),
    ("load_state_dict", "shape"): (
        lambda fw: load_state(fw, misshaped),
        ["size mismatch for weight", "[5, 5]", "[3, 2]"],
    ),
    ("load_state_dict", "shape without strict"): (
        lambda fw: load_state(fw, misshaped, False),
        ["size mismatch for weight"],
    ),
    ("load_state_dict", "not a tensor"): (lambda fw: load_state(fw, not_a_tensor), ["weight", "int"]),
    ("load_state_dict", "not a dict"): (lambda fw: linear(fw).load_state_dict([1]), ["state_dict", "list"]),
    ("Module", "attribute"): (lambda fw: linear(fw).nothing, ["Linear", "nothing"]),
    ("Module", "no forward"): (forward_missing, ["forward"]),
    ("Module", "assignment before init"): (early_assignment, ["__init__"]),
    ("Module", "parameter before init"): (early_parameter, ["__init__"]),
    ("Module", "parameter of another kind"): (
        lambda fw: setattr(linear(fw), "weight", f(fw, 1)),
        ["weight", "Parameter"],
    ),
    ("Module", "buffer's name taken"): (register_twice, ["weight", "exists"]),
    ("Module", "buffer's name with dot"): (lambda fw: linear(fw).register_buffer("a.b", f(fw, 1)), ['"."']),
    ("Module", "buffer's name empty"): (lambda fw: linear(fw).register_buffer("", f(fw, 1)), ["empty"]),
    ("Module", "buffer of another kind"): (lambda fw: linear(fw).register_buffer("b", 3), ["b", "int"]),
    ("Module", "parameter with history"): (
        lambda fw: linear(fw).register_parameter("q", leaf(fw, 1) * 1),
        ["q"],
    ),
    ("Module", "submodule of another kind"): (lambda fw: linear(fw).add_module("a", 3), ["int", "Module"]),
    ("Module", "submodule's name"): (lambda fw: linear(fw).get_submodule("a.b"), ["a"]),
    ("Module", "parameter's name"): (lambda fw: linear(fw).get_parameter("a"), ["a"]),
    ("Module", "to integers"): (lambda fw: linear(fw).to(fw.int64), ["int64"]),
    ("Module", "train of text"): (lambda fw: linear(fw).train("x"), ["boolean"]),
    ("Sequential", "index"): (lambda fw: fw.nn.Sequential(linear(fw))[3], ["3"]),
    ("Sequential", "not a module"): (lambda fw: fw.nn.Sequential(3), ["int"]),
    ("ModuleList", "not a module"): (lambda fw: fw.nn.ModuleList([3]), ["int"]),
    ("ModuleDict", "key"): (lambda fw: fw.nn.ModuleDict({"a": linear(fw)})["b"], ["b"]),
    ("ParameterList", "index"): (lambda fw: fw.nn.ParameterList(p(fw))[4], ["4"]),
    ("Parameter", "integers"): (lambda fw: fw.nn.Parameter(i(fw, 1)), ["floating"]),
    ("Linear", "features"): (lambda fw: linear(fw)(f(fw, 2, 5)), ["2", "5"]),
    ("Linear", "dtype"): (lambda fw: linear(fw)(f(fw, 2, 2, dtype=fw.float64)), ["Double", "Float"]),
    ("Linear", "text"): (lambda fw: linear(fw)("x"), ["linear", "str"]),
    ("Flatten", "dims"): (lambda fw: fw.nn.Flatten(3)(f(fw, 2)), ["3"]),
    ("init", "fan of a vector"): (lambda fw: fw.nn.init.xavier_uniform_(f(fw, 2)), ["2 dimensions"]),
    ("init", "mode"): (lambda fw: fw.nn.init.kaiming_uniform_(f(fw, 2, 2), mode="fan"), ["fan"]),
    ("init", "nonlinearity"): (lambda fw: fw.nn.init.calculate_gain("sine"), ["sine"]),
    ("init", "eye of three dims"): (lambda fw: fw.nn.init.eye_(f(fw, 2, 2, 2)), ["2"]),
    ("init", "orthogonal vector"): (lambda fw: fw.nn.init.orthogonal_(f(fw, 2)), ["2"]),
    ("clip_grad_norm", "not finite"): (
        lambda fw: (
            (
                lambda q: (
                    setattr(q, "grad", f(fw, 1) * float("inf")),
                    fw.nn.utils.clip_grad_norm_(q, 1.0, error_if_nonfinite=True),
                )
            )(p(fw)[0])
        ),
        ["non-finite"],
    ),
    ("vector_to_parameters", "kind"): (lambda fw: fw.nn.utils.vector_to_parameters([1], p(fw)), ["list"]),
    # ---- optimizers and schedules
    ("SGD", "learning rate"): (lambda fw: fw.optim.SGD(p(fw), lr=-1.0), ["-1"]),
    ("SGD", "momentum"): (lambda fw: fw.optim.SGD(p(fw), lr=0.1, momentum=-1.0), ["momentum", "-1"]),
    ("SGD", "weight decay"): (lambda fw: fw.optim.SGD(p(fw), lr=0.1, weight_decay=-1.0), ["weight_decay", "-1"]),
    ("SGD", "nesterov"): (lambda fw: fw.optim.SGD(p(fw), lr=0.1, nesterov=True), ["Nesterov"]),
    ("Adam", "betas"): (lambda fw: fw.optim.Adam(p(fw), betas=(1.5, 0.9)), ["beta", "1.5"]),
    ("Adam", "epsilon"): (lambda fw: fw.optim.Adam(p(fw), eps=-1.0), ["eps", "-1"]),
    ("AdamW", "weight decay"): (lambda fw: fw.optim.AdamW(p(fw), weight_decay=-1.0), ["weight_decay", "-1"]),
    ("RMSprop", "alpha"): (lambda fw: fw.optim.RMSprop(p(fw), alpha=-1.0), ["alpha", "-1"]),
    ("Adagrad", "decay"): (lambda fw: fw.optim.Adagrad(p(fw), lr_decay=-1.0), ["lr_decay", "-1"]),
    ("Rprop", "etas"): (lambda fw: fw.optim.Rprop(p(fw), etas=(1.5, 1.2)), ["1.5"]),
    ("LBFGS", "groups"): (lambda fw: fw.optim.LBFGS([{"params": p(fw)}, {"params": p(fw)}]), ["LBFGS"]),
    ("Optimizer", "no parameters"): (lambda fw: fw.optim.SGD([], lr=0.1), ["empty"]),
    ("Optimizer", "one tensor"): (lambda fw: fw.optim.SGD(f(fw, 1), lr=0.1), ["iterable"]),
    ("Optimizer", "not tensors"): (lambda fw: fw.optim.SGD([3], lr=0.1), ["int"]),
    ("Optimizer", "not a leaf"): (not_a_leaf, ["leaf"]),
    ("Optimizer", "shared by groups"): (overlapping_groups, ["more than one parameter group"]),
    ("Optimizer", "number of groups"): (missing_lr, ["parameter groups"]),
    ("Optimizer", "size of groups"): (group_sizes, ["size"]),
    ("Optimizer", "group of another kind"): (lambda fw: sgd(fw).add_param_group([1]), ["dict"]),
    ("StepLR", "optimizer"): (lambda fw: S(fw).StepLR(3, 1), ["int"]),
    ("LambdaLR", "count"): (lambda fw: S(fw).LambdaLR(sgd(fw), [lambda e: 1.0] * 2), ["1", "2"]),
    ("CyclicLR", "mode"): (lambda fw: S(fw).CyclicLR(sgd(fw), 0.1, 0.2, mode="x", cycle_momentum=False), ["mode"]),
    ("OneCycleLR", "steps"): (lambda fw: S(fw).OneCycleLR(sgd(fw), 0.1), ["total_steps"]),
    ("OneCycleLR", "too many steps"): (
        lambda fw: [
            s.step() for s in [S(fw).OneCycleLR(sgd(fw), 0.1, total_steps=2, cycle_momentum=False)] for _ in range(5)
        ],
        ["step", "2"],
    ),
    ("ReduceLROnPlateau", "factor"): (lambda fw: S(fw).ReduceLROnPlateau(sgd(fw), factor=2.0), ["actor"]),
    ("ReduceLROnPlateau", "mode"): (lambda fw: S(fw).ReduceLROnPlateau(sgd(fw), mode="x"), ["mode", "x"]),
    ("CosineAnnealingWarmRestarts", "T_0"): (lambda fw: S(fw).CosineAnnealingWarmRestarts(sgd(fw), 0), ["T_0", "0"]),
    ("SequentialLR", "milestones"): (lambda fw: S(fw).SequentialLR(sgd(fw), [], []), []),
    # ---- data
    ("TensorDataset", "sizes"): (lambda fw: fw.utils.data.TensorDataset(f(fw, 2), f(fw, 3)), []),
    ("DataLoader", "batch size"): (lambda fw: fw.utils.data.DataLoader(dataset(fw), batch_size=0), ["batch_size", "0"]),
    ("DataLoader", "workers"): (lambda fw: fw.utils.data.DataLoader(dataset(fw), num_workers=-1), ["num_workers"]),
    ("DataLoader", "shuffle and sampler"): (
        lambda fw: fw.utils.data.DataLoader(dataset(fw), shuffle=True, sampler=[0]),
        ["sampler", "shuffle"],
    ),
    ("DataLoader", "batch sampler and size"): (
        lambda fw: fw.utils.data.DataLoader(dataset(fw), batch_size=2, batch_sampler=[[0]]),
        ["batch_sampler"],
    ),
    ("DataLoader", "prefetch without workers"): (
        lambda fw: fw.utils.data.DataLoader(dataset(fw), prefetch_factor=2),
        ["prefetch_factor"],
    ),
    ("DataLoader", "persistent without workers"): (
        lambda fw: fw.utils.data.DataLoader(dataset(fw), persistent_workers=True),
        ["persistent_workers"],
    ),
    ("DataLoader", "timeout"): (lambda fw: fw.utils.data.DataLoader(dataset(fw), timeout=-1), ["timeout"]),
    ("DataLoader", "samples of other shapes"): (ragged_batch, ["[1]", "[2]"]),
    ("DataLoader", "samples of unknown kind"): (unknown_kind, ["object"]),
    ("DataLoader", "failing dataset"): (lambda fw: list(fw.utils.data.DataLoader(Bad())), ["broken sample"]),
    ("random_split", "lengths"): (lambda fw: fw.utils.data.random_split(dataset(fw), [1, 1]), ["length"]),
    ("random_split", "fractions"): (lambda fw: fw.utils.data.random_split(dataset(fw), [0.9, 0.9]), []),
    ("RandomSampler", "samples"): (lambda fw: fw.utils.data.RandomSampler(dataset(fw), num_samples=0), ["num_samples"]),
    ("RandomSampler", "replacement"): (
        lambda fw: fw.utils.data.RandomSampler(dataset(fw), replacement=3),
        ["replacement"],
    ),
    ("BatchSampler", "size"): (lambda fw: fw.utils.data.BatchSampler([1], 0, False), ["batch_size"]),
    ("WeightedRandomSampler", "samples"): (lambda fw: fw.utils.data.WeightedRandomSampler([1.0], 0), ["num_samples"]),
    # ---- files
    ("load", "empty file"): (lambda fw: load(fw, b""), []),
    ("load", "truncated archive"): (truncated, []),
    ("load", "archive without pickle"): (no_pickle_inside, []),
    ("load", "class in a pickle"): (lambda fw: load(fw, saved(fw, Opaque())), ["Opaque", "weights_only"]),
    ("load", "function in a pickle"): (lambda fw: load(fw, saved(fw, pickle.loads)), ["weights_only"]),
    ("load", "missing file"): (lambda fw: fw.load("no/such/file.pt"), ["no/such/file.pt"]),
    ("load", "device"): (lambda fw: load(fw, saved(fw, f(fw, 1)), map_location="abacus"), ["abacus"]),
    ("save", "directory"): (lambda fw: fw.save(f(fw, 1), "no/such/directory/x.pt"), ["no/such/directory"]),
    # ---- autograd
    ("Function", "too few gradients"): (too_few_gradients, ["gradients"]),
    ("Function", "gradient's shape"): (gradient_of_other_shape, ["[7]", "[2]"]),
    ("Function", "no backward"): (no_backward, ["backward"]),
    ("Function", "gradient of another kind"): (gradient_of_number, []),
    ("hook", "result"): (hook_result, ["str"]),
    ("hook", "tensor without gradient"): (lambda fw: f(fw, 1).register_hook(lambda g: g), ["gradient"]),
    ("grad", "freed"): (freed, ["second time"]),
    ("grad", "count"): (lambda fw: fw.autograd.grad([leaf(fw, 1)], [leaf(fw, 1)], [None, None]), ["1", "2"]),
    ("grad", "materialize and unused"): (
        lambda fw: fw.autograd.grad(leaf(fw), leaf(fw), allow_unused=False, materialize_grads=True),
        ["allow_unused"],
    ),
    ("backward", "saved input written"): (version_check, ["inplace", "version"]),
    ("backward", "no inputs"): (lambda fw: leaf(fw).backward(inputs=[]), ["inputs"]),
    ("backward", "gradient of another kind"): (lambda fw: leaf(fw, 2).backward("x"), ["str"]),
    ("inference_mode", "saved for backward"): (inference_saved, ["nference tensor"]),
    ("inference_mode", "requires_grad outside"): (inference_written, ["nference tensor"]),
    ("views", "made without gradients"): (base_written, ["view"]),
    ("views", "one of several outputs"): (unbound_written, ["view", "UnbindBackward"]),
    ("retain_grad", "no gradient"): (retained, ["requires_grad"]),
    ("requires_grad", "not a leaf"): (lambda fw: setattr(leaf(fw, 1) * 2, "requires_grad", False), ["leaf"]),
    ("grad attribute", "shape"): (lambda fw: setattr(leaf(fw, 2), "grad", f(fw, 3)), ["3", "2"]),
    ("grad attribute", "dtype"): (lambda fw: setattr(leaf(fw, 2), "grad", f(fw, 2, dtype=fw.float64)), []),
    ("grad attribute", "kind"): (lambda fw: setattr(leaf(fw, 2), "grad", 3), ["int"]),
    ("data attribute", "kind"): (lambda fw: setattr(f(fw, 2), "data", 3), ["int"]),
    ("numpy", "bfloat16"): (lambda fw: f(fw, 2, dtype=fw.bfloat16).numpy(), ["BFloat16"]),
    ("deepcopy", "not a leaf"): (lambda fw: __import__("copy").deepcopy(leaf(fw, 2) * 2), ["deepcopy"]),
    ("float", "many elements"): (lambda fw: float(f(fw, 2)), []),
    ("int", "many elements"): (lambda fw: int(f(fw, 2)), []),
    ("index", "floats"): (lambda fw: [1, 2][f(fw)], []),
    ("autocast", "device"): (lambda fw: fw.autocast("abacus"), ["abacus"]),
    ("autocast", "no device"): (lambda fw: fw.autocast(), ["device_type"]),
    ("GradScaler", "growth"): (lambda fw: fw.amp.GradScaler("cpu", growth_factor=0.5), ["growth"]),
    ("GradScaler", "step before scale"): (lambda fw: fw.amp.GradScaler("cpu").step(sgd(fw)), ["scale"]),
    ("GradScaler", "update first"): (lambda fw: fw.amp.GradScaler("cpu").update(), ["_scale"]),
    ("checkpoint", "unknown argument"): (
        lambda fw: fw.utils.checkpoint.checkpoint(lambda x: x, leaf(fw, 1), use_reentrant=False, other=1),
        ["other"],
    ),
    ("gradcheck", "wrong derivative"): (
        lambda fw: fw.autograd.gradcheck(
            function(fw, lambda ctx, x: x * 2, lambda ctx, g: g).apply,
            fw.ones(2, dtype=fw.float64, requires_grad=True),
        ),
        ["Jacobian"],
    ),
}
