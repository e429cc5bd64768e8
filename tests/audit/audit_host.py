"""Runs one attempt of an audit of a scripted target with a record on the disk: python -m THIS."""

import sys
from pathlib import Path

from samebits.audit.plan import Plan
from samebits.audit.record_reader import read_record
from samebits.audit.record_writer import RecordWriter
from samebits.audit.run import run_audit
from samebits.audit.targets.stub import Stub
from samebits.audit.targets.stub_causes import read_script
from tests.audit.audit_journal import make_options, make_prompts
from tests.audit.audit_records import make_header


def main(path: Path, script: str) -> None:
    """Begin a record, or go on with the one that lies there."""
    past = read_record(path) if path.exists() else None

    def begin(plan: Plan) -> RecordWriter:
        if past is not None:
            return RecordWriter.resume(path)
        header = make_header(target=plan.facts, prompts=make_prompts(), nonce="n")
        return RecordWriter.create(path, header)

    options = make_options(axes=("repeat", "batch", "prefix", "first-call", "threads"))
    run_audit(options, Stub(read_script(script)), begin, tell=lambda progress: None, past=past)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
