"""A receipt: what is needed to run a request again and to see that the bits are the same.

Its body is canonical and digested; it holds no clock, host, path or thread count. Those that help
a reader stand in `observed`, outside the digest. Normative: docs/formats.md, "Receipt".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import RecordCorrupt
from samebits.record.canonical import canonical_bytes, parse_json, read_int
from samebits.record.digest import is_digest, tagged_digest

FORMAT = "samebits/receipt/v1"
CONTRACT = "sb1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which numbers and words the model is made of."""

    weight_file: str
    """Digest of the weight file or files."""
    weights: str
    """Digest of the weights as the arithmetic holds them; under sb1 of the integers."""
    tokenizer: str
    template: str | None
    """None: the model has no chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """All that the bits of a request may depend on, and what it was called."""

    contract: str = CONTRACT
    """Version of docs/numerics.md."""
    version: str
    """samebits version that wrote the receipt."""
    arithmetic: str
    """sb1, or a plain arithmetic, whose bits carry no promise."""
    weight_bits: int | None
    """16 or 8; None under a plain arithmetic."""
    model: ModelIdentity
    prompt: str | None
    """Digest of the rendered prompt's UTF-8 bytes; None if token ids were given."""
    prompt_ids: tuple[int, ...]
    params: Mapping[str, Any]
    """Parameter name to {"value", "origin"}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One output, and the digests of the logits it was drawn from."""

    index: int
    token_ids: tuple[int, ...]
    finish_reason: str
    steps: tuple[str, ...]
    """Digest of the raw logits each token was drawn from."""
    chain: str
    """The last link over all steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A request, its outputs, and the evidence of how they came about."""

    header: Header
    samples: tuple[Sample, ...]
    observed: Mapping[str, Any] = field(default_factory=dict)
    """Not digested: kernel set, ISA level, threads."""

    @property
    def digest(self) -> str:
        """Digest of header and samples."""
        return tagged_digest(FORMAT, canonical_bytes(self.body()))

    def body(self) -> dict[str, Any]:
        """Give the digested part as plain values."""
        return {
            "format": FORMAT,
            "header": header_value(self.header),
            "samples": [plain(sample) for sample in self.samples],
        }

    def to_json(self) -> str:
        """Spell the receipt in canonical JSON, one line."""
        whole = {"body": self.body(), "digest": self.digest, "observed": dict(self.observed)}
        return canonical_bytes(whole).decode() + "\n"

    @classmethod
    def from_json(cls, data: bytes | str) -> "Receipt":
        """Read a receipt and check it against itself.

        Raises:
            RecordCorrupt: Unknown or missing keys, another version, a wrong type, or a digest or
                chain that does not match; the message names the field.
        """
        whole = take(parse_json(data), "receipt", {"body", "digest", "observed"})
        body = take(whole["body"], "body", {"format", "header", "samples"})
        if body["format"] != FORMAT:
            raise corrupt("body.format", FORMAT, body["format"])
        header = read_header(body["header"])
        samples = tuple(
            read_sample(value, f"body.samples[{i}]", header)
            for i, value in enumerate(need(body["samples"], list, "body.samples"))
        )
        receipt = cls(
            header=header,
            samples=samples,
            observed=need(whole["observed"], dict, "observed"),
        )
        if whole["digest"] != receipt.digest:
            raise corrupt("digest", receipt.digest, whole["digest"])
        return receipt


class LogitChain:
    """Digest the logits of one sample, step by step, each link holding the one before."""

    def __init__(self, header: Header, index: int) -> None:
        start = {**origin_of_bits(header), "index": index}
        self.link = tagged_digest("samebits/chain-start/v1", canonical_bytes(start))
        self.steps: list[str] = []

    def push(self, logits: NDArray[np.float32]) -> None:
        """Add the raw (V,) logits of a step."""
        self.push_digest(logits_digest(logits))

    def push_digest(self, step: str) -> None:
        """Add a step by the digest of its logits."""
        self.steps.append(step)
        self.link = tagged_digest("samebits/chain/v1", self.link.encode(), step.encode())


def logits_digest(logits: NDArray[np.float32]) -> str:
    """Digest (V,) logits as little-endian binary32."""
    return tagged_digest("samebits/logits/v1", np.ascontiguousarray(logits, "<f4").data.cast("B"))


def plain(value: Any) -> dict[str, Any]:
    """Give the fields of a flat dataclass as a dictionary."""
    return {f.name: getattr(value, f.name) for f in fields(value)}


def header_value(header: Header) -> dict[str, Any]:
    """Give a header as plain values."""
    return {**plain(header), "model": plain(header.model)}


def origin_of_bits(header: Header) -> dict[str, Any]:
    """Give what the logits of a prompt may depend on; parameters only choose among them."""
    return {
        "contract": header.contract,
        "arithmetic": header.arithmetic,
        "weight_bits": header.weight_bits,
        "weights": header.model.weights,
        "prompt_ids": list(header.prompt_ids),
    }


def corrupt(where: str, expected: str, found: object) -> RecordCorrupt:
    """Make the error for one field."""
    return RecordCorrupt(expected=f"{where}: {expected}", found=repr(found)[:200])


def need(value: object, kind: type, where: str) -> Any:
    """Give a value of a type back; a bool is no integer."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise corrupt(where, f"a {kind.__name__}", value)
    return value


def take(value: object, where: str, keys: set[str]) -> dict[str, Any]:
    """Give an object with exactly these keys back."""
    found: dict[str, Any] = need(value, dict, where)
    if unknown := sorted(set(found) - keys):
        raise corrupt(where, "no unknown key", unknown)
    if missing := sorted(keys - set(found)):
        raise corrupt(where, f"the keys {', '.join(missing)}", "none")
    return found


def field_names(kind: type) -> set[str]:
    """List the fields of a dataclass."""
    return {f.name for f in fields(kind)}


def read_digest(value: object, where: str) -> str:
    """Give a digest back."""
    if not is_digest(value):
        raise corrupt(where, "sha256: and 64 hexadecimal digits", value)
    return str(value)


def read_ids(value: object, where: str) -> tuple[int, ...]:
    """Give token ids back."""
    return tuple(
        need(item, int, f"{where}[{i}]") for i, item in enumerate(need(value, list, where))
    )


def read_header(value: object) -> Header:
    """Read a header, field by field."""
    where = "body.header"
    found = take(value, where, field_names(Header))
    if found["contract"] != CONTRACT:
        raise corrupt(f"{where}.contract", CONTRACT, found["contract"])
    bits = found["weight_bits"]
    prompt = found["prompt"]
    return Header(
        contract=CONTRACT,
        version=need(found["version"], str, f"{where}.version"),
        arithmetic=need(found["arithmetic"], str, f"{where}.arithmetic"),
        weight_bits=None if bits is None else need(bits, int, f"{where}.weight_bits"),
        model=read_model(found["model"]),
        prompt=None if prompt is None else read_digest(prompt, f"{where}.prompt"),
        prompt_ids=read_ids(found["prompt_ids"], f"{where}.prompt_ids"),
        params=read_params(found["params"]),
    )


def read_model(value: object) -> ModelIdentity:
    """Read a model identity, field by field."""
    where = "body.header.model"
    found = take(value, where, field_names(ModelIdentity))
    template = found["template"]
    return ModelIdentity(
        weight_file=read_digest(found["weight_file"], f"{where}.weight_file"),
        weights=read_digest(found["weights"], f"{where}.weights"),
        tokenizer=read_digest(found["tokenizer"], f"{where}.tokenizer"),
        template=None if template is None else read_digest(template, f"{where}.template"),
    )


def read_params(value: object) -> dict[str, Any]:
    """Read parameters; a seed of 2**53 or more comes as a string."""
    where = "body.header.params"
    params: dict[str, Any] = need(value, dict, where)
    for name, setting in params.items():
        take(setting, f"{where}.{name}", {"value", "origin"})
        need(setting["origin"], str, f"{where}.{name}.origin")
    if "seed" in params and params["seed"]["value"] is not None:
        params["seed"]["value"] = read_int(params["seed"]["value"], f"{where}.seed.value")
    return params


def read_sample(value: object, where: str, header: Header) -> Sample:
    """Read a sample and check that its chain follows from its steps and the header."""
    found = take(value, where, field_names(Sample))
    steps = need(found["steps"], list, f"{where}.steps")
    sample = Sample(
        index=need(found["index"], int, f"{where}.index"),
        token_ids=read_ids(found["token_ids"], f"{where}.token_ids"),
        finish_reason=need(found["finish_reason"], str, f"{where}.finish_reason"),
        steps=tuple(read_digest(step, f"{where}.steps[{i}]") for i, step in enumerate(steps)),
        chain=read_digest(found["chain"], f"{where}.chain"),
    )
    if len(sample.steps) != len(sample.token_ids):
        raise corrupt(f"{where}.steps", f"{len(sample.token_ids)} steps", len(sample.steps))
    chain = LogitChain(header, sample.index)
    for step in sample.steps:
        chain.push_digest(step)
    if sample.chain != chain.link:
        raise corrupt(f"{where}.chain", chain.link, sample.chain)
    return sample
