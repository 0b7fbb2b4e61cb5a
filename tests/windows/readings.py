"""Rows, and functions of windows over them that run in slices."""

from __future__ import annotations

from hypothesis import strategies as st

READINGS = """
    SELECT id, pmod(xxhash64(id), 700) AS x, IF(id % 10 < 6, 7, pmod(xxhash64(id, 1), 300)) AS h,
        IF(id % 9 = 0, NULL, id % 5) AS g, id % 13 AS v, id % 2 = 0 AS t,
        CAST(id % 1000 / 10 AS DECIMAL(7, 2)) AS price, IF(id % 50 = 0, 'NaN', IF(id % 3 = 0, -0D, id % 7 / 2D)) AS d,
        CAST(pmod(id, 40) AS STRING) AS s, DATE'2024-01-01' + CAST(id % 90 AS INT) AS day
    FROM range(0, 6000, 1, 3)"""
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
QUERIES = {
    "row_number": "row_number() OVER (ORDER BY x, id)",
    "rank": "rank() OVER (ORDER BY x)",
    "dense_rank": "dense_rank() OVER (ORDER BY s)",
    "percent_rank": "percent_rank() OVER (ORDER BY x DESC)",
    "cume_dist": "cume_dist() OVER (ORDER BY g NULLS LAST)",
    "ntile": "ntile(7) OVER (ORDER BY id), ntile(5999) OVER (ORDER BY id), ntile(7000) OVER (ORDER BY id)",
    "all ranks": "row_number() OVER (ORDER BY id), rank() OVER (ORDER BY id), dense_rank() OVER (ORDER BY id), "
    "percent_rank() OVER (ORDER BY id), cume_dist() OVER (ORDER BY id)",
    "a running sum": "sum(v) OVER (ORDER BY x)",
    "a running sum by rows": "sum(v) OVER (ORDER BY x, id ROWS UNBOUNDED PRECEDING)",
    "a running sum of decimals": "sum(price) OVER (ORDER BY x)",
    "a running average of decimals": "avg(price * price * price) OVER (ORDER BY x)",
    "running averages": "avg(v) OVER (ORDER BY x), avg(price) OVER (ORDER BY x), "
    "avg(CAST(g AS TINYINT)) FILTER (WHERE t) OVER (ORDER BY x), avg(id - 3000) OVER (ORDER BY x)",
    "running counts": "count(*) OVER (ORDER BY d), count(g) OVER (ORDER BY d DESC), count_if(t) OVER (ORDER BY d)",
    "running extremes": "min(d) OVER (ORDER BY x), max(s) OVER (ORDER BY x), max(day) OVER (ORDER BY x), "
    "min(struct(g, s)) OVER (ORDER BY x)",
    "running bits": "bit_and(v) OVER (ORDER BY x), bit_or(v) OVER (ORDER BY x), bit_xor(v) OVER (ORDER BY x), "
    "bool_or(t) OVER (ORDER BY x)",
    "a filter": "sum(v) FILTER (WHERE t) OVER (ORDER BY x), count(*) FILTER (WHERE g > 2) OVER (ORDER BY x)",
    "a share of the total": "v / sum(v) OVER ()",
    "totals": "sum(v) OVER (), count(*) OVER (), max(s) OVER (), min(d) OVER (), avg(price * price * price) OVER (), "
    "avg(v) OVER (), avg(price) OVER ()",
    "totals beside running sums": f"sum(v) OVER (ORDER BY x {WHOLE}), sum(v) OVER (ORDER BY x), rank() OVER (ORDER BY x)",
    "totals below an order": "rank() OVER (ORDER BY x), v / sum(v) OVER (), count(g) OVER ()",
    "totals above an order": "max(s) OVER (), sum(v) OVER (ORDER BY x), rank() OVER (ORDER BY x)",
    "an order of one value": "rank() OVER (ORDER BY id * 0 + x % 1), sum(v) OVER (ORDER BY id * 0 + x % 1)",
    "an order of many types": "rank() OVER (ORDER BY g DESC NULLS LAST, s, d, day, price, t, id)",
    "nulls alone": "sum(g) OVER (ORDER BY IF(x > 1000, x, NULL)), rank() OVER (ORDER BY IF(x > 1000, x, NULL))",
    "a computed order": "sum(v) OVER (ORDER BY x % 10, upper(s))",
    "lag and lead": "lag(v) OVER (ORDER BY id), lag(s, 3, 'none') OVER (ORDER BY id), lead(g, 100, -1) OVER (ORDER BY id)",
    "short frames": "sum(d) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), "
    "avg(v) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING), "
    "max(s) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 5 FOLLOWING), "
    "count(g) OVER (ORDER BY id ROWS BETWEEN 9 PRECEDING AND 4 PRECEDING), "
    "stddev(price) OVER (ORDER BY id ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING), "
    "sum(price) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND CURRENT ROW)",
    "a filter in a short frame": "count(g) FILTER (WHERE t) OVER (ORDER BY id ROWS BETWEEN 9 PRECEDING AND 4 FOLLOWING)",
    "first and last values": "first_value(s) OVER (ORDER BY x, id), last_value(v) OVER (ORDER BY x, id), "
    f"last_value(s) OVER (ORDER BY x, id {WHOLE}), nth_value(v, 3) OVER (ORDER BY x, id), "
    f"nth_value(g, 90) OVER (ORDER BY x, id), first_value(g) OVER (ORDER BY x, id {WHOLE})",
    "first values alone": "first_value(s) OVER (ORDER BY x, id), nth_value(id, 2) OVER (ORDER BY x, id)",
    "last values alone": f"last_value(id) OVER (ORDER BY x, id {WHOLE})",
    "near rows beside ranks": "lag(v) OVER (ORDER BY id), rank() OVER (ORDER BY id), row_number() OVER (ORDER BY id), "
    "dense_rank() OVER (ORDER BY id), sum(v) OVER (ORDER BY id), ntile(9) OVER (ORDER BY id), "
    "cume_dist() OVER (ORDER BY id), lead(s, 2, 'none') OVER (ORDER BY id), max(d) OVER (ORDER BY id ROWS 7 PRECEDING)",
    "first values beside ranks that tie": "first_value(x) OVER (ORDER BY x), rank() OVER (ORDER BY x), "
    "dense_rank() OVER (ORDER BY x), sum(v) OVER (ORDER BY x), percent_rank() OVER (ORDER BY x), "
    f"last_value(x) OVER (ORDER BY x {WHOLE})",
    "ranges": "sum(v) OVER (ORDER BY x RANGE BETWEEN 5 PRECEDING AND CURRENT ROW), "
    "count(*) OVER (ORDER BY x RANGE BETWEEN 3 PRECEDING AND 4 FOLLOWING), "
    "max(s) OVER (ORDER BY x RANGE BETWEEN 2 FOLLOWING AND 9 FOLLOWING), "
    "min(d) OVER (ORDER BY x RANGE BETWEEN 20 PRECEDING AND 11 PRECEDING), "
    "avg(g) OVER (ORDER BY x RANGE BETWEEN CURRENT ROW AND CURRENT ROW)",
    "ranges, descending": "sum(price) OVER (ORDER BY x DESC RANGE BETWEEN 5 PRECEDING AND 30 FOLLOWING)",
    "ranges of days": "count(*) OVER (ORDER BY day RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "ranges of timestamps": "sum(v) OVER (ORDER BY timestamp_seconds(id * 3600) RANGE BETWEEN INTERVAL '72' HOUR PRECEDING "
    "AND INTERVAL '1' HOUR FOLLOWING)",
    "ranges with NULLs": "count(*) OVER (ORDER BY IF(x < 300, NULL, x) NULLS LAST RANGE BETWEEN 4 PRECEDING AND CURRENT ROW)",
    "short frames, descending": "sum(CAST(v AS INT)) OVER (ORDER BY g DESC NULLS LAST, id ROWS 2 PRECEDING)",
}


def over(calls: str, rows: str = "readings") -> str:
    return f"SELECT id, {calls} FROM {rows}"


def ends(low: int, high: int) -> str:
    """Return the ends of a frame, so many rows or units behind the current row."""
    return " AND ".join(f"{abs(n)} {'PRECEDING' if n < 0 else 'FOLLOWING'}" for n in (low, high))


FRAMES = st.tuples(st.integers(-100, 100), st.integers(-100, 100)).map(sorted)
ORDERS = st.lists(
    st.tuples(
        st.sampled_from(["x", "g", "d", "s", "t", "day", "price", "id % 3"]),
        st.sampled_from(["", " DESC"]),
        st.sampled_from(["", " NULLS FIRST", " NULLS LAST"]),
    ).map("".join),
    min_size=1,
    max_size=3,
).map(", ".join)
"""Orders of some columns, which rows may tie in."""
