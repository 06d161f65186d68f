"""Names of nodes and features of published models, by whatever is called ``torch``; writes what came out.

Run as ``packages.py`` is: ``features.py theirs|ours all|few FOLDER [PATH...]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WHO, WHICH, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
sys.path.extend(sys.argv[4:])
if WHO == "ours":
    import oneflow.mock_torch

    oneflow.mock_torch.enable()

import numpy as np  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names  # noqa: E402

TORCHVISION = ("resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "densenet121", "googlenet")
TIMM = ("test_resnet", "lcnet_035", "test_efficientnet", "test_convnext", "test_byobnet", "test_nfnet")
MORE = (
    "regnetx_002",
    "regnety_002",
    "ghostnet_050",
    "tinynet_e",
    "mnasnet_small",
    "mobilenetv3_small_050",
)
MORE += ("mobilenetv4_conv_small_050", "hgnetv2_b0", "repghostnet_050", "skresnet18", "resnest14d", "densenet121")
MORE += ("resnet18", "vgg11", "rexnetr_100", "fastvit_t8", "starnet_s050", "inception_next_atto", "edgenext_xx_small")
MORE += ("test_vit2", "test_vit3", "test_vit4", "test_convnext2", "test_efficientnet_gn", "test_mambaout", "pvt_v2_b0")


def models() -> dict[str, Any]:
    """Constructors of the models."""
    some = TORCHVISION if WHICH == "few" else torchvision.models.list_models(torchvision.models)
    made = {}
    for name in some:
        plain = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        made[f"torchvision.{name}"] = lambda name=name, plain=plain: torchvision.models.get_model(
            name, weights=None, **plain
        )
    for name in TIMM if WHICH == "few" else TIMM + MORE:
        made[f"timm.{name}"] = lambda name=name: timm.create_model(name)
    return made


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    features = {}
    for name, make in models().items():
        model = make().eval()
        try:
            names[name] = get_graph_node_names(model)
        except Exception as error:
            names[name] = f"{type(error).__name__}"
            continue
        if WHICH == "few":
            file = FOLDER / f"{name}.safetensors"
            if WHO == "theirs":
                save_file({key: value.contiguous() for key, value in model.state_dict().items()}, file)
            model.load_state_dict(load_file(file))
            wanted = names[name][1][1 : -1 : max(1, len(names[name][1]) // 6)]
            image = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype("f4"))
            with torch.no_grad():
                found = create_feature_extractor(model, wanted)(image)
            features |= {
                f"{name}|{key}": value.detach().numpy() for key, value in found.items() if torch.is_tensor(value)
            }
    (FOLDER / f"{WHO}.json").write_text(json.dumps(names))
    np.savez(FOLDER / f"{WHO}.npz", **features)


if __name__ == "__main__":
    main()
