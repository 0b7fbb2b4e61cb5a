"""Makes a Spark that may come next: the installed one, with some of its classes changed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pyspark

UTF8, LONG, DOUBLE = 1, 5, 6
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Tags of a class file's constants, and their bytes after the tag (Java Virtual Machine Specification, section 4.4)."""
PUBLIC, ABSTRACT = 0x0001, 0x0400


def forged_spark(folder: Path, jars: str, change: Callable[[str, bytes], bytes | None]) -> Path:
    """Return the home of a Spark in which classes are other ones.

    Args:
        folder: where it is made, mostly of links.
        jars: a pattern of the jars to change.
        change: gives the new content of a file in them by its name and content; without one, it is left out.
    """
    installed = Path(pyspark.__file__).parent
    (folder / "jars").mkdir(parents=True)
    for each in installed.iterdir():
        if each.name != "jars":
            (folder / each.name).symlink_to(each)
    for jar in (installed / "jars").iterdir():
        ours = folder / "jars" / jar.name
        if not jar.match(jars):
            ours.symlink_to(jar)
            continue
        with ZipFile(jar) as whole, ZipFile(ours, "w") as changed:
            for name in whole.namelist():
                content = change(name, whole.read(name))
                if content is not None:
                    changed.writestr(name, content)
    return folder


def with_abstract_method(content: bytes, name: str) -> bytes:
    """Return a class file with one more abstract method, `void name()`."""
    constants, _, rest = _parts(content)
    texts = [name.encode(), b"()V"]
    method = struct.pack(">4H", PUBLIC | ABSTRACT, len(constants) + 1, len(constants) + 2, 0)
    return _with_method(content, texts, method, rest)


def with_longer_constructor(content: bytes) -> bytes:
    """Return a class file with one more constructor, which takes a Boolean after all that its longest one takes."""
    constants, methods, rest = _parts(content)
    constructors = [method for method in methods if constants[_number(method, 2)] == b"<init>"]
    longest = max(constructors, key=lambda method: len(constants[_number(method, 4)]))
    texts = [constants[_number(longest, 4)].replace(b")V", b"Z)V")]
    code = next(a for a in _attributes(longest, 6)[0] if constants[_number(a, 0)] == b"Code")
    more_locals = code[:8] + struct.pack(">H", _number(code, 8) + 1) + code[10:]
    head = longest[:4] + struct.pack(">2H", len(constants) + 1, 1)
    return _with_method(content, texts, head + more_locals, rest)


def with_text(content: bytes, text: str, other: str) -> bytes:
    """Return a class file with another text among its constants, as the name of a class."""
    before, after = (struct.pack(">BH", UTF8, len(each)) + each.encode() for each in (text, other))
    if content.count(before) != 1:
        raise ValueError(f"{text!r} is {content.count(before)} times in the class; it must be there once.")
    return content.replace(before, after)


def _with_method(content: bytes, texts: list[bytes], method: bytes, rest: int) -> bytes:
    """Add constants and a method; `rest` is where the number of methods stands."""
    pool_end = _constants(content)[1]
    (constants,) = struct.unpack_from(">H", content, 8)
    added = b"".join(struct.pack(">BH", UTF8, len(text)) + text for text in texts)
    count = struct.pack(">H", constants + len(texts))
    methods = struct.pack(">H", _number(content, rest) + 1)
    return (
        content[:8]
        + count
        + content[10:pool_end]
        + added
        + content[pool_end:rest]
        + methods
        + method
        + content[rest + 2 :]
    )


def _parts(content: bytes) -> tuple[dict[int, bytes], list[bytes], int]:
    """Return a class file's texts by their numbers, its methods, and where the number of its methods stands."""
    constants, at = _constants(content)
    at += 8 + 2 * _number(content, at + 6)
    _, at = _members(content, at)
    methods, _ = _members(content, at)
    return constants, methods, at


def _constants(content: bytes) -> tuple[dict[int, bytes], int]:
    """Return the constants by their numbers, of which only texts have their bytes, and where they end."""
    found: dict[int, bytes] = {}
    at, number = 10, 1
    while number < _number(content, 8):
        tag = content[at]
        size = 2 + _number(content, at + 1) if tag == UTF8 else SIZES[tag]
        found[number] = content[at + 3 : at + 1 + size] if tag == UTF8 else b""
        at += 1 + size
        number += 1
        if tag in (LONG, DOUBLE):  # takes two numbers
            found[number] = b""
            number += 1
    return found, at


def _members(content: bytes, at: int) -> tuple[list[bytes], int]:
    """Return fields or methods, whose number stands at `at`, and where they end."""
    found = []
    end = at + 2
    for _ in range(_number(content, at)):
        begin = end
        _, end = _attributes(content, begin + 6)
        found.append(content[begin:end])
    return found, end


def _attributes(content: bytes, at: int) -> tuple[list[bytes], int]:
    """Return attributes, whose number stands at `at`, and where they end."""
    found = []
    end = at + 2
    for _ in range(_number(content, at)):
        begin = end
        end += 6 + struct.unpack_from(">I", content, begin + 2)[0]
        found.append(content[begin:end])
    return found, end


def _number(content: bytes, at: int) -> int:
    return int(struct.unpack_from(">H", content, at)[0])
