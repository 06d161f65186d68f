"""Each tensor has one Python object while either language holds it; nothing leaks and nothing is freed early."""

import copy
import gc
import pickle
import sys
import threading
import weakref

import oneflow as flow
import pytest


class Tagged(flow.Tensor):
    """A subclass that carries attributes."""


def tagged(data, **attributes):
    t = flow.Tensor._make_subclass(Tagged, data)
    for name, value in attributes.items():
        setattr(t, name, value)
    return t


def test_grad_is_one_object():
    x = flow.ones(3, requires_grad=True)
    (x * x).sum().backward()
    g = x.grad
    assert x.grad is g
    g.mark = "kept"
    del g
    gc.collect()
    assert x.grad.mark == "kept"


def test_a_subclass_with_attributes_survives_while_only_rust_holds_it():
    leaf = tagged(flow.ones(3), name="weight").requires_grad_()
    with flow.overrides.DisableTorchFunctionSubclass():
        node = (leaf * 2).grad_fn
    alive = weakref.ref(leaf)
    identity = id(leaf)
    del leaf
    gc.collect()
    assert alive() is not None
    found = node.next_functions[0][0].variable
    assert id(found) == identity and type(found) is Tagged and found.name == "weight"
    del found, node
    gc.collect()
    assert alive() is None


def test_assigned_grad_keeps_its_object():
    x, g = flow.ones(2, requires_grad=True), tagged(flow.ones(2), origin="user")
    x.grad = g
    del g
    gc.collect()
    assert type(x.grad) is Tagged and x.grad.origin == "user"


def test_ops_that_return_their_input_return_the_same_object():
    x = flow.ones(2, 3)
    assert x.contiguous() is x
    assert x.to(flow.float32) is x
    assert x.float() is x
    assert x.add_(1) is x
    assert flow.add(x, 1, out=x) is x
    assert x.requires_grad_() is x
    x = x.detach()
    y = x
    y += 1
    assert y is x


def test_cycle_through_an_attribute_is_collected():
    x = flow.ones(2)
    x.me = x
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_cycle_through_grad_is_collected():
    p = tagged(flow.ones(2)).requires_grad_()
    p.grad = flow.ones(2)
    p.grad.owner = p
    alive, grad_alive = weakref.ref(p), weakref.ref(p.grad)
    del p
    gc.collect()
    assert alive() is None and grad_alive() is None


def test_cycle_through_grad_of_a_plain_tensor_is_collected():
    p = flow.ones(2, requires_grad=True)
    p.sum().backward()
    p.grad.owner = p
    alive = weakref.ref(p)
    del p
    gc.collect()
    assert alive() is None


def test_cycle_through_grad_is_left_alone_while_somebody_holds_the_tensor():
    p = flow.ones(2, requires_grad=True)
    y = p * 2
    p.grad = flow.ones(2)
    p.grad.owner = p
    alive = weakref.ref(p)
    del p
    gc.collect()
    assert alive() is not None and alive().grad.owner is alive()
    del y
    gc.collect()
    assert alive() is None


def test_cycle_through_a_hook_is_collected():
    p = flow.ones(2, requires_grad=True)
    p.register_hook(lambda g, p=p: None)
    p.register_post_accumulate_grad_hook(lambda p, again=p: None)
    alive = weakref.ref(p)
    del p
    gc.collect()
    assert alive() is None


def test_weak_references_die_with_the_object():
    x = flow.ones(2)
    seen = []
    r = weakref.ref(x, lambda _: seen.append(1))
    assert r() is x
    del x
    assert r() is None and seen == [1]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + x,
        lambda x: x + 1,
        lambda x: x.view(4),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x.max(1),
        lambda x: x.split(1),
        lambda x: x.tolist(),
        lambda x: x.shape,
        lambda x: x.dtype,
        lambda x: x.detach(),
        lambda x: x.add_(0),
        lambda x: flow.cat([x, x]),
        lambda x: flow.zeros(2, 3, dtype=flow.float64),
        lambda x: x.numpy(),
        lambda x: flow.tensor([[1.0], [2.0]]),
        lambda x: x.transpose("a", 1),
        lambda x: flow.cat([x, 1]),
        lambda x: x.view(7, 7),
        lambda x: x + "a",
    ],
)
def test_calls_leave_reference_counts_as_they_were(call):
    x = flow.arange(4.0).view(2, 2)

    def once():
        try:
            call(x)
        except (TypeError, RuntimeError):
            pass

    once()
    objects = [x, None, True, flow.Tensor, flow.float32, flow.Size]
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(100):
        once()
    after = [sys.getrefcount(o) for o in objects]
    assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True))


def test_tensors_are_freed():
    class Count(flow.Tensor):
        alive = 0

        def __init__(self, *args):
            Count.alive += 1

        def __del__(self):
            Count.alive -= 1

    for _ in range(10):
        Count([1.0, 2.0])
    assert Count.alive == 0


def test_hash_is_identity():
    x, y = flow.ones(1), flow.ones(1)
    assert len({x, y, x}) == 2
    assert hash(x) == hash(x)


def test_constructor_of_a_subclass():
    t = Tagged([1.0, 2.0])
    assert type(t) is Tagged and t.tolist() == [1.0, 2.0]
    assert type(t + 1) is Tagged
    assert type(t.as_subclass(flow.Tensor)) is flow.Tensor
    assert type(flow.ones(2).as_subclass(Tagged)) is Tagged


def test_parameter_round_trips():
    p = flow.nn.Parameter(flow.ones(2, 2))
    p.tag = 5
    q = pickle.loads(pickle.dumps(p))
    assert type(q) is flow.nn.Parameter and q.tag == 5 and q.tolist() == p.tolist()
    r = copy.deepcopy(p)
    assert type(r) is flow.nn.Parameter and r is not p and r.requires_grad


def test_objects_dropped_on_another_thread():
    seen = []

    def work():
        for i in range(200):
            x = flow.ones(4, requires_grad=True)
            x.index = i
            y = (x * 2).sum()
            y.backward()
            seen.append(x.grad.sum().item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [8.0] * 800


def test_dict_of_a_plain_tensor():
    x = flow.ones(1)
    x.__dict__["note"] = [x]
    assert x.note[0] is x
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_pickled_constants_keep_their_identity():
    for o in (flow.float32, flow.long, flow.channels_last, flow.strided, flow.device("cpu"), flow.Size([2, 3])):
        again = pickle.loads(pickle.dumps(o))
        assert again == o and type(again) is type(o)
    assert pickle.loads(pickle.dumps(flow.bfloat16)) is flow.bfloat16
