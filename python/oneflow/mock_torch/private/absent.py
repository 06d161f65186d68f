"""Modules of PyTorch that oneflow has no counterpart of, though packages import them along with those they use.

Classes have no instances; functions raise NotImplementedError and name an alternative.
"""

from __future__ import annotations

from types import ModuleType

from oneflow._base.refusals import constant, refuse, refuse_class

_SYMBOLIC = "oneflow.onnx.export takes rules of its own as custom_translation_table"

_QUANTIZED = "oneflow has no quantized tensors"
_OBSERVERS = (
    "FakeQuantize FakeQuantizeBase HistogramObserver MinMaxObserver MovingAverageMinMaxObserver "
    "MovingAveragePerChannelMinMaxObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver default_observer "
    "default_weight_observer"
)
# Name of the module: its names, and what to use instead.
_ABSENT = {
    "torch.ao": ("", _QUANTIZED),
    "torch.ao.quantization": (
        "DeQuantStub QConfig QuantStub convert fuse_modules fuse_modules_qat get_default_qat_qconfig "
        f"get_default_qconfig prepare prepare_qat quantize_dynamic {_OBSERVERS}",
        _QUANTIZED,
    ),
    "torch.nn.quantized": (
        "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding "
        "EmbeddingBag FloatFunctional FXFloatFunctional LayerNorm Linear QFunctional ReLU6",
        _QUANTIZED,
    ),
    "torch.distributed.autograd": (
        "backward context get_gradients",
        "oneflow.distributed.nn has collectives with gradients",
    ),
    "torch.distributed.rpc": (
        "BackendType RRef RpcBackendOptions TensorPipeRpcBackendOptions WorkerInfo get_worker_info init_rpc remote "
        "rpc_async rpc_sync shutdown",
        "collectives and send/recv of oneflow.distributed move tensors and objects between ranks",
    ),
    "torch.quantization": (
        "DeQuantStub QConfig QuantStub convert default_qconfig fuse_modules fuse_modules_qat get_default_qat_qconfig "
        f"get_default_qconfig prepare prepare_qat quantize_dynamic {_OBSERVERS}",
        _QUANTIZED,
    ),
    "torch.quantization.qconfig": ("QConfig", _QUANTIZED),
    "torch.quantization.observer": (_OBSERVERS, _QUANTIZED),
    "torch.ao.quantization.observer": (_OBSERVERS, _QUANTIZED),
    "torch.sparse._triton_ops_meta": ("get_meta minimize update", "there is no Triton"),
    "torch.onnx.symbolic_opset11": ("select squeeze unsqueeze", _SYMBOLIC),
}


def module(name: str) -> ModuleType | None:
    """Return the module of refusals called ``name``; None if there is none of that name."""
    if name not in _ABSENT:
        return None
    names, instead = _ABSENT[name]
    made = ModuleType(name, f"Names of {name} that refuse: {instead}.")
    if name in ("torch.distributed.autograd", "torch.distributed.rpc"):
        made.is_available = constant(f"{name}.is_available", False, instead)  # type: ignore[attr-defined]
    for item in names.split():
        is_class = item.lstrip("_")[0].isupper()
        setattr(made, item, (refuse_class if is_class else refuse)(f"{name}.{item}", instead))
    if any(other.startswith(name + ".") for other in _ABSENT):
        made.__path__ = []
    return made
