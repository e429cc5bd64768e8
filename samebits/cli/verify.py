"""samebits verify: run a receipt again and compare every bit."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samebits.cli.names import DEFAULT_MODEL, MODEL_HELP

if TYPE_CHECKING:
    from samebits.engine.replay import Difference
    from samebits.record.receipt import Receipt

LARGEST_RECEIPT_BYTES = 256 * 2**20


def verify(
    receipt: Annotated[
        Path, typer.Argument(help="Written by samebits generate --receipt.", show_default=False)
    ],
    model: Annotated[str, typer.Option(metavar="MODEL", help=MODEL_HELP)] = DEFAULT_MODEL,
    threads: Annotated[
        int | None, typer.Option(help="Threads; all cores if not given. Speed only, never bits.")
    ] = None,
) -> None:
    """Run a receipt again and compare every bit.

    Exit code 0: the same bits; 1: others, named; 2: it cannot be run.
    """
    from samebits.cli.environment import read_environment
    from samebits.cli.loading import load_engine
    from samebits.engine.replay import check_receipt

    environment = read_environment()
    claimed = read_receipt(receipt)
    with load_engine(
        model,
        environment,
        weights=f"w{claimed.header.weight_bits or 16}",
        arithmetic=claimed.header.arithmetic,
        threads=threads,
    ) as engine:
        differences = check_receipt(claimed, engine)
    print_verdict(claimed, differences)
    if differences:
        raise typer.Exit(1)


def read_receipt(path: Path) -> "Receipt":
    """Read a receipt and check it against itself.

    Raises:
        RecordCorrupt: It cannot be read, or is no receipt, or was changed; names the field.
    """
    from samebits.errors import RecordCorrupt
    from samebits.record.receipt import Receipt

    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_RECEIPT_BYTES + 1)
    except OSError as error:
        raise RecordCorrupt(
            expected=f"a receipt at {path}", found=error.strerror or str(error)
        ) from error
    if len(data) > LARGEST_RECEIPT_BYTES:
        raise RecordCorrupt(
            expected=f"a receipt of at most {LARGEST_RECEIPT_BYTES} bytes", found="more"
        )
    try:
        return Receipt.from_json(data)
    except RecordCorrupt as error:
        raise RecordCorrupt(
            expected=f"an unchanged receipt in {path}: {error.expected}",
            found=error.found,
            remedy=error.remedy,
        ) from error


def print_verdict(claimed: "Receipt", differences: "list[Difference]") -> None:
    """Print what was found: the digests that agree, or every difference by name."""
    if not differences:
        num_steps = sum(len(sample.steps) for sample in claimed.samples)
        print(f"same bits: {num_steps} steps")
        print(f"receipt  {claimed.digest}")
        print(f"weights  {claimed.header.model.weights}")
        for sample in claimed.samples:
            print(f"logits   {sample.chain}  (sample {sample.index})")
        return
    print("other bits than the receipt says:")
    for difference in differences:
        print(f"  {difference.field}")
        print(f"    receipt  {difference.expected}")
        print(f"    here     {difference.found}")
    if claimed.header.arithmetic != "sb1":
        print(f"{claimed.header.arithmetic} promises no bits; sb1 does.", file=sys.stderr)
