"""Models of timm and transformers, run by PyTorch and by oneflow in PyTorch's place, side by side."""
