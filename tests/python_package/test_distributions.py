"""Distributions compared with PyTorch's: densities, moments, entropies, divergences; draws by their statistics."""

import math
import re
import warnings

import numpy as np
import oneflow
import oneflow.distributions as ours
import pytest
import torch
import torch.distributions as theirs
from oneflow._functions import gamma_draws
from torch_oracle import close

pytestmark = pytest.mark.filterwarnings("ignore")
MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]]
LOWER = [[1.0, 0.0], [0.5, 1.2]]

# name, arguments (lists become tensors), values to measure at
CASES = [
    ("Bernoulli", {"probs": [0.2, 0.7]}, [0.0, 1.0]),
    ("Bernoulli", {"logits": [-1.0, 2.0]}, [1.0, 0.0]),
    ("Beta", {"concentration1": [0.5, 3.0], "concentration0": [2.0, 1.5]}, [0.3, 0.8]),
    ("Binomial", {"total_count": 5, "probs": [0.2, 0.7]}, [2.0, 4.0]),
    ("Categorical", {"probs": [[0.2, 0.5, 0.3], [1.0, 1.0, 2.0]]}, [1, 2]),
    ("Categorical", {"logits": [[0.2, 0.5, 0.3], [1.0, 1.0, 2.0]]}, [0, 2]),
    ("Cauchy", {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0]),
    ("Chi2", {"df": [1.0, 4.0]}, [0.5, 3.0]),
    ("ContinuousBernoulli", {"probs": [0.2, 0.5]}, [0.3, 0.9]),
    ("Dirichlet", {"concentration": [[0.5, 2.0, 3.0], [1.5, 1.5, 1.5]]}, [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
    ("Exponential", {"rate": [0.5, 3.0]}, [0.2, 1.0]),
    ("FisherSnedecor", {"df1": [3.0, 5.0], "df2": [6.0, 9.0]}, [0.5, 2.0]),
    ("Gamma", {"concentration": [0.5, 4.0], "rate": [1.0, 2.0]}, [0.2, 1.5]),
    ("GeneralizedPareto", {"loc": [0.0, 1.0], "scale": [1.0, 2.0], "concentration": [0.3, 0.0]}, [0.5, 2.0]),
    ("Geometric", {"probs": [0.2, 0.7]}, [3.0, 0.0]),
    ("Gumbel", {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -1.0]),
    ("HalfCauchy", {"scale": [1.0, 2.0]}, [0.5, 3.0]),
    ("HalfNormal", {"scale": [1.0, 2.0]}, [0.5, 3.0]),
    ("InverseGamma", {"concentration": [2.5, 4.0], "rate": [1.0, 2.0]}, [0.5, 3.0]),
    ("Kumaraswamy", {"concentration1": [1.5, 3.0], "concentration0": [2.0, 1.5]}, [0.3, 0.8]),
    ("Laplace", {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0]),
    ("LKJCholesky", {"dim": 2, "concentration": 1.5}, [[1.0, 0.0], [0.6, 0.8]]),
    ("LogNormal", {"loc": [0.0, 1.0], "scale": [1.0, 0.5]}, [0.5, 3.0]),
    ("LogisticNormal", {"loc": [0.0, 1.0], "scale": [1.0, 0.5]}, [0.2, 0.3, 0.5]),
    (
        "LowRankMultivariateNormal",
        {"loc": [0.0, 1.0], "cov_factor": [[1.0], [0.5]], "cov_diag": [1.0, 2.0]},
        [0.3, 0.2],
    ),
    ("Multinomial", {"total_count": 4, "probs": [[0.2, 0.5, 0.3]]}, [[1.0, 2.0, 1.0]]),
    ("MultivariateNormal", {"loc": [0.0, 1.0, -1.0], "covariance_matrix": MATRIX}, [0.5, 0.5, 0.5]),
    ("MultivariateNormal", {"loc": [0.0, 1.0, -1.0], "precision_matrix": MATRIX}, [0.5, 0.5, 0.5]),
    ("MultivariateNormal", {"loc": [[0.0, 1.0], [2.0, 3.0]], "scale_tril": LOWER}, [[0.5, 0.5], [1.0, 1.0]]),
    ("NegativeBinomial", {"total_count": [3.0, 2.0], "probs": [0.2, 0.7]}, [2.0, 5.0]),
    ("Normal", {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0]),
    ("OneHotCategorical", {"probs": [[0.2, 0.5, 0.3]]}, [[0.0, 1.0, 0.0]]),
    ("OneHotCategoricalStraightThrough", {"logits": [[0.2, 0.5, 0.3]]}, [[0.0, 1.0, 0.0]]),
    ("Pareto", {"scale": [1.0, 2.0], "alpha": [2.5, 4.0]}, [1.5, 3.0]),
    ("Poisson", {"rate": [0.5, 4.0]}, [1.0, 3.0]),
    ("RelaxedBernoulli", {"temperature": 0.7, "probs": [0.2, 0.7]}, [0.3, 0.9]),
    ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": [[0.2, 0.5, 0.3]]}, [[0.2, 0.3, 0.5]]),
    ("StudentT", {"df": [3.0, 5.0], "loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0]),
    ("Uniform", {"low": [0.0, 1.0], "high": [1.0, 4.0]}, [0.5, 2.0]),
    ("VonMises", {"loc": [0.0, 1.0], "concentration": [1.0, 4.0]}, [0.5, 2.0]),
    ("Weibull", {"scale": [1.0, 2.0], "concentration": [1.5, 3.0]}, [0.5, 2.0]),
    ("Wishart", {"df": 4.0, "covariance_matrix": MATRIX}, MATRIX),
]
IDS = [f"{i}-{c[0]}" for i, c in enumerate(CASES)]


def make(fw, module, name, args, double=True, grad=False):
    def tensor(value):
        t = fw.tensor(value, dtype=fw.float64 if double else fw.float32)
        return t.requires_grad_() if grad else t

    given = {k: tensor(v) if isinstance(v, list) else v for k, v in args.items()}
    given |= {k: tensor(args[k]) for k in ("concentration", "temperature") if isinstance(args.get(k), float)}
    return getattr(module, name)(**given), [v for v in given.values() if not isinstance(v, (int, float))]


def value(fw, numbers):
    t = fw.tensor(numbers)
    return fw.tensor(numbers, dtype=fw.float64) if t.is_floating_point() else t


def outcome(f):
    try:
        return f(), None
    except (NotImplementedError, AttributeError) as e:
        return None, e


def regions(distribution):
    """The constraints of the parameters with the numbers that they depend on."""
    texts = {name: repr(region) for name, region in distribution.arg_constraints.items()}
    return {name: re.sub(r", (grad_fn|requires_grad|dtype)[^,)]*", "", text) for name, text in texts.items()}


@pytest.mark.parametrize("name, args, at", CASES, ids=IDS)
def test_what_is_computed(name, args, at):
    double = name != "GeneralizedPareto"  # Theirs compares with a float.
    a, leaves = make(oneflow, ours, name, args, double, True)
    b, their_leaves = make(torch, theirs, name, args, double, True)
    assert tuple(a.batch_shape) == tuple(b.batch_shape) and tuple(a.event_shape) == tuple(b.event_shape)
    if name not in ("HalfCauchy", "HalfNormal"):  # Theirs do not show their scale.
        assert repr(a) == repr(b).replace("torch.", "oneflow.")
    assert a.has_rsample == b.has_rsample and a.has_enumerate_support == b.has_enumerate_support
    assert regions(a) == regions(b)
    for what in ("mean", "variance", "stddev", "mode", "entropy"):
        if (name, what) == ("Kumaraswamy", "mode"):
            continue  # Theirs takes the logarithm of negative numbers.
        wanted, error = outcome(lambda what=what: getattr(b, what)() if what == "entropy" else getattr(b, what))
        if error is None:
            got = getattr(a, what)() if what == "entropy" else getattr(a, what)
            close(got, wanted, 1e-6)
    got, wanted = a.log_prob(value(oneflow, at)), b.log_prob(value(torch, at))
    close(got, wanted, 1e-6)
    got.sum().backward()
    wanted.sum().backward()
    for mine, other in zip(leaves, their_leaves, strict=True):
        if other.grad is not None:
            close(mine.grad, other.grad, 1e-5)
    for what in ("cdf", "icdf", "log_cdf", "log_survival_function"):
        points = [0.3, 0.6] if what == "icdf" else at
        wanted, error = outcome(lambda what=what, points=points: getattr(b, what)(value(torch, points)))
        if error is None:
            close(getattr(a, what)(value(oneflow, points)), wanted, 1e-5)
    wanted, error = outcome(b.enumerate_support)
    if error is None:
        close(a.enumerate_support(), wanted, 1e-6)
    bigger = (3, *a.batch_shape)
    close(a.expand(bigger).log_prob(value(oneflow, at)), b.expand(bigger).log_prob(value(torch, at)), 1e-6)
    assert a.support.check(value(oneflow, at)).all()


@pytest.mark.parametrize("name, args, at", CASES, ids=IDS)
def test_draws_have_the_moments(name, args, at):
    oneflow.manual_seed(3)
    d, _ = make(oneflow, ours, name, args)
    n = 20000
    drawn = d.sample((n,))
    assert tuple(drawn.shape) == (n, *d.batch_shape, *d.event_shape) and not drawn.requires_grad
    assert d.support.check(drawn).all()
    if name in ("Categorical", "Cauchy", "HalfCauchy", "LKJCholesky", "LogisticNormal", "RelaxedBernoulli"):
        return
    if name in ("RelaxedOneHotCategorical", "VonMises"):
        return
    mean, std = np.array(d.mean.tolist()), np.array(d.variance.sqrt().tolist())
    if np.isfinite(std).all():
        assert (abs(np.array(drawn.mean(0).tolist()) - mean) < 6 * std / math.sqrt(n) + 1e-9).all()


@pytest.mark.parametrize("name, args, at", [c for c in CASES if getattr(theirs, c[0]).has_rsample is True])
def test_draws_pass_gradients(name, args, at):
    oneflow.manual_seed(5)
    d, leaves = make(oneflow, ours, name, args, grad=True)
    drawn = d.rsample((4000,))
    assert drawn.requires_grad
    drawn.mean(0).sum().backward()
    for leaf in leaves:
        assert leaf.grad is not None and bool(leaf.grad.isfinite().all())


def test_the_gradient_of_a_gamma_draw_is_the_implicit_one():
    a = [0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 1000.0]
    torch.manual_seed(0)
    concentration = torch.tensor(a, dtype=torch.float64).expand(50, -1).clone().requires_grad_()
    drawn = torch._standard_gamma(concentration)
    drawn.sum().backward()
    ours_ = gamma_draws.gamma_slope(
        oneflow.tensor(concentration.tolist(), dtype=oneflow.float64),
        oneflow.tensor(drawn.tolist(), dtype=oneflow.float64),
    )
    got, wanted = np.array(ours_.tolist()), concentration.grad.numpy()
    kept = drawn.detach().numpy() > 1e-200
    # Theirs is an approximation of about three digits.
    np.testing.assert_allclose(got[kept], wanted[kept], rtol=5e-3)

    # Against differences of the distribution function.
    def double(number):
        return oneflow.tensor([number], dtype=oneflow.float64)

    for alpha, z in ((0.5, 0.3), (3.0, 2.0), (30.0, 33.0)):
        above, below = (oneflow.igamma(double(alpha + h), double(z)).item() for h in (1e-4, -1e-4))
        density = math.exp((alpha - 1) * math.log(z) - z - math.lgamma(alpha))
        got = gamma_draws.gamma_slope(double(alpha), double(z)).item()
        assert got == pytest.approx(-(above - below) / 2e-4 / density, rel=1e-5)


def test_the_gradient_of_a_beta_draw_is_the_implicit_one():
    def slope(a, b, x):
        return gamma_draws.beta_slope(*(oneflow.tensor(v, dtype=oneflow.float64) for v in (a, b, x))).numpy()

    # Where the distribution function has a closed form: x^a for b = 1, x^a (1 + a - a x) for b = 2.
    a = np.repeat([0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 1000.0], 9)
    x = np.tile([1e-30, 1e-9, 1e-3, 0.1, 0.4, 0.6, 0.9, 0.99, 1 - 1e-7], 7)
    np.testing.assert_allclose(slope(a, np.ones(63), x), -x * np.log(x) / (a * (1 - x)), rtol=1e-7)
    change = np.log(x) * (1 + a * (1 - x)) + (1 - x)
    wanted = -change * x / (a * (a + 1) * (1 - x) ** 2)
    np.testing.assert_allclose(slope(a, np.full(63, 2.0), x), wanted, rtol=1e-5)
    # Elsewhere PyTorch has approximations of about three digits.
    a, b = (t.flatten().contiguous() for t in torch.meshgrid(*[torch.tensor([0.01, 0.3, 2.0, 50.0]).double()] * 2))
    torch.manual_seed(0)
    drawn = torch.distributions.Beta(a, b).sample()
    wanted = torch._dirichlet_grad(drawn, a, a + b).numpy()
    np.testing.assert_allclose(slope(a.numpy(), b.numpy(), drawn.numpy()), wanted, rtol=5e-3)


def test_a_draw_of_small_concentrations_stays_inside():
    for dtype in (oneflow.float32, oneflow.float64):
        drawn = ours.Beta(oneflow.tensor(0.01, dtype=dtype), oneflow.tensor(0.01, dtype=dtype)).sample((20000,))
        assert bool((drawn > 0).all()) and bool((drawn < 1).all())
        assert 0.45 < (drawn < 0.1).double().mean().item() < 0.55 and (drawn > 0.9).double().mean().item() > 0.45


def test_far_logits_of_continuous_bernoulli():
    for logits, value in ((-1e38, 0.0), (1e38, 1.0), (-200.0, 0.3)):
        results = []
        for m, fw in ((ours, oneflow), (theirs, torch)):
            d = m.ContinuousBernoulli(logits=fw.tensor([logits]))
            results.append([d.log_prob(fw.tensor([value])).item(), d.mean.item()])
        assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_entropy_by_the_family_and_integer_degrees():
    p = ours.Gamma(oneflow.tensor(2.0), oneflow.tensor(3.0))
    assert ours.ExponentialFamily.entropy(p).item() == pytest.approx(p.entropy().item(), rel=1e-5)
    drawn = ours.Wishart(df=oneflow.tensor(5), covariance_matrix=oneflow.eye(2)).sample((3,))
    assert drawn.dtype is oneflow.float32 and tuple(drawn.shape) == (3, 2, 2)


def test_the_gradient_of_a_binomial_at_even_odds():
    for value in (0.0, 1.0, 3.0):
        grads = []
        for m, fw in ((ours, oneflow), (theirs, torch)):
            logits = fw.tensor(0.0, requires_grad=True)
            m.Binomial(3, logits=logits).log_prob(fw.tensor(value)).backward()
            grads.append(logits.grad.item())
        assert grads[0] == grads[1]


def d(module, name, *args):
    fw = oneflow if module is ours else torch
    return getattr(module, name)(*(fw.tensor(a, dtype=fw.float64) if isinstance(a, list) else a for a in args))


PAIRS = [
    (("Bernoulli", [0.2, 0.0]), ("Bernoulli", [0.7, 0.5])),
    (("Beta", [0.5], [2.0]), ("Beta", [1.5], [3.0])),
    (("Binomial", 4, [0.2]), ("Binomial", 4, [0.5])),
    (("Categorical", [0.2, 0.8]), ("Categorical", [0.5, 0.5])),
    (("Cauchy", [0.0], [1.0]), ("Cauchy", [1.0], [2.0])),
    (("ContinuousBernoulli", [0.2]), ("ContinuousBernoulli", [0.7])),
    (("Dirichlet", [0.5, 2.0]), ("Dirichlet", [1.5, 1.0])),
    (("Exponential", [0.5]), ("Exponential", [2.0])),
    (("Exponential", [0.5]), ("Gamma", [2.0], [1.0])),
    (("Exponential", [0.5]), ("Normal", [2.0], [1.0])),
    (("Gamma", [0.5], [1.0]), ("Gamma", [2.0], [3.0])),
    (("Geometric", [0.2]), ("Geometric", [0.6])),
    (("Gumbel", [0.0], [1.0]), ("Gumbel", [1.0], [2.0])),
    (("HalfNormal", [1.0]), ("HalfNormal", [2.0])),
    (("Laplace", [0.0], [1.0]), ("Laplace", [1.0], [2.0])),
    (("LogNormal", [0.0], [1.0]), ("LogNormal", [1.0], [2.0])),
    (("MultivariateNormal", [0.0, 1.0, 2.0], MATRIX), ("MultivariateNormal", [1.0, 1.0, 1.0], MATRIX)),
    (("LowRankMultivariateNormal", [0.0, 1.0], [[1.0], [2.0]], [1.0, 2.0]),
     ("LowRankMultivariateNormal", [1.0, 1.0], [[0.5], [1.0]], [2.0, 1.0])),
    (("Normal", [0.0], [1.0]), ("Normal", [1.0], [2.0])),
    (("Normal", [0.0], [1.0]), ("Gumbel", [1.0], [2.0])),
    (("Normal", [0.0], [1.0]), ("Uniform", [0.0], [2.0])),
    (("OneHotCategorical", [0.2, 0.8]), ("OneHotCategorical", [0.5, 0.5])),
    (("Pareto", [2.0], [3.0]), ("Pareto", [1.0], [2.0])),
    (("Poisson", [0.5]), ("Poisson", [2.0])),
    (("Bernoulli", [0.5]), ("Poisson", [2.0])),
    (("Uniform", [0.0], [1.0]), ("Uniform", [-1.0], [2.0])),
    (("Uniform", [0.0], [1.0]), ("Normal", [1.0], [2.0])),
    (("Wishart", [4.0], [MATRIX]), ("Wishart", [5.0], [MATRIX])),
]  # fmt: skip


@pytest.mark.parametrize("p, q", PAIRS, ids=[f"{p[0]}-{q[0]}" for p, q in PAIRS])
def test_divergences(p, q):
    wanted = theirs.kl_divergence(d(theirs, *p), d(theirs, *q))
    close(ours.kl_divergence(d(ours, *p), d(ours, *q)), wanted, 1e-5)


def test_divergence_without_a_formula():
    with pytest.raises(NotImplementedError, match="No KL"):
        ours.kl_divergence(d(ours, "Cauchy", [0.0], [1.0]), d(ours, "Normal", [0.0], [1.0]))

    class Mine(ours.Normal):
        pass

    @ours.register_kl(Mine, ours.Normal)
    def formula(p, q):
        return oneflow.tensor(7.0)

    assert ours.kl_divergence(Mine(0.0, 1.0), ours.Normal(0.0, 1.0)).item() == 7.0


TRANSFORMS = [
    ("AbsTransform", (), [0.5, -2.0]),
    ("AffineTransform", (1.0, -2.0), [0.5, -2.0]),
    ("CorrCholeskyTransform", (), [0.5, -0.3, 0.2]),
    ("ExpTransform", (), [0.5, -2.0]),
    ("PowerTransform", (2.0,), [0.5, 2.0]),
    ("ReshapeTransform", ((4,), (2, 2)), [0.5, -2.0, 1.0, 3.0]),
    ("SigmoidTransform", (), [0.5, -2.0]),
    ("SoftmaxTransform", (), [0.5, -2.0]),
    ("SoftplusTransform", (), [0.5, -2.0]),
    ("StickBreakingTransform", (), [0.5, -2.0]),
    ("TanhTransform", (), [0.5, -1.0]),
    ("LowerCholeskyTransform", (), MATRIX),
    ("PositiveDefiniteTransform", (), MATRIX),
]


@pytest.mark.parametrize("name, args, at", TRANSFORMS, ids=[t[0] for t in TRANSFORMS])
def test_transforms(name, args, at):
    a, b = getattr(ours, name)(*args), getattr(theirs, name)(*args)
    x, tx = value(oneflow, at), value(torch, at)
    y, ty = a(x), b(tx)
    close(y, ty, 1e-6)
    close(a.inv(y), b.inv(ty), 1e-6)
    assert a.inv.inv is a and a.bijective == b.bijective
    wanted, error = outcome(lambda: b.log_abs_det_jacobian(tx, ty))
    if error is None:
        close(a.log_abs_det_jacobian(x, y), wanted, 1e-6)
        close(a.inv.log_abs_det_jacobian(y, x), -wanted, 1e-6)
    assert tuple(a.forward_shape(x.shape)) == tuple(y.shape) and tuple(a.inverse_shape(y.shape)) == tuple(x.shape)
    assert a.domain.check(x).all() == bool(b.domain.check(tx).all())
    assert a.codomain.check(y).all()
    if a.domain.event_dim == a.codomain.event_dim:
        assert a.event_dim == b.event_dim


def test_transforms_compose_stack_and_cache():
    for module, fw in ((ours, oneflow), (theirs, torch)):
        t = module.ComposeTransform([module.AffineTransform(1.0, 2.0), module.ExpTransform()])
        x = fw.tensor([0.1, 0.2])
        assert t.inv(t(x)).tolist() == pytest.approx([0.1, 0.2])
        assert t.log_abs_det_jacobian(x, t(x)).tolist() == pytest.approx([math.log(2) + 1.2, math.log(2) + 1.4])
        s = module.StackTransform([module.ExpTransform(), module.identity_transform], 0)
        assert s(fw.tensor([[0.0], [2.0]])).tolist() == [[1.0], [2.0]]
        c = module.CatTransform([module.ExpTransform(), module.AffineTransform(0.0, 3.0)], 0, [2, 1])
        assert c(fw.tensor([0.0, 0.0, 2.0])).tolist() == [1.0, 1.0, 6.0]
        kept = module.TanhTransform(cache_size=1)
        y = kept(x)
        assert kept.inv(y) is x
        i = module.IndependentTransform(module.ExpTransform(), 1)
        assert i.log_abs_det_jacobian(x, i(x)).item() == pytest.approx(0.3) and i.event_dim == 1
        cdf = module.CumulativeDistributionTransform(module.Normal(0.0, 1.0))
        assert cdf(fw.tensor(0.0)).item() == pytest.approx(0.5)
    assert ours.ExpTransform() == ours.ExpTransform() != ours.TanhTransform()


def test_transformed_independent_and_mixed():
    results = []
    for module, fw in ((ours, oneflow), (theirs, torch)):
        base = module.Normal(fw.zeros(2, 3), fw.ones(2, 3))
        one = module.Independent(base, 1)
        made = module.TransformedDistribution(one, [module.ExpTransform(), module.AffineTransform(1.0, 2.0)])
        logistic = module.TransformedDistribution(
            module.Uniform(fw.zeros(2), fw.ones(2)), [module.SigmoidTransform().inv, module.AffineTransform(0.5, 2.0)]
        )
        mixture = module.MixtureSameFamily(
            module.Categorical(fw.tensor([0.3, 0.7])), module.Normal(fw.tensor([-1.0, 2.0]), fw.tensor([1.0, 0.5]))
        )
        deep = module.MixtureSameFamily(
            module.Categorical(fw.tensor([0.3, 0.7])),
            module.Independent(module.Normal(fw.zeros(2, 3), fw.ones(2, 3)), 1),
        )
        x = fw.full((2, 3), 2.0)
        results.append(
            [
                one.log_prob(x),
                one.entropy(),
                made.log_prob(x),
                logistic.log_prob(fw.tensor([0.3, 3.0])),
                logistic.cdf(fw.tensor([0.3, 3.0])),
                logistic.icdf(fw.tensor([0.3, 0.6])),
                mixture.log_prob(fw.tensor([0.0, 1.0])),
                mixture.cdf(fw.tensor([0.0, 1.0])),
                mixture.mean,
                mixture.variance,
                deep.log_prob(fw.ones(3)),
                deep.mean,
            ]
        )
        assert tuple(made.batch_shape) == (2,) and tuple(made.event_shape) == (3,)
        assert tuple(made.rsample((4,)).shape) == (4, 2, 3) and tuple(deep.sample((5,)).shape) == (5, 3)
        assert tuple(made.expand((7, 2)).sample().shape) == (7, 2, 3)
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-5)


@pytest.mark.parametrize(
    "name", ["positive", "unit_interval", "real", "simplex", "corr_cholesky", "lower_cholesky", "positive_definite"]
)
def test_maps_into_regions(name):
    size = {"corr_cholesky": (3,), "lower_cholesky": (2, 2), "positive_definite": (2, 2)}.get(name, (4,))
    x = torch.randn(size, generator=torch.Generator().manual_seed(0)).double()
    for registry in ("biject_to", "transform_to"):
        if registry == "biject_to" and len(size) == 2:
            with pytest.raises(NotImplementedError, match="Cannot transform"):
                ours.biject_to(getattr(ours.constraints, name))
            continue
        a = getattr(ours, registry)(getattr(ours.constraints, name))
        b = getattr(theirs, registry)(getattr(theirs.constraints, name))
        y = a(oneflow.tensor(x.tolist(), dtype=oneflow.float64))
        close(y, b(x), 1e-6)
        assert getattr(ours.constraints, name).check(y).all()
    bounded = ours.transform_to(ours.constraints.interval(2.0, 5.0))(oneflow.tensor([-9.0, 9.0]))
    assert 2.0 < bounded.min().item() and bounded.max().item() < 5.0


BAD = [
    lambda m, fw: m.Normal(0.0, -1.0),
    lambda m, fw: m.Normal("a", 1.0),
    lambda m, fw: m.Uniform(1.0, 0.0),
    lambda m, fw: m.Bernoulli(),
    lambda m, fw: m.Bernoulli(fw.tensor(0.5), fw.tensor(0.5)),
    lambda m, fw: m.Bernoulli(fw.tensor(1.5)),
    lambda m, fw: m.Categorical(fw.tensor(0.5)),
    lambda m, fw: m.Categorical(fw.tensor([0.5, -0.5])),
    lambda m, fw: m.Categorical(fw.tensor([0.5, 0.5])).log_prob(fw.tensor(2)),
    lambda m, fw: m.Normal(0.0, 1.0).log_prob("x"),
    lambda m, fw: m.Exponential(1.0).log_prob(fw.tensor(-1.0)),
    lambda m, fw: m.MultivariateNormal(fw.zeros(2)),
    lambda m, fw: m.MultivariateNormal(fw.zeros(2), -fw.eye(2)),
    lambda m, fw: m.Independent(m.Normal(0.0, 1.0), 1),
    lambda m, fw: m.Dirichlet(fw.ones(2)).log_prob(fw.ones(3)),
    lambda m, fw: m.Normal(fw.zeros(2), 1.0).log_prob(fw.zeros(3)),
    lambda m, fw: m.TransformedDistribution(m.Normal(0.0, 1.0), [3]),
    lambda m, fw: m.LKJCholesky(1),
    lambda m, fw: m.biject_to(m.constraints.boolean),
    lambda m, fw: m.Multinomial(fw.tensor([1, 2]), fw.tensor([0.5, 0.5])),
    lambda m, fw: m.Poisson(1.0).rsample(),
]


@pytest.mark.parametrize("call", BAD, ids=range(len(BAD)))
def test_bad_input(call):
    with warnings.catch_warnings(), pytest.raises(Exception) as wanted:
        call(theirs, torch)
    with pytest.raises(wanted.type):
        call(ours, oneflow)


def test_modules_of_single_classes():
    from oneflow.distributions.bernoulli import Bernoulli
    from oneflow.distributions.multivariate_normal import MultivariateNormal

    assert Bernoulli is ours.Bernoulli and MultivariateNormal is ours.MultivariateNormal
    assert set(theirs.__all__) <= set(ours.__all__)
