"""Random windows, with Saltwise and without it: the answers must be the same.

    python -m tests.fire.random_windows --queries 3000 [--seed 1] [--first 0]

As :mod:`tests.fire.random_queries`, whose tables and columns it takes; each query has windows over the same keys, or
over none, and the same order: ranks, aggregates in frames of every kind, values of other rows, FILTER and IGNORE
NULLS, with rows that tie, NULLS FIRST and LAST, and no rows. Where ties would leave an answer open, a column that tells
the rows apart ends the order. Some rows have a window of the same keys and order below them, which the windows read,
and some totals stand beside an order. Some calls come twice, in two frames. Around some are groups by the keys of a
union, or a list that another query reads.
"""

from __future__ import annotations

import sys

from tests.fire.random_queries import NUMBERS, UNORDERED, Generator, Kind, Query, Relation, main

RANKS = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
RANKS_OF_ROWS = ["row_number()", "ntile({n})"]
"""Ties leave their answers open."""
ROWS_NEAR = ["lag({x}, {few})", "lead({x}, {few})", "lead({x}, 1, {x})"]
AGGREGATES = ["count(*)", "count({x})", "count_if({x} IS NULL)", "bool_or({x} IS NULL)", "min({x})", "max({x})"]
OF_WHOLE_NUMBERS = ["sum({x})", "try_sum({x})", "bit_xor({x})", "bit_and({x})"]
OF_DECIMALS = ["sum({x})", "avg({x})"]
OF_NUMBERS = ["sum({x})", "avg({x})", "stddev({x})"]
OF_LIMITS = [
    "sum(IF({x} % 2 = 0, 9223372036854775000, -9223372036854775000))",
    "sum(IF({x} % 2 = 0, 1, -1) * CAST('9E37' AS DECIMAL(38, 0)))",
]
"""Sums that overflow if a frame has other rows than its own, under ANSI with an error."""
VALUES = ["first_value({x})", "last_value({x})", "nth_value({x}, {few})"]
THAT_IGNORE = ["lag({x}) IGNORE NULLS", "first_value({x}) IGNORE NULLS"]
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
FRAMES = ["", "", "RANGE UNBOUNDED PRECEDING", WHOLE]
FRAMES_OF_ROWS = ["ROWS UNBOUNDED PRECEDING"]
SHORT_FRAMES = [
    "ROWS BETWEEN {few} PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN {few} PRECEDING AND {n} FOLLOWING",
    "ROWS BETWEEN {n} FOLLOWING AND {few} FOLLOWING",
]
DISTANCES = [
    "RANGE BETWEEN {few} PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN {n} PRECEDING AND {few} FOLLOWING",
    "RANGE BETWEEN {n} FOLLOWING AND {few} FOLLOWING",
]
OTHER_FRAMES = ["RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 120 PRECEDING AND CURRENT ROW"]
FILTERED = ("count", "count_if", "min", "max", "sum", "avg", "bit_xor")
PLACES = {"n": [1, 2, 7], "few": [7, 20, 50, 100]}


class WindowGenerator(Generator):
    """Makes the query of a number: some windows over one relation."""

    def query(self) -> Query:
        one = self.relation(self.random.choice([0, 1]))
        if self.random.random() < 0.1:
            one = Relation(f"(SELECT * FROM {one.sql} WHERE false) AS {self.name()}", one.columns, one.row)
        columns = self.without(one, *UNORDERED)
        keys = [self.key(c, one.columns[c])[0] for c in self.some(columns, [0, 1, 1, 1, 2])]
        order = [self.ordered(c) for c in self.some(columns, [0, 1, 1, 2])]
        total = bool(one.row) and self.random.random() < 0.6
        if total:
            order.append(self.ordered(str(one.row)))
        units = self.of(one, "int", "bigint", "date")
        distant = units and self.random.random() < 0.15
        if distant:
            total, order = False, [self.ordered(self.random.choice(units))]
        by = [f"PARTITION BY {', '.join(keys)}"] * bool(keys) + [f"ORDER BY {', '.join(order)}"] * bool(order)
        if order and not distant and self.random.random() < 0.25:
            one = self.above_another(one, " ".join(by), total)
            columns = self.without(one, *UNORDERED)
        family = self.random.choice([self.carried, self.carried, self.near if total else self.carried, self.any])
        if distant:
            family = self.distant
        calls: list[str] = []
        again = None
        for _ in range(self.random.choice([1, 1, 2, 4])):
            # The last one is of the window below, if there is one.
            column = self.random.choice([*columns, columns[-1]])
            if total and self.random.random() < 0.3:
                family = self.random.choice([self.carried, self.near])
            call, frames = family(one.columns[column].name, bool(order), total)
            if again and self.random.random() < 0.3:
                column, call, frames = again
            again = column, call, frames
            if self.spark_4 and call.split("(")[0] in FILTERED and self.random.random() < 0.1:
                call += f" FILTER (WHERE {self.simple_condition(one)})"
            window = " ".join([*by, self.random.choice(frames)]).strip()
            if order and family == self.carried and self.random.random() < 0.2:
                call, window = self.random.choice(AGGREGATES), " ".join(by[: len(by) - 1])
            places = {name: self.random.choice(values) for name, values in PLACES.items()}
            calls.append(f"{call} OVER ({window})".format(x=column, **places))
        shown = [f"CAST({key} AS string)" for key in keys] + columns[:2] + calls
        where = f" WHERE {self.simple_condition(one)}" if self.random.random() < 0.2 else ""
        sql = f"SELECT {', '.join(f'{text} AS {self.name()}' for text in shown)} FROM {one.sql}{where}"
        last = f"r{self.names}"
        around = [
            "{0}",
            "{0}",
            "{0}",
            "SELECT {1}, count(*) FROM ({0}) GROUP BY {1}",
            "SELECT * FROM ({0}) WHERE {1} IS NOT NULL",
            "SELECT count(*) FROM ({0}) WHERE {1} IN (SELECT {1} FROM ({0}))",
        ]
        if keys and self.random.random() < 0.2:
            of_key = f"SELECT {keys[0]} AS k, {calls[-1]} AS c FROM {one.sql}"
            other = self.random.choice([of_key, f"SELECT k, c FROM ({of_key}) WHERE k IS NOT NULL"])
            return Query(f"SELECT CAST(k AS string), count(*), count(c) FROM ({of_key} UNION ALL {other}) GROUP BY k")
        return Query(self.random.choice(around).format(sql, last))

    def above_another(self, one: Relation, window: str, total: bool) -> Relation:
        """Return the rows with a column of a window, some of them filtered by it."""
        name = self.name()
        numbers = self.of(one, "int", "bigint")
        calls = ["rank()", "dense_rank()", "count(*)"] + ["row_number()"] * total
        if numbers:
            x = self.random.choice(numbers)
            calls += [f"sum({x})", f"max({x})"] + [f"lag({x})", f"lead({x}, 2)"] * total
        rows = f"SELECT *, CAST({self.random.choice(calls)} OVER ({window}) AS bigint) AS {name} FROM {one.sql}"
        if self.random.random() < 0.3:
            rows = f"SELECT * FROM ({rows}) WHERE {name} % 3 != 1"
        return Relation(f"({rows}) AS {self.name()}", one.columns | {name: Kind("bigint")}, one.row)

    def some(self, columns: list[str], counts: list[int]) -> list[str]:
        return self.random.sample(columns, min(len(columns), self.random.choice(counts)))

    def ordered(self, column: str) -> str:
        return f"{column} {self.random.choice(['', 'DESC'])} {self.random.choice(['', 'NULLS FIRST', 'NULLS LAST'])}".strip()

    def carried(self, kind: str, ordered: bool, total: bool) -> tuple[str, list[str]]:
        """Return a function that may go on from the states of other rows, and its frames."""
        if ordered and self.random.random() < 0.4:
            return self.random.choice(RANKS + RANKS_OF_ROWS * total), [""]
        of_kind = OF_WHOLE_NUMBERS * (kind in ("int", "bigint")) + OF_DECIMALS * ("decimal" in kind)
        # A sum of large numbers in doubles depends on the order of rows that tie.
        of_kind += ["avg({x})"] * (kind == "int" or (total and kind == "bigint"))
        call = self.random.choice(AGGREGATES + of_kind)
        return call, FRAMES + FRAMES_OF_ROWS * total if ordered else ["", WHOLE]

    def near(self, kind: str, ordered: bool, total: bool) -> tuple[str, list[str]]:
        """Return a function that reads some rows before and behind, and its frames. The order tells all rows apart."""
        if self.random.random() < 0.3:
            return self.random.choice(ROWS_NEAR), [""]
        if self.random.random() < 0.3:
            return self.random.choice(VALUES), FRAMES + FRAMES_OF_ROWS
        of_limits = OF_LIMITS * (kind in ("int", "bigint"))
        return self.random.choice(AGGREGATES + OF_NUMBERS * (kind in NUMBERS) + of_limits), SHORT_FRAMES

    def distant(self, kind: str, ordered: bool, total: bool) -> tuple[str, list[str]]:
        """Return an aggregate, and frames of distances."""
        return self.random.choice(AGGREGATES + OF_WHOLE_NUMBERS * (kind in ("int", "bigint"))), DISTANCES

    def any(self, kind: str, ordered: bool, total: bool) -> tuple[str, list[str]]:
        """Return any function."""
        if total and self.random.random() < 0.5:
            call = self.random.choice(VALUES + THAT_IGNORE + OF_NUMBERS * (kind in NUMBERS))
            return call, [""] if call.startswith("lag") else FRAMES + SHORT_FRAMES
        if total and self.random.random() < 0.5:
            return self.near(kind, ordered, total)
        call, frames = self.carried(kind, ordered, total)
        return call, frames if frames == [""] or not ordered else frames + OTHER_FRAMES

    def confs(self) -> dict[str, str]:
        # With few partitions, or few tasks, no key is hot.
        return super().confs() | {
            "spark.sql.adaptive.enabled": self.random.choice(["true"] * 5 + ["false"]),
            "spark.sql.adaptive.coalescePartitions.enabled": self.random.choice(["true", "false", "false", "false"]),
            "spark.sql.shuffle.partitions": self.random.choice(["3", "7", "7", "13"]),
            "spark.sql.leafNodeDefaultParallelism": self.random.choice(["2", "3", "3"]),
        }

    def ours(self) -> list[dict[str, str]]:
        return [self.our("auto") | {"spark.saltwise.placement.enabled": self.random.choice(["false"] * 9 + ["true"])}]


if __name__ == "__main__":
    sys.exit(main(WindowGenerator))
