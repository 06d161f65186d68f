"""`utils.collect_env`: the report of a machine."""

import oneflow
from oneflow.utils import collect_env


def test_a_report_of_the_machine():
    info = collect_env.get_env_info()
    text = collect_env.get_pretty_env_info()
    assert info.torch_version == oneflow.__version__ and info.os in text and "numpy==" in text
