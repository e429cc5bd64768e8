"""One process of bench.vllm_guard: runs in vLLM's environment, prompts alone and in batches.

    python -m bench.vllm_guard_worker JOB.json ANSWERS.json

Imports vLLM and nothing of samebits: the guard is there if it is installed where Python looks.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

SETTLE_S = 1.0
"""After the last token until vLLM's worker has dropped the last request, and reported it."""


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Load the model once and answer every pass of a job."""
    from vllm import LLM

    llm = LLM(job["model"], disable_log_stats=True, **job["engine"])
    first = {**job, "prompts": job["prompts"][:16]}
    run_pass(llm, first, {"batch": 16, "extra": None, "logprobs": None})  # What is first is slower.
    answers = {}
    for each in job["passes"]:
        answers[each["name"]] = run_pass(llm, job, each)
        print(each["name"], f"{answers[each['name']]['elapsed_s']:.0f} s", flush=True)
    return answers


def run_pass(llm: Any, job: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
    """Answer all prompts, so many at once; a group is answered before the next is asked."""
    from vllm import SamplingParams

    params = SamplingParams(
        temperature=0,
        max_tokens=job["tokens"],
        logprobs=each["logprobs"],
        extra_args=each["extra"],
        detokenize=False,
    )
    prompts = [{"prompt_token_ids": ids} for ids in job["prompts"]]
    groups = [prompts[i : i + each["batch"]] for i in range(0, len(prompts), each["batch"])]
    seen = count_lines(job["report"])
    start = time.monotonic()
    outputs = [out for group in groups for out in llm.generate(group, params, use_tqdm=False)]
    elapsed_s = time.monotonic() - start
    time.sleep(SETTLE_S)
    return {
        "tokens": [list(out.outputs[0].token_ids) for out in outputs],
        "logits": [read_logits(out.outputs[0].logprobs) for out in outputs],
        "elapsed_s": elapsed_s,
        "reports": read_lines(job["report"])[seen:],
    }


def read_logits(steps: Any) -> list[dict[int, float]]:
    """Give the greatest logits of each step by token id; nothing if none were asked for."""
    return [{token: each.logprob for token, each in step.items()} for step in steps or []]


def read_lines(path: str) -> list[Any]:
    """Read the guard's report so far."""
    file = Path(path)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def count_lines(path: str) -> int:
    """Count them."""
    return len(read_lines(path))


def main() -> None:
    """Run one job."""
    job = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(run_job(job)))


if __name__ == "__main__":
    main()
