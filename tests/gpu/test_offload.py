"""States of optimizers in memory of the host, which updates on a GPU read and write in place, and parameters there."""

import oneflow
import pytest
from oneflow import nn

pytestmark = pytest.mark.gpu

WIDTH, LAYERS = 192, 4
STATES = {"adamw": 2, "momentum": 1}


class Step(nn.Graph):
    def __init__(self, device, optimizer, **offload):
        super().__init__()
        oneflow.manual_seed(0)
        self.model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)])
        self.model.to(device)
        if optimizer == "adamw":
            self.optimizer = oneflow.optim.AdamW(self.model.parameters(), lr=1e-2)
        else:
            self.optimizer = oneflow.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        self.add_optimizer(self.optimizer)
        if offload:
            self.config.enable_offload(**offload)

    def build(self, x):
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


def batches(device, n=6):
    generator = oneflow.Generator().manual_seed(1)
    return [oneflow.randn(4, WIDTH, generator=generator).to(device) for _ in range(n)]


def trained(step, inputs):
    losses = [step(x).item() for x in inputs]
    return losses + [p.detach().cpu().numpy().tobytes() for p in step.model.parameters()]


@pytest.mark.parametrize("optimizer", STATES)
def test_every_bit_is_that_of_memory_of_the_device(gpu, optimizer):
    step, plain = Step(gpu, optimizer, to="host"), Step(gpu, optimizer)
    inputs = batches(gpu)
    assert trained(step, inputs) == trained(plain, inputs)
    states = STATES[optimizer] * LAYERS * WIDTH * WIDTH * 4
    assert step.memory()["offloaded"] == states and plain.memory()["offloaded"] == 0
    # They are tensors of the device still, and so is what is computed of them.
    for state, other in zip(step.optimizer.state.values(), plain.optimizer.state.values(), strict=True):
        for key, value in state.items():
            assert value.device == other[key].device and oneflow.equal(value, other[key]), key
            assert (value * 2).cpu().tolist() == (other[key].cpu() * 2).tolist()


def test_the_device_has_their_memory(gpu):
    def held(**offload):
        oneflow.cuda.synchronize()
        before = oneflow.cuda.memory_allocated()
        step = Step(gpu, "adamw", **offload)
        for x in batches(gpu, 3):
            step(x)
        oneflow.cuda.synchronize()
        return oneflow.cuda.memory_allocated() - before, step

    on_host, _step = held(to="host")
    there, _other = held()
    assert there - on_host >= 2 * LAYERS * WIDTH * WIDTH * 4


@pytest.mark.parametrize("optimizer", STATES)
def test_parameters_come_for_each_call(gpu, optimizer):
    step, plain = Step(gpu, optimizer, to="host", parameters=True), Step(gpu, optimizer)
    inputs = batches(gpu)
    assert trained(step, inputs) == trained(plain, inputs)
    assert step.memory()["offloaded"] == (STATES[optimizer] + 1) * LAYERS * WIDTH * WIDTH * 4
    # Eager code reads them there.
    with oneflow.no_grad():
        assert oneflow.equal(step.model(inputs[0]), plain.model(inputs[0]))


def test_one_layer_of_parameters_is_on_the_device(gpu):
    def held(**offload):
        """Bytes that outlive steps, and the arena of one."""
        oneflow.cuda.synchronize()
        before = oneflow.cuda.memory_allocated()
        step = Step(gpu, "momentum", **offload)
        for x in batches(gpu, 3):
            step(x)
        oneflow.cuda.synchronize()
        return oneflow.cuda.memory_allocated() - before, step.memory()["peak"], step

    there, peak, _plain = held()
    on_host, with_copies, _step = held(to="host", parameters=True)
    layer = WIDTH * WIDTH * 4
    # States and parameters are gone, copies are in the arena, which is held too; kernels have counters for each stream.
    assert with_copies - peak <= 2 * layer
    assert there - on_host >= 2 * LAYERS * layer - (with_copies - peak) - (64 << 10)


def test_float64_losses_are_the_same_over_twenty_steps(gpu):
    def losses(**offload):
        oneflow.set_default_dtype(oneflow.float64)
        try:
            step = Step(gpu, "adamw", **offload)
            return [step(x).item() for x in batches(gpu, 20)]
        finally:
            oneflow.set_default_dtype(oneflow.float32)

    assert losses(to="host", parameters=True) == losses(to="host") == losses()


def test_states_that_are_loaded_go_there_too(gpu):
    plain, step = Step(gpu, "adamw"), Step(gpu, "adamw", to="host")
    inputs = batches(gpu)
    trained(plain, inputs[:2])
    trained(step, inputs[:1])
    step.model.load_state_dict(plain.model.state_dict())
    step.optimizer.load_state_dict(plain.optimizer.state_dict())
    for x in inputs[2:]:
        assert oneflow.equal(step(x), plain(x))
    assert step.memory()["offloaded"] == 2 * LAYERS * WIDTH * WIDTH * 4


def test_copies_come_while_the_layer_before_is_computed(gpu):
    """Each is an actor beside compute: its layer's work waits for it, that of the layer before does not."""
    step = Step(gpu, "momentum", to="host", parameters=True)
    x = oneflow.randn(64, WIDTH).to(gpu)
    step(x)
    with oneflow.profiler.profile() as profile:
        step(x)
        oneflow.cuda.synchronize()
    actors = [e.name.removeprefix("actor: ") for e in profile.events() if e.name.startswith("actor: ")]
    fetches = [name for name in actors if name.startswith("fetch")]
    computed = [name for name in actors if name.startswith("compute")]
    # In the forward those of all layers but the first, and in the backward of most.
    assert len(fetches) >= 2 * LAYERS - 3 and len(computed) > len(fetches), actors


@pytest.mark.parametrize("rows", [4, 64])
def test_copies_beside_compute_change_no_bit(gpu, rows):
    def trained_on(in_line):
        oneflow.boxing.nccl.enable_use_compute_stream(in_line)
        try:
            step = Step(gpu, "adamw", to="host", parameters=True)
            generator = oneflow.Generator().manual_seed(2)
            return trained(step, [oneflow.randn(rows, WIDTH, generator=generator).to(gpu) for _ in range(4)])
        finally:
            oneflow.boxing.nccl.enable_use_compute_stream(False)

    assert trained_on(False) == trained_on(True)


def test_a_disk_is_for_tensors_of_the_host(gpu):
    step = Step(gpu, "adamw", to="disk")
    with pytest.raises(NotImplementedError, match=r'"disk"\) moves tensors of the host, and a state is on cuda:0; to='):
        step(batches(gpu, 1)[0])
