"""What an environment is and has, as far as it can move bits, and how two of them differ.

Knows neither models nor audits. Normative: docs/formats.md, "Machine facts" and "Lock file".
"""

from samebits.lock.asked import find_ignored
from samebits.lock.contents import Lock
from samebits.lock.flags import read_flags, select_flags
from samebits.lock.lock_file import lock_digest, read_lock, write_lock
from samebits.lock.probe import ProbeResult, run_probe
from samebits.lock.snapshot import capture_lock
from samebits.lock.verify import check_lock, compare_locks

__all__ = [
    "Lock",
    "ProbeResult",
    "capture_lock",
    "check_lock",
    "compare_locks",
    "find_ignored",
    "lock_digest",
    "read_flags",
    "read_lock",
    "run_probe",
    "select_flags",
    "write_lock",
]
