"""Start the ranks of a job from a program: PyTorch's ``torch.distributed.launcher``, for notebooks and tests."""

from oneflow.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
