"""ChannelShuffle, where programs look it up."""

from oneflow.nn.modules.pixelshuffle import ChannelShuffle

__all__ = ["ChannelShuffle"]
