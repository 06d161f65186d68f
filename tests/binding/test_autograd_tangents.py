"""Tangents of custom functions, checks of tangents, and hooks of modules in second derivatives, against PyTorch."""

import functools

import pytest
from binding.test_autograd_graph import error, rounded
from torch_oracle import both

# PyTorch's tangents compile scripts, which it warns of.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("case", ["inplace", "inplace_wrong", "view", "not_a_view", "other_view", "none", "wrong_none"])
def test_tangents_relate_as_outputs_do(case):
    def run(fw):
        class F(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                if case.startswith("inplace"):
                    ctx.mark_dirty(x)
                    return x.mul_(2)
                if case.endswith("none"):
                    out = y.clone()
                    ctx.mark_non_differentiable(out)
                    return x.clone(), out
                return x.narrow(0, 0, 1)

            @staticmethod
            def jvp(ctx, t, u):
                if case.startswith("inplace"):
                    return t.mul_(2) if case == "inplace" else t * 2
                if case.endswith("none"):
                    return t, (None if case == "none" else t.clone())
                part = t.narrow(0, 0, 1)
                return {"view": part, "not_a_view": part.clone(), "other_view": part.clone()[:]}[case]

            @staticmethod
            def backward(ctx, *g):
                raise AssertionError

        fwad = fw.autograd.forward_ad
        with fwad.dual_level():
            level = fwad._current_level
            x = fwad.make_dual(fw.tensor([1.0, 2.0]), fw.tensor([3.0, 4.0]))
            try:
                made = F.apply(x, fw.ones(2))
                outs = made if isinstance(made, tuple) else (made,)
                tangents = [fwad.unpack_dual(o).tangent for o in outs]
                return level, [None if t is None else rounded(t) for t in tangents]
            except RuntimeError as e:
                words = ("gradient inplace", "return None at that position", "not returning a view")
                return level, [w in str(e) for w in words]

    both(run)


def test_module_hooks_are_left_alone_by_second_derivatives():
    def run(fw):
        seen = []
        loss = fw.nn.MSELoss()
        loss.register_full_backward_hook(lambda module, i, o: seen.append((rounded(i[0]), rounded(o))))
        x, y = fw.ones(2, requires_grad=True), fw.zeros(2)
        (g,) = fw.autograd.grad(loss(x, y), x, create_graph=True)
        (gg,) = fw.autograd.grad(g.sum(), x)
        return seen, rounded(gg)

    both(run)


def test_gradcheck_tests_a_tangent_of_every_input():
    def run(fw):
        fwad = fw.autograd.forward_ad

        def wrong(x, y):
            if fwad._current_level >= 0:
                value, tangent = fwad.unpack_dual(y)
                y = fwad.make_dual(value, tangent * 1.1)
            return x + y, y

        found = []
        for dtype in (fw.float64, fw.complex128):
            x, y = (fw.ones(2, dtype=dtype, requires_grad=True) for _ in range(2))
            for fast in (True, False):
                check = functools.partial(fw.autograd.gradcheck, check_forward_ad=True, fast_mode=fast)
                text = error(check, wrong, (x, y))[1]
                found.append("forward mode mismatch for output 0 with respect to input 1" in text)
        return found

    assert all(both(run))


def test_indices_of_sparse_tensors_may_be_floats():
    def run(fw):
        x = fw.sparse_coo_tensor(fw.tensor([[0.0, 2.7]]), fw.ones(2), (4,))
        return x._indices().tolist(), x.to_dense().tolist()

    both(run)
