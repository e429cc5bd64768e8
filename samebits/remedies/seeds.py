"""One seed for every global random generator of this process, and the flags that go with it.

PyTorch is seeded if it is loaded, or imported for it if that is asked for; a program that never
uses it does not wait for it.
"""

import inspect
import operator
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ContextDecorator, ExitStack
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from samebits.errors import ConfigError
from samebits.remedies.seeds_knobs import Knob, list_hash_gaps, list_knobs
from samebits.remedies.seeds_report import SeedItem, SeedReport
from samebits.remedies.seeds_torch import list_torch_knobs, list_workspace
from samebits.remedies.torch_extra import need_one

LARGEST_SEED = 2**32 - 1
"""The largest that NumPy's legacy generator takes: one rule for all of them."""

Found = list[Knob | SeedItem]
Function = TypeVar("Function", bound=Callable[..., Any])
LATE = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
"""What runs after the call of it has returned."""


def seed_everything(
    seed: int,
    *,
    strict: bool = True,
    torch: bool | None = None,
    variables: MutableMapping[str, str] | None = None,
) -> SeedReport:
    """Seed random, NumPy's global generator and PyTorch, and demand deterministic algorithms.

    Sets torch.use_deterministic_algorithms, cuDNN's deterministic and benchmark, and reports all
    that it could not set, such as PYTHONHASHSEED. To undo it all, use `seeded` instead.

    CUBLAS_WORKSPACE_CONFIG is an environment variable. A library that writes the environment of
    its caller surprises every child process and every other library, so none is written unless
    you hand the mapping over: `variables=os.environ`. Without it the report says what to do.

    Args:
        seed: 0 to 2**32 - 1; zero is a seed like any other.
        strict: Whether an operation of PyTorch without a deterministic form raises RuntimeError;
            if not, it warns.
        torch: Whether to seed PyTorch. None: if it is loaded already; the report tells if not.
        variables: Where CUBLAS_WORKSPACE_CONFIG may be written; a value that is there stays.
    Returns:
        What was set, what was not and why, and what no seed reaches.
    Raises:
        ConfigError: The seed is no such integer, or PyTorch is asked for and not installed.
    """
    checked = check_seed(seed)
    found = find_knobs(torch, variables, strict=strict, restorable=False)
    for knob in found:
        if isinstance(knob, Knob):
            knob.turn(checked)
    return make_report(checked, found)


class seeded(ContextDecorator):
    """Seed everything inside a block, and put everything back exactly after it.

    States of generators, flags and the variable are those of before, also after an exception. May
    be nested, entered again while it is entered, and used as a decorator. A GPU that has not
    started before the block is not seeded, since it has no state to put back; the report says so.
    The generators are those of the whole process: other threads see them too. Blocks must end in
    the opposite order to that in which they began: one of another thread that overlaps this one
    puts back what it found, in the middle of it.
    """

    def __init__(
        self,
        seed: int,
        *,
        strict: bool = True,
        torch: bool | None = None,
        variables: MutableMapping[str, str] | None = None,
    ) -> None:
        """Take what `seed_everything` takes; nothing is set before the block begins."""
        self._seed = check_seed(seed)
        self._strict = strict
        self._torch = torch
        self._variables = variables
        self._entered: list[ExitStack] = []

    def __call__(self, func: Function) -> Function:
        """Seed every call of a function.

        Raises:
            ConfigError: A generator or coroutine, whose body runs when the call is over.
        """
        if any(is_late(func) for is_late in LATE):
            raise ConfigError(
                expected="a function whose call runs its body",
                found=f"{func.__qualname__}, a generator or coroutine",
                remedy="Write the block inside it: with seeded(seed):",
            )
        return super().__call__(func)

    def __enter__(self) -> SeedReport:
        found = find_knobs(self._torch, self._variables, strict=self._strict, restorable=True)
        with ExitStack() as stack:
            for knob in found:
                if isinstance(knob, Knob):
                    stack.callback(knob.restore, knob.read())
                    knob.turn(self._seed)
            self._entered.append(stack.pop_all())
        return make_report(self._seed, found)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.pop().close()


def check_seed(seed: object) -> int:
    """Check a seed against the one rule that suits every generator.

    Raises:
        ConfigError: No integer (True and False are none), or outside 0 to 2**32 - 1.
    """
    try:
        # Integers of NumPy are integers; a bool is one for Python, but never meant as a seed.
        value = -1 if isinstance(seed, bool) else operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        value = -1
    if not 0 <= value <= LARGEST_SEED:
        raise ConfigError(
            expected=f"a seed: an integer from 0 to {LARGEST_SEED}",
            found=repr(seed),
            remedy="Zero is a seed; for a larger number, take it modulo 2**32.",
        )
    return value


def find_knobs(
    asked: bool | None,
    variables: MutableMapping[str, str] | None,
    *,
    strict: bool,
    restorable: bool,
) -> Found:
    """Find all that can be set now, and why the rest cannot."""
    torch = find_torch(asked)
    found = list(list_knobs())
    if torch is None:
        found += explain_no_torch(asked)
    else:
        found += list_torch_knobs(torch, strict=strict, restorable=restorable)
    found += list_workspace(torch, variables)
    found += list_hash_gaps(variables)
    return found


def find_torch(asked: bool | None) -> ModuleType | None:
    """Find PyTorch if it is asked for, or loaded and not declined."""
    if asked:
        return need_one("torch")
    return None if asked is False else sys.modules.get("torch")


def explain_no_torch(asked: bool | None) -> Iterator[SeedItem]:
    """Say why PyTorch is left alone."""
    why = "it is not loaded; call this after import torch, or with torch=True"
    yield SeedItem(name="torch", why="declined" if asked is False else why)


def make_report(seed: int, found: Found) -> SeedReport:
    """Report what was found."""
    return SeedReport(
        seed=seed,
        set=tuple(
            SeedItem(name=knob.name, value=knob.value.replace("the seed", str(seed)))
            for knob in found
            if isinstance(knob, Knob)
        ),
        not_set=tuple(item for item in found if isinstance(item, SeedItem)),
    )
