"""The profiler: counts, nesting, sums, memory, threads, failures, files; and no state left afterwards."""

import gzip
import json
import threading

import numpy as np
import oneflow as torch
import pytest
from oneflow import nn
from oneflow.profiler import (
    ProfilerAction,
    ProfilerActivity,
    is_profiler_enabled,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def counts(prof):
    return {average.key: average.count for average in prof.key_averages()}


@pytest.fixture(scope="module")
def recorded():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(4, 6)
    options = dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), True)
    with profile(activities=[ProfilerActivity.CPU], **options) as prof:
        for _ in range(3):
            with record_function("forward"):
                loss = net(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return prof


def test_everything_is_counted(recorded):
    seen = counts(recorded)
    assert seen["linear"] == 6 and seen["relu"] == 3 and seen["forward"] == 3
    assert seen["LinearBackward0"] == 6 and seen["ReluBackward0"] == 3 and seen["AccumulateGrad"] == 12
    assert seen["Optimizer.step#SGD.step"] == seen["Optimizer.zero_grad#SGD.zero_grad"] == 3
    assert seen["nn.Module: Linear_0"] == seen["nn.Module: Linear_1"] == seen["nn.Module: Sequential_0"] == 3


def test_events_are_nested_inside_their_parents(recorded):
    for event in recorded.events():
        assert event.self_cpu_time_total >= -1e-6
        for child in event.cpu_children:
            assert child.cpu_parent is event
            assert event.time_range.start <= child.time_range.start <= child.time_range.end <= event.time_range.end
    linear = next(event for event in recorded.events() if event.name == "linear")
    names = [event.name for event in linear.ancestors()]
    assert names == ["nn.Module: Linear_0", "nn.Module: Sequential_0", "forward"]


def test_self_times_sum_to_the_total(recorded):
    events = recorded.events()
    outermost = sum(event.cpu_time_total for event in events if event.cpu_parent is None)
    assert events.self_cpu_time_total == pytest.approx(outermost)
    averages = recorded.key_averages()
    assert averages.self_cpu_time_total == pytest.approx(outermost)
    assert averages.total_average().self_cpu_time_total == pytest.approx(outermost)


def test_shapes_flops_and_stacks(recorded):
    groups = recorded.key_averages(group_by_input_shape=True, group_by_stack_n=1)
    linears = {str(group.input_shapes): group for group in groups if group.key == "linear"}
    assert set(linears) == {"[[4, 6], [8, 6], [8]]", "[[4, 8], [3, 8], [3]]"}
    assert linears["[[4, 6], [8, 6], [8]]"].flops == 3 * 2 * 4 * 6 * 8
    assert all("test_profiler.py(" in group.stack[0] for group in linears.values())
    linear = next(event for event in recorded.events() if event.name == "linear")
    assert linear.input_dtypes == ["float32"] * 3


def test_backward_is_linked_to_forward(recorded):
    forward = [e.sequence_nr for e in recorded.events() if e.name == "linear"]
    backward = [e.sequence_nr for e in recorded.events() if e.name == "LinearBackward0"]
    assert sorted(forward) == sorted(backward) and len(set(forward)) == 6


def test_only_the_requested_gradients_are_computed():
    x, w = (torch.randn(8, 8, requires_grad=True) for _ in range(2))

    def products(inputs):
        y = torch.nn.functional.linear(x, w).sum()
        with profile() as recorded:
            torch.autograd.grad(y, inputs)
        return {e.key: e.count for e in recorded.key_averages()}["matmul"]

    assert products([x]) == products([w]) == 1
    assert products([x, w]) == 2


def test_memory_balances():
    with profile(profile_memory=True) as prof:
        x = torch.ones(1024, 1024)
        y = x + 1
        del x, y
    ones, add = (next(e for e in prof.events() if e.name == name) for name in ("ones", "add"))
    assert ones.cpu_memory_usage >= 4 << 20 and add.cpu_memory_usage >= 4 << 20
    assert sum(event.n_bytes for event in prof._memory) == 0
    with profile(profile_memory=True) as prof:
        with record_function("kept"):
            kept = torch.ones(256, 1024)
        with record_function("freed"):
            del kept
    kept, freed = (next(e for e in prof.events() if e.name == name) for name in ("kept", "freed"))
    assert kept.cpu_memory_usage == -freed.self_cpu_memory_usage >= 1 << 20


def test_compositions_show_their_parts():
    with profile() as prof:
        torch.nn.functional.smooth_l1_loss(torch.ones(3), torch.zeros(3))
        torch.std(torch.randn(5, 5), dim=1)
    assert any(event.cpu_parent is not None and event.kind == "op" for event in prof.events())


def test_threads_have_their_own_events():
    def work():
        with record_function("in a thread"):
            torch.ones(3).exp()

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        torch.ones(3).log()
        for thread in threads:
            thread.join()
    exps = [event for event in prof.events() if event.name == "exp"]
    assert len({event.thread for event in exps}) == 4
    assert all(event.cpu_parent.name == "in a thread" and event.cpu_parent.thread == event.thread for event in exps)
    assert next(e for e in prof.events() if e.name == "log").thread not in {e.thread for e in exps}


def test_an_exception_ends_the_regions_it_leaves():
    with profile(with_modules=True) as prof:
        with pytest.raises(RuntimeError), record_function("failing"):
            model()(torch.ones(2, 7))
        with pytest.raises(RuntimeError):
            torch.ones(2).add(torch.ones(3))
        torch.ones(2).exp()
    assert next(e for e in prof.events() if e.name == "exp").cpu_parent is None
    failing = next(e for e in prof.events() if e.name == "failing")
    assert [child.name for child in failing.cpu_children][-1].startswith("nn.Module: Sequential")
    with pytest.raises(ZeroDivisionError), profile():
        raise ZeroDivisionError
    assert not is_profiler_enabled()


def test_record_function_decorates_and_may_outlive_a_recording():
    @record_function("named")
    def function(x):
        """A docstring."""
        return x + 1

    assert function.__doc__ == "A docstring." and function(1) == 2
    region = record_function("late")
    with profile() as prof:
        region.__enter__()
        function(torch.ones(1))
    region.__exit__(None, None, None)
    assert {"named", "late"} <= set(counts(prof))
    with profile() as second, record_function("outer"):
        pass
    assert counts(second) == {"outer": 1}


def test_recordings_may_be_open_together():
    with profile() as outer:
        torch.ones(1)
        with profile() as inner:
            torch.ones(1).exp()
        torch.ones(1).log()
    assert counts(outer) == {"ones": 3, "exp": 1, "log": 1}
    assert counts(inner) == {"ones": 1, "exp": 1}


def test_schedule():
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    N, W, R, S = ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
    assert [plan(i) for i in range(11)] == [N, N, W, R, S, N, W, R, S, N, N]
    with pytest.raises(ValueError, match="active"):
        schedule(wait=0, warmup=0, active=0)
    ready = []
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append((p.step_num, counts(p)))) as prof:
        for step in range(11):
            torch.full((1,), step)
            prof.step()
    steps = [{key: n for key, n in seen.items() if key.startswith("ProfilerStep")} for _, seen in ready]
    assert steps == [{"ProfilerStep#3": 1, "ProfilerStep#4": 1}, {"ProfilerStep#7": 1, "ProfilerStep#8": 1}]
    assert [seen["full"] for _, seen in ready] == [2, 2]


def test_a_schedule_that_ends_early_is_ready_at_the_end():
    ready = []
    with profile(schedule=schedule(wait=1, warmup=0, active=3), on_trace_ready=ready.append) as prof:
        for _ in range(2):
            torch.ones(1)
            prof.step()
    assert ready == [prof] and counts(prof)["ones"] == 1


def test_table(recorded):
    text = recorded.key_averages().table(sort_by="self_cpu_time_total", row_limit=5, header="the header")
    lines = text.splitlines()
    heads = [head.strip() for head in lines[3].split("  ") if head.strip()]
    assert heads[:6] == ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    assert heads[6:9] == ["CPU Mem", "Self CPU Mem", "# of Calls"] and heads[9].startswith("Total ")
    assert "the header" in lines[1] and lines[-1].startswith("Self CPU time total: ")
    assert (
        len([line for line in lines if line.startswith("---")]) == 3 and len({len(line) for line in lines[2:10]}) == 1
    )
    assert len(lines) == 3 + 2 + 5 + 2
    shares = [average.self_cpu_time_total for average in recorded.key_averages()]
    assert max(shares) > 0
    assert "Input Shapes" in recorded.key_averages(group_by_input_shape=True).table()
    with pytest.raises(ValueError, match="sort_by must be one of"):
        recorded.key_averages().table(sort_by="nonsense")


def test_chrome_trace(recorded, tmp_path):
    path = tmp_path / "trace.json"
    recorded.add_metadata_json("numbers", "[1, 2]")
    recorded.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    assert trace["numbers"] == [1, 2] and trace["displayTimeUnit"] == "ms"
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(complete) == len(recorded.events())
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= set(event) for event in complete)
    starts = {event["id"] for event in trace["traceEvents"] if event["ph"] == "s"}
    ends = {event["id"] for event in trace["traceEvents"] if event["ph"] == "f"}
    assert starts == ends and starts
    assert sum(event["args"]["Bytes"] for event in trace["traceEvents"] if event["ph"] == "i") < 1 << 30
    recorded.export_chrome_trace(str(path) + ".gz")
    assert json.loads(gzip.open(str(path) + ".gz").read())["traceEvents"]


def test_tensorboard_handler(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "logs"), "worker", use_gzip=True)):
        torch.ones(1)
    (file,) = (tmp_path / "logs").iterdir()
    assert file.name.startswith("worker.") and file.name.endswith(".pt.trace.json.gz")


def test_stacks(recorded, tmp_path):
    recorded.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines and all(line.rsplit(" ", 1)[1].isdigit() and "test_profiler.py" in line for line in lines)
    with pytest.raises(ValueError, match="metric"):
        recorded.export_stacks(str(tmp_path / "stacks"), "wall")


def test_memory_timeline(recorded, tmp_path):
    recorded.export_memory_timeline(str(tmp_path / "m.json"))
    data = json.loads((tmp_path / "m.json").read_text())
    rows = np.array(data["bytes"])
    assert (
        len(data["times_us"]) == len(rows) > 10 and (rows >= 0).all() and data["times_us"] == sorted(data["times_us"])
    )
    assert rows[:, data["categories"].index("backward")].max() > 0
    recorded.export_memory_timeline(str(tmp_path / "m.raw.json.gz"))
    assert json.loads(gzip.open(tmp_path / "m.raw.json.gz").read())[0][1] in ("create", "destroy")
    recorded.export_memory_timeline(str(tmp_path / "m.html"))
    assert "__DATA__" not in (tmp_path / "m.html").read_text()
    with pytest.raises(ValueError, match="ends in none of"):
        recorded.export_memory_timeline(str(tmp_path / "m.png"))
    with profile() as prof:
        pass
    with pytest.raises(ValueError, match="profile_memory"):
        prof.export_memory_timeline(str(tmp_path / "m.html"))


def test_graphs_and_loaders_are_seen():
    class Step(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = model()

        def build(self, x):
            return self.net(x).exp()

    step = Step()
    step(torch.ones(4, 6))
    with profile() as prof:
        for (batch,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 6)), batch_size=4):
            step(batch)
    seen = counts(prof)
    assert seen["enumerate(DataLoader)#DataLoader.__next__"] == 3
    instructions = [event for event in prof.events() if event.kind == "instruction"]
    assert len(instructions) >= 4 and all(event.cpu_parent.kind == "actor" for event in instructions)
    assert any("linear" in event.name for event in instructions)


def test_checkpointed_and_custom_functions():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with profile() as prof:
        Double.apply(torch.ones(3, requires_grad=True)).sum().backward()
    assert counts(prof)["DoubleBackward"] == 1


def test_the_older_names():
    with torch.autograd.profiler.profile(record_shapes=True) as prof, torch.autograd.profiler.record_function("r"):
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert [event.name for event in prof.function_events] == ["r", "ones", "ones", "matmul"]
    assert "matmul" in prof.table() and prof.self_cpu_time_total > 0 and prof.total_average().count == 4
    with torch.autograd.profiler.profile(enabled=False) as prof:
        torch.ones(2)
    assert len(prof.events()) == 0
    with pytest.raises(RuntimeError, match="emit_nvtx"):
        torch.autograd.profiler.emit_nvtx()


def test_wrong_arguments():
    with pytest.raises(NotImplementedError, match="experimental_config"):
        profile(experimental_config=object())
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=["cpu"])
    with pytest.raises(AssertionError, match="No valid"):
        profile(activities=[])
