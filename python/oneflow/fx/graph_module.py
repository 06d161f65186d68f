"""Modules whose ``forward`` is a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.fx import _targets
from oneflow.fx._codegen import PythonCode, _PyTreeCodeGen
from oneflow.fx._namespace import standard_globals
from oneflow.fx.graph import Graph
from oneflow.nn import Module, Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")
_numbers = itertools.count()


def _compiled(source: str, names: dict[str, Any], fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return the function ``forward`` that ``source`` defines; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_numbers)}"
    if fields and "co_firstlineno" in fields:
        file += f" from {fields['co_filename']}:{fields['co_firstlineno']} in {fields['co_name']}"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = dict(names)
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope["forward"]


def _imports(names: dict[str, Any]) -> str:
    """Return the statements that define the globals of generated code."""
    standard = standard_globals()
    lines = set()
    for name, value in names.items():
        if name in standard:
            lines.add(standard[name].import_str)
        elif isinstance(value, str):
            lines.add(f"{name} = {value!r}")
        else:
            lines.add(f"from {_targets.module_of(value)} import {value.__name__} as {name}")
    return "\n".join(sorted(lines))


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Make a module of what a pickle holds: its attributes, and its code, which is traced again.

    Example::

        >>> import pickle
        >>> traced = oneflow.fx.symbolic_trace(oneflow.nn.ReLU())
        >>> pickle.loads(pickle.dumps(traced))(oneflow.tensor([-1.0]))
        tensor([0.])
    """
    forward = _compiled(import_block + body["_code"], {})
    return _traced_again(forward, body)


class _CodeOnlyModule(Module):
    """Return a module with the attributes of another."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _traced_again(forward: Callable[..., Any], body: dict[str, Any]) -> Module:
    from oneflow.fx._symbolic_trace import Tracer

    base: Any = body.get("_tracer_cls") or Tracer

    class Whole(base):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    # The tracer reads forward of the class.
    root = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    graph = Whole._graph_module_deserialization_tracer(root).trace(root, **body.get("_tracer_extras", None) or {})
    graph._tracer_cls = body.get("_tracer_cls")
    made = GraphModule(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Copy the attribute at a path of ``from_module`` to ``to_module``; missing modules on the way are created."""
    *path, name = target.split(".")
    for part in path:
        source, there = getattr(from_module, part), getattr(to_module, part, None)
        if source is there:
            return
        if there is None:
            there = Module()
            setattr(to_module, part, there)
        from_module, to_module = source, there
    value = getattr(from_module, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        persistent = name not in getattr(from_module, "_non_persistent_buffers_set", ())
        to_module.register_buffer(name, value, persistent=persistent)
    else:
        setattr(to_module, name, value)


def _assign_attr(from_obj: Any, to_module: Any, target: str) -> None:
    """Set a value at a path of ``to_module``; missing modules on the way are created."""
    *path, name = target.split(".")
    for part in path:
        there = getattr(to_module, part, None)
        if there is None:
            there = Module()
            setattr(to_module, part, there)
        to_module = there
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        to_module.register_buffer(name, from_obj)
    else:
        setattr(to_module, name, from_obj)


def _get_attr(model: Any, attr_name: str) -> Any:
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model


class GraphModule(Module):
    """A module whose ``forward`` is compiled from its :attr:`graph`.

    Args:
        root: where the attributes that the graph reads come from: a module, or a dictionary of paths.
        graph: the graph; :meth:`recompile` is to be called after it was changed.
        class_name: the name that the module prints.

    Example::

        >>> traced = oneflow.fx.symbolic_trace(oneflow.nn.Linear(2, 3))
        >>> traced.graph.find_nodes(op="call_function", target=oneflow.nn.functional.linear)
        [linear]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Each object has its own forward, so it has its own class.
        base = next((c for c in cls.__mro__ if c.__qualname__.rpartition(".")[2] != "GraphModuleImpl"), cls)
        return super().__new__(type("GraphModuleImpl", (base,), {"__module__": base.__module__}))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            kept = getattr(root, "meta", {}).get(_USER_PRESERVED_ATTRIBUTES_KEY)
            if kept is not None:
                self.meta: dict[str, Any] = {_USER_PRESERVED_ATTRIBUTES_KEY: kept}
                for name, value in kept.items():
                    setattr(self, name, value)
            targets = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
            if isinstance(root, _CodeOnlyModule):
                # A pickle and a copy keep what the graph does not use too.
                state = (root.named_children(), root.named_buffers(), root.named_parameters())
                targets = [name for part in state for name, _ in part] + targets
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            targets = []
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    if node.target not in root:
                        raise RuntimeError(
                            f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                        )
                    targets.append(node.target)
            for target in sorted(targets, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls is not None and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        if not hasattr(self, "meta"):
            self.meta = {}
        for name in _HOOKS:
            setattr(self, name, [])

    # The class itself need not be pickled: `__reduce__` creates modules anew.
    @property
    def graph(self) -> Graph:
        """The graph. Setting it compiles it."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of ``forward``."""
        return self._code

    def recompile(self) -> PythonCode:
        """Compile the graph after it was changed."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        code = self._graph.python_code("self")
        self._code: str = code.src
        self._lineno_map, self._prologue_start = code._lineno_map, code._prologue_start
        cls: Any = type(self)
        cls.forward = _compiled(code.src, code.globals, self._graph._co_fields)
        if "_inner_call" not in vars(cls):
            # A call of the method that a subclass defines, with errors explained.
            cls._inner_call = vars(cls).get("__call__") or super(cls, self).__call__.__func__  # type: ignore[attr-defined]
            cls.__call__ = _explained
        for module in self.children():
            if isinstance(module, GraphModule):
                module.recompile()
        return code

    # ---- modules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a path; modules on the way are created. Return False if something else is at the path."""
        *path, name = target.split(".")
        module: Any = self
        for part in path:
            inner = getattr(module, part, None)
            if inner is None:
                inner = Module()
                setattr(module, part, inner)
            if not isinstance(inner, Module):
                return False
            module = inner
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path; False if there is none."""
        *path, name = target.split(".")
        module: Any = self
        for part in path:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that the graph does not use."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    with contextlib.suppress(AttributeError):
                        inner = self.get_submodule(str(node.target)).named_modules()
                        used.update(f"{node.target}.{name}" for name, _ in inner if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # ---- copies, files and text

    def __reduce__(self) -> Any:
        body = dict(self.__dict__)
        block = _imports(self.recompile().globals)
        body["_graphmodule_cls_name"] = type(self).__name__
        del body["_graph"]
        return reduce_graph_module, (body, block)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        source = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        GraphModule.__init__(made, source, source.__dict__["_graph"], type(self).__name__)
        hooks = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", *_HOOKS)
        for name in hooks:
            if name in self.__dict__:
                setattr(made, name, copy.deepcopy(self.__dict__[name], memo))
        made.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        for hook in made.__dict__.get("_deepcopy_hooks", ()):
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph, type(self).__name__)
        made.meta = getattr(self, "meta", {})
        return made

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package: its code, and its weights next to it."""
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        oneflow.save(self.state_dict(), folder / "state_dict.pt")
        lines = [
            *(entry.import_str for entry in standard_globals().values()),
            "",
            f"class {module_name}(oneflow.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
        ]
        for name, module in self.named_children():
            oneflow.save(module, folder / f"{name}.pt")
            lines.append(f"        self.{name} = oneflow.load(r'{folder / name}.pt', weights_only=False)")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                shape = f"oneflow.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                lines.append(f"        self.register_buffer('{name}', {shape})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                shape = f"oneflow.empty({list(parameter.shape)}, dtype={parameter.dtype})"
                lines.append(f"        self.{name} = oneflow.nn.Parameter({shape})")
        lines.append(f"        self.load_state_dict(oneflow.load(r'{folder / 'state_dict.pt'}'))")
        body = "\n".join("    " + line if line else line for line in self.code.splitlines())
        (folder / "module.py").write_text("\n".join(lines) + "\n" + body + "\n")
        (folder / "__init__.py").write_text("from .module import *\n")

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """Return the code with a comment of each node's source location, and shapes that passes recorded."""
        text = _readable(self, type(self).__name__)
        if print_output:
            print(text)  # noqa: T201
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = self.__copy__()
        made.__dict__["_is_replica"] = True
        return made

    # ---- hooks

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self.__dict__["_replace_hooks"].append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self.__dict__["_replace_hooks"].remove(f)

    def _register_create_node_hook(self, f: Callable[..., Any]) -> None:
        self.__dict__["_create_node_hooks"].append(f)

    def _unregister_create_node_hook(self, f: Callable[..., Any]) -> None:
        self.__dict__["_create_node_hooks"].remove(f)

    def _register_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self.__dict__["_erase_node_hooks"].append(f)

    def _unregister_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self.__dict__["_erase_node_hooks"].remove(f)


def _explained(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a traced module; an error in generated code shows its lines."""
    try:
        return self._inner_call(*args, **kwargs)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        if not frame.filename.startswith("<eval_with_key>") or frame.lineno is None:
            raise
        lines = linecache.getlines(frame.filename)
        before = "".join(lines[max(frame.lineno - 2, 0) : frame.lineno])
        after = "".join(lines[frame.lineno : frame.lineno + 2])
        print(  # noqa: T201
            f"{traceback.format_exc()}\nCall using an FX-traced Module, line {frame.lineno} of the traced Module's "
            f"generated forward function:\n{before}{'~' * len(frame.line or '')}~~~ <--- HERE\n{after}",
            file=sys.stderr,
        )
        raise error.with_traceback(None) from None


def _readable(module: GraphModule, name: str) -> str:
    code = module.graph.python_code("self", verbose=True).src.lstrip("\n")
    parts = [f"class {name}({_targets.library()}.nn.Module):\n" + code]
    for inner_name, inner in module.named_children():
        if isinstance(inner, GraphModule):
            parts.append(_readable(inner, inner_name))
    first, *rest = "\n".join(parts).split("\n")
    return "\n".join([first, *("    " + line for line in rest)])
