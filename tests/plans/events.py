"""The rows of the differential tests, and the strategies that they run."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from tests.agree import EACH_PLAN

from saltwise.strategies import PLANNED_AHEAD, STRATEGIES

ONLINE = [name for name in STRATEGIES if name not in ("auto", *PLANNED_AHEAD)]
"""All that need nothing beside their name."""

# Nine hundred rows in three partitions; 40 % of them have the key 0, 20 % the key 1, 10 % NULL.
EVENTS = """
SELECT id,
  CASE WHEN id % 10 < 4 THEN 0 WHEN id % 10 = 4 THEN NULL WHEN id % 10 < 7 THEN 1
    ELSE CAST(id % 41 AS INT) END AS k,
  IF(id % 13 = 0, NULL, CAST(pmod(xxhash64(id, 1), 97) AS INT) - 40) AS i,
  pmod(xxhash64(id, 2), 1000003) AS l,
  IF(id % 17 = 0, NULL, pmod(xxhash64(id, 3), 512) / 16D) AS d,
  CAST(pmod(xxhash64(id, 4), 64) / 8D AS FLOAT) AS f,
  element_at(array(double('NaN'), -0.0D, 0.0D, double('inf'), double('-inf'), NULL, 1.5D),
    CAST(id % 7 AS INT) + 1) AS odd,
  CAST(pmod(xxhash64(id, 5), 100000) / 100 AS DECIMAL(12, 2)) AS dec,
  IF(id % 11 = 0, NULL, substr(hex(xxhash64(id, 6)), -2)) AS s,
  unhex(substr(hex(xxhash64(id, 7)), -2)) AS b,
  IF(id % 19 = 0, NULL, pmod(xxhash64(id, 8), 3) > 0) AS t,
  date_add(DATE'2013-01-01', CAST(pmod(xxhash64(id, 9), 60) AS INT)) AS dt,
  timestamp_seconds(1400000000 + pmod(xxhash64(id, 10), 90)) AS ts,
  make_ym_interval(0, CAST(pmod(xxhash64(id, 11), 30) AS INT)) AS ym,
  make_dt_interval(0, 0, 0, pmod(xxhash64(id, 12), 30)) AS ds,
  array(CAST(id % 5 AS INT), CAST(id % 3 AS INT)) AS a,
  named_struct('x', CAST(id % 5 AS INT), 'y', CAST(id % 3 AS STRING)) AS st
FROM range(0, 900, 1, 3)
"""

HOT = '[{"key": [0], "share": 0.4}, {"key": [1]}, {"key": [null], "share": 0.1}]'
"""Frozen routing: one hot key whose share is known, one whose share is not, and NULL."""


def pairs(cases: Iterable[str], plans: Iterable[str] = EACH_PLAN) -> list[ParameterSet]:
    """Pair each case with one plan, in turn; the other pairs are marked full."""
    names = list(plans)
    return [
        pytest.param(case, plan, marks=() if place % len(names) == number else pytest.mark.full)
        for place, case in enumerate(cases)
        for number, plan in enumerate(names)
    ]


def all_but(some: Iterable[str], names: Iterable[str] = ONLINE) -> list[ParameterSet]:
    """Return the names as parameters; all but some of them are marked full."""
    return [pytest.param(name, marks=() if name in some else pytest.mark.full) for name in names]
