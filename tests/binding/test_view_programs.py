"""Random programs of views and in-place writes compared with PyTorch: values, gradients, second gradients and errors.

A program starts from a leaf in some layout (dense, transposed, expanded, channels last, part of a larger memory), takes
views of views and writes through them. `VIEW_PROGRAMS` sets how many programs run (a longer search than CI's).
"""

import os
import random
import re

import oneflow as flow
import pytest
import torch

N_PROGRAMS = int(os.environ.get("VIEW_PROGRAMS", "2400"))
N_CHUNKS = 8

pytestmark = pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")


def numbers(fw, shape, shift=0.0):
    n = 1
    for s in shape:
        n *= s
    return (fw.arange(n, dtype=fw.float64) * 0.37 + 0.2 + shift).sin().reshape(shape) + 1.5


LEAVES = {
    "dense": numbers,
    "transposed": lambda fw, s: numbers(fw, s[::-1]).permute(*range(len(s) - 1, -1, -1)),
    "part": lambda fw, s: numbers(fw, (*s[:-1], s[-1] + 2))[..., 1:-1],
    "expanded": lambda fw, s: numbers(fw, (1, *s[1:])).expand(*s) if s else numbers(fw, s),
    "channels_last": lambda fw, s: (
        numbers(fw, s).contiguous(memory_format=fw.channels_last) if len(s) == 4 else numbers(fw, s)
    ),
}

# A tensor that the program may write to, derived from the leaf.
STARTS = {
    "mul": lambda fw, x: x * 1.0,
    "clone": lambda fw, x: x.clone(),
    "transposed_mul": lambda fw, x: x.transpose(0, -1) * 2.0,
    "reversed_clone": lambda fw, x: x.permute(*range(x.dim() - 1, -1, -1)).clone(),
    "expanded_add": lambda fw, x: x.unsqueeze(0).expand(2, *x.shape) + 1.0,
    "contiguous_t": lambda fw, x: (x.transpose(0, -1).contiguous() * 1.0).transpose(0, -1).clone(),
    "sin": lambda fw, x: x.sin(),
    "linear": lambda fw, x: (numbers(fw, (3, x.shape[0])) @ x.reshape(x.shape[0], -1)).t(),
}

VIEWS = {
    "transpose": lambda fw, t, a: t.transpose(*a),
    "permute": lambda fw, t, a: t.permute(*a),
    "select": lambda fw, t, a: t.select(*a),
    "narrow": lambda fw, t, a: t.narrow(*a),
    "slice": lambda fw, t, a: t[a],
    "unsqueeze": lambda fw, t, a: t.unsqueeze(a),
    "squeeze": lambda fw, t, a: t.squeeze(),
    "view": lambda fw, t, a: t.view(a),
    "reshape": lambda fw, t, a: t.reshape(a),
    "expand": lambda fw, t, a: t.expand(a),
    "diagonal": lambda fw, t, a: t.diagonal(),
    "as_strided": lambda fw, t, a: t.as_strided(*a),
    "view_as": lambda fw, t, a: t.view_as(t),
    "split": lambda fw, t, a: t.split(1, a)[-1],
    "detach": lambda fw, t, a: t.detach(),
}

WRITES = {
    "add_": lambda fw, t, u: t.add_(0.5),
    "mul_": lambda fw, t, u: t.mul_(1.25),
    "sin_": lambda fw, t, u: t.sin_(),
    "zero_": lambda fw, t, u: t.zero_(),
    "fill_": lambda fw, t, u: t.fill_(0.75),
    "copy_": lambda fw, t, u: t.copy_(u),
    "mul_by": lambda fw, t, u: t.mul_(u),
    "set_first": lambda fw, t, u: t.__setitem__(0, 5.0),
    "set_all": lambda fw, t, u: t.__setitem__(Ellipsis, u),
    "masked_fill_": lambda fw, t, u: t.masked_fill_(t > 1.6, 0.25),
    "addcmul_": lambda fw, t, u: t.addcmul_(u, u, value=0.5),
    "clamp_": lambda fw, t, u: t.clamp_(0.6, 1.9),
}

MAKES = {
    "square": lambda fw, t, a: t * t,
    "exp": lambda fw, t, a: (t * 0.3).exp(),
    "cat": lambda fw, t, a: fw.cat([t, t.detach()], 0),
    "clone": lambda fw, t, a: t.clone(),
    "matmul": lambda fw, t, a: t @ t.transpose(-1, -2),
}


def view_arguments(rng, name, t):
    """Arguments that fit `t`, or None."""
    n = t.dim()
    dim = rng.randrange(-n, n) if n else None
    if name in ("transpose", "select", "narrow", "split", "diagonal", "slice") and (n < 1 or t.numel() == 0):
        return None
    if name == "transpose":
        return dim, rng.randrange(-n, n)
    if name == "permute":
        return tuple(rng.sample(range(n), n)) if n else None
    if name == "select":
        return dim, rng.randrange(-t.shape[dim], t.shape[dim])
    if name == "narrow":
        start = rng.randrange(t.shape[dim])
        return dim, start, rng.randrange(1, t.shape[dim] - start + 1)
    if name == "slice":
        parts = []
        for s in t.shape[: rng.randrange(1, n + 1)]:
            step = rng.choice([1, 1, 2, 3])
            parts.append(slice(rng.randrange(s), None, step))
        return tuple(parts)
    if name == "unsqueeze":
        return rng.randrange(0, n + 1) if n < 5 else None
    if name in ("view", "reshape"):
        return rng.choice(
            [(-1,), (t.shape[0], -1) if n and t.numel() else (-1,), (1, *t.shape), (*t.shape[:-1], -1, 1)]
        )
    if name == "expand":
        return (rng.choice([1, 2]), *t.shape) if n < 5 else None
    if name == "diagonal":
        return () if n == 2 else None
    if name == "split":
        return dim
    if name == "as_strided":
        return layout_inside(rng, t)
    return ()


def layout_inside(rng, t):
    """A size, stride and offset inside the elements of `t`, mostly one that names each element once."""
    span = 1 + sum((s - 1) * st for s, st in zip(t.shape, t.stride(), strict=True)) if t.numel() else 0
    if not span:
        return None
    offset = rng.randrange(span)
    size, stride, reach, step = [], [], span - 1 - offset, 1
    for _ in range(rng.randrange(3)):
        st = step * rng.choice([1, 1, 2])
        most = reach // st + 1
        n = rng.randrange(1, min(most, 3) + 1)
        size.append(n)
        stride.append(st)
        reach -= (n - 1) * st
        step = st * n
    order = rng.sample(range(len(size)), len(size))
    return tuple(size[i] for i in order), tuple(stride[i] for i in order), t.storage_offset() + offset


def choose(seed):
    """A program: the leaf's layout and shape, the start, and steps (kind, name, which tensor, arguments)."""
    rng = random.Random(seed)
    layout = rng.choice(list(LEAVES))
    ndim = 4 if layout == "channels_last" else rng.randrange(1, 4)
    shape = tuple(rng.randrange(1, 5 if ndim < 4 else 4) for _ in range(ndim))
    program = [layout, shape, rng.choice(list(STARTS)), []]
    # PyTorch's own tensors decide which arguments fit.
    pool = [STARTS[program[2]](torch, LEAVES[layout](torch, shape).detach().requires_grad_())]
    for _ in range(rng.randrange(2, 9)):
        which = rng.randrange(len(pool))
        t = pool[which]
        kind = rng.choice(["view", "view", "view", "write", "write", "make"])
        table = {"view": VIEWS, "write": WRITES, "make": MAKES}[kind]
        name = rng.choice(list(table))
        if kind == "write":
            expanded = any(n > 1 and st == 0 for n, st in zip(t.shape, t.stride(), strict=True))
            if expanded and name not in ("add_", "mul_", "copy_", "addcmul_"):
                # PyTorch writes some of these several times, and has no gradient of them.
                continue
            other = rng.randrange(len(pool))
            # A write whose other operand is in the same memory saves a copy here, and fails in PyTorch's backward.
            apart = pool[other].untyped_storage().data_ptr() != t.untyped_storage().data_ptr()
            args = other if apart and rng.random() < 0.5 else None
        elif kind == "make":
            # Of more dimensions PyTorch saves copies, which later writes do not reach.
            args = () if name != "matmul" or t.dim() == 2 else None
            args = None if name == "cat" and t.dim() == 0 else args
        else:
            args = view_arguments(rng, name, t)
        if args is None and kind != "write":
            continue
        step = (kind, name, which, args)
        program[3].append(step)
        try:
            take(torch, pool, step)
        except (RuntimeError, IndexError):
            break
    return program


def take(fw, pool, step):
    kind, name, which, args = step
    t = pool[which]
    if kind == "write":
        other = numbers(fw, t.shape, 0.3) if args is None else pool[args].expand(t.shape)
        WRITES[name](fw, t, other)
    else:
        pool.append((VIEWS if kind == "view" else MAKES)[name](fw, t, args))


def total(fw, pool):
    """One number out of all tensors, with different weights for all elements."""
    loss = 0.0
    for i, t in enumerate(pool):
        loss = loss + (t * numbers(fw, t.shape, 0.11 * i)).sum() + 0.1 * (t * t).sum()
    return loss


def listed(t):
    return None if t is None else t.detach().reshape(-1).tolist()


def run(fw, program, record):
    """Run the program; events are appended to `record`, so that they are there when an error ends it."""
    layout, shape, start, steps = program
    leaf = LEAVES[layout](fw, shape).detach().requires_grad_()
    pool = [STARTS[start](fw, leaf)]
    for step in steps:
        take(fw, pool, step)
    record.append([listed(t) for t in pool])
    record.append([(t.requires_grad, t.is_leaf, tuple(t.shape), t._version) for t in pool])
    loss = total(fw, pool)
    (g,) = fw.autograd.grad(loss, leaf, create_graph=True, allow_unused=True)
    record.append(listed(g))
    if g is not None and g.requires_grad:
        (gg,) = fw.autograd.grad((g * g).sum(), leaf, allow_unused=True)
        record.append(listed(gg))


# PyTorch refuses views without a known history: one of several views of a call, or created under `no_grad`.
REFUSED = "is a view and|multiple views|view of a view|no_grad mode"


def outcome(fw, program):
    record = []
    try:
        run(fw, program, record)
    except (RuntimeError, IndexError, ValueError) as e:
        written = "modified by an inplace operation" in str(e)
        record.append("written" if written else "refused" if re.search(REFUSED, str(e)) else type(e).__name__)
    return record


def agree(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(agree(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-9 * max(1.0, abs(a)) or (a != a and b != b)
    return a == b


def ended_alike(ours, theirs):
    """Return whether both found the same write, or one of them alone differentiates a constant gradient."""
    if ours[-1:] == theirs[-1:] == ["written"]:
        return True
    longer, shorter = (ours, theirs) if len(ours) > len(theirs) else (theirs, ours)
    return len(longer) == 4 and len(shorter) == 3 and agree(longer[:3], shorter) and not any(longer[3] or ())


def described(program, ours, theirs):
    return f"{program}\n  ours   {ours}\n  theirs {theirs}"


@pytest.mark.parametrize("chunk", range(N_CHUNKS))
def test_eager(chunk):
    faults = []
    for seed in range(chunk, N_PROGRAMS, N_CHUNKS):
        program = choose(seed)
        ours, theirs = outcome(flow, program), outcome(torch, program)
        if not agree(ours, theirs) and "refused" not in theirs and not ended_alike(ours, theirs):
            faults.append(described((seed, *program), ours, theirs))
    assert not faults, f"{len(faults)} programs differ\n" + "\n".join(faults[:5])


def traceable(first, n, contiguous=False):
    """Programs from `first` on that PyTorch runs to their end, with its values, first and second gradients."""
    found = []
    seed = first
    while len(found) < n:
        program = choose(seed)
        theirs = outcome(torch, program)
        wanted = not contiguous or LEAVES[program[0]](torch, program[1]).is_contiguous()
        if wanted and len(theirs) == 4 and all(isinstance(x, list) for x in theirs):
            found.append((seed, program, theirs))
        seed += 1
    return found


def traced(fw, program, leaf):
    pool = [STARTS[program[2]](fw, leaf)]
    for step in program[3]:
        take(fw, pool, step)
    return pool


@pytest.mark.parametrize("first", [10**6, 2 * 10**6])
def test_in_a_graph(first):
    """Forward, gradient and second gradient, all inside one `nn.Graph` of many programs.

    Their leaves are captured: an input of a graph is contiguous inside, whatever it is outside.
    """
    programs = traceable(first, max(40, N_PROGRAMS // 40))
    leaves = [LEAVES[p[0]](flow, p[1]).detach() for _, p, _ in programs]

    class Programs(flow.nn.Graph):
        def build(self):
            out = []
            for (_, program, _), x in zip(programs, leaves, strict=True):
                x = x.clone().requires_grad_()
                pool = traced(flow, program, x)
                (g,) = flow.autograd.grad(total(flow, pool), x, create_graph=True, materialize_grads=True)
                gg = flow.autograd.grad((g * g).sum(), x, materialize_grads=True)[0] if g.requires_grad else x * 0
                out.append([*[t.detach().clone() for t in pool], g.detach(), gg.detach()])
            return out

    check(programs, Programs()())


@pytest.mark.parametrize("first", [3 * 10**6])
def test_compiled(first):
    programs = traceable(first, max(40, N_PROGRAMS // 40), contiguous=True)
    leaves = [LEAVES[p[0]](flow, p[1]).detach().requires_grad_() for _, p, _ in programs]

    def forward(*leaves):
        pools = [traced(flow, p, x) for (_, p, _), x in zip(programs, leaves, strict=True)]
        return sum(total(flow, pool) for pool in pools), [[t.clone() for t in pool] for pool in pools]

    loss, pools = flow.compile(forward)(*leaves)
    loss.backward()
    check(
        programs,
        [[*pool, flow.zeros_like(x) if x.grad is None else x.grad] for pool, x in zip(pools, leaves, strict=True)],
    )


def check(programs, results):
    faults = []
    for (seed, program, theirs), result in zip(programs, results, strict=True):
        n = len(program_values := theirs[0])
        ours = [listed(t) for t in result]
        wanted = [*program_values, *theirs[2:]][: len(ours)]
        if not agree(ours[:n], program_values) or not agree(ours[n:], wanted[n:]):
            faults.append(described((seed, *program), ours, wanted))
    assert not faults, f"{len(faults)} programs differ\n" + "\n".join(faults[:5])


def test_func_grad():
    """`func.grad` of a program returns the same gradient as `backward`."""
    for seed, program, theirs in traceable(4 * 10**6, 60):
        x = LEAVES[program[0]](flow, program[1]).detach()
        g = flow.func.grad(lambda x, p=program: total(flow, traced(flow, p, x)))(x)
        assert agree(listed(g), theirs[2]), described((seed, *program), listed(g), theirs[2])


@pytest.mark.parametrize("layout", [name for name in LEAVES if name != "expanded"])
def test_layouts_of_a_storage(layout):
    """`as_strided` against PyTorch; its scatter by the elements it keeps, as PyTorch's gradient is of others."""
    for seed in range(12):
        rng = random.Random(seed)
        shape = (2, 3, 2, 2) if layout == "channels_last" else (3, 4)
        grads = []
        for fw in (flow, torch):
            x = LEAVES[layout](fw, shape).detach().requires_grad_()
            inside = layout_inside(random.Random(seed), x)
            y = x.as_strided(*inside)
            (g,) = fw.autograd.grad((y * numbers(fw, y.shape)).sum() + (y * y).sum(), x, create_graph=True)
            (gg,) = fw.autograd.grad((g * g).sum(), x)
            grads.append([listed(y), listed(g), listed(gg)])
        assert agree(*grads), (seed, inside)
        x = LEAVES[layout](flow, shape).detach().requires_grad_()
        size, stride, offset = layout_inside(rng, x)
        src = numbers(flow, size, 0.7).requires_grad_()
        scattered = flow.as_strided_scatter(x, src, size, stride, offset)
        assert scattered.stride() == x.stride()
        kept = flow.autograd.grad(scattered.sum(), [x, src])
        # Places in memory: the layout may reach between the elements of a part.
        at = torch.arange(x.untyped_storage().nbytes() // 8)
        seen, written = (
            at.as_strided(*layout) for layout in ((x.shape, x.stride(), x.storage_offset()), (size, stride, offset))
        )
        assert kept[0].tolist() == (~torch.isin(seen.contiguous(), written.contiguous())).double().tolist()
        assert kept[1].tolist() == torch.isin(written.contiguous(), seen.contiguous()).double().tolist()
        assert (scattered.detach()[kept[0] == 1] == x.detach()[kept[0] == 1]).all()
