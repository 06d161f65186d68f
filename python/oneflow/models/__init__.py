"""Well-known models, in one file each, and loaders of the weights that others published for them.

>>> from oneflow.models import GPT2, GPT2Config
>>> model = GPT2(GPT2Config(vocabulary=50, n_positions=16, n_layers=1, n_heads=2, width=8))
>>> model.save_pretrained("small")
>>> sum(p.numel() for p in GPT2.from_pretrained("small").parameters())
1416

Weights come from files: ``from_pretrained`` reads what Hugging Face and torchvision publish, nothing is downloaded.
"""

from oneflow.models.bert import Bert, BertClassifier, BertConfig, BertForPreTraining
from oneflow.models.dcn import DCN, DCNConfig
from oneflow.models.deepfm import DeepFM, DeepFMConfig
from oneflow.models.dlrm import DLRM, DLRMConfig
from oneflow.models.generation import Generator, sample
from oneflow.models.gpt2 import GPT2, GPT2Config
from oneflow.models.llama import Llama, LlamaConfig
from oneflow.models.lstm_lm import LSTMLM, LSTMLMConfig
from oneflow.models.moe_llama import MoELlama, MoELlamaConfig
from oneflow.models.parallel import ParallelLayout, tensor_parallel, vocabulary_parallel_cross_entropy
from oneflow.models.partial_fc import PartialFC
from oneflow.models.pretrained import Config, Layout, Part, Pretrained
from oneflow.models.resnet import ResNet, ResNetConfig
from oneflow.models.swin import Swin, SwinConfig
from oneflow.models.t5 import T5, T5Config
from oneflow.models.two_tower import TwoTower, TwoTowerConfig
from oneflow.models.unet import UNet, UNetConfig
from oneflow.models.vit import ViT, ViTConfig
from oneflow.models.wide_deep import WideDeep, WideDeepConfig
