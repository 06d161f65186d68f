"""Settings that scripts make on ``torch._inductor.config``. Nothing reads them; other names may be set too."""

from types import SimpleNamespace

coordinate_descent_tuning = False
coordinate_descent_check_all_directions = False
epilogue_fusion = True
fx_graph_cache = False
max_autotune = False
max_autotune_gemm_backends = "ATEN"
shape_padding = True
triton = SimpleNamespace(unique_kernel_names=True, cudagraphs=False, cudagraph_trees=True)
