"""What `nn.Graph`, `oneflow.compile` and saved programs are made of, a file each; `nn/graph.py` is the class itself.

`structure` takes arguments apart and says what a trace depends on, `building` what it does to modules, `places` where it is in
the user's program; `tracing` traces a graph into a `program`, which `feeding` feeds, `report` draws and `saved` writes.
"""
