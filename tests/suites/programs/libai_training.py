"""LiBai imports whole, and its GPT trains, eager and as a graph: `make suites SOURCE=DIR ARGS=training`."""

import importlib
import pkgutil

import libai
import oneflow
import pytest

MODULES = sorted(m.name for m in pkgutil.walk_packages(libai.__path__, "libai."))


@pytest.mark.parametrize("name", MODULES)
def test_module_imports(name):
    importlib.import_module(name)


def _gpt():
    from libai.models import GPTForPreTraining
    from omegaconf import DictConfig

    oneflow.manual_seed(0)
    sizes = {"hidden_layers": 2, "vocab_size": 64, "hidden_size": 32, "ffn_hidden_size": 64, "max_seq_length": 16}
    rates = dict.fromkeys(("embedding_dropout_prob", "attention_dropout_prob", "output_dropout_prob"), 0.0)
    fused = ("bias_gelu_fusion", "bias_dropout_fusion", "scale_mask_softmax_fusion", "apply_query_key_layer_scaling")
    plain = {"layernorm_epsilon": 1e-5, "initializer_range": 0.02, "use_scaled_init_for_output_weights": True}
    off = dict.fromkeys(("apply_residual_post_layernorm", "amp_enabled"), False)
    return GPTForPreTraining(
        DictConfig({**sizes, **rates, **dict.fromkeys(fused, True), **plain, **off, "num_attention_heads": 4})
    )


def _batch():
    from libai.utils import distributed as dist

    ids = oneflow.arange(32).reshape(2, 16) % 64
    place = {"placement": dist.get_layer_placement(0), "sbp": dist.get_nd_sbp([oneflow.sbp.broadcast] * 2)}
    return ids.to_global(**place), ((ids + 1) % 64).to_global(**place)


@pytest.fixture(autouse=True)
def places():
    from libai.utils import distributed as dist
    from omegaconf import DictConfig

    sizes = {"data_parallel_size": 1, "tensor_parallel_size": 1, "pipeline_parallel_size": 1}
    dist.setup_dist_util(DictConfig({**sizes, "pipeline_num_layers": 2, "device_type": "cpu"}))


def test_gpt_trains_eager():
    model, (ids, labels) = _gpt(), _batch()
    optimizer = oneflow.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = sum(model(ids, labels).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.numpy().item())
    assert losses[-1] < losses[0]


def test_gpt_trains_as_a_graph():
    model, (ids, labels) = _gpt(), _batch()
    optimizer = oneflow.optim.AdamW(model.parameters(), lr=1e-2)

    class Step(oneflow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, ids, labels):
            loss = sum(self.model(ids, labels).values())
            loss.backward()
            return loss

    step = Step()
    losses = [step(ids, labels).numpy().item() for _ in range(5)]
    assert losses[-1] < losses[0]
