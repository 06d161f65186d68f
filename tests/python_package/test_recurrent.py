"""RNN, LSTM, GRU, cells and packed sequences agree with PyTorch: values, gradients, optimizer steps, errors."""

import itertools
import pickle

import oneflow
import pytest
import torch
from oneflow._functions import recurrent
from torch_oracle import close

LENGTHS = [4, 1, 3]


def ours(x):
    return None if x is None else oneflow.tensor(x.detach().numpy())


def pair(kind, *args, **kwargs):
    torch.manual_seed(0)
    theirs, mine = getattr(torch.nn, kind)(*args, **kwargs), getattr(oneflow.nn, kind)(*args, **kwargs)
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    mine.load_state_dict({name: ours(t) for name, t in theirs.state_dict().items()})
    return mine, theirs


def run(fw, layer, x, states, form, batch_first, lengths):
    """Output as a dense tensor, and the final states."""
    kind = fw.nn.utils.rnn
    hx = None if states is None else (tuple(states) if len(states) == 2 else states[0])
    if form == "packed":
        x = kind.pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=False)
    y, final = layer(x, hx)
    if form == "packed":
        y, back = kind.pad_packed_sequence(y, batch_first=batch_first, padding_value=0.5, total_length=6)
        assert back.tolist() == LENGTHS
    return y, list(final) if isinstance(final, tuple) else [final]


OPTIONS = list(itertools.product((1, 2), (False, True), (False, True), (True, False)))


# PyTorch warns that projections are slow.
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("form", ["batch", "no batch", "packed"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "RNN relu", "LSTM projected"])
def test_layers(kind, form):
    name, *variant = kind.split()
    extra = {"relu": {"nonlinearity": "relu"}, "projected": {"proj_size": 2}}.get(variant[0] if variant else "", {})
    for i, (layers, bidirectional, batch_first, bias) in enumerate(OPTIONS):
        options = {"num_layers": layers, "bidirectional": bidirectional, "batch_first": batch_first, "bias": bias}
        mine, theirs = pair(name, 3, 5, **options, **extra)
        sizes = {"batch": (3, 4, 3) if batch_first else (4, 3, 3), "no batch": (4, 3)}
        x = torch.randn(sizes.get(form, sizes["batch"]), requires_grad=True)
        states = None
        if i % 2:
            rows = () if form == "no batch" else (3,)
            widths = [extra.get("proj_size", 5), 5][: 2 if name == "LSTM" else 1]
            states = [torch.randn(layers * (1 + bidirectional), *rows, w, requires_grad=True) for w in widths]
        x_mine = ours(x).requires_grad_()
        states_mine = None if states is None else [ours(s).requires_grad_() for s in states]
        expected = run(torch, theirs, x, states, form, batch_first, torch.tensor(LENGTHS))
        got = run(oneflow, mine, x_mine, states_mine, form, batch_first, oneflow.tensor(LENGTHS))
        close(got, expected, what=options)
        for y, final in (expected, got):
            (sum((s * s).sum() for s in final) + (y * y * y).sum()).backward()
        close(x_mine.grad, x.grad, what=options)
        close([p.grad for p in mine.parameters()], [p.grad for p in theirs.parameters()], what=options)
        if states is not None:
            close([s.grad for s in states_mine], [s.grad for s in states], what=options)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_three_steps(kind):
    mine, theirs = pair(kind, 4, 6, 2)
    x = torch.randn(5, 3, 4)
    for model, fw, data in ((theirs, torch, x), (mine, oneflow, ours(x))):
        optimizer = fw.optim.Adam(model.parameters(), 1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            model(data)[0].pow(2).sum().backward()
            optimizer.step()
    close(list(mine.parameters()), list(theirs.parameters()))


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind, bias):
    mine, theirs = pair(kind, 3, 5, bias)
    for sizes in [(2, 3), (3,)]:
        x = torch.randn(sizes)
        state, state_mine = theirs(x), mine(ours(x))
        close(state_mine, state)
        close(mine(ours(x), state_mine), theirs(x, state))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_dtypes(dtype):
    mine, theirs = pair("LSTM", 3, 5, 2)
    x = torch.randn(4, 2, 3)
    y = mine.to(getattr(oneflow, dtype))(ours(x).to(getattr(oneflow, dtype)))[0]
    assert str(y.dtype).endswith(dtype)
    expected = theirs.double()(x.double())[0]
    torch.testing.assert_close(torch.tensor(y.double().tolist(), dtype=torch.float64), expected, rtol=2e-2, atol=2e-2)


def test_dropout_between_layers():
    oneflow.manual_seed(0)
    layer = oneflow.nn.LSTM(3, 50, 2, dropout=0.5)
    x = oneflow.ones(2, 4, 3)
    assert not layer(x)[0].equal(layer(x)[0])
    layer.eval()
    assert layer(x)[0].equal(layer(x)[0])


def test_functions():
    theirs = torch.nn.GRU(3, 5)
    x, h, weights = torch.randn(4, 2, 3), torch.zeros(1, 2, 5), list(theirs.parameters())
    rest = (True, 1, 0.0, False, False, False)
    close(oneflow.gru(ours(x), ours(h), [ours(w) for w in weights], *rest), torch.gru(x, h, weights, *rest))
    theirs = torch.nn.LSTM(3, 5)
    weights = list(theirs.parameters())
    close(
        oneflow.lstm(ours(x), (ours(h), ours(h)), [ours(w) for w in weights], *rest),
        torch.lstm(x, (h, h), weights, *rest),
    )


def test_sequences():
    each = [torch.randn(n, 2) for n in (3, 1, 2)]
    mine = [ours(s) for s in each]
    for options in itertools.product((True, False), (0.0, -1.5), ("left", "right")):
        close(oneflow.nn.utils.rnn.pad_sequence(mine, *options), torch.nn.utils.rnn.pad_sequence(each, *options))
    packed = oneflow.nn.utils.rnn.pack_sequence(mine, enforce_sorted=False)
    expected = torch.nn.utils.rnn.pack_sequence(each, enforce_sorted=False)
    for a, b in zip(packed, expected, strict=True):
        close(a, b)
    close(oneflow.nn.utils.rnn.unpack_sequence(packed), each)
    again = pickle.loads(pickle.dumps(packed))
    close(list(again), list(expected))
    assert packed.double().data.dtype == oneflow.float64


ERRORS = {
    "dropout": lambda fw: fw.nn.LSTM(3, 5, dropout=2),
    "hidden size": lambda fw: fw.nn.GRU(3, 0),
    "input size": lambda fw: fw.nn.GRU(-1, 2),
    "bias": lambda fw: fw.nn.RNN(3, 5, 1, "tanh", 1),
    "nonlinearity": lambda fw: fw.nn.RNN(3, 5, nonlinearity="sin"),
    "projected GRU": lambda fw: fw.nn.GRU(3, 5, proj_size=2),
    "wide projection": lambda fw: fw.nn.LSTM(3, 5, proj_size=5),
    "rank": lambda fw: fw.nn.LSTM(3, 5)(fw.zeros(3)),
    "width": lambda fw: fw.nn.LSTM(3, 5)(fw.zeros(2, 2, 4)),
    "state": lambda fw: fw.nn.GRU(3, 5)(fw.zeros(2, 2, 3), fw.zeros(1, 3, 5)),
    "state's rank": lambda fw: fw.nn.GRU(3, 5)(fw.zeros(2, 2, 3), fw.zeros(2, 5)),
    "states' rank": lambda fw: fw.nn.LSTM(3, 5)(fw.zeros(2, 3), (fw.zeros(1, 1, 5), fw.zeros(1, 1, 5))),
    "dtype": lambda fw: fw.nn.GRU(3, 5)(fw.zeros(2, 2, 3, dtype=fw.float64)),
    "no steps": lambda fw: fw.nn.GRU(3, 5)(fw.zeros(0, 2, 3)),
    "cell's rank": lambda fw: fw.nn.GRUCell(3, 5)(fw.zeros(1, 2, 3)),
    "cell's width": lambda fw: fw.nn.LSTMCell(3, 5)(fw.zeros(2, 4)),
    "unsorted": lambda fw: fw.nn.utils.rnn.pack_padded_sequence(fw.zeros(3, 2, 1), [1, 2]),
    "no length": lambda fw: fw.nn.utils.rnn.pack_padded_sequence(fw.zeros(3, 2, 1), [1, 0]),
    "lengths": lambda fw: fw.nn.utils.rnn.pack_padded_sequence(fw.zeros(3, 2, 1), [1]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    with pytest.raises(Exception) as expected:
        ERRORS[case](torch)
    with pytest.raises(type(expected.value)) as got:
        ERRORS[case](oneflow)
    # The texts agree in their beginning; details may be worded differently.
    assert str(got.value)[:12].lower() == str(expected.value)[:12].lower()


STACKS = [
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2}, None),
    ("LSTM", {"num_layers": 2, "bias": False}, [3, 2, 2]),
    ("GRU", {"bidirectional": True}, None),
    ("GRU", {"num_layers": 2}, [3, 1]),
    ("RNN", {"num_layers": 2, "bidirectional": True}, None),
]


@pytest.mark.parametrize(("kind", "options", "batch_sizes"), STACKS)
def test_layers_in_one_op_are_those_one_by_one(kind, options, batch_sizes):
    """The op that a GPU's library serves, by its composition: results, gradients and gradients of gradients."""
    oneflow.manual_seed(0)
    net = getattr(oneflow.nn, kind)(2, 3, **options).double()
    n = net.num_layers * (1 + net.bidirectional)
    rows = sum(batch_sizes) if batch_sizes else None
    x = oneflow.randn(*((rows, 2) if rows else (4, 3, 2)), dtype=oneflow.float64, requires_grad=True)
    h = oneflow.randn(n, 3, net.proj_size or 3, dtype=oneflow.float64, requires_grad=True)
    c = oneflow.randn(n, 3, 3, dtype=oneflow.float64, requires_grad=True)
    states = (h, c) if kind == "LSTM" else (h,)
    params, mode = list(net.parameters()), {"RNN": "RNN_TANH"}.get(kind, kind)

    def by_layer():
        hx = states if kind == "LSTM" else h
        y, finals = recurrent.recurrent(
            mode, x, batch_sizes or [], hx, params, net.bias, net.num_layers, 0.0, False, net.bidirectional, False
        )
        return [y, *finals]

    def stacked():
        flat = recurrent._flat(params, len(params) // n, net.bias)
        flags = (net.bias, net.bidirectional, False, False, 0)
        cell = c if kind == "LSTM" else None
        y, *finals, _ = oneflow._oneflow._C.rnn_stack(
            x, h, cell, flat, batch_sizes or [], mode, 3, net.num_layers, *flags
        )
        return [y, *finals[: len(states)]]

    def all_of(run):
        results = run()
        wanted = [x, *states, *params]
        loss = sum((r * oneflow.arange(r.numel()).reshape(r.shape)).sin().sum() for r in results)
        grads = oneflow.autograd.grad(loss, wanted, create_graph=True)
        second = oneflow.autograd.grad(sum(g.pow(2).sum() for g in grads), wanted)
        return [*results, *grads, *second]

    for ours, expected in zip(all_of(stacked), all_of(by_layer), strict=True):
        assert ours.shape == expected.shape and oneflow.allclose(ours, expected, rtol=1e-9, atol=1e-10)


def test_an_op_of_all_layers_says_what_does_not_fit():
    x, h = oneflow.randn(4, 3, 2), oneflow.randn(1, 3, 3)
    op = oneflow._oneflow._C.rnn_stack
    for weights, states, words in (
        (oneflow.zeros(5), h, r"rnn_stack\(GRU\): expected weights of \[63\], got \[5\]"),
        (oneflow.zeros(63), oneflow.zeros(2, 3, 3), r"h_0 \[2, 3, 3\] does not fit 1 layers"),
        (oneflow.zeros(63).double(), h, "expected all tensors of one dtype, but got float32 and float64"),
    ):
        with pytest.raises(RuntimeError, match=words):
            op(x, states, None, weights, [], "GRU", 3, 1, True, False, False, False, 0)
