"""The border to the library `tokenizers`: whatever it raises becomes a refusal of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from samebits.errors import SamebitsError


@contextmanager
def refuse_failures(refusal: type[SamebitsError], expected: str) -> Iterator[None]:
    """Turn a failure of the library into a refusal that says what was expected.

    Enclose calls of the library alone: a mistake of ours would look like a bad file.

    Raises:
        SamebitsError: The library raised or panicked; of the class given.
    """
    try:
        yield
    except MemoryError:
        raise
    # The library raises Exception itself, so no narrower class catches its errors.
    except Exception as error:
        raise refusal(expected=expected, found=f"{error!s:.200}") from error
    # A panic in Rust is a BaseException of a class that no module exports.
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise refusal(expected=expected, found=f"a panic: {error!s:.200}") from error
