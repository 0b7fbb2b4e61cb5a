"""Event logs of Spark applications, line by line: plain or compressed, of one file or of many.

Spark writes a JSON object a line. A rolling log is a folder ``eventlog_v2_<application>`` with files
``events_<n>_<application>``. A file ``….compact`` replaces the file of its number and all
files with a lower number. The name of a file may not tell its codec, so the first bytes decide.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from ..addresses import is_address
from ..errors import SaltwiseError

ROLLING = "eventlog_v2_"
MAX_LINE = 16 << 20
"""The most bytes of a line. Longer lines are skipped, because parsed JSON takes many times its length."""
MAX_BLOCK = 32 << 20
"""The most bytes of a block, compressed or not. A log with a larger one counts as damaged: lz4-java writes none."""
MAX_RATIO = 250
"""A log that is larger than this many times its file counts as damaged. A log of Spark is about 30 times as large."""

_CHUNK = 1 << 20
_EVENTS = re.compile(r"events_(\d+)_")
_BEGIN = b'{"Event"'
_LZ4, _SNAPPY = b"LZ4Block", b"\x82SNAPPY\x00"
_MAGICS = (
    (_LZ4, "lz4"),
    (_SNAPPY, "snappy"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
    (b"ZV\x01", "lzf"),
    (_BEGIN, ""),
)
"""How files begin, by codec."""


class EventLogError(SaltwiseError):
    """A file is not an event log that can be read."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} is not an event log that can be read, because {why}; give one that Spark wrote."
        )

    @classmethod
    def from_error(cls, path: Path, error: Exception) -> EventLogError:
        """Return the error of a log. The message has the reason of an error of the file system."""
        return error if isinstance(error, cls) else cls(path, str(error))


@dataclass(frozen=True)
class EventLog:
    """The log of one application."""

    path: Path
    files: tuple[Path, ...]
    """In the order of their events."""

    @property
    def size(self) -> int:
        """Bytes of its files; 0 if the file system does not tell. To read the log says why."""
        try:
            return sum(file.stat().st_size for file in self.files)
        except OSError:
            return 0

    def lines(self, read: Callable[[int], object] = lambda _: None) -> Iterator[bytes]:
        """Yield the lines that may be events. The log of a running application may stop in the middle of a line.

        A line of more than :data:`MAX_LINE` bytes is skipped.

        Args:
            read: is called with the number of bytes of the files read since its last call.

        Raises:
            EventLogError: a file has no known format, or is damaged.
        """
        for file in self.files:
            yield from _lines(_with_progress(file, read))


def event_logs(path: Path) -> list[EventLog]:
    """Return the logs at a path: a file, a rolling log, or all logs below a folder, sorted by name.

    Raises:
        EventLogError: the path has no event log.
    """
    try:
        if path.is_file():
            return [EventLog(path, (path,))]
        if not path.is_dir():
            raise EventLogError(
                path, "it has to be copied to this machine first" if is_address(path) else "the path does not exist"
            )
    except OSError as error:
        raise EventLogError.from_error(path, error) from error
    logs = [*_logs_below(path, set())]
    if not logs:
        raise EventLogError(path, "the folder has no event log")
    return logs


def _logs_below(folder: Path, seen: set[Path]) -> Iterator[EventLog]:
    """Yield the logs of a folder and of all folders below it. A folder with several links to it is read once.

    What cannot be read is a log too: to read it says why.
    """
    if (real := folder.resolve()) in seen:
        return
    seen.add(real)
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        yield EventLog(folder, (folder,))
        return
    if folder.name.startswith(ROLLING):
        rolling = _rolling(folder, entries)
        if rolling.files:  # a new one has none
            yield rolling
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _logs_below(entry, seen)
        elif entry.is_file() and _may_be_log(entry):
            yield EventLog(entry, (entry,))


def _may_be_log(file: Path) -> bool:
    try:
        return _codec(file) is not None
    except (EventLogError, OSError):
        return True


def _rolling(folder: Path, entries: Sequence[Path]) -> EventLog:
    numbered = sorted(
        (int(match[1]), not file.name.endswith(".compact"), file)
        for file in entries
        # A compaction in progress replaces nothing yet.
        if (match := _EVENTS.match(file.name)) is not None
        and not file.name.endswith(".compact.inprogress")
        and file.is_file()
    )
    first = max((number for number, is_whole, _ in numbered if not is_whole), default=0)
    files = [file for number, is_whole, file in numbered if number > first or (number == first and not is_whole)]
    return EventLog(folder, tuple(files))


def _codec(file: Path) -> str | None:
    """Return the codec of a file, "" if it is not compressed, or None if it is not an event log."""
    with file.open("rb") as stream:
        begin = stream.read(8)
        codec = next((codec for magic, codec in _MAGICS if begin.startswith(magic)), None)
        if codec == "gzip":  # other files are compressed with it too
            stream.seek(0)
            content = next(_frames(file, stream, codec), b"")
            if not _BEGIN.startswith(content[: len(_BEGIN)]):
                return None
    return codec


def _with_progress(file: Path, read: Callable[[int], object]) -> Iterator[bytes]:
    """Yield the content of a file, and call `read` with the number of bytes read for each part."""
    file_size = file.stat().st_size
    at = size = 0
    with file.open("rb") as stream:
        for chunk in _chunks(file, stream):
            now = min(stream.tell(), file_size)
            size += len(chunk)
            if size > _CHUNK + MAX_RATIO * now:
                raise EventLogError(file, f"it is more than {MAX_RATIO} times as large as its file")
            yield chunk
            read(now - at)
            at = now
        # The decompressor may have closed the stream, so `stream.tell` may fail here.
        read(file_size - at)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut chunks at line ends, and yield what may be an event. The last line may lack its end."""
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
        part = chunk[:first] if first >= 0 else chunk
        begun.append(part)
        size += len(part)
        if size > MAX_LINE:
            begun.clear()
        if first >= 0:
            if (line := b"".join(begun)).startswith(_BEGIN):
                yield line
            yield from _events(chunk[first + 1 : last + 1])
            begun, size = [chunk[last + 1 :]], len(chunk) - last - 1
    if (line := b"".join(begun)).startswith(_BEGIN) and line.endswith(b"}"):
        yield line


def _events(lines: bytes) -> Iterator[bytes]:
    """Yield the lines that begin like an event. Other lines are not cut, because there may be millions of them."""
    at = 0
    while (at := lines.find(_BEGIN, at)) >= 0:
        end = lines.index(b"\n", at)
        if at == 0 or lines[at - 1 : at] == b"\n":
            yield lines[at:end]
        at = end


def _chunks(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    codec = _codec(file)
    if codec is None:
        if file.stat().st_size:
            raise EventLogError(file, "it begins neither with an event nor like lz4, snappy, zstd or gzip")
        return
    if codec == "":
        yield from iter(lambda: stream.read(_CHUNK), b"")
    elif codec == "lzf":
        raise EventLogError(file, "it is compressed with lzf, which cannot be read here")
    elif codec in ("zstd", "gzip"):
        yield from _frames(file, stream, codec)
    else:
        for block in (_lz4 if codec == "lz4" else _snappy)(file, stream):
            for at in range(0, len(block), _CHUNK):
                yield block[at : at + _CHUNK]


def _frames(file: Path, stream: BinaryIO, codec: str) -> Iterator[bytes]:
    """Yield the content of the frames of zstd or gzip. The last one may stop in its middle."""
    reader = BufferedReader(pa.CompressedInputStream(pa.PythonFile(stream), codec), _CHUNK)
    try:
        yield from iter(lambda: reader.read1(_CHUNK), b"")
    except OSError as error:
        if "Truncated" not in str(error):
            raise EventLogError(file, f"a frame of {codec} cannot be decompressed: {error}") from error


def _lz4(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of lz4-java. The head of a block has a magic, the method, both lengths and a checksum."""
    raw = pa.Codec("lz4_raw")
    while len(head := stream.read(21)) == 21:
        magic, token, compressed, length, _ = struct.unpack("<8sBiii", head)
        if magic != _LZ4 or not 0 <= compressed <= MAX_BLOCK or not 0 <= length <= MAX_BLOCK:
            raise EventLogError(file, "a block of lz4 has a wrong head")
        block = stream.read(compressed)
        if len(block) < compressed:
            return
        if length:
            yield block if token & 0xF0 == 0x10 else _decompressed(file, raw, block, length)


def _snappy(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of snappy-java. The file has a head of 16 bytes, then each block after its length."""
    raw = pa.Codec("snappy")
    while len(head := stream.read(4)) == 4:
        if head == _SNAPPY[:4]:
            stream.read(12)
            continue
        [compressed] = struct.unpack(">i", head)
        if not 0 <= compressed <= MAX_BLOCK:
            raise EventLogError(file, "a block of snappy has a wrong length")
        block = stream.read(compressed)
        if len(block) < compressed:
            return
        if block:
            yield _decompressed(file, raw, block, _varint(file, block))


def _varint(file: Path, block: bytes) -> int:
    """Return the length before compression. A block of snappy begins with it."""
    number = 0
    for i, byte in enumerate(block[:5]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80 and number <= MAX_BLOCK:
            return number
    raise EventLogError(file, "a block of snappy has a wrong length")


def _decompressed(file: Path, codec: pa.Codec, block: bytes, length: int) -> bytes:
    try:
        return bytes(codec.decompress(block, length, asbytes=True))
    except OSError as error:
        raise EventLogError(file, f"a block cannot be decompressed: {error}") from error
