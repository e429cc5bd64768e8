"""Loopback servers that tell fixed things on fixed paths, each on a port of its own."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


def tell(value: Any) -> Answer:
    """Answer with JSON."""
    return tell_bytes(json.dumps(value).encode(), "application/json")


def tell_bytes(body: bytes, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    """Answer with anything."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def tell_late(seconds: float) -> Answer:
    """Answer when nobody waits any more."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        tell({})(request)

    return answer


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may hang up on it."""

    def handle_error(self, *_: Any) -> None:
        """Say nothing: that is what some tests are about."""


@contextmanager
def run_server(answers: Mapping[str, Answer], key: str | None = None) -> Iterator[str]:
    """Serve answers by path; 404 for all others, 401 without the key. Gives the address."""

    class Told(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                return tell_bytes(b'{"error": "who?"}', "application/json", 401)(self)
            answers.get(self.path, tell_bytes(b"no", "text/plain", 404))(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = QuietServer(("127.0.0.1", 0), Told)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def models(owner: str, *names: str, **more: Any) -> Answer:
    """Answer as /v1/models does."""
    return tell({"data": [{"id": name, "owned_by": owner, **more} for name in names]})


def vllm(version: str = "0.32.0", name: str = "org/m", **more: Any) -> dict[str, Answer]:
    return {
        "/v1/models": models("vllm", name, **more),
        "/version": tell({"version": version}),
    }


def sglang(**settings: Any) -> dict[str, Answer]:
    return {
        "/v1/models": models("sglang", "org/m"),
        "/get_server_info": tell({"version": "0.5.3", **settings}),
        "/get_model_info": tell({"model_path": "/home/me/m", "is_generation": True}),
    }


def llama(build: str, template: str, **more: Any) -> dict[str, Answer]:
    props = {"build_info": build, "chat_template": template, "total_slots": 4, **more}
    return {"/v1/models": models("llamacpp", "m.gguf"), "/props": tell(props)}


def ollama(version: str) -> dict[str, Answer]:
    return {"/v1/models": models("library", "m:latest"), "/api/version": tell({"version": version})}
