"""init_process_group as PyTorch's programs call it."""

from __future__ import annotations

from pathlib import Path

import oneflow.distributed as dist
import pytest
from distributed.processes import free_port, run

BODY = """
rank, n, port = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ["PLACE"]), 2, int(os.environ["PORT"])
{init}
x = flow.full((3,), rank + 1.0)
dist.all_reduce(x)
print(dist.get_rank(), dist.get_world_size(), x.tolist())
dist.destroy_process_group()
"""

WAYS = {
    "tutorial": """
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
dist.init_process_group("gloo", rank=rank, world_size=n)
""",
    "tcp": "dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=n)",
    "tcp with a query": "dist.init_process_group(init_method=f'tcp://127.0.0.1:{port}?rank={rank}&world_size={n}')",
}


@pytest.mark.parametrize("way", WAYS)
def test_ranks_meet_as_the_program_says(way: str, tmp_path: Path) -> None:
    own = {"PORT": free_port(), "MEETING": tmp_path / "meeting"}
    found = run(BODY.format(init=WAYS[way]), [{**own, "PLACE": rank} for rank in range(2)])
    for rank, (out, err) in enumerate(found):
        assert out == f"{rank} 2 [3.0, 3.0, 3.0]\n", err


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"init_method": "tcp://127.0.0.1:80"}, ValueError, "give rank and world_size"),
        ({"init_method": "tcp://127.0.0.1", "rank": 0, "world_size": 2}, ValueError, "needs a host and a port"),
        ({"init_method": "etcd://h", "rank": 0, "world_size": 2}, ValueError, "is not supported"),
        ({"init_method": "tcp://h:1?rank=1", "rank": 0, "world_size": 2}, ValueError, "rank is 0, but"),
        ({"rank": 0}, ValueError, "WORLD_SIZE expected, but not set"),
        ({"store": 3}, NotImplementedError, "store is not supported"),
        ({"backend": "nccl"}, ValueError, "'nccl' is not available"),
        ({"pg_options": 1}, NotImplementedError, "pg_options"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(arguments: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dist.init_process_group(**arguments)  # type: ignore[arg-type]
    assert not dist.is_initialized()
