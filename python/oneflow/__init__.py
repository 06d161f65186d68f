"""oneflow: tensors, automatic differentiation and static graphs, under the names PyTorch uses.

>>> import oneflow as torch
>>> x = torch.ones(2, 3, requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([[2., 2., 2.],
        [2., 2., 2.]])
"""

from __future__ import annotations

from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from oneflow import _oneflow
from oneflow._oneflow import *  # noqa: F403
from oneflow._oneflow import Size, Tensor, device, dtype

# Stated once, in the workspace's Cargo.toml.
__version__: str = _oneflow.__version__
newaxis = None
# OneFlow's name.
char = _oneflow.int8

from oneflow import _names
from oneflow._base.conventions import conventions
from oneflow._base.cuda_libraries import search_directories as _search_directories
from oneflow._base.dtypes import can_cast, promote_types, result_type
from oneflow._base.lazy import LazyNames as _LazyNames
from oneflow._base.named_dtypes import *  # noqa: F403
from oneflow._base.overridable import publish as _publish
from oneflow._functions import oneflow_signatures as _oneflow_signatures
from oneflow._functions.aliases import *  # noqa: F403
from oneflow._functions.einsum import einsum
from oneflow._functions.native import *  # noqa: F403
from oneflow._functions.queries import (
    allclose,
    equal,
    finfo,
    iinfo,
    is_complex,
    is_conj,
    is_floating_point,
    is_neg,
    is_nonzero,
    is_same_size,
    is_storage,
    is_tensor,
    nonzero,
    numel,
    resolve_conj,
    resolve_neg,
)
from oneflow._functions.recurrent import (
    gru,
    gru_cell,
    lstm,
    lstm_cell,
    rnn_relu,
    rnn_relu_cell,
    rnn_tanh,
    rnn_tanh_cell,
)
from oneflow._functions.sets import gradient, histogram, histogramdd, unique, unique_consecutive, unravel_index
from oneflow._functions.shapes import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    combinations,
    meshgrid,
    resize_as_,
    zero_,
)
from oneflow._functions.sparse import sparse_coo_tensor
from oneflow._functions.spectrogram import istft, stft
from oneflow._functions.windows import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window
from oneflow._linalg.decompositions import (
    chain_matmul,
    cholesky,
    cross,
    inverse,
    lu,
    lu_solve,
    matrix_power,
    norm,
    orgqr,
    ormqr,
    pca_lowrank,
    pinverse,
    qr,
    svd,
    svd_lowrank,
    tensordot,
    triangular_solve,
)
from oneflow._linalg.extreme_eigenvalues import lobpcg
from oneflow._settings import (
    _assert,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_tensor_all,
    _check_tensor_all_with,
    _check_type,
    _check_value,
    _check_with,
    are_deterministic_algorithms_enabled,
    compiled_with_cxx11_abi,
    get_deterministic_debug_mode,
    get_device,
    get_device_module,
    get_float32_matmul_precision,
    get_num_interop_threads,
    is_deterministic_algorithms_warn_only_enabled,
    is_distributed,
    is_inference,
    is_signed,
    is_warn_always_enabled,
    set_anomaly_enabled,
    set_default_tensor_type,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_warn_always,
    typename,
    use_deterministic_algorithms,
)
from oneflow._tensor import table as _table
from oneflow._tensor.printing import set_printoptions
from oneflow._tensor.typed_storages import *  # noqa: F403
from oneflow._tensor.typed_tensors import *  # noqa: F403
from oneflow.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from oneflow.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from oneflow.linalg import lu_unpack
from oneflow.random import default_generator, fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from oneflow.serialization import load, save
from oneflow.storage import TypedStorage, UntypedStorage

# Before the first use of a GPU, which may be any call that takes a device.
_oneflow._cuda_set_search_dirs(_search_directories())

# PyTorch's older name.
legacy_contiguous_format = _oneflow.contiguous_format

for _name in _names.METHODS:
    globals()[_name] = getattr(Tensor, _name)

_publish(globals(), _names.SPELLED_OUT, _names.ASK, _names.NEVER_ASK)

if TYPE_CHECKING:
    from oneflow import amp, autograd, cuda, distributed, env, fft, linalg, nn, optim, sbp, special, testing, utils

_lazy = _LazyNames(
    __name__, _names.MODULES, _names.HOMES, _names.FAMILIES, f": oneflow {__version__} does not provide it"
)


def __getattr__(name: str) -> Any:
    """Import sub-packages and rare names on first use; name what is missing."""
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
