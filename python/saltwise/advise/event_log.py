"""Event logs of Spark applications, line by line: plain or compressed, of one file or of many.

Spark writes a JSON object a line. A log that rolls is a folder ``eventlog_v2_<application>`` with files
``events_<n>_<application>``. A file ``….compact`` stands for itself and all files with a lower number. The name of a
file may lie about its codec, so the first bytes decide.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from ..errors import SaltwiseError

ROLLING = "eventlog_v2_"
MAX_LINE = 16 << 20
"""Bytes of a line, beyond which it is passed over: JSON takes many times its length when it is read."""
MAX_BLOCK = 32 << 20
"""Bytes of a compressed block, before and after, beyond which a log is taken as damaged: lz4-java makes none."""
MAX_RATIO = 250
"""A log that is so many times as large as its file is taken as damaged. One of Spark is some 30 times as large."""

_CHUNK = 1 << 20
_EVENTS = re.compile(r"events_(\d+)_")
_BEGIN = b'{"Event"'
_LZ4, _SNAPPY, _ZSTD = b"LZ4Block", b"\x82SNAPPY\x00", b"\x28\xb5\x2f\xfd"


class EventLogError(SaltwiseError):
    """A file is not an event log that can be read."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} is not an event log that can be read, because {why}; give one that Spark wrote."
        )

    @classmethod
    def of(cls, path: Path, error: Exception) -> EventLogError:
        """Return the error of a log; one of the file system says its reason."""
        return error if isinstance(error, cls) else cls(path, str(error))


@dataclass(frozen=True)
class EventLog:
    """The log of one application."""

    path: Path
    files: tuple[Path, ...]
    """In the order of their events."""

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.stat().st_size for file in self.files)

    def lines(self, read: Callable[[int], object] = lambda _: None) -> Iterator[bytes]:
        """Yield the lines that may be events. A log that stops in the middle, as a running one may, ends there.

        A line of more than :data:`MAX_LINE` bytes is passed over.

        Args:
            read: is called with the number of bytes of the files that were read since its last call.

        Raises:
            EventLogError: a file is of no known format, or damaged.
        """
        for file in self.files:
            yield from _lines(_counted(file, read))


def event_logs(path: Path) -> list[EventLog]:
    """Return the logs at a path: of a file, of a folder that rolls, or of all that lie below a folder, by name.

    Raises:
        EventLogError: there is none.
    """
    if path.is_file():
        return [EventLog(path, (path,))]
    if not path.is_dir():
        raise EventLogError(path, "it is not there")
    found = [*_below(path, set())]
    if not found:
        raise EventLogError(path, "the folder has no event log")
    return found


def _below(folder: Path, seen: set[Path]) -> Iterator[EventLog]:
    """Yield the logs of a folder and those below it. A folder to which several links lead is read once."""
    if (real := folder.resolve()) in seen:
        return
    seen.add(real)
    if folder.name.startswith(ROLLING):
        rolling = _rolling(folder)
        if rolling.files:  # a new one has none
            yield rolling
        return
    for each in sorted(folder.iterdir()):
        if each.name.startswith("."):
            continue
        if each.is_dir():
            yield from _below(each, seen)
        elif each.is_file() and _codec(each) is not None:
            yield EventLog(each, (each,))


def _rolling(folder: Path) -> EventLog:
    numbered = sorted(
        (int(found[1]), not file.name.endswith(".compact"), file)
        for file in folder.iterdir()
        # A compaction in progress replaces nothing yet.
        if (found := _EVENTS.match(file.name)) is not None
        and not file.name.endswith(".compact.inprogress")
        and file.is_file()
    )
    since = max((number for number, is_whole, _ in numbered if not is_whole), default=0)
    kept = [file for number, is_whole, file in numbered if number > since or (number == since and not is_whole)]
    return EventLog(folder, tuple(kept))


def _codec(file: Path) -> str | None:
    """Return what a file is compressed with, "" for nothing, or None if it is no event log."""
    with file.open("rb") as stream:
        begin = stream.read(8)
    for magic, codec in ((_LZ4, "lz4"), (_SNAPPY, "snappy"), (_ZSTD, "zstd"), (_BEGIN, "")):
        if begin.startswith(magic):
            return codec
    return None


def _counted(file: Path, read: Callable[[int], object]) -> Iterator[bytes]:
    """Yield the content of a file, and call `read` with the bytes that were read for it."""
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
        # What decompressed it may have closed the stream.
        read(file_size - at)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut chunks at line ends, and yield what may be an event. The last one needs no line end if it is whole."""
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
    """Yield the lines that begin as an event does. What lies between them is not cut: it may be millions of lines."""
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
            raise EventLogError(file, "it begins neither with an event nor as lz4, snappy or zstd do")
        return
    if codec == "":
        yield from iter(lambda: stream.read(_CHUNK), b"")
    elif codec == "zstd":
        yield from _zstd(file, stream)
    else:
        for block in (_lz4 if codec == "lz4" else _snappy)(file, stream):
            for at in range(0, len(block), _CHUNK):
                yield block[at : at + _CHUNK]


def _zstd(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    reader = BufferedReader(pa.CompressedInputStream(pa.PythonFile(stream), "zstd"), _CHUNK)
    try:
        yield from iter(lambda: reader.read1(_CHUNK), b"")
    except OSError:
        return  # it stops in the middle of a frame


def _lz4(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    """The blocks of lz4-java: a magic, how they are compressed, their length before and after, a checksum."""
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
    """The blocks of snappy-java: a head of 16 bytes, then each block after its length."""
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
    """Return the length before compression, with which a block of snappy begins."""
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
