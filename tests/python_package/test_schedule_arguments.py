"""What schedules and optimizers keep of their arguments, and groups that are added later, beside PyTorch."""

import oneflow
import pytest
import torch
from torch_oracle import both, close


def optimizer(fw, lr, **options):
    return fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=lr, momentum=0.9, foreach=False, **options)


SCHEDULES = {
    "CyclicLR": lambda fw, o, t: fw.optim.lr_scheduler.CyclicLR(
        o, t(0.1), t(0.8), step_size_up=3, base_momentum=t(0.7), max_momentum=t(0.9)
    ),
    "OneCycleLR": lambda fw, o, t: fw.optim.lr_scheduler.OneCycleLR(
        o, t(0.4), total_steps=9, base_momentum=t(0.8), max_momentum=t(0.9)
    ),
    "SWALR": lambda fw, o, t: fw.optim.swa_utils.SWALR(o, t(0.05), anneal_epochs=4),
    "StepLR": lambda fw, o, t: fw.optim.lr_scheduler.StepLR(o, 2, 0.5),
    "LinearLR": lambda fw, o, t: fw.optim.lr_scheduler.LinearLR(o, 0.5, total_iters=4),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_tensors_that_are_written_later(name):
    """A schedule goes on by the numbers that it was given, whatever becomes of the tensors they were in."""

    def run(fw):
        given = []

        def number(value):
            given.append(fw.tensor(value, dtype=fw.float64))
            return given[-1]

        o = optimizer(fw, fw.tensor(0.2, dtype=fw.float64))
        schedule = SCHEDULES[name](fw, o, number)
        seen = []
        for _ in range(6):
            for tensor in given:
                tensor.mul_(0.5)
            o.step()
            schedule.step()
            group = o.param_groups[0]
            seen.append([float(group["lr"]), float(group["momentum"]), float(group["initial_lr"])])
            seen.append([float(base) for base in schedule.base_lrs])
        return seen

    close(run(oneflow), run(torch), 1e-6)


@pytest.mark.parametrize("bound", [0.05, [0.05]])
def test_a_group_added_under_a_plateau(bound):
    def run(fw):
        o = optimizer(fw, 0.5)
        schedule = fw.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.3, min_lr=bound)
        seen = []
        for step in range(9):
            if step == 4:
                o.add_param_group({"params": [fw.nn.Parameter(fw.ones(1))], "lr": 0.2})
                if isinstance(bound, list):
                    schedule.min_lrs.append(0.01)
            o.step()
            schedule.step(1.0)
            seen.append([round(group["lr"], 9) for group in o.param_groups])
        return seen

    both(run)


def test_a_group_without_a_bound_of_its_own():
    o = optimizer(oneflow, 0.5)
    schedule = oneflow.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, min_lr=[0.05])
    o.add_param_group({"params": [oneflow.nn.Parameter(oneflow.ones(1))], "lr": 0.2})
    schedule.step(1.0)
    with pytest.raises(RuntimeError, match="The number of param groups in the `optimizer`"):
        schedule.step(1.0)


def test_names_are_there_for_all_parameters_or_for_none():
    def one(fw):
        return fw.nn.Parameter(fw.ones(1))

    for fw in (oneflow, torch):
        with pytest.raises(ValueError, match="Some param names are missing"):
            fw.optim.SGD([("a", one(fw)), one(fw)], lr=0.1)
        named, bare = fw.optim.SGD([("a", one(fw))], lr=0.1), fw.optim.SGD([one(fw)], lr=0.1)
        with pytest.raises(ValueError, match="cannot add param group without names"):
            named.add_param_group({"params": [one(fw)]})
        with pytest.raises(ValueError, match="cannot add param group with names"):
            bare.add_param_group({"params": [("b", one(fw))]})
        x = (one(fw) * 2).requires_grad_()
        x.retain_grad()
        assert fw.optim.SGD([x], lr=0.1).param_groups[0]["params"][0] is x
        with pytest.raises(ValueError, match="non-leaf"):
            fw.optim.SGD([one(fw) * 2], lr=0.1)


STATES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda step: 0.9),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda s, o: s.StepLR(o, 2),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 3]),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 10),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.StepLR(o, 2), s.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], milestones=[2]),
    "nested": lambda s, o: s.SequentialLR(
        o, [s.ChainedScheduler([s.ConstantLR(o), s.StepLR(o, 3)]), s.ExponentialLR(o, 0.9)], milestones=[2]
    ),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, mode="max", patience=0),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, 0.2),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=10, three_phase=True),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
}


# A schedule of schedules inside another steps before the optimizer, and both packages say so.
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("name", STATES)
def test_state_beside_pytorch(name):
    """The state of a schedule has PyTorch's keys, in its order, and its values, at each step."""

    def run(fw):
        o = optimizer(fw, 0.5)
        schedule = STATES[name](fw.optim.lr_scheduler, o)
        seen = []
        for step in range(6):
            state = schedule.state_dict()
            seen.append([list(state), {k: v for k, v in state.items() if k not in ("anneal_func", "_scale_fn_ref")}])
            o.step()
            schedule.step(*([float(step)] if name == "ReduceLROnPlateau" else []))
        return seen

    ours, theirs = run(oneflow), run(torch)
    assert [keys for keys, _ in ours] == [keys for keys, _ in theirs]
    close([values for _, values in ours], [values for _, values in theirs], 1e-9)


def test_state_of_oneflows_arguments():
    """A schedule with OneFlow's own arguments keeps them in its state and goes on from there."""
    s = oneflow.optim.lr_scheduler
    made = {
        "warm": lambda o: s.CosineAnnealingWarmRestarts(o, 2, decay_rate=0.5, restart_limit=3),
        "polynomial": lambda o: s.PolynomialLR(o, decay_batch=4, end_learning_rate=0.1, cycle=True),
    }
    for make in made.values():
        o, other = optimizer(oneflow, 0.5), optimizer(oneflow, 0.5)
        first, second = make(o), make(other)
        for _ in range(3):
            o.step()
            first.step()
        other.step()
        second.load_state_dict(first.state_dict())
        for _ in range(4):
            o.step()
            first.step()
            second.step()
            assert first.get_last_lr() == second.get_last_lr()
