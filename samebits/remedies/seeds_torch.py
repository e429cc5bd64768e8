"""What can be seeded and fixed in PyTorch. Takes the module: it may never be imported here."""

from collections.abc import Callable, Iterator, MutableMapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from samebits.remedies.seeds_knobs import Knob
from samebits.remedies.seeds_report import SeedItem

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
WORKSPACE_VALUE = ":4096:8"
WORKSPACES = (WORKSPACE_VALUE, ":16:8")
"""Values that fix cuBLAS. Source: NVIDIA, cuBLAS, "Results reproducibility"."""
BY_HAND = f"set it before Python starts: {WORKSPACE}={WORKSPACE_VALUE} python ..., or samebits run"


class Algorithms(NamedTuple):
    """What torch demands of algorithms."""

    enabled: bool
    warn_only: bool
    inductor: Any
    """The compiler's own flag, which torch moves along; None where it has none."""


def list_torch_knobs(
    torch: ModuleType, *, strict: bool, restorable: bool
) -> Iterator[Knob | SeedItem]:
    """List PyTorch's generators and flags.

    Args:
        strict: Whether an operation without a deterministic form raises, or only warns.
        restorable: Leave out what could not be put back: a device that has not started has no
            state yet, and would start with our seed after the block.
    """
    yield Knob(
        name="torch (CPU)",
        read=torch.get_rng_state,
        restore=torch.set_rng_state,
        turn=torch.default_generator.manual_seed,
        value="the seed",
    )
    yield from list_devices(torch, restorable=restorable)
    cudnn = torch.backends.cudnn
    yield make_flag(cudnn, "torch.backends.cudnn.deterministic", True)
    yield make_flag(cudnn, "torch.backends.cudnn.benchmark", False)
    yield Knob(
        name="torch.use_deterministic_algorithms",
        read=lambda: read_algorithms(torch),
        restore=lambda state: restore_algorithms(torch, state),
        turn=lambda _seed: torch.use_deterministic_algorithms(True, warn_only=not strict),
        value="True" if strict else "True, warn_only=True",
    )


def list_devices(torch: ModuleType, *, restorable: bool) -> Iterator[Knob | SeedItem]:
    """List the generators of GPUs that are there."""
    if torch.cuda.is_available():
        if restorable and not torch.cuda.is_initialized():
            why = "CUDA has not started, so there is no state to put back; torch.cuda.init() first"
            yield SeedItem(name="torch (CUDA)", why=why)
        else:
            yield make_cuda(torch)
    if torch.backends.mps.is_available():
        yield Knob(
            name="torch (MPS)",
            read=torch.mps.get_rng_state,
            restore=torch.mps.set_rng_state,
            turn=torch.mps.manual_seed,
            value="the seed",
        )


def make_cuda(torch: ModuleType) -> Knob:
    """Make the knob of all CUDA devices; those that have not started take the seed when they do."""
    return Knob(
        name="torch (CUDA)",
        read=torch.cuda.get_rng_state_all,
        restore=torch.cuda.set_rng_state_all,
        turn=torch.cuda.manual_seed_all,
        value="the seed",
    )


def make_flag(owner: Any, name: str, value: bool) -> Knob:
    """Make the knob of an attribute, which is the last part of its name."""
    attribute = name.rpartition(".")[2]
    write: Callable[[Any], None] = lambda state: setattr(owner, attribute, state)  # noqa: E731
    return Knob(
        name=name,
        read=lambda: getattr(owner, attribute),
        restore=write,
        turn=lambda _seed: write(value),
        value=str(value),
    )


def read_algorithms(torch: ModuleType) -> Algorithms:
    """Read what is demanded of algorithms."""
    return Algorithms(
        enabled=torch.are_deterministic_algorithms_enabled(),
        warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        inductor=getattr(import_module("torch._inductor.config"), "deterministic", None),
    )


def restore_algorithms(torch: ModuleType, state: Algorithms) -> None:
    """Demand what was demanded; the compiler's flag may have been on by itself before."""
    torch.use_deterministic_algorithms(state.enabled, warn_only=state.warn_only)
    if state.inductor is not None:
        import_module("torch._inductor.config").deterministic = state.inductor  # type: ignore[attr-defined]


def list_workspace(
    torch: ModuleType | None, variables: MutableMapping[str, str] | None
) -> Iterator[Knob | SeedItem]:
    """Set cuBLAS's workspace in the variables that were handed over, if it is not too late."""
    if torch is not None and not torch.version.cuda:
        return
    found = None if variables is None else variables.get(WORKSPACE)
    if found in WORKSPACES:
        return
    if torch is not None and torch.cuda.is_initialized():
        yield SeedItem(name=WORKSPACE, why=f"too late, CUDA has started; {BY_HAND}")
    elif found:
        yield SeedItem(name=WORKSPACE, why=f"it is {found!r} already; {BY_HAND}")
    elif variables is not None:
        yield make_variable(variables, WORKSPACE, WORKSPACE_VALUE)
    elif torch is not None:
        why = f"no variables were handed over (variables=os.environ); {BY_HAND}"
        yield SeedItem(name=WORKSPACE, why=why)


def make_variable(variables: MutableMapping[str, str], name: str, value: str) -> Knob:
    """Make the knob of a variable that is not set."""
    return Knob(
        name=name,
        read=lambda: variables.get(name),
        restore=lambda state: restore_variable(variables, name, state),
        turn=lambda _seed: variables.__setitem__(name, value),
        value=value,
    )


def restore_variable(variables: MutableMapping[str, str], name: str, state: str | None) -> None:
    """Put a variable back, or take it away."""
    if state is None:
        variables.pop(name, None)
    else:
        variables[name] = state
