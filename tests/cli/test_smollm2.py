"""The two commands a newcomer runs, on the built-in model: generate with a receipt, and verify."""

from pathlib import Path

from samebits.model.source import default_cache_dir
from samebits.record.receipt import Receipt
from tests.cli.command import Ended, start


def run_with_default_model(*arguments: str) -> Ended:
    """Run with the cache that the other tests use."""
    return start(*arguments, environment={"SAMEBITS_CACHE_DIR": str(default_cache_dir())})


def test_the_built_in_model_answers_and_its_receipt_verifies_on_one_thread(tmp_path: Path) -> None:
    file = str(tmp_path / "sky.json")
    asked = ("generate", "Why is the sky blue?", "--max-tokens", "8", "--threads", "2")
    made = run_with_default_model(*asked, "--receipt", file)
    assert made.code == 0, made.err
    assert made.out == "The answer to this question lies in the\n"
    receipt = Receipt.from_json(Path(file).read_bytes())
    assert receipt.header.arithmetic == "sb1"
    verified = run_with_default_model("verify", file, "--threads", "1")
    assert verified.code == 0, verified
    assert verified.out.startswith("same bits: 8 steps\n")
    assert receipt.digest in verified.out
