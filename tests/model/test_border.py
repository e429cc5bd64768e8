"""What the tokenizer library raises becomes a refusal; what it does not raise passes."""

import pytest

from samebits.errors import ModelFileError, UnsupportedInput
from samebits.model.border import refuse_failures


class PanicException(BaseException):
    """Named as the class that a panic in Rust raises."""


@pytest.mark.parametrize("failure", [Exception, ValueError, OverflowError, PanicException])
def test_a_failure_becomes_the_refusal_asked_for(failure: type[BaseException]) -> None:
    with (
        pytest.raises(UnsupportedInput, match=r"expected order; found .*chaos") as caught,
        refuse_failures(UnsupportedInput, "order"),
    ):
        raise failure("chaos")
    assert isinstance(caught.value.__cause__, failure)


@pytest.mark.parametrize("other", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_is_no_failure_of_the_library_passes(other: type[BaseException]) -> None:
    with pytest.raises(other), refuse_failures(ModelFileError, "order"):
        raise other
