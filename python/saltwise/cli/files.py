"""Reads a table from a file or a folder. If that fails, the error says why in one sentence."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from ..addresses import is_address
from ..errors import SaltwiseError, SaltwiseValueError
from ..spark.columns import quoted
from ..spark.spark_errors import SPARK_ERRORS, first_sentence, root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "orc", "text")

_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".txt": "text",
}
_NOT_TEXT = {"\0", "\ufffd"}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4", ".snappy"}


def read_file(spark: SparkSession, path: str, format: str | None = None) -> DataFrame:
    """Return a file, a folder of files or the files of a pattern as a DataFrame. A CSV has a header line.

    Args:
        path: a path of this machine, or an address that Spark can read, such as ``s3a://bucket/events``.
        format: one of FORMATS; by default it is guessed from the file extension.

    Raises:
        SaltwiseError: the path does not exist, or its content has another format.
        SaltwiseValueError: the format is not one of FORMATS, or no file extension shows it.

    >>> read_file(spark, "flights.parquet").columns  # doctest: +SKIP
    ['carrier', 'dep_delay']
    """
    format = format_of(path, format)
    try:
        df = spark.read.format(format).option("header", format == "csv").load(_address(path))
    except SPARK_ERRORS as error:
        raise unreadable(path, format, error) from error
    if format == "json" and df.columns == ["_corrupt_record"]:
        raise unreadable(path, format, "no line of it is a JSON object")
    if not df.columns:
        raise unreadable(path, format, "it has no columns")
    if any(_NOT_TEXT & set(name) for name in df.columns):
        raise unreadable(path, format, "its first line is not text")
    return df


def format_of(path: str, format: str | None = None) -> str:
    """Return the format of a path: the given one, or the one of the file extension.

    Raises:
        SaltwiseError: the path does not exist.
        SaltwiseValueError: the format is not one of FORMATS, or no file extension shows it.

    >>> format_of("s3a://bucket/day=1/part-0.csv.gz")
    'csv'
    """
    if format is not None and format not in FORMATS:
        raise SaltwiseValueError.unknown("format", format, FORMATS)
    check_exists(path)
    return format or _format_of_names(path)


def column(df: DataFrame, name: str) -> str:
    """Return the name of a column as Spark reads it. It may have any characters, or be that of a field of a struct.

    Raises:
        SaltwiseValueError: the table has no such column. The message names the nearest one.

    >>> column(spark.range(1), "id")
    '`id`'
    """
    if _has(df, quoted(name)):
        return quoted(name)
    if _has(df, name):
        return name
    raise SaltwiseValueError.unknown("column", name, df.columns)


def _has(df: DataFrame, column: str) -> bool:
    try:
        df.select(column)
    except SPARK_ERRORS:
        return False
    return True


def check_exists(path: str) -> None:
    """Raise a SaltwiseError if a path of this machine cannot be found. The message names the nearest file."""
    file = Path(path)
    folder = file.parent
    try:
        if is_address(path) or file.exists() or set("*?[{") & set(path):
            return
        siblings = [other.name for other in folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        raise SaltwiseError(f"file {path!r} cannot be found ({error.strerror}); give the path of a file.") from error
    near = get_close_matches(file.name, siblings, n=1, cutoff=0.5)
    hint = f"; did you mean {str(folder / near[0])!r}?" if near else "; it must be a file or a folder."
    raise SaltwiseError(f"file {path!r} does not exist{hint}")


def unreadable(path: str, format: str, cause: Exception | str) -> SaltwiseError:
    """Make the error for a path whose content does not have its format."""
    why = cause if isinstance(cause, str) else first_sentence(root_cause(cause))
    return SaltwiseError(f"{path!r} cannot be read as {format}, because {why}; the formats are {', '.join(FORMATS)}.")


def _address(path: str) -> str:
    """Return an absolute path, because Spark may have another current folder."""
    return path if is_address(path) else str(Path(path).absolute())


def _format_of_names(path: str) -> str:
    """Return the format by the extension of the path, or of the files in the folder."""
    folder = Path(path)
    names = [path]
    if folder.is_dir():
        files = (file for file in sorted(folder.rglob("*")) if file.is_file())
        names += [file.name for file in files if not file.name.startswith(("_", "."))]
    for name in names:
        suffixes = [suffix for suffix in Path(name).suffixes if suffix.lower() not in _COMPRESSED]
        if suffixes and suffixes[-1].lower() in _FORMAT_OF_SUFFIX:
            return _FORMAT_OF_SUFFIX[suffixes[-1].lower()]
    raise SaltwiseValueError(
        f"format of {path!r} cannot be guessed from a file extension; name one of {', '.join(FORMATS)}."
    )
