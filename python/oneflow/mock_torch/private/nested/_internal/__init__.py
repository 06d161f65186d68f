"""``torch.nested._internal``: where PyTorch's class of nested tensors is."""
