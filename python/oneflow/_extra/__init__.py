"""Functions that OneFlow has and PyTorch has not, composed of public ops: every layer of the stack understands them."""
