"""Toolkits over PyTorch, of many functions each: adapters, pictures, sounds, probabilities, equations.

Run as groups of ``packages.py``, whose tools they use.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from packages import WHO, array, images, labels, rng, sgd, tensors, tokens, torch, trained


def noise(*shape: int) -> Any:
    return tensors(rng.standard_normal(shape).astype("f4"))[0]


def filled(model: Any, scale: float = 0.1) -> Any:
    """The module, with parameters that are the same for both."""
    own = np.random.default_rng(1)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            p.copy_(torch.from_numpy(np.asarray(own.standard_normal(tuple(p.shape)) * scale)))
    return model


def pytorchs_sequence() -> None:
    """Draw PyTorch's random numbers: what these packages compute depends on them."""
    if WHO == "ours":
        import oneflow

        oneflow.random.use("mt19937")
    torch.manual_seed(0)


def differentiated(name: str, function: Callable[[Any], Any], x: Any) -> dict[str, Any]:
    """What a function returns for ``x``, and the gradient of its mean square."""
    output = function(x)
    results = {name: array(output)}
    if output.requires_grad:
        (gradient,) = torch.autograd.grad(output.pow(2).mean(), x, allow_unused=True)
        if gradient is not None:
            results[f"{name} gradient"] = array(gradient)
    return results


def adapters() -> Iterator[dict[str, Any]]:
    """Small matrices beside a frozen model, trained and merged into it."""
    import peft
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = tokens(50, 2, 9)
    small = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 50, "n_positions": 32}
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    common: dict[str, Any] = {"task_type": "CAUSAL_LM"}
    configurations = {
        "lora": peft.LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, **common),
        "dora": peft.LoraConfig(r=4, use_dora=True, target_modules=["c_attn"], fan_in_fan_out=True, **common),
        "ia3": peft.IA3Config(
            target_modules=["c_attn", "c_fc"], feedforward_modules=["c_fc"], fan_in_fan_out=True, **common
        ),
        "prefix": peft.PrefixTuningConfig(num_virtual_tokens=3, **common),
    }
    for name, configuration in configurations.items():
        model = peft.get_peft_model(GPT2LMHeadModel(GPT2Config(**small, **dropouts)), configuration)

        def loss_of(model: Any, step: int) -> Any:
            output = model(input_ids=ids, labels=ids)
            return output.loss, output.logits

        yield trained(f"adapters_{name}", filled(model), loss_of, sgd)
        if name == "lora":
            yield {"adapters_merged": array(model.merge_and_unload().eval()(ids).logits)}


def pictures() -> Iterator[dict[str, Any]]:
    """Filters, colours, geometry, morphology and losses of images."""
    import kornia as k

    x = torch.from_numpy(rng.random((2, 3, 24, 32))).requires_grad_()
    mask = tensors(rng.integers(0, 3, (2, 24, 32)))[0]
    corners = [torch.from_numpy(rng.random((2, 8, 2))) for _ in range(2)]
    angles = torch.tensor([30.0, 45.0], dtype=torch.float64)
    shear = torch.tensor([[1.0, 0.1, 2.0], [0.0, 1.0, 1.0]], dtype=torch.float64).repeat(2, 1, 1)
    functions = {
        "blur": lambda x: k.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
        "median": lambda x: k.filters.median_blur(x, (3, 3)),
        "sobel": k.filters.sobel,
        "canny": lambda x: k.filters.canny(x)[0],
        "bilateral": lambda x: k.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
        "hsv": k.color.rgb_to_hsv,
        "lab": k.color.rgb_to_lab,
        "rotate": lambda x: k.geometry.rotate(x, angles),
        "shear": lambda x: k.geometry.warp_affine(x, shear, (24, 32)),
        "pyramid": k.geometry.pyrdown,
        "homography": lambda x: k.geometry.find_homography_dlt(*corners),
        "erosion": lambda x: k.morphology.erosion(x, torch.ones(3, 3, dtype=x.dtype)),
        "equalize": k.enhance.equalize_clahe,
        "harris": lambda x: k.feature.harris_response(x.mean(1, keepdim=True)),
        "distance": lambda x: k.contrib.distance_transform((x > 0.7).double()),
        "ssim": lambda x: k.metrics.ssim(x, x.flip(-1), 5),
        "focal": lambda x: k.losses.focal_loss(x, mask, 0.5),
        "dice": lambda x: k.losses.dice_loss(x, mask),
        "lovasz": lambda x: k.losses.lovasz_softmax_loss(x, mask),
    }
    for name, function in functions.items():
        yield differentiated(f"pictures/{name}", function, x)
    qualities = torch.tensor([50.0, 60.0])
    x = x[..., :16, :].detach().float().requires_grad_()
    yield differentiated("pictures/jpeg", lambda x: k.enhance.jpeg_codec_differentiable(x, qualities), x)


def sounds() -> Iterator[dict[str, Any]]:
    """Spectra, filters and losses of audio, and small models of it."""
    import torchaudio
    from torchaudio import functional as f
    from torchaudio import transforms as t

    wave = (noise(2, 3000) * 0.3).requires_grad_()
    forward, backward = torch.tensor([1.0, 0.2, 0.1]), torch.tensor([1.0, -0.3, 0.2])
    functions = {
        "mel": t.MelSpectrogram(16000, n_mels=40),
        "mfcc": t.MFCC(16000, melkwargs={"n_mels": 40}),
        "resample": t.Resample(16000, 8000),
        "lfilter": lambda x: f.lfilter(x, backward, forward, clamp=False),
        "filtfilt": lambda x: f.filtfilt(x, backward, forward, clamp=False),
        "biquad": lambda x: f.lowpass_biquad(x, 16000, 3000.0),
        "overdrive": lambda x: f.overdrive(x.detach()),
        "pitch": lambda x: f.detect_pitch_frequency(x.detach(), 16000),
        "fbank": lambda x: torchaudio.compliance.kaldi.fbank(x[:1]),
    }
    for name, function in functions.items():
        yield differentiated(f"sounds/{name}", function, wave)
    integers = [torch.tensor(v, dtype=torch.int32) for v in ([[1, 2, 3], [4, 2, 1]], [7, 5], [3, 2])]
    for fused in (True, False):
        yield differentiated(
            f"sounds/transducer {fused}",
            lambda x, fused=fused: f.rnnt_loss(x, *integers, blank=0, fused_log_softmax=fused),
            noise(2, 7, 4, 6).log_softmax(-1).requires_grad_(),
        )
    targets = torch.tensor([[1, 2, 2, 3]], dtype=torch.int32)
    path, scores = f.forced_align(noise(1, 20, 6).log_softmax(-1), targets, blank=0)
    yield {"sounds/path": array(path), "sounds/scores": array(scores)}
    classes = labels(8, 2)
    models: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "conformer": (
            torchaudio.models.Conformer(16, 2, 32, 2, 3),
            (noise(2, 10, 16).double(), torch.tensor([10, 8])),
        ),
        "separation": (torchaudio.models.ConvTasNet(2, 8, 16, 3, 8, 16, 2, 2), (noise(2, 1, 400).double(),)),
        "emformer": (
            torchaudio.models.Emformer(16, 2, 32, 2, 4, right_context_length=1),
            (noise(2, 9, 16), torch.tensor([8, 6])),
        ),
    }
    for name, (model, inputs) in models.items():

        def loss_of(model: Any, step: int, inputs: Any = inputs) -> Any:
            output = model(*inputs)
            output = output[0] if isinstance(output, tuple) else output
            return torch.nn.functional.cross_entropy(output.flatten(1)[:, :8], classes), output

        model.to(inputs[0].dtype).eval().train = lambda mode=True, model=model: model
        yield trained(f"sounds_{name}", filled(model), loss_of, sgd)


def gaussian_processes() -> Iterator[dict[str, Any]]:
    import gpytorch as g

    x = torch.linspace(0, 1, 20, dtype=torch.float64)
    y = torch.sin(x * 6)
    normal = g.distributions.MultivariateNormal

    class Exact(g.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = g.means.ConstantMean()
            self.covar_module = g.kernels.ScaleKernel(g.kernels.RBFKernel() + g.kernels.MaternKernel(1.5))

        def forward(self, x: Any) -> Any:
            return normal(self.mean_module(x), self.covar_module(x))

    class Variational(g.models.ApproximateGP):
        def __init__(self, points: Any) -> None:
            own = g.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(g.variational.VariationalStrategy(self, points, own))
            self.mean_module, self.covar_module = g.means.ZeroMean(), g.kernels.ScaleKernel(g.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return normal(self.mean_module(x), self.covar_module(x))

    def fit(name: str, model: Any, loss_of: Callable[[], Any]) -> dict[str, Any]:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return {f"processes/{name} losses": np.array(losses)}

    pytorchs_sequence()
    likelihood = g.likelihoods.GaussianLikelihood().double()
    exact = Exact(likelihood).double()
    margin = g.mlls.ExactMarginalLogLikelihood(likelihood, exact)
    yield fit("exact", exact, lambda: -margin(exact(x), y))
    exact.eval(), likelihood.eval()
    with torch.no_grad():
        predicted = likelihood(exact(torch.linspace(0, 1, 7, dtype=torch.float64)))
    yield {"processes/mean": array(predicted.mean), "processes/variance": array(predicted.variance)}
    variational = Variational(x[::4, None].clone()).double()
    bound = g.mlls.VariationalELBO(g.likelihoods.BernoulliLikelihood(), variational, 20)
    yield fit("variational", variational, lambda: -bound(variational(x[:, None]), (y > 0).double()))


def probabilities() -> Iterator[dict[str, Any]]:
    """Inference in a program with random choices: by a variational guide, and by Hamiltonian steps."""
    import pyro
    from pyro import distributions as d
    from pyro import infer

    x = torch.linspace(-1, 1, 20)
    y = 2 * x + 0.3

    def model(x: Any, y: Any) -> None:
        slope, offset = pyro.sample("slope", d.Normal(0.0, 1.0)), pyro.sample("offset", d.Normal(0.0, 1.0))
        spread = pyro.sample("spread", d.HalfNormal(1.0))
        with pyro.plate("points", len(x)):
            pyro.sample("y", d.Normal(slope * x + offset, spread + 0.1), obs=y)

    pytorchs_sequence()
    guide = infer.autoguide.AutoNormal(model)
    steps = infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), infer.Trace_ELBO())
    yield {"probabilities/losses": np.array([steps.step(x, y) for _ in range(10)], "f4")}
    medians = guide.median(x, y)
    yield {f"probabilities/median {name}": array(value) for name, value in sorted(medians.items())}
    chain = infer.MCMC(infer.NUTS(model), num_samples=20, warmup_steps=20, disable_progbar=True)
    chain.run(x, y)
    # Few samples: a chain that does not follow the gradients stays near the prior's mean, which is zero.
    assert abs(float(chain.get_samples()["slope"].mean()) - 2) < 0.5


def symmetries() -> Iterator[dict[str, Any]]:
    """Layers that turn with their inputs, whose programs are made by fx."""
    from e3nn import nn, o3

    pytorchs_sequence()
    x = noise(6, 3)
    yield {"symmetries/harmonics": array(o3.spherical_harmonics([0, 1, 2, 3], x, True))}
    product = filled(o3.FullyConnectedTensorProduct("4x0e+2x1o", "4x0e+2x1o", "3x0e+2x1o"))
    other = noise(6, 10)
    yield differentiated("symmetries/product", lambda a: product(a, other), noise(6, 10).requires_grad_())
    gate = nn.Gate("4x0e", [torch.relu], "2x0e", [torch.sigmoid], "2x1o")
    yield {"symmetries/gate": array(gate(noise(3, gate.irreps_in.dim)))}
    yield {"symmetries/wigner": array(o3.wigner_3j(1, 1, 2))}


def equations() -> Iterator[dict[str, Any]]:
    """Differential equations, and their gradients through the adjoint equation."""
    from torchdiffeq import odeint_adjoint

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, t: Any, y: Any) -> Any:
            return torch.tanh(self.linear(y))

    times = torch.linspace(0, 1, 5, dtype=torch.float64)
    for method in ("dopri5", "rk4", "euler", "adaptive_heun", "dopri8", "midpoint", "explicit_adams", "bosh3"):
        field = filled(Field().double(), 0.5)
        y = odeint_adjoint(field, torch.ones(2, 3, dtype=torch.float64), times, method=method)
        y.sum().backward()
        yield {f"equations/{method}": array(y), f"equations/{method} gradient": array(field.linear.weight.grad)}


def dictionaries() -> Iterator[dict[str, Any]]:
    """Tensors of one batch by name, which are indexed, stacked and passed through modules as one."""
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    d = TensorDict({"a": noise(3, 4), "b": {"c": noise(3, 2)}}, batch_size=[3])
    made = {
        "sum": (d + 1)["b", "c"],
        "stack": torch.stack([d, d])["a"],
        "cat": torch.cat([d, d])["b", "c"],
        "part": d[1:]["a"],
        "shape": d.unsqueeze(0).expand(2, 3)["a"],
        "vmap": torch.vmap(lambda one: one["a"].sum())(d),
        "flat": d.flatten_keys(".")["b.c"],
        "dtype": d.double()["a"],
    }
    yield {f"dictionaries/{name}": array(value) for name, value in made.items()}
    first = TensorDictModule(filled(torch.nn.Linear(4, 2)), in_keys=["a"], out_keys=["hidden"])
    second = TensorDictModule(filled(torch.nn.Linear(2, 2)), in_keys=["hidden"], out_keys=["output"])
    output = TensorDictSequential(first, second)(d.clone())["output"]
    output.sum().backward()
    yield {"dictionaries/output": array(output), "dictionaries/gradient": array(first.module.weight.grad)}
    parameters = TensorDict.from_module(first.module)
    with (parameters * 2).to_module(first.module):
        yield {"dictionaries/doubled": array(first(d.clone())["hidden"])}
    yield {"dictionaries/before": array(first(d.clone())["hidden"])}


def medicine() -> Iterator[dict[str, Any]]:
    """Segmentation as it is done with medical images: networks, losses and windows."""
    from monai import losses
    from monai.inferers import sliding_window_inference
    from monai.networks import nets

    x, y = images(32, 1, 2).double(), tensors(rng.integers(0, 2, (2, 1, 32, 32)))[0]
    networks = {
        "unet": nets.UNet(2, 1, 2, (4, 8, 16), (2, 2)),
        "segresnet": nets.SegResNet(2, 8, 1, 2),
        "attention": nets.AttentionUnet(2, 1, 2, (4, 8), (2,)),
        "dynamic": nets.DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2]),
    }
    loss = losses.DiceCELoss(to_onehot_y=True, softmax=True)
    for name, network in networks.items():

        def loss_of(model: Any, step: int) -> Any:
            output = model(x)
            return loss(output, y), output

        # Its mode of evaluation: there are dropouts.
        network.double().eval().train = lambda mode=True, network=network: network
        yield trained(f"medicine_{name}", network, loss_of, sgd)
    windows = sliding_window_inference(x[:1], (16, 16), 2, networks["unet"], overlap=0.25)
    yield {"medicine/windows": array(windows)}
    scores = noise(2, 3, 8, 8)
    regions = tensors(rng.integers(0, 3, (2, 1, 8, 8)))[0]
    for name in ("DiceLoss", "FocalLoss", "GeneralizedDiceLoss", "TverskyLoss", "DiceFocalLoss"):
        made = getattr(losses, name)(to_onehot_y=True)
        yield differentiated(f"medicine/{name}", lambda s, made=made: made(s, regions), scores.clone().requires_grad_())


def quantized() -> Iterator[dict[str, Any]]:
    """Weights of whole numbers and of eight-bit floats: models run, differentiated, copied and saved."""
    from torchao import quantization

    x = noise(4, 64)
    for name in (
        "Int8WeightOnlyConfig",
        "Int8DynamicActivationInt8WeightConfig",
        "Int8DynamicActivationIntxWeightConfig",
        "IntxWeightOnlyConfig",
        "Float8WeightOnlyConfig",
    ):

        def model() -> Any:
            return filled(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))).eval()

        small = model()
        quantization.quantize_(small, getattr(quantization, name)())
        output = array(small(x))
        file = io.BytesIO()
        torch.save(small.state_dict(), file)
        file.seek(0)
        loaded = model()
        loaded.load_state_dict(torch.load(file, weights_only=False), assign=True)
        size = sum(t.numel() * t.element_size() for t in _parts(small[0].weight))
        yield {
            f"quantized/{name}": output,
            f"quantized/{name} bytes": np.asarray(size),
            f"quantized/{name} copied": array(copy.deepcopy(small)(x)),
            f"quantized/{name} loaded": array(loaded(x)),
        }
        if name in ("Int8WeightOnlyConfig", "Float8WeightOnlyConfig"):
            yield differentiated(f"quantized/{name} of inputs", small, x.clone().requires_grad_())


def _parts(t: Any) -> list[Any]:
    """The tensors with memory of which one consists."""
    return [part for name in t.__tensor_flatten__()[0] for part in _parts(getattr(t, name))] if _has_parts(t) else [t]


def _has_parts(t: Any) -> bool:
    return hasattr(type(t), "__tensor_flatten__")
