"""Lazy modules: layers that learn the sizes of their parameters from the first input.

Until then their parameters are uninitialised placeholders; the first call sets shapes and values, and the module
becomes an ordinary one.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.untraced import untraced
from oneflow.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from oneflow.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from oneflow.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from oneflow.nn.modules.linear import Linear
from oneflow.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Turns a layer into a lazy one. ``cls_to_become`` is the layer it becomes with its first input."""

    cls_to_become: Any = None
    # Set once the layer's own constructor is over: what that draws would be thrown away.
    _is_made = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_made = True
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)  # type: ignore[attr-defined]
        self._initialize_hook = self.register_forward_pre_hook(  # type: ignore[attr-defined]
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in [*self._parameters.items(), *self._buffers.items()]:  # type: ignore[attr-defined]
            if value is not None and name not in self._non_persistent_buffers_set:  # type: ignore[attr-defined]
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Give placeholders the shapes of what is loaded."""
        for name, value in [*self._parameters.items(), *self._buffers.items()]:  # type: ignore[attr-defined]
            loaded = state_dict.get(prefix + name)
            if loaded is not None and value is not None and is_lazy(value) and not is_lazy(loaded):
                with oneflow.no_grad():
                    value.materialize(loaded.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes by the first input."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer has no shape yet."""
        values = [*self._parameters.values(), *self._buffers.values()]  # type: ignore[attr-defined]
        return any(value is not None and is_lazy(value) for value in values)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        with untraced():
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


def _replace(module: Any, names: Any, device: Any, dtype: Any) -> None:
    """Replace the empty parameters and buffers of the layer by placeholders."""
    for name in names:
        if module._parameters.get(name) is not None:
            setattr(module, name, UninitializedParameter(device=device, dtype=dtype))
        elif module._buffers.get(name) is not None:
            module._buffers[name] = UninitializedBuffer(device=device, dtype=dtype)


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes ``in_features`` from its first input.

    Args:
        out_features, bias, device, dtype: as :class:`Linear`.

    Example::

        >>> m = nn.LazyLinear(5)
        >>> m(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 5])
        >>> m
        Linear(in_features=3, out_features=5, bias=True)
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        # One input feature until the first input; its parameters are replaced.
        super().__init__(1, out_features, bias, device, dtype)
        self.in_features = 0
        _replace(self, ("weight", "bias"), device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters again, once they have shapes."""
        if self._is_made and not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give the parameters their shapes."""
        if self.has_uninitialized_params():
            with oneflow.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                Linear.reset_parameters(self)
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    n_spatial: int
    in_channels: int
    transposed_layer = False

    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        names = list(_CONV_TRANSPOSE if self.transposed_layer else _CONV)
        options = {**dict(zip(names, args, strict=False)), **kwargs}
        groups = options.get("groups", 1)
        # As few input channels as the groups allow; the parameters are replaced.
        super().__init__(groups, out_channels, kernel_size, **options)
        self.in_channels = 0
        _replace(self, ("weight", "bias"), options.get("device"), options.get("dtype"))

    def reset_parameters(self) -> None:
        """Draw the parameters again, once they have shapes."""
        if self._is_made and not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes."""
        if not self.has_uninitialized_params():
            if self.in_channels == 0:
                groups = 1 if self.transposed_layer else self.groups  # type: ignore[attr-defined]
                self.in_channels = self.weight.shape[0 if self.transposed_layer else 1] * groups  # type: ignore[attr-defined]
            return
        if input.dim() not in (self.n_spatial + 1, self.n_spatial + 2):
            raise RuntimeError(
                f"Expected {self.n_spatial + 1}D (unbatched) or {self.n_spatial + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {tuple(input.shape)}"
            )
        channels = input.shape[-self.n_spatial - 1]
        self.in_channels = channels
        groups, out = self.groups, self.out_channels  # type: ignore[attr-defined]
        if channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        pair = (channels, out // groups) if self.transposed_layer else (out, channels // groups)
        with oneflow.no_grad():
            self.weight.materialize((*pair, *self.kernel_size))  # type: ignore[attr-defined]
            if self.bias is not None:  # type: ignore[attr-defined]
                self.bias.materialize((out,))  # type: ignore[attr-defined]
            self.cls_to_become.reset_parameters(self)


_CONV = ("stride", "padding", "dilation", "groups", "bias", "padding_mode", "device", "dtype")
_CONV_TRANSPOSE = (
    "stride",
    "padding",
    "output_padding",
    "groups",
    "bias",
    "dilation",
    "padding_mode",
    "device",
    "dtype",
)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes ``in_channels`` from its first input.

    Example::

        >>> m = nn.LazyConv1d(8, 3)
        >>> m(oneflow.ones(1, 4, 9)).shape
        oneflow.Size([1, 8, 7])
        >>> m.in_channels
        4
    """

    cls_to_become, n_spatial = Conv1d, 1


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes ``in_channels`` from its first input.

    Example::

        >>> nn.LazyConv2d(8, 3)(oneflow.ones(1, 4, 9, 9)).shape
        oneflow.Size([1, 8, 7, 7])
    """

    cls_to_become, n_spatial = Conv2d, 2


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes ``in_channels`` from its first input.

    Example::

        >>> nn.LazyConv3d(8, 3)(oneflow.ones(1, 4, 5, 5, 5)).shape
        oneflow.Size([1, 8, 3, 3, 3])
    """

    cls_to_become, n_spatial = Conv3d, 3


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """A ConvTranspose1d that takes ``in_channels`` from its first input.

    Example::

        >>> nn.LazyConvTranspose1d(8, 3)(oneflow.ones(1, 4, 9)).shape
        oneflow.Size([1, 8, 11])
    """

    cls_to_become, n_spatial, transposed_layer = ConvTranspose1d, 1, True


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """A ConvTranspose2d that takes ``in_channels`` from its first input.

    Example::

        >>> nn.LazyConvTranspose2d(8, 3)(oneflow.ones(1, 4, 5, 5)).shape
        oneflow.Size([1, 8, 7, 7])
    """

    cls_to_become, n_spatial, transposed_layer = ConvTranspose2d, 2, True


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """A ConvTranspose3d that takes ``in_channels`` from its first input.

    Example::

        >>> nn.LazyConvTranspose3d(8, 2)(oneflow.ones(1, 4, 3, 3, 3)).shape
        oneflow.Size([1, 8, 4, 4, 4])
    """

    cls_to_become, n_spatial, transposed_layer = ConvTranspose3d, 3, True


class _LazyNorm(LazyModuleMixin):
    # Dimensions of an input that is no batch, where there may be one.
    unbatched_dim: int | None = None
    num_features: int

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device=device, dtype=dtype, bias=bias)
        _replace(self, ("weight", "bias", "running_mean", "running_var"), device, dtype)

    def reset_running_stats(self) -> None:
        """Mean zero, variance one, once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_running_stats()  # type: ignore[misc]

    def reset_parameters(self) -> None:
        """Scale one, shift zero, once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and statistics their shapes."""
        channels = input.shape[0 if input.dim() == self.unbatched_dim else 1]
        if not self.has_uninitialized_params():
            # Loaded already, or without parameters.
            self.num_features = self.num_features or channels
            return
        self.num_features = channels
        with oneflow.no_grad():
            for name in ("weight", "bias"):
                if self._parameters.get(name) is not None:  # type: ignore[attr-defined]
                    self._parameters[name].materialize((self.num_features,))  # type: ignore[attr-defined]
            for name in ("running_mean", "running_var"):
                if self._buffers.get(name) is not None:  # type: ignore[attr-defined]
                    self._buffers[name].materialize((self.num_features,))  # type: ignore[attr-defined]
            self.cls_to_become.reset_parameters(self)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d that takes ``num_features`` from its first input.

    Example::

        >>> m = nn.LazyBatchNorm1d()
        >>> m(oneflow.ones(4, 3)).shape
        oneflow.Size([4, 3])
        >>> m
        BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d that takes ``num_features`` from its first input.

    Example::

        >>> nn.LazyBatchNorm2d()(oneflow.ones(4, 3, 2, 2)).shape
        oneflow.Size([4, 3, 2, 2])
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d that takes ``num_features`` from its first input.

    Example::

        >>> nn.LazyBatchNorm3d()(oneflow.ones(4, 3, 2, 2, 2)).shape
        oneflow.Size([4, 3, 2, 2, 2])
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An InstanceNorm1d that takes ``num_features`` from its first input.

    Example::

        >>> nn.LazyInstanceNorm1d()(oneflow.ones(1, 3, 4)).shape
        oneflow.Size([1, 3, 4])
    """

    cls_to_become, unbatched_dim = InstanceNorm1d, 2


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An InstanceNorm2d that takes ``num_features`` from its first input.

    Example::

        >>> nn.LazyInstanceNorm2d()(oneflow.ones(1, 3, 4, 4)).shape
        oneflow.Size([1, 3, 4, 4])
    """

    cls_to_become, unbatched_dim = InstanceNorm2d, 3


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An InstanceNorm3d that takes ``num_features`` from its first input.

    Example::

        >>> nn.LazyInstanceNorm3d()(oneflow.ones(1, 3, 2, 2, 2)).shape
        oneflow.Size([1, 3, 2, 2, 2])
    """

    cls_to_become, unbatched_dim = InstanceNorm3d, 4
