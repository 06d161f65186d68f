"""``placement`` and ``sbp`` of every function that creates tensors, ``global_mode``, and states of global modules."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import oneflow as torch
import pytest
from oneflow import _oneflow, nn, sbp
from oneflow.testing import run_ranks
from oneflow.utils.global_view import current_global_mode, global_mode, to_global

# The arguments before the options of ops that create tensors, by name in the table. A missing op is called
# for by the test below.
SIZE = ((5, 3),)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "arange": (5,),
    "arange.start": (1, 9, 2),
    "empty_permuted": ((4, 3), (1, 0)),
    "empty_strided": ((4, 3), (3, 1)),
    "eye": (4,),
    "full": ((5, 3), 2),
    "full_like": (3,),
    "linspace": (0, 1, 5),
    "linspace.tensors": (torch.tensor(0.0), torch.tensor(1.0), 5),
    "logspace": (0, 1, 5),
    "new_empty_strided": ((4, 3), (3, 1)),
    "new_full": ((5,), 3),
    "normal.float_float": (0.0, 1.0, (5, 3)),
    "randint": (7, (5, 3)),
    "randint.low": (2, 7, (5, 3)),
    "randint_like": (7,),
    "randint_like.low": (2, 7),
    "randperm": (7,),
    "tril_indices": (3, 3),
    "triu_indices": (3, 3),
    **dict.fromkeys(("empty", "ones", "rand", "randn", "zeros"), SIZE),
    **dict.fromkeys(("new_empty", "new_ones", "new_zeros"), ((5,),)),
    **dict.fromkeys(("empty_like", "ones_like", "rand_like", "randn_like", "zeros_like"), ()),
}
# Templates for `*_like`: created outside of every mode.
LOCAL = torch.arange(6.0).reshape(3, 2)
MAKERS = sorted(
    op["name"]
    for op in _oneflow._C._ops()
    # A number has no dimension to split.
    if op["name"] != "scalar_tensor" and "Device? device" in op["signature"] and "bool requires_grad" in op["signature"]
)


def by_hand(**layout: Any) -> dict[str, torch.Tensor]:
    return {
        "tensor": torch.tensor([[1.0, 2], [3, 4], [5, 6]], **layout),
        "tensor of an array": torch.tensor(numpy.arange(5), **layout),
        "new_tensor": LOCAL.new_tensor([1, 2, 3], **layout),
        "Tensor": torch.Tensor([1.0, 2, 3], **layout),
        **{f"{w}_window": getattr(torch, f"{w}_window")(5, **layout) for w in ("hann", "hamming", "blackman")},
    }


def make(name: str, **layout: Any) -> torch.Tensor:
    plain = name.partition(".")[0]
    if plain.startswith("new_"):
        return getattr(LOCAL, plain)(*ARGUMENTS[name], **layout)
    first = (LOCAL,) if plain.endswith("_like") else ()
    return getattr(torch, plain)(*first, *ARGUMENTS[name], **layout)


def all_of_them(layout: dict[str, Any]) -> dict[str, Any]:
    made = {name: make(name, **layout) for name in MAKERS} | by_hand(**layout)
    for name, t in made.items():
        # Memory that nobody wrote has no values to compare.
        made[name] = list(t.shape) if "empty" in name else numpy.array(t.numpy()).tolist()
        if layout and (not t.is_global or t.sbp != (layout["sbp"],)):
            raise AssertionError(f"{name} is laid out as {t.sbp if t.is_global else 'a local tensor'}")
    return made


@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_maker_takes_a_layout(n: int) -> None:
    torch.manual_seed(3)
    expected = all_of_them({})

    def rank(layout: Any, in_mode: bool) -> dict[str, Any]:
        torch.manual_seed(3)
        if not in_mode:
            return all_of_them({"placement": torch.placement.all("cpu"), "sbp": layout})
        with global_mode(True, torch.placement.all("cpu"), layout):
            made = {name: make(name, device="cpu") for name in MAKERS} | by_hand()
            assert current_global_mode().sbp == layout
            with global_mode(False):
                assert not torch.arange(3).is_global and not current_global_mode().is_enabled
        assert not current_global_mode().is_enabled
        for name, t in made.items():
            assert t.is_global and t.sbp == (layout,), name
        return {k: list(t.shape) if "empty" in k else numpy.array(t.numpy()).tolist() for k, t in made.items()}

    for layout in (sbp.broadcast, sbp.split(0), sbp.partial_sum):
        for in_mode in (False, True):
            for found in run_ranks(n, lambda layout=layout, in_mode=in_mode: rank(layout, in_mode)):
                assert found == expected


def test_what_is_made_requires_gradients_and_errors_name_the_function() -> None:
    p = torch.placement("cpu", [0])
    for t in (
        torch.arange(3.0, placement=p, sbp=sbp.broadcast, requires_grad=True),
        torch.tensor([1.0], placement=p, sbp=sbp.broadcast, requires_grad=True),
        torch.hann_window(3, placement=p, sbp=sbp.broadcast, requires_grad=True),
    ):
        (t * 2).sum().backward()
        assert t.is_leaf and t.grad.tolist() == [2.0] * len(t)
    for function, options, kind, text in (
        ("arange", {"placement": p}, TypeError, "both 'placement' and 'sbp'"),
        ("eye", {"sbp": sbp.broadcast}, TypeError, "both"),
        ("eye", {"placement": p, "sbp": sbp.broadcast, "device": "cpu"}, TypeError, "'device' cannot"),
        ("arange", {"placement": p, "sbp": sbp.split(1)}, RuntimeError, "does not fit"),
        ("hann_window", {"placement": p, "sbp": sbp.split(1)}, RuntimeError, "does not fit"),
        ("arange", {"placement": "cpu", "sbp": sbp.broadcast}, TypeError, "'placement' must be placement, not str"),
        ("arange", {"placement": p, "sbp": [sbp.broadcast] * 2}, ValueError, "2 entries"),
    ):
        with pytest.raises(kind, match=text):
            getattr(torch, function)(3, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'placement'"):
        torch.relu(torch.ones(1), placement=p)


def test_layouts_are_made_inside_a_graph() -> None:
    def rank() -> list[Any]:
        p = torch.placement.all("cpu")

        class Make(nn.Graph):
            def build(self, x: torch.Tensor) -> Any:
                return [x + make(name, placement=p, sbp=s).sum() for s in LAYOUTS for name in deterministic]

        class Eager(Make):
            def __call__(self, *args: Any) -> Any:
                return self.build(*args)

        x = torch.zeros(2, placement=p, sbp=sbp.broadcast)
        return [[t.numpy().tolist() for t in kind()(x)] for kind in (Make, Eager)]

    LAYOUTS = (sbp.broadcast, sbp.split(0), sbp.partial_sum)
    deterministic = ["zeros", "ones", "full", "arange", "eye", "linspace", "new_ones", "ones_like", "full_like"]
    for n in (1, 2):
        for traced, eager in run_ranks(n, rank):
            assert traced == eager


def test_ranks_are_an_array() -> None:
    def rank() -> None:
        p = torch.placement("cpu", [[0, 1], [2, 3]])
        assert isinstance(p.ranks, numpy.ndarray) and p.ranks.shape == (2, 2) and p.ranks.size == 4
        assert p.ranks == [[0, 1], [2, 3]] and p.ranks != [0, 1, 2, 3] and (p.ranks[1] == numpy.array([2, 3])).all()
        assert torch.placement("cpu", p.ranks) == p

    run_ranks(4, rank)


@pytest.mark.parametrize("layout", [sbp.broadcast, sbp.split(0)], ids=str)
def test_a_global_module_loads_the_state_of_a_local_one(layout: Any) -> None:
    def rank() -> list[Any]:
        torch.manual_seed(0)
        source, target = nn.Linear(4, 6), nn.Linear(4, 6)
        optimizer = torch.optim.Adam(source.parameters(), lr=0.1)
        source(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        whole = source.state_dict()
        if torch.distributed.get_rank():
            # The data of the first rank count.
            whole = {name: value * 0 for name, value in whole.items()}
        target.to_global(torch.placement.all("cpu"), sbp.broadcast)
        for p in (target.weight, target.bias):
            p.data = p.data.to_global(sbp=layout)
        target.load_state_dict(whole)
        other = torch.optim.Adam(target.parameters(), lr=0.1)
        other.load_state_dict(optimizer.state_dict())
        assert target.weight.sbp == (layout,) and other.state[target.weight]["exp_avg"].sbp == (layout,)
        found = [*target.state_dict().values(), other.state[target.weight]["exp_avg"]]
        return [
            [t.detach().numpy().tolist() for t in found],
            [t.tolist() for t in (source.weight, source.bias, optimizer.state[source.weight]["exp_avg"])],
        ]

    for found, expected in run_ranks(2, rank):
        assert found == expected


def test_a_local_module_made_split_says_that_it_grows() -> None:
    def rank() -> Any:
        p = torch.placement.all("cpu")
        grown = nn.Linear(4, 6).to_global(p, sbp.split(0)).weight.shape
        # As the message says.
        return tuple(grown), tuple(nn.Linear(4, 6).to_global(p, sbp.broadcast).to_global(sbp=sbp.split(0)).weight.shape)

    # Ranks are threads here, and warnings those of the process.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert run_ranks(2, rank) == [((12, 4), (6, 4))] * 2
    text = "\n".join(str(w.message) for w in said)
    assert "weight of shape (6, 4) became the shard of a tensor of shape (12, 4)" in text and "bias of shape" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_ranks(1, rank) == [((6, 4), (6, 4))]


def test_an_sbp_is_chosen_by_a_function_of_the_tensor_or_of_the_nest_too() -> None:
    def rank() -> list[Any]:
        nest = {"a": torch.ones(2, 2), "b": [torch.ones(2)]}
        p = torch.placement.all("cpu")
        one = to_global(nest, p, lambda t: sbp.split(0) if t.dim() == 2 else sbp.broadcast)
        two = to_global(nest, p, lambda state, t: sbp.split(1) if t is state["a"] else sbp.broadcast)
        return [made.sbp for nest in (one, two) for made in (nest["a"], nest["b"][0])]

    s, b = sbp.split, (sbp.broadcast,)
    assert run_ranks(2, rank) == [[(s(0),), b, (s(1),), b]] * 2


def test_new_tensors_are_like_global_ones_and_addresses_those_of_the_part() -> None:
    def rank() -> None:
        x = torch.zeros(4, 2, dtype=torch.float64, placement=torch.placement.all("cpu"), sbp=sbp.split(1))
        y, z = x.new_tensor([[1, 2], [3, 4]]), x.new_tensor(5)
        assert y.sbp == x.sbp and y.placement == x.placement and y.dtype == torch.float64
        assert y.numpy().tolist() == [[1, 2], [3, 4]] and z.sbp == (sbp.broadcast,)
        assert x.data_ptr() == x.to_local().data_ptr() != 0

    for n in (1, 2):
        run_ranks(n, rank)


def test_results_of_one_rank_have_the_strides_of_two() -> None:
    """A split stays where an op keeps it, also where all layouts are the same."""

    def rank() -> list[Any]:
        x = torch.arange(24.0).reshape(4, 6).to_global(torch.placement.all("cpu"), sbp.broadcast)
        makers = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "clone", "relu")
        found = []
        for layout in (sbp.split(0), sbp.split(1), sbp.broadcast):
            y = x.to_global(sbp=layout)
            made = [getattr(torch, name)(y) for name in makers]
            made += [torch.full_like(y, 2.0), torch.randint_like(y, 5), y * 2, y + y]
            assert {m.sbp for m in made} == {(layout,)}
            found.append(
                [m.sbp for m in (y.sum(0), y.t(), y @ y.t(), y.new_zeros(3), torch.nn.functional.softmax(y, 1))]
            )
        return found

    assert run_ranks(1, rank)[0] == run_ranks(2, rank)[0]


def test_sizes_and_ranges_are_read_from_global_tensors() -> None:
    counts, x = torch.tensor([3, 0, 2, 1]), torch.arange(8.0).reshape(4, 2)
    calls = {
        "bincount": lambda n, x: torch.bincount(n),
        "histc": lambda n, x: torch.histc(x, 4),
        "repeat_interleave": lambda n, x: torch.repeat_interleave(x, n, 0),
        "repeats": lambda n, x: torch.repeat_interleave(n),
        "tensor_split": lambda n, x: torch.tensor_split(x, n[2:].flip(0))[1],
        "narrow": lambda n, x: torch.narrow(x, 0, n[2], 2),
        "linspace": lambda n, x: torch.linspace(x[0, 1], x[3, 0], 5),
    }

    def rank() -> None:
        everywhere = torch.placement.all("cpu")
        for layout in (sbp.broadcast, sbp.split(0)):
            n, y = (t.clone().to_global(everywhere, sbp.broadcast).to_global(sbp=layout) for t in (counts, x))
            for name, call in calls.items():
                assert numpy.array_equal(call(n, y).numpy(), call(counts, x).numpy()), name

    for n in (1, 2):
        run_ranks(n, rank)


@pytest.mark.parametrize("layout", [sbp.broadcast, sbp.split(0), sbp.partial_sum], ids=str)
def test_new_and_type_as_take_the_layout_of_the_other(layout: Any) -> None:
    placement = torch.placement("cpu", [0])
    x = torch.ones(4, dtype=torch.float64, placement=placement, sbp=layout)
    for made, sizes in ((x.new(), (0,)), (x.new(2, 3), (2, 3)), (x.new([1, 2]), (2,)), (x.new(size=(3,)), (3,))):
        assert made.shape == sizes and made.dtype == x.dtype
        assert made.placement == placement and made.sbp == x.sbp
    local = torch.arange(4)
    as_global = local.type_as(x)
    assert as_global.dtype == x.dtype and as_global.placement == placement and as_global.sbp == x.sbp
    assert as_global.to_local().tolist() == [0, 1, 2, 3]
    as_local = x.type_as(local)
    assert not as_local.is_global and as_local.dtype == torch.int64 and as_local.tolist() == [1, 1, 1, 1]
