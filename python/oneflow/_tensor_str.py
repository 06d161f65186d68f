"""Where the compiled module looks for the text of results with names, and programs for the options of printing."""

from oneflow._tensor.printing import _body as _tensor_str
from oneflow._tensor.printing import _options as PRINT_OPTS
from oneflow._tensor.printing import results_text as results_text

__all__ = ["PRINT_OPTS", "_tensor_str", "results_text"]
