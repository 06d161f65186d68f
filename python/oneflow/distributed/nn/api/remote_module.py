"""``RemoteModule``: a module on another worker of :mod:`oneflow.distributed.rpc`, called as one of this process.

Its parameters stay where it is: :meth:`RemoteModule.remote_parameters` gives references, for
:class:`oneflow.distributed.optim.DistributedOptimizer`. Methods of modules that would need them here raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow import Tensor, device
from oneflow.distributed import rpc
from oneflow.futures import Future
from oneflow.nn import Module, Parameter
from oneflow.utils import _pytree

__all__ = ["RemoteModule"]


class RemoteModule(Module):
    """Make a module on a worker, and call it there.

    Gradients go through calls in a context of :mod:`oneflow.distributed.autograd`. Sent to a worker it is a reference
    to the same module.

    Args:
        remote_device: ``worker/device`` or ``rank:number/device``; the device is the CPU if there is none.
        module_cls: the class, which the worker finds by its name.
        args, kwargs: its arguments.

    Raises:
        RuntimeError: this process is no worker.
        ValueError: no worker is named; or, when the module is used, ``module_cls`` has not made a module.

    Example::

        >>> from oneflow.distributed import rpc
        >>> from oneflow.distributed.nn import RemoteModule
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> layer = RemoteModule("worker0/cpu", oneflow.nn.Linear, args=(3, 2))
        >>> layer(oneflow.ones(4, 3)).shape, layer.forward_async(oneflow.ones(1, 3)).wait().shape
        (oneflow.Size([4, 2]), oneflow.Size([1, 2]))
        >>> [parameter.to_here().shape for parameter in layer.remote_parameters()]
        [oneflow.Size([2, 3]), oneflow.Size([2])]
        >>> del layer
        >>> rpc.shutdown()
    """

    is_scriptable = False

    def __init__(
        self,
        remote_device: str,
        module_cls: type[Module],
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._place(remote_device)
        what = (module_cls, tuple(args or ()), dict(kwargs or {}), self.device)
        self.module_rref = rpc.remote(self.on, _make, what)

    def _place(self, remote_device: str) -> None:
        worker, _, kind = remote_device.partition("/")
        if not worker or worker.partition(":")[0] in ("cpu", "cuda", "meta"):
            raise ValueError(
                f"RemoteModule(remote_device={remote_device!r}): expected 'worker/device' or 'rank:number/device'"
            )
        rank = worker.removeprefix("rank:")
        self.on: str | int = int(rank) if rank != worker else worker
        self.device = str(device(kind or "cpu"))
        # An unknown worker is an error here and not in the call.
        rpc.get_worker_info(self.on)

    @staticmethod
    def init_from_module_rref(
        remote_device: str, module_rref: rpc.RRef[Module], _module_interface_cls: Any = None
    ) -> RemoteModule:
        """Return a remote module of a module that exists, by a reference to it."""
        if _module_interface_cls is not None:
            raise NotImplementedError("RemoteModule: interfaces of TorchScript: nothing is scripted here")
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made._place(remote_device)
        made.module_rref = module_rref
        return made

    def __reduce__(self) -> Any:
        # A reference refuses whatever pickles it outside a call.
        return RemoteModule.init_from_module_rref, (self._device_text(), self.module_rref)

    def _device_text(self) -> str:
        worker = f"rank:{self.on}" if isinstance(self.on, int) else self.on
        return f"{worker}/{self.device}"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward`` of the module and wait for its result."""
        return rpc.rpc_sync(self.on, _forward, args=(self.module_rref, self.device, args, kwargs))

    def forward_async(self, *args: Any, **kwargs: Any) -> Future:
        """Begin a call of ``forward`` of the module; return a future of its result."""
        return rpc.rpc_async(self.on, _forward, args=(self.module_rref, self.device, args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list[rpc.RRef[Parameter]]:
        """Return references to the parameters of the module.

        Args:
            recurse: those of its children, too.
        """
        found: list[rpc.RRef[Parameter]] = rpc.rpc_sync(self.on, _parameters, args=(self.module_rref, recurse))
        return found

    def get_module_rref(self) -> rpc.RRef[Module]:
        """Return the reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Set the mode of the module, where it is; :meth:`eval` does, too."""
        rpc.rpc_sync(self.on, _train, args=(self.module_rref, mode))
        self.training = mode
        return self

    def __repr__(self) -> str:
        return f"RemoteModule({self._device_text()!r})"


def _refused(name: str) -> Callable[..., Any]:
    def method(self: RemoteModule, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule: its module is on worker {self.on!r}")

    method.__name__ = name
    method.__doc__ = "Raise: the parameters are on another worker."
    return method


for _name in (
    "add_module apply bfloat16 buffers children cpu cuda double extra_repr float half ipu load_state_dict modules "
    "named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer "
    "register_forward_hook register_forward_pre_hook register_parameter requires_grad_ share_memory state_dict to "
    "type xpu zero_grad"
).split():
    setattr(RemoteModule, _name, _refused(_name))


def _make(module_cls: type[Module], args: tuple[Any, ...], kwargs: dict[str, Any], place: str) -> Module:
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(
            "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an instance "
            f"of {type(module)}."
        )
    return module.to(place)


def _forward(reference: rpc.RRef[Module], place: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    module: Any = reference.local_value()
    if not place.startswith("cpu"):

        def moved(value: Any) -> Any:
            return value.to(place) if isinstance(value, Tensor) and value.device.type == "cpu" else value

        args, kwargs = _pytree.tree_map(moved, (args, kwargs))
    return module.forward(*args, **kwargs)


def _parameters(reference: rpc.RRef[Module], recurse: bool) -> list[rpc.RRef[Parameter]]:
    return [rpc.RRef(parameter) for parameter in reference.local_value().parameters(recurse)]


def _train(reference: rpc.RRef[Module], mode: bool) -> None:
    reference.local_value().train(mode)
