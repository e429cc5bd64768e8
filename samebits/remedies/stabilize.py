"""The door to stable models. Imports without PyTorch."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from samebits.errors import ConfigError
from samebits.remedies.torch_extra import need

if TYPE_CHECKING:
    from samebits.remedies.choose import Chooser
    from samebits.remedies.stable_cache import AnswerCache
    from samebits.remedies.stable_model import StableModel

ROWS = 8
SHAPES = ("fixed", "alone")


def stabilize(
    model: Any,
    tokenizer: Any = None,
    *,
    shape: str = "fixed",
    rows: int = ROWS,
    buckets: Sequence[int] | None = None,
    precision: str | Mapping[str, str] | None = None,
    guard: "Chooser | None" = None,
    cache: "AnswerCache | None" = None,
) -> "StableModel":
    """Give a transformers model whose answers do not depend on what is asked beside them.

    Args:
        model: A decoder of transformers on one device. It is changed only during calls.
        tokenizer: For prompts and answers as texts; None: token ids alone.
        shape: "fixed" reads prompts in batches of one shape, rows by bucket, and proves by a
            self-test at the first use of each bucket which rows may hold prompts. "alone" reads
            each prompt by itself.
        rows: Of a batch in a fixed shape.
        buckets: Lengths to which prompts are padded; None: powers of two from 64 to 4096.
        precision: "float32" or "float64" for the computation of the whole model, or a mapping of
            the parts logits, norms, attention, residual to one of them. The weights stay.
        guard: Chooses the tokens instead of the greatest logit, row by row.
        cache: Keeps answers, as samebits.cache.OutputCache does, whose rules of admission hold: by
            default answers that were cut off are not kept. Not with a guard, whose settings no key
            would name.
    Raises:
        ConfigError: The model has no stable form, a setting is impossible, or PyTorch is missing.
    """
    need("torch", "transformers")
    from samebits.remedies import fixed
    from samebits.remedies import precision as precisions
    from samebits.remedies import shape as shapes
    from samebits.remedies.stable_model import Setting, StableModel

    if shape not in SHAPES:
        raise ConfigError(expected=f"shape {' or '.join(SHAPES)}", found=repr(shape))
    if not is_count(rows):
        raise ConfigError(expected="rows of at least 1", found=repr(rows))
    is_class = isinstance(guard, type)
    if guard is not None and (is_class or not callable(getattr(guard, "choose", None))):
        raise ConfigError(
            expected="a guard that chooses tokens: GuardChooser(Guard(...))", found=repr(guard)
        )
    if guard is not None and cache is not None:
        raise ConfigError(expected="a guard or a cache", found="both")
    shapes.check_model(model)
    is_fixed = shape == "fixed"
    if is_fixed:
        shapes.check_fixed(model)
    setting = Setting(
        shape=shape,
        rows=rows if is_fixed else 1,
        buckets=fixed.check_buckets(fixed.BUCKETS if buckets is None else buckets)
        if is_fixed
        else (),
        plan=precisions.plan(model, precision),
        guard=guard,
        cache=cache,
    )
    return StableModel(model, tokenizer, setting)


def is_count(value: Any) -> bool:
    """Answer whether a value is an integer above 0; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
