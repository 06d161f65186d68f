"""The gradients of a backward, reduced in buckets while it still runs: what ``DistributedDataParallel`` is made of.

:class:`BucketReducer` does it, :class:`Reducer` is PyTorch's name and form of the same for programs that wrap their own
modules.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base import conventions
from oneflow._base.purposes import purpose

__all__ = ["GradBucket", "Reducer"]

# The first bucket is small: its reduction starts early.
_DEFAULT_FIRST_BUCKET_BYTES = 1 << 20
BUCKET_BYTES = 25 << 20


class GradBucket:
    """Gradients that are reduced together, for a hook of :meth:`DistributedDataParallel.register_comm_hook`.

    Example::

        >>> def hook(state, bucket):
        ...     future = oneflow.futures.Future()
        ...     future.set_result(bucket.buffer())
        ...     return future
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> model.register_comm_hook(None, hook)
    """

    def __init__(self, index: int, buffer: Tensor, parameters: list[Tensor], is_last: bool) -> None:
        self._index, self._buffer, self._parameters, self._is_last = index, buffer, parameters, is_last

    def index(self) -> int:
        """The number of the bucket: the first one is reduced first."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, one after the other: one dimension. A sparse gradient is a bucket of its own."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Put another tensor in place of the buffer."""
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """The gradients, as views of the buffer."""
        if self._buffer.is_sparse:
            return [self._buffer]
        parts = self._buffer.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]

    def parameters(self) -> list[Tensor]:
        """The parameters of the gradients."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no other bucket follows in this backward."""
        return self._is_last


class BucketReducer:
    """Counts the gradients of a backward, reduces each bucket when it is full, and waits for all with the last one."""

    def __init__(
        self,
        buckets: list[list[Tensor]],
        group: Any,
        views: bool,
        sparse: set[int],
        regroup: Callable[[list[Tensor]], list[list[Tensor]]] | None = None,
        named: Callable[[Tensor], str] = lambda p: f"a parameter of shape {list(p.shape)}",
    ) -> None:
        self._named = named
        self._sparse = sparse
        # Makes buckets of parameters in the order in which a backward reaches them; None once that was done.
        self._regroup = regroup
        self._arrivals: dict[int, Tensor] = {}
        self.active = False
        self.hook: Callable[[GradBucket], Any] | None = None
        # By which sums are divided where some ranks have no more batches; None: by the number of ranks.
        self.divides_by_all = True
        self.divisor: int | None = None
        self._buckets, self._group, self._views = buckets, group, views
        self._bucket_of = {id(p): k for k, bucket in enumerate(buckets) for p in bucket}
        self._ready: set[int] = set()
        # A forward has come, and gradients after it.
        self._begun = self._marked = False
        # A backward has ended, and which parameters need not or did get a gradient since the forward.
        self._ended = False
        self._repeats = False
        self._seen: set[int] = set()
        self._used: set[int] | None = None
        # Where the graph does not show what a backward reaches, parameters count as used when their gradients come, and
        # all buckets are reduced at its end (`_late`). How often gradients came, how often they did in such a backward,
        # and how often they will in this one, if every backward is alike.
        self._late = False
        self._came: dict[int, int] = {}
        self._counted: dict[int, int] | None = None
        self._awaited: dict[int, int] = {}
        # Buckets are reduced in their order, which is the same on all ranks.
        self._next = 0
        self._works: list[tuple[Any, Tensor, list[Tensor]]] = []
        # Parameters may live longer than what reduces their gradients.
        mark = weakref.WeakMethod(self._mark)

        def hook(parameter: Tensor) -> None:
            if (found := mark()) is not None:
                found(parameter)

        for p in [p for bucket in buckets for p in bucket]:
            p.register_post_accumulate_grad_hook(hook)

    def start(
        self,
        used: set[int] | None,
        learns: bool = False,
        repeats: bool = True,
        *,
        hidden: bool = False,
        repeated_graph: bool = False,
    ) -> None:
        """Expect a backward.

        Args:
            used: the parameters that it will reach; all if left out.
            learns: whether buckets may be ordered anew.
            repeats: whether a second backward of the same forward is averaged, too.
            hidden: its graph does not show all that it reaches, or reaches parameters more than once.
            repeated_graph: every backward is like the first one.
        """
        # Which buckets those that a hook has seen are, its state may remember.
        if self._ended and learns and used is None and self.hook is None and self._regroup is not None:
            self._learn(self._regroup)
        self._ready, self._next, self._works, self._used = set(), 0, [], used
        self._begun, self._marked, self._ended, self._repeats = True, False, False, repeats
        self._seen = set() if used is None else self._bucket_of.keys() - used
        self._late, self._came, self._awaited = hidden, {}, {}
        if hidden:
            self._used, self._seen = set(), set(self._bucket_of)
            if repeated_graph and self._counted is not None:
                self._late, self._awaited = False, self._counted
                self._ready |= {i for i in self._bucket_of if i not in self._counted}
            return
        if used is not None:
            # They get no gradient on this rank, and other ranks wait for this one's part.
            self._ready |= self._bucket_of.keys() - used
            if len(self._ready) == len(self._bucket_of):
                # No backward will come by here.
                self._reduce_ready()

    def _learn(self, regroup: Callable[[list[Tensor]], list[list[Tensor]]]) -> None:
        """Order buckets as the backward before this reached the parameters on the first rank."""
        self._regroup = None
        known = [p for bucket in self._buckets for p in bucket]
        place = {id(p): i for i, p in enumerate(known)}
        came = dict.fromkeys(place[i] for i in self._arrivals)
        self._arrivals = {}
        if oneflow.distributed.get_world_size(self._group) == 1:
            return
        order = oneflow.tensor([*came, *(i for i in range(len(known)) if i not in came)], device=known[0].device)
        with purpose("the order of buckets"):
            oneflow.distributed.broadcast(order, oneflow.distributed.get_global_rank(self._group, 0), self._group)
        self._buckets = regroup([known[i] for i in order.tolist()])
        self._bucket_of = {id(p): k for k, bucket in enumerate(self._buckets) for p in bucket}

    def n_buckets(self) -> int:
        return len(self._buckets)

    def n_of_cut_short(self) -> int | None:
        """How many buckets a hook got of a backward that did not end; None where there is no such backward."""
        return self._next if self.hook is not None and self._begun and self._next else None

    def missing(self) -> list[int]:
        # A forward without backward, as in an evaluation with gradients on, misses nothing.
        return [i for i in self._bucket_of if i not in self._seen] if self._ended else []

    def _mark(self, parameter: Tensor) -> None:
        if not self.active:
            return
        if not self._begun and (self.missing() or (self._ended and self._repeats and self.hook is None)):
            # Another backward, of the same forward or one before it. An averaged gradient stays the same when it is
            # averaged again; what a hook makes of one may not, so that its backwards have a forward each, as PyTorch's.
            self._begun, self._marked, self._ready, self._next = True, False, set(), 0
        if self._begun:
            if not self._marked:
                _oneflow._C._queue_callback(self._end)
            self._marked = True
            self._count_gradient(parameter)
            self._seen.add(id(parameter))
            if self._regroup is not None:
                self._arrivals.setdefault(id(parameter), parameter)
            if not self._late:
                self._reduce_ready()

    def _count_gradient(self, parameter: Tensor) -> None:
        key = id(parameter)
        self._came[key] = self._came.get(key, 0) + 1
        if self._bucket_of[key] < self._next:
            raise RuntimeError(
                f"Expected to mark a variable ready only once: {self._named(parameter)} got another gradient after its "
                "bucket was reduced. A backward inside backward, as checkpoint(use_reentrant=True) has, reached it; "
                "use static_graph=True, find_unused_parameters=True or checkpoint(use_reentrant=False)"
            )
        if self._used is not None:
            self._used.add(key)
        if self._came[key] >= self._awaited.get(key, 1):
            self._ready.add(key)

    def _end(self) -> None:
        """After backward: what has got no gradient counts as zero, so that all others are averaged."""
        self._ended = True
        if self._begun:
            if self._late:
                self._counted = dict(self._came)
            self._ready |= self._bucket_of.keys()
            self._reduce_ready()

    def _reduce_ready(self) -> None:
        while self._next < len(self._buckets) and all(id(p) in self._ready for p in self._buckets[self._next]):
            self._reduce(self._buckets[self._next])
            self._next += 1
        if self._next == len(self._buckets):
            self._finish()

    def _reduce(self, bucket: list[Tensor]) -> None:
        if id(bucket[0]) in self._sparse:
            self._reduce_sparse(bucket)
            return
        with oneflow.no_grad():
            flat = oneflow.cat([(p if p.grad is None else p.grad).reshape(-1) for p in bucket])
            at = 0
            for p in bucket:
                if p.grad is None:
                    flat[at : at + p.numel()] = 0
                elif self._views:
                    p.grad = flat[at : at + p.numel()].view_as(p)
                at += p.numel()
        self._works.append((self._issue(flat, bucket), flat, bucket))

    def _reduce_sparse(self, bucket: list[Tensor]) -> None:
        (p,) = bucket
        if p.grad is None:
            grad = _no_rows(p)
        elif not p.grad.is_sparse:
            name = "nn.Embedding(sparse=True) and nn.EmbeddingBag(sparse=True)"
            raise RuntimeError(f"DistributedDataParallel: a weight of {name} must get sparse gradients alone")
        else:
            grad = p.grad.detach().coalesce()
        self._works.append((self._issue(grad, bucket), grad, bucket))

    def _issue(self, flat: Tensor, bucket: list[Tensor]) -> Any:
        if self.hook is not None:
            index = next(i for i, known in enumerate(self._buckets) if known is bucket)
            return self.hook(GradBucket(index, flat, bucket, index + 1 == len(self._buckets)))
        dist = oneflow.distributed
        op = dist.ReduceOp.AVG if self.divisor is None else dist.ReduceOp.SUM
        others = f" and {len(bucket) - 1} more" if len(bucket) > 1 else ""
        with purpose(f"the gradients of {self._named(bucket[0])}{others}"):
            return dist.all_reduce(flat, op, self._group, async_op=True)

    def _wait(self, work: Any, flat: Tensor) -> None:
        value = work.wait()
        with oneflow.no_grad():
            if self.hook is not None:
                value = value[0] if isinstance(value, (list, tuple)) else value
                if value is not flat:
                    flat.copy_(value if flat.is_sparse else value.view(-1))
            elif self.divisor is not None:
                flat.div_(self.divisor)

    def reduce_nothing(self, finds_unused: bool) -> None:
        """Take part in the reductions of a backward that this rank does not have."""
        for bucket in self._buckets:
            if id(bucket[0]) in self._sparse:
                flat = _no_rows(bucket[0])
            else:
                flat = bucket[0].new_zeros(sum(p.numel() for p in bucket))
            self._issue(flat, bucket).wait()
        if finds_unused:
            self._count(oneflow.zeros(len(self._bucket_of), dtype=oneflow.int64))

    def _finish(self) -> None:
        self._begun = False
        somewhere = self._used_somewhere()
        # OneFlow sets zeros for unused parameters.
        oneflows, missing = conventions.are_oneflows(), set(self.missing())
        for work, flat, bucket in self._works:
            self._wait(work, flat)
            if flat.is_sparse:
                (p,) = bucket
                if p.grad is not None or id(p) in somewhere or id(p) in missing:
                    p.grad = flat
                continue
            parts = flat.split([p.numel() for p in bucket])
            for p, part in zip(bucket, parts, strict=True):
                if p.grad is not None and self._views:
                    continue
                if p.grad is not None:
                    with oneflow.no_grad():
                        p.grad.copy_(part.view_as(p))
                elif id(p) in somewhere or (id(p) in missing and (oneflows or bool(part.any()))):
                    p.grad = part.view_as(p).clone()
        self._works = []

    def _used_somewhere(self) -> set[int]:
        """Parameters that some rank used: the others keep having no gradient."""
        if self._used is None:
            return set()
        order = list(self._bucket_of)
        counts = oneflow.tensor([int(i in self._used) for i in order])
        self._count(counts)
        return {i for i, n in zip(order, counts.tolist(), strict=True) if n}

    def _count(self, used: Tensor) -> None:
        with purpose("which parameters were used"):
            oneflow.distributed.all_reduce(used, group=self._group)


class Reducer:
    """Averages the gradients of parameters over the ranks of a group, in the buckets that the caller chooses.

    What :class:`oneflow.nn.parallel.DistributedDataParallel` does after each forward, without its module.

    Args:
        params: tensors of the CPU that require gradients.
        bucket_indices: for each bucket the places in ``params`` of those that are reduced together; each parameter has
            one. Buckets are reduced in this order.
        per_bucket_size_limits: bytes, one for each bucket, as :func:`_compute_bucket_assignment_by_size` returns
            them. The buckets stay as they are given.
        process_group: the ranks; all of the job if left out.
        expect_sparse_gradients: for each parameter, whether its gradients are sparse; such a one has a bucket of its
            own.
        bucket_bytes_cap, first_bucket_bytes_cap: accepted; PyTorch rebuilds its buckets by them.
        find_unused_parameters: whether :meth:`prepare_for_backward` looks for parameters that its outputs do not use.
        gradient_as_bucket_view: gradients are views of the memory that is reduced.
        param_to_name_mapping: names of parameters by their places, for errors.

    Raises:
        ValueError: the buckets are not a partition of the parameters, or have no limit each.
        RuntimeError: a bucket has parameters of different dtypes or devices.

    Example::

        >>> weights = [oneflow.ones(2, requires_grad=True), oneflow.ones(3, requires_grad=True)]
        >>> reducer = oneflow.distributed.Reducer(weights, [[1], [0]], [1 << 20] * 2)
        >>> reducer.prepare_for_forward()
        >>> loss = weights[0].sum() + weights[1].sum()
        >>> reducer.prepare_for_backward(loss)
        >>> loss.backward()
        >>> weights[1].grad
        tensor([1., 1., 1.])
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        bucket_indices: Sequence[Sequence[int]],
        per_bucket_size_limits: Sequence[int],
        process_group: Any = None,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = BUCKET_BYTES,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: dict[int, str] | None = None,
        first_bucket_bytes_cap: int = _DEFAULT_FIRST_BUCKET_BYTES,
    ) -> None:
        params, buckets = list(params), [list(bucket) for bucket in bucket_indices]
        if sorted(i for bucket in buckets for i in bucket) != list(range(len(params))) or not all(buckets):
            raise ValueError(
                f"Reducer: each of {len(params)} parameters belongs in one bucket, and no bucket is empty; got "
                f"{buckets}"
            )
        if len(per_bucket_size_limits) != len(buckets):
            raise ValueError(f"Reducer: {len(buckets)} buckets have {len(per_bucket_size_limits)} size limits")
        flags = list(expect_sparse_gradients) or [False] * len(params)
        if len(flags) != len(params):
            raise ValueError(f"Reducer: {len(params)} parameters have {len(flags)} flags in expect_sparse_gradients")
        self._names = param_to_name_mapping or {}
        for bucket in buckets:
            kinds = {(params[i].dtype, params[i].device) for i in bucket}
            if len(kinds) > 1:
                raise RuntimeError(
                    "Reducer: all parameters in a bucket must have the same dtype and device; "
                    f"{', '.join(self._named(i, params[i]) for i in bucket)} share one"
                )
            if len(bucket) > 1 and any(flags[i] for i in bucket):
                raise RuntimeError("Reducer: a parameter with sparse gradients has a bucket of its own")
        for i, p in enumerate(params):
            if not p.requires_grad:
                raise ValueError(f"Reducer: {self._named(i, p)} requires no gradient")
        self._place = {id(p): i for i, p in enumerate(params)}
        self._params, self._finds_unused = params, find_unused_parameters
        sparse = {id(p) for p, flag in zip(params, flags, strict=True) if flag}
        self._inner = BucketReducer(
            [[params[i] for i in bucket] for bucket in buckets],
            process_group,
            gradient_as_bucket_view,
            sparse,
            named=lambda p: self._named(self._place[id(p)], p),
        )

    def _named(self, i: int, p: Tensor) -> str:
        return f"{self._names.get(i, f'parameter {i}')} ({p.dtype}, {p.device})"

    def prepare_for_forward(self) -> None:
        """Check that the backward before has reduced everything.

        Raises:
            RuntimeError: some parameter got no gradient in it; names those.
        """
        missing = [self._named(self._place[i], self._params[self._place[i]]) for i in self._inner.missing()]
        if missing:
            raise RuntimeError(
                "Reducer: expected to have finished reduction in the prior iteration: no gradient for "
                f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}. Parameters that a loss does not use "
                "need find_unused_parameters=True, on all ranks"
            )

    def prepare_for_backward(self, output: Any) -> None:
        """Let the next backward reduce. ``output``: what it begins at, one tensor or a nest of them."""
        self._inner.active = True
        self._inner.start(used_parameters(output) & self._place.keys() if self._finds_unused else None)

    def _register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """As ``DistributedDataParallel.register_comm_hook``."""
        if self._inner.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._inner.hook = lambda bucket: hook(state, bucket)


def _compute_bucket_assignment_by_size(
    tensors: Sequence[Tensor],
    bucket_size_limits: Sequence[int],
    expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (),
    logger: Any = None,
) -> tuple[list[list[int]], list[int]]:
    """Share tensors out over buckets by their bytes, those of one dtype and device together.

    Args:
        tensors: whose gradients are reduced.
        bucket_size_limits: bytes at which a bucket is full: of the first bucket of a dtype, of its second, and so on;
            the last one is that of all others.
        expect_sparse_gradient: for each tensor, whether it has a bucket of its own.
        tensor_indices: names of the tensors in the result, which is then in the order in which buckets get full.
        logger: accepted.

    Returns:
        The places of the tensors of each bucket, and the limit of each, 0 for none.
    """
    if not tensors or not bucket_size_limits:
        raise ValueError("_compute_bucket_assignment_by_size: tensors and bucket_size_limits must not be empty")
    if expect_sparse_gradient and len(expect_sparse_gradient) != len(tensors):
        raise ValueError(
            f"_compute_bucket_assignment_by_size: {len(tensors)} tensors have {len(expect_sparse_gradient)} flags"
        )
    if tensor_indices and len(tensor_indices) != len(tensors):
        raise ValueError(
            f"_compute_bucket_assignment_by_size: {len(tensors)} tensors have {len(tensor_indices)} indices"
        )
    limits = list(bucket_size_limits)
    done: list[tuple[list[int], int]] = []
    # Of each dtype and device: what is in its open bucket, its bytes, and how many buckets came before.
    open_: dict[Any, tuple[list[int], int, int]] = {}
    for place, tensor in enumerate(tensors):
        index = tensor_indices[place] if tensor_indices else place
        if expect_sparse_gradient and expect_sparse_gradient[index]:
            done.append(([index], 0))
            continue
        kind = (tensor.dtype, tensor.device)
        indices, n_bytes, n_before = open_.get(kind, ([], 0, 0))
        indices, n_bytes = [*indices, index], n_bytes + tensor.numel() * tensor.element_size()
        limit = limits[min(n_before, len(limits) - 1)]
        if n_bytes >= limit:
            done.append((indices, limit))
            open_[kind] = ([], 0, n_before + 1)
        else:
            open_[kind] = (indices, n_bytes, n_before)
    done += [(indices, limits[min(n, len(limits) - 1)]) for indices, _, n in open_.values() if indices]
    if not tensor_indices:
        done.sort(key=lambda bucket: min(bucket[0]))
    return [indices for indices, _ in done], [limit for _, limit in done]


def _no_rows(p: Tensor) -> Tensor:
    """The sparse gradient of a weight that nobody used."""
    indices = oneflow.zeros(1, 0, dtype=oneflow.int64)
    return oneflow.sparse_coo_tensor(indices, oneflow.zeros(0, *p.shape[1:], dtype=p.dtype), tuple(p.shape)).coalesce()


def used_parameters(result: Any) -> set[int]:
    """The ids of the leaves that a result depends on."""
    return walk(result)[0]


def walk(result: Any) -> tuple[set[int], bool, bool]:
    """The ids of the leaves that a result depends on, and what its graph has that may lead to others.

    Returns:
        The leaves; whether there are functions written in Python, whose backward may run another backward; and whether
        there are some that do.
    """
    open_ = [t.grad_fn for t in oneflow.utils._pytree.tree_leaves(result) if isinstance(t, Tensor)]
    seen: set[Any] = set()
    leaves: set[int] = set()
    custom = nested = False
    while open_:
        node = open_.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        elif not custom or not nested:
            # The node of such a function has the attributes of its context.
            custom = custom or hasattr(node, "save_for_backward")
            nested = nested or node.name() == "_ReentrantBackward"
        open_ += [next_node for next_node, _ in node.next_functions]
    return leaves, custom, nested
