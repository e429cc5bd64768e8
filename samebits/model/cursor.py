"""Takes numbers and strings out of a GGUF header, never past the file's end.

Every method raises ModelFileError, naming what it was about to read, where the file ends before,
the header grows beyond any sense, or bytes are no UTF-8.
"""

import struct

from samebits.errors import ModelFileError
from samebits.model.weight_file import WeightFile

_HEADER_LIMIT_BYTES = 256 << 20
_READ_BYTES = 1 << 20
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Cursor:
    """Read a file in order from its start, a megabyte at a time.

    Attributes:
        file: The file.
        at: Bytes taken so far.
    """

    __slots__ = ("_data", "at", "file")

    def __init__(self, file: WeightFile) -> None:
        """Begin at the start."""
        self.file = file
        self.at = 0
        self._data = b""

    def _step(self, num_bytes: int, what: str) -> int:
        """Have num_bytes bytes in memory from here on, step over them, return where they start."""
        start, stop = self.at, self.at + num_bytes
        if stop > len(self._data):
            self._fill(stop, what)
        self.at = stop
        return start

    def _fill(self, stop: int, what: str) -> None:
        if stop > self.file.size:
            raise ModelFileError(
                expected=f"{stop} bytes to hold {what} of {self.file.path}",
                found=f"a file of {self.file.size}",
                remedy="Fetch the file again.",
            )
        if stop > _HEADER_LIMIT_BYTES:
            raise ModelFileError(
                expected=f"a header of at most {_HEADER_LIMIT_BYTES} bytes in {self.file.path}",
                found=f"{what} at byte {stop}",
            )
        have = len(self._data)
        # At least as much again as there is, so that a long header is not copied over and over.
        upto = min(self.file.size, max(stop, have + max(have, _READ_BYTES)))
        self._data += self.file.read(have, upto - have).tobytes()

    def take_u32(self, what: str) -> int:
        """Take four bytes as a number."""
        start = self._step(4, what)
        value: int = _U32.unpack_from(self._data, start)[0]
        return value

    def take_u64(self, what: str) -> int:
        """Take eight bytes as a number."""
        start = self._step(8, what)
        value: int = _U64.unpack_from(self._data, start)[0]
        return value

    def take_bytes(self, num_bytes: int, what: str) -> bytes:
        """Take bytes as they are."""
        start = self._step(num_bytes, what)
        return self._data[start : self.at]

    def take_string(self, what: str) -> str:
        """Take a string: eight bytes of length, then UTF-8."""
        raw = self.take_bytes(self.take_u64(what), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"byte {raw[error.start]:#04x} in {what} of {self.file.path}"
            raise ModelFileError(expected="UTF-8", found=found) from error

    def take_strings(self, count: int, what: str) -> list[str]:
        """Take many strings, without a call for each: a vocabulary has some 100,000."""
        strings: list[str] = []
        while len(strings) < count:
            self._take_strings_at_hand(strings, count)
            if len(strings) < count:
                strings.append(self.take_string(what))
        return strings

    def _take_strings_at_hand(self, strings: list[str], count: int) -> None:
        """Append the strings that lie whole in memory and are UTF-8."""
        data, at = self._data, self.at
        while len(strings) < count and at + 8 <= len(data):
            stop = at + 8 + int.from_bytes(data[at : at + 8], "little")
            if stop > len(data):
                break
            try:
                strings.append(data[at + 8 : stop].decode())
            except UnicodeDecodeError:
                break
            at = stop
        self.at = at

    def check_count(self, count: int, least_bytes: int, what: str) -> None:
        """Check that the rest of the file can hold count things of least_bytes bytes each."""
        left = self.file.size - self.at
        if count * least_bytes > left:
            raise ModelFileError(
                expected=f"at most {left // least_bytes} {what} in the rest of {self.file.path}",
                found=str(count),
            )
