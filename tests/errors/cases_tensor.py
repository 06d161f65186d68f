"""Bad input of tensors, the ops on them and backward."""

from __future__ import annotations

from errors.builders import HUGE, f, i, leaf


def backward_twice(fw):
    y = (leaf(fw, 3) ** 2).sum()
    y.backward()
    y.backward()


def saved_then_written(fw):
    x = leaf(fw, 3)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def written_view_of_leaf(fw):
    leaf(fw, 3)[0:2].add_(1)


def two_devices(fw):
    return fw.ones(2, device="meta") + fw.ones(2)


def grad_of_plain(fw):
    return fw.autograd.grad(f(fw, 2).sum(), f(fw, 2))


# (op, kind): what is called, and words that the message must have.
CASES = {
    ("add", "shapes"): (lambda fw: f(fw, 2, 3) + f(fw, 4), ["add", "3", "4"]),
    ("add", "not a tensor"): (lambda fw: fw.add("x", f(fw, 2)), ["add", "str"]),
    ("add", "unknown argument"): (lambda fw: fw.add(f(fw, 2), 1, bias=2), ["add", "bias"]),
    ("add", "missing argument"): (lambda fw: fw.add(f(fw, 2)), ["add", "other"]),
    ("softmax", "given twice"): (lambda fw: fw.softmax(f(fw, 2), 0, dim=0), ["softmax", "dim"]),
    ("add", "in place enlarges"): (lambda fw: f(fw, 3).add_(f(fw, 2, 3)), ["add", "[3]", "[2, 3]"]),
    ("add", "in place on integers"): (lambda fw: i(fw, 1, 2).add_(1.5), ["add", "Float", "Long"]),
    ("add", "in place on leaf"): (lambda fw: leaf(fw, 2).add_(1), ["leaf"]),
    ("add", "in place on view of leaf"): (written_view_of_leaf, ["leaf"]),
    ("add", "overlapping memory"): (lambda fw: f(fw, 1).expand(3).add_(1), ["memory location"]),
    ("add", "out of integers"): (lambda fw: fw.add(f(fw, 2), 1, out=i(fw, 1, 2)), ["add", "Float", "Long"]),
    ("add", "out with gradient"): (lambda fw: fw.add(leaf(fw, 2), 1, out=f(fw, 2)), ["out"]),
    ("sub", "booleans"): (lambda fw: fw.tensor([True]) - fw.tensor([True]), ["sub", "bool"]),
    ("neg", "booleans"): (lambda fw: -fw.tensor([True]), ["neg", "bool"]),
    ("div", "rounding mode"): (lambda fw: fw.div(f(fw, 2), 2, rounding_mode="up"), ["div", "up"]),
    ("div", "integers by zero"): (lambda fw: fw.div(i(fw, 1), i(fw, 0), rounding_mode="trunc"), ["Zero"]),
    ("floor_divide", "integers by zero"): (lambda fw: i(fw, 1) // i(fw, 0), ["Zero"]),
    ("remainder", "integers by zero"): (lambda fw: i(fw, 1) % i(fw, 0), ["Zero"]),
    ("pow", "negative power of integers"): (lambda fw: i(fw, 2) ** -1, ["pow", "negative"]),
    ("bitwise_and", "floats"): (lambda fw: f(fw, 2) & f(fw, 2), ["bitwise_and", "Float"]),
    ("clamp", "no limits"): (lambda fw: fw.clamp(f(fw, 2)), ["clamp", "min", "max"]),
    ("lerp", "dtypes"): (lambda fw: fw.lerp(f(fw, 2), f(fw, 2, dtype=fw.float64), 0.5), ["lerp", "float64"]),
    ("where", "condition of floats"): (lambda fw: fw.where(f(fw, 2), f(fw, 2), f(fw, 2)), ["where", "bool"]),
    ("masked_fill", "mask of floats"): (lambda fw: f(fw, 2).masked_fill(f(fw, 2), 1.0), ["masked_fill", "mask"]),
    ("masked_fill", "value with dimensions"): (
        lambda fw: f(fw, 2).masked_fill(fw.tensor([True, False]), f(fw, 2)),
        ["masked_fill", "0-dim"],
    ),
    ("matmul", "inner sizes"): (lambda fw: f(fw, 2, 3) @ f(fw, 4, 5), ["matmul", "[2, 3]", "[4, 5]"]),
    ("matmul", "dtypes"): (lambda fw: f(fw, 2, 3) @ f(fw, 3, 2, dtype=fw.float64), ["matmul", "Float", "Double"]),
    ("matmul", "scalars"): (lambda fw: f(fw) @ f(fw, 2), ["matmul", "0D"]),
    ("matmul", "batches"): (lambda fw: f(fw, 2, 3, 4) @ f(fw, 3, 4, 5), ["matmul", "batch"]),
    ("mm", "ranks"): (lambda fw: fw.mm(f(fw, 2, 3, 4), f(fw, 4, 5)), ["mm", "[2, 3, 4]"]),
    ("bmm", "batches"): (lambda fw: fw.bmm(f(fw, 2, 3, 4), f(fw, 3, 4, 5)), ["bmm", "2", "3"]),
    ("mv", "ranks"): (lambda fw: fw.mv(f(fw, 2), f(fw, 2)), ["mv", "[2]"]),
    ("dot", "ranks"): (lambda fw: fw.dot(f(fw, 2, 2), f(fw, 2)), ["dot", "[2, 2]"]),
    ("addmm", "input's shape"): (lambda fw: fw.addmm(f(fw, 7), f(fw, 2, 3), f(fw, 3, 4)), ["addmm", "[7]"]),
    ("linear", "features"): (
        lambda fw: fw.nn.functional.linear(f(fw, 2, 3), f(fw, 4, 5)),
        ["linear", "[2, 3]", "[4, 5]"],
    ),
    ("reshape", "wrong count"): (lambda fw: f(fw, 2, 3).reshape(4, 2), ["[4, 2]", "6"]),
    ("reshape", "two unknown sizes"): (lambda fw: f(fw, 2, 3).reshape(-1, -1), ["-1"]),
    ("reshape", "negative size"): (lambda fw: f(fw, 6).reshape(-2, 3), ["-2"]),
    ("reshape", "overflowing sizes"): (lambda fw: f(fw, 0).reshape(HUGE, 8), []),
    ("view", "strides"): (lambda fw: f(fw, 2, 3).t().view(6), ["view"]),
    ("expand", "sizes"): (lambda fw: f(fw, 2).expand(3), ["expand", "3", "2"]),
    ("expand", "fewer dimensions"): (lambda fw: f(fw, 2, 3).expand(3), ["expand"]),
    ("expand", "negative size"): (lambda fw: f(fw, 1).expand(-3), ["-3"]),
    ("permute", "repeated dim"): (lambda fw: f(fw, 2, 3).permute(0, 0), ["permute"]),
    ("permute", "too few dims"): (lambda fw: f(fw, 2, 3).permute(0), ["permute"]),
    ("transpose", "dim out of range"): (lambda fw: f(fw, 2, 3).transpose(0, 2), ["[-2, 1]", "2"]),
    ("squeeze", "dim out of range"): (lambda fw: f(fw, 2, 3).squeeze(5), ["[-2, 1]", "5"]),
    ("unsqueeze", "dim out of range"): (lambda fw: f(fw, 2).unsqueeze(4), ["[-2, 1]", "4"]),
    ("unflatten", "sizes"): (lambda fw: f(fw, 6).unflatten(0, (4, 2)), ["unflatten"]),
    ("narrow", "beyond the end"): (lambda fw: f(fw, 3).narrow(0, 1, 5), ["start", "length"]),
    ("narrow", "negative length"): (lambda fw: f(fw, 3).narrow(0, 0, -1), ["narrow", "negative"]),
    ("select", "index out of range"): (lambda fw: f(fw, 3).select(0, 3), ["select", "3"]),
    ("split", "negative size"): (lambda fw: f(fw, 3).split(-1), ["split", "-1"]),
    ("split", "lengths"): (lambda fw: f(fw, 3).split([1, 1]), ["split", "3"]),
    ("chunk", "no parts"): (lambda fw: f(fw, 3).chunk(0), ["chunk", "0"]),
    ("cat", "no tensors"): (lambda fw: fw.cat([]), ["cat", "empty"]),
    ("cat", "sizes"): (lambda fw: fw.cat([f(fw, 2, 3), f(fw, 2, 4)]), ["cat", "[2, 3]", "[2, 4]"]),
    ("cat", "scalars"): (lambda fw: fw.cat([f(fw), f(fw)]), ["cat", "zero-dim"]),
    ("cat", "not tensors"): (lambda fw: fw.cat([1, 2]), ["cat", "int"]),
    ("stack", "sizes"): (lambda fw: fw.stack([f(fw, 2), f(fw, 3)]), ["stack", "[2]", "[3]"]),
    ("flip", "dim out of range"): (lambda fw: f(fw, 2).flip(3), ["3"]),
    ("as_strided", "outside the storage"): (lambda fw: f(fw, 4).as_strided((3,), (2,)), ["as_strided", "storage"]),
    ("as_strided", "offset outside"): (lambda fw: f(fw, 4).as_strided((1,), (1,), 9), ["as_strided", "9"]),
    ("as_strided", "negative stride"): (lambda fw: f(fw, 4).as_strided((2,), (-1,)), ["as_strided", "-1"]),
    ("as_strided", "negative offset"): (lambda fw: f(fw, 4).as_strided((1,), (1,), -1), ["as_strided", "-1"]),
    ("as_strided", "lengths"): (lambda fw: f(fw, 4).as_strided((2, 2), (1,)), ["as_strided", "[2, 2]"]),
    ("as_strided", "overflow"): (lambda fw: f(fw, 4).as_strided((HUGE,), (HUGE,)), ["as_strided"]),
    ("as_strided_scatter", "outside"): (
        lambda fw: fw.as_strided_scatter(f(fw, 4), f(fw, 3), (3,), (2,)),
        ["as_strided_scatter"],
    ),
    ("getitem", "index out of range"): (lambda fw: f(fw, 3)[5], ["5", "3"]),
    ("getitem", "too many indices"): (lambda fw: f(fw, 3)[0, 0], ["1"]),
    ("getitem", "tensor index out of range"): (lambda fw: f(fw, 3)[i(fw, 7)], ["7", "3"]),
    ("getitem", "floats as index"): (lambda fw: f(fw, 3)[f(fw, 2)], ["indices", "float32"]),
    ("getitem", "mask of another shape"): (lambda fw: f(fw, 3)[fw.tensor([True, False])], ["[2]", "[3]"]),
    ("getitem", "indices of other shapes"): (lambda fw: f(fw, 3, 3)[i(fw, 0, 1), i(fw, 0, 1, 2)], ["[2]", "[3]"]),
    ("getitem", "step backwards"): (lambda fw: f(fw, 3)[::-1], ["step"]),
    ("setitem", "value's shape"): (lambda fw: f(fw, 3).__setitem__(slice(0, 2), f(fw, 3)), ["3", "2"]),
    ("index_put", "dtypes"): (lambda fw: f(fw, 3).index_put((i(fw, 0),), i(fw, 1)), ["Float", "Long"]),
    ("index_put", "index out of range"): (lambda fw: f(fw, 3).index_put((i(fw, 9),), f(fw, 1)), ["9"]),
    ("index_select", "index out of range"): (lambda fw: fw.index_select(f(fw, 3), 0, i(fw, 3)), ["index"]),
    ("index_select", "negative index"): (lambda fw: fw.index_select(f(fw, 3), 0, i(fw, -1)), ["index"]),
    ("index_select", "index of floats"): (lambda fw: fw.index_select(f(fw, 3), 0, f(fw, 1)), ["index_select"]),
    ("index_add", "source's dtype"): (lambda fw: fw.index_add(f(fw, 3), 0, i(fw, 0), i(fw, 1)), ["index_add"]),
    ("gather", "index out of range"): (lambda fw: fw.gather(f(fw, 3), 0, i(fw, 5)), ["5", "3"]),
    ("gather", "index of floats"): (lambda fw: fw.gather(f(fw, 3), 0, f(fw, 1)), ["gather", "int64"]),
    ("gather", "ranks"): (lambda fw: fw.gather(f(fw, 3, 3), 0, i(fw, 0)), ["gather", "[3, 3]"]),
    ("scatter", "index out of range"): (lambda fw: fw.scatter(f(fw, 3), 0, i(fw, 5), 1.0), ["5", "3"]),
    ("scatter", "negative index"): (lambda fw: fw.scatter(f(fw, 3), 0, i(fw, -1), 1.0), ["-1", "3"]),
    ("scatter", "unknown reduction"): (lambda fw: f(fw, 3).scatter(0, i(fw, 0), f(fw, 1), reduce="x"), ["reduce"]),
    ("scatter_add", "dtypes"): (lambda fw: fw.scatter_add(f(fw, 3), 0, i(fw, 0), i(fw, 1)), ["scatter_add"]),
    ("embedding", "index out of range"): (
        lambda fw: fw.nn.functional.embedding(i(fw, 4), f(fw, 4, 2)),
        ["4"],
    ),
    ("cross_entropy", "class out of range"): (
        lambda fw: fw.nn.functional.cross_entropy(f(fw, 2, 3), i(fw, 0, 3)),
        ["3"],
    ),
    ("cross_entropy", "rows"): (lambda fw: fw.nn.functional.cross_entropy(f(fw, 2, 3), i(fw, 0, 1, 2)), ["2", "3"]),
    ("softmax", "dim out of range"): (lambda fw: fw.softmax(f(fw, 2), 3), ["3"]),
    ("softmax", "integers"): (lambda fw: fw.softmax(i(fw, 1, 2), 0), ["softmax", "Long"]),
    ("layer_norm", "normalized shape"): (lambda fw: fw.nn.functional.layer_norm(f(fw, 2, 3), (4,)), ["[4]", "[2, 3]"]),
    ("sum", "repeated dim"): (lambda fw: fw.sum(f(fw, 2, 3), (0, 0)), ["sum", "0"]),
    ("sum", "dim out of range"): (lambda fw: fw.sum(f(fw, 2, 3), 7), ["7"]),
    ("sum", "dim of text"): (lambda fw: fw.sum(f(fw, 2), "x"), ["sum", "str"]),
    ("mean", "integers"): (lambda fw: fw.mean(i(fw, 1, 2)), ["mean", "Long"]),
    ("max", "nothing"): (lambda fw: fw.max(f(fw, 0)), ["max"]),
    ("argmax", "nothing"): (lambda fw: fw.argmax(f(fw, 0)), ["argmax"]),
    ("topk", "k out of range"): (lambda fw: fw.topk(f(fw, 3), 4), ["k", "4"]),
    ("multinomial", "negative weights"): (lambda fw: fw.multinomial(-f(fw, 3), 1), ["multinomial", "0"]),
    ("multinomial", "too many"): (lambda fw: fw.multinomial(f(fw, 3), 4), ["multinomial"]),
    ("dropout", "probability"): (lambda fw: fw.nn.functional.dropout(f(fw, 3), 1.5), ["dropout", "1.5"]),
    ("randint", "empty range"): (lambda fw: fw.randint(3, 3, (2,)), ["3"]),
    ("randperm", "negative"): (lambda fw: fw.randperm(-1), ["-1"]),
    ("uniform", "NaN bounds"): (lambda fw: f(fw, 2).uniform_(float("nan"), 1.0), ["uniform"]),
    ("normal", "negative deviation"): (lambda fw: f(fw, 2).normal_(0.0, -1.0), ["normal", "-1"]),
    ("zeros", "negative size"): (lambda fw: fw.zeros(-1), ["-1"]),
    ("zeros", "overflow"): (lambda fw: fw.zeros(HUGE, 8), [str(HUGE)]),
    ("empty", "overflow of bytes"): (lambda fw: fw.empty(2**61, dtype=fw.float64), [str(2**61)]),
    ("empty", "size of floats"): (lambda fw: fw.empty((2.5,)), ["empty", "size"]),
    ("ones", "no dtype"): (lambda fw: fw.ones(2, dtype="float32"), ["ones", "dtype"]),
    ("zeros", "unknown device"): (lambda fw: fw.zeros(2, device="abacus"), ["abacus"]),
    ("arange", "zero step"): (lambda fw: fw.arange(0, 5, 0), ["step"]),
    ("arange", "wrong direction"): (lambda fw: fw.arange(5, 0, 1), ["bound"]),
    ("arange", "NaN"): (lambda fw: fw.arange(0, float("nan"), 1), []),
    ("arange", "infinite"): (lambda fw: fw.arange(0, float("inf"), 1), []),
    ("eye", "negative size"): (lambda fw: fw.eye(-1), ["-1"]),
    ("linspace", "negative steps"): (lambda fw: fw.linspace(0, 1, -1), ["steps"]),
    ("tensor", "ragged"): (lambda fw: fw.tensor([[1], [1, 2]]), ["sequence"]),
    ("tensor", "of objects"): (lambda fw: fw.tensor([object()]), ["object"]),
    ("tensor", "number too great"): (lambda fw: fw.tensor(2**70), []),
    ("full", "no number"): (lambda fw: fw.full((2,), "x"), ["full", "str"]),
    ("item", "many elements"): (lambda fw: f(fw, 2).item(), ["2 elements"]),
    ("bool", "many elements"): (lambda fw: bool(f(fw, 2)), ["ambiguous"]),
    ("copy", "shapes"): (lambda fw: f(fw, 2).copy_(f(fw, 3)), ["2", "3"]),
    ("fill", "value with dimensions"): (lambda fw: f(fw, 2).fill_(f(fw, 2)), ["fill_", "1"]),
    ("to", "unknown dtype"): (lambda fw: f(fw, 2).to("abacus"), ["abacus"]),
    ("numpy", "needs gradient"): (lambda fw: leaf(fw, 2).numpy(), ["detach"]),
    ("devices", "mixed"): (two_devices, ["device"]),
    ("backward", "not a scalar"): (lambda fw: (leaf(fw, 2) * 2).backward(), ["scalar"]),
    ("backward", "twice"): (backward_twice, ["second time"]),
    ("backward", "nothing recorded"): (lambda fw: f(fw, 2).sum().backward(), ["grad_fn"]),
    ("backward", "saved tensor written"): (saved_then_written, ["inplace"]),
    ("backward", "gradient's shape"): (lambda fw: (leaf(fw, 2) * 2).backward(f(fw, 3)), ["[3]", "[2]"]),
    ("grad", "input without gradient"): (grad_of_plain, ["grad"]),
    ("requires_grad", "integers"): (lambda fw: i(fw, 1).requires_grad_(), ["floating"]),
    ("detach", "in place on view"): (lambda fw: leaf(fw, 2)[0:1].detach_(), ["view"]),
}
