"""One thread for PyTorch: at two, MKL may give rows of one small product other bits by place."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute in one thread, where PyTorch is installed, and give back the number there was."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
