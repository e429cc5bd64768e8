"""Which server an address belongs to: its base address, its models, its name and version.

Knows no prompts but one: whether a chat template writes today's date is seen by having the server
render a message.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from samebits.audit.targets.http_client import Client
from samebits.audit.targets.http_failures import BUSY, FAILED, Refused
from samebits.audit.targets.http_wire import NoAnswer, parse
from samebits.errors import ConfigError, TargetError
from samebits.lock.masking import mask

ENDPOINTS = ("/chat/completions", "/completions", "/models")
SHOWN_MODELS = 20
_DATES = ("%Y-%m-%d", "%d %b %Y", "%d %B %Y", "%B %d, %Y", "%b %d, %Y", "%d/%m/%Y", "%m/%d/%Y")
# Path, name of the server, field of its version.
_VERSIONS = (
    ("/version", "vllm", "version"),
    ("/props", "llama.cpp", "build_info"),
    ("/api/version", "ollama", "version"),
    ("/get_server_info", "sglang", "version"),
)
_OWNERS = {"vllm": "vllm", "llamacpp": "llama.cpp", "library": "ollama", "sglang": "sglang"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What stands behind an address."""

    base: str
    """Address that /completions and the rest are appended to."""
    kind: str
    """vllm, llama.cpp, ollama, sglang, or unknown."""
    version: str | None
    header: str | None
    """Its `server` header."""
    models: tuple[str, ...]
    """All it lists; empty if it lists none."""
    model: str

    @property
    def root(self) -> str:
        """Address that the server's own paths are appended to."""
        return self.base.removesuffix("/v1")


def check_url(url: str) -> str:
    """Bring an address into form: without a slash or an endpoint's path at its end.

    Raises:
        ConfigError: It is no http or https address of a server, or carries a secret.
    """
    try:
        parts = urlsplit(url.strip())
        has_port = parts.port is None or parts.port > 0
    except ValueError as error:
        # Not in its words: they repeat the address.
        raise ConfigError(expected="an address", found=f"{mask(url)!r:.200}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        raise ConfigError(
            expected="an address such as http://127.0.0.1:8000/v1 or https://…",
            found=f"{mask(url)!r:.200}",
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            expected="an address without a user and a password",
            found=f"one at {parts.hostname}",
            remedy="Records and reports carry the address: give the key by itself.",
        )
    if parts.query or parts.fragment:
        raise ConfigError(expected="an address without ? and #", found=f"{mask(url)!r:.200}")
    path = parts.path.rstrip("/")
    for endpoint in ENDPOINTS:
        path = path.removesuffix(endpoint)
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}"


async def find_server(client: Client, url: str, model: str | None) -> Server:
    """Ask an address what it is.

    Args:
        url: As check_url gives it, with or without /v1.

    Raises:
        TargetError: Nothing answers there, or not in the protocol, or the model is unclear.
    """
    base, listed, header = await _find_models(client, url)
    models = tuple(entry["id"] for entry in listed)
    kind, version = await _find_kind(client, base.removesuffix("/v1"), listed)
    return Server(
        base=base,
        kind=kind,
        version=version,
        header=header,
        models=models,
        model=_pick_model(model, models, base),
    )


async def _find_models(client: Client, url: str) -> tuple[str, list[Mapping[str, Any]], str | None]:
    """Give the base address, its list of models, and the server header."""
    bases = [url] if url.endswith("/v1") else [f"{url}/v1", url]
    failures: list[NoAnswer] = []
    for base in bases:
        try:
            raw = await client.get(f"{base}/models", (BUSY, FAILED))
            listed = parse(raw.body).get("data")
            if not isinstance(listed, list):
                raise NoAnswer(expected=f"a list of models at {base}/models", found="none")
        except NoAnswer as failure:
            failures.append(failure)
            continue
        entries = [one for one in listed if isinstance(one, Mapping)]
        named = [one for one in entries if isinstance(one.get("id"), str)]
        return base, named, raw.headers.get("Server")
    if all(isinstance(one, Refused) for one in failures):
        # Some servers list no models; the first call will tell whether there is anything.
        return bases[0], [], None
    shown = next(one for one in failures if not isinstance(one, Refused))
    raise TargetError(
        expected=f"an OpenAI-compatible endpoint at {url}", found=shown.found, remedy=shown.remedy
    )


def _pick_model(model: str | None, models: tuple[str, ...], base: str) -> str:
    if model is not None:
        return model
    if len(models) == 1:
        return models[0]
    raise TargetError(
        expected=f"a model name, since {base} does not serve exactly one",
        found=list_models(models),
        remedy="Name one with --model.",
    )


def list_models(models: tuple[str, ...]) -> str:
    """Spell a list of models, not too long."""
    if not models:
        return "no list of models"
    more = f" and {len(models) - SHOWN_MODELS} more" if len(models) > SHOWN_MODELS else ""
    return ", ".join(models[:SHOWN_MODELS]) + more


async def _find_kind(
    client: Client, root: str, listed: list[Mapping[str, Any]]
) -> tuple[str, str | None]:
    """Find the server's name and version by the paths that only it has."""
    owners = {str(entry.get("owned_by")) for entry in listed}
    owned = next((_OWNERS[owner] for owner in sorted(owners) if owner in _OWNERS), None)
    for path, kind, field in _VERSIONS:
        if owned not in (None, kind):
            continue
        table = await fetch_json(client, f"{root}{path}")
        if isinstance(table.get(field), str) and (owned == kind or path != "/version"):
            return kind, table[field][:100]
    return owned or "unknown", None


async def fetch_json(
    client: Client, url: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Fetch a table from a path that many servers lack; empty if there is none."""
    try:
        raw = await (client.get(url, (BUSY,)) if body is None else client.post(url, body, (BUSY,)))
        return parse(raw.body)
    except TargetError:
        # Absent, forbidden or broken: either way nothing is known.
        return {}


async def count_tokens(client: Client, server: Server, text: str) -> int | None:
    """Have the server count the tokens of a text; None if it cannot."""
    body = {"model": server.model, "prompt": text, "content": text}
    table = await fetch_json(client, f"{server.root}/tokenize", body)
    tokens = table.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


async def render_chat(client: Client, server: Server) -> str | None:
    """Have the server render a chat of one message; None if it cannot."""
    messages = [{"role": "user", "content": "Hello"}]
    table = await fetch_json(client, f"{server.root}/apply-template", {"messages": messages})
    if isinstance(table.get("prompt"), str):
        return str(table["prompt"])
    body = {"model": server.model, "messages": messages, "add_generation_prompt": True}
    tokens = (await fetch_json(client, f"{server.root}/tokenize", body)).get("tokens")
    if not isinstance(tokens, list):
        return None
    body = {"model": server.model, "tokens": tokens}
    text = (await fetch_json(client, f"{server.root}/detokenize", body)).get("prompt")
    return text if isinstance(text, str) else None


def describe_rendered(text: str | None) -> dict[str, Any]:
    """Say what a rendered prompt shows of the template: its digest, and whether it has a date."""
    if text is None:
        return {"date_in_prompt": None}
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return {"date_in_prompt": has_date(text, datetime.now(UTC)), "rendered_prompt": digest}


def has_date(text: str, now: datetime) -> bool:
    """Answer whether the date of now, or of the day before or after, stands in a text."""
    days = [now + timedelta(days=shift) for shift in (-1, 0, 1)]
    spelled = {day.strftime(form) for day in days for form in _DATES}
    bare = {one.replace(" 0", " ").removeprefix("0") for one in spelled}
    return any(one in text for one in spelled | bare)
