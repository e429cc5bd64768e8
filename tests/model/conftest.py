"""The built-in model, for tests that need a real one."""

from pathlib import Path

import pytest

from samebits.model.source import pull


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """Name the built-in model's file, in the cache or fetched into it once."""
    return pull("smollm2")
