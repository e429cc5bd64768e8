import pytest

from samebits.advise.ladder import choose_rungs
from samebits.advise.record import FORMAT, AdviceRecord, read_advice, write_advice
from samebits.advise.run import run_ladder
from samebits.errors import RecordCorrupt
from tests.advise.scripted import Scripted, make_options, make_record


@pytest.fixture(scope="module")
def record() -> AdviceRecord:
    options = make_options(*choose_rungs(["sb1"]))
    return run_ladder(
        options, Scripted(), make_record(options), keep=lambda _: None, tell=lambda _: None
    )


def test_a_record_is_read_as_it_was_written(record: AdviceRecord) -> None:
    text = write_advice(record)
    assert read_advice(text.encode(), "a") == record
    assert write_advice(read_advice(text.encode(), "a")) == text


def test_every_changed_byte_is_refused(record: AdviceRecord) -> None:
    data = write_advice(record).encode()
    for place in range(0, len(data) - 1, 37):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(RecordCorrupt):
            read_advice(changed, "a")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"{}", b'{"format":"samebits/advice/v2"}', b'{"advice":1,"advice":2}'],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(RecordCorrupt):
        read_advice(data, "a")


def test_another_version_is_named(record: AdviceRecord) -> None:
    data = write_advice(record).replace(FORMAT, "samebits/advice/v9").encode()
    with pytest.raises(RecordCorrupt, match="advice/v9"):
        read_advice(data, "a")
