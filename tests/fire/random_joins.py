"""Random aggregates over joins, with Saltwise and without it: the answers must be the same.

    python -m tests.fire.random_joins --queries 5000 [--seed 1] [--first 0]

As :mod:`tests.fire.random_queries`, whose tables, columns and functions it takes; each query has a join below a GROUP
BY, and joins are shuffled. Sides have NULL keys, no match, many matches, or no rows; the arguments come from one side
mostly, and some fail for rows that the join drops. Around some are a join of two such aggregates, a union of them, or a
query that reads one for each of its rows.
"""

from __future__ import annotations

import sys

from tests.fire.random_queries import JOINED, Generator, Query, Relation, main

KINDS = ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
CONSTANTS = ["count(*)", "count(1)", "sum(1)", "max('x')", "avg(2)", "count(NULL)", "min(NULL)"]
FAILING = [
    "sum(if({y} = 1, 9223372036854775807, bigint(1)))",
    "max(10 / ({y} - 1))",
    "count(CAST(CAST({y} AS STRING) AS date))",
    "min(element_at(array(1, 2), int({y}) % 3))",
]
"""Under ANSI, each fails for some rows."""


class JoinGenerator(Generator):
    """Makes the query of a number: an aggregate over a join.

    Attributes:
        join_keys: the columns that the topmost join compares.
    """

    join_keys: tuple[str, str]

    def query(self) -> Query:
        joined, arguments = self.over_join(1)
        columns = [column for column in joined.columns if not joined.columns[column].holds("map")]
        chosen = self.random.sample(columns, self.random.choice([0, 1, 1, 2]))
        keys = [self.key(column, joined.columns[column])[0] for column in chosen]
        if self.random.random() < 0.4:
            # Then the groups are whole in the partitions of the join.
            keys += [key for key in self.join_keys if key in columns and key not in keys]
        if self.random.random() < 0.1:
            arguments = joined
        calls = [self.call(arguments) for _ in range(self.random.choice([1, 2, 2, 3]))]
        shown = [f"lower(CAST({key} AS string))" for key in keys] + calls
        where = f" WHERE {self.simple_condition(joined)}" if self.random.random() < 0.2 else ""
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = self.random.choice(["", "", " HAVING count(*) > 2"])
        if keys and self.random.random() < 0.3:
            return Query(self.around(joined, keys, calls))
        return Query(f"SELECT {', '.join(shown)} FROM {joined.sql}{where}{by}{having}")

    def around(self, joined: Relation, keys: list[str], calls: list[str]) -> str:
        """Return a query that has two aggregates over a join, or one for each row of another query."""
        names = [f"k{i}" for i in range(len(keys))]
        named = ", ".join(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))
        texts = ", ".join(f"lower(CAST({name} AS string))" for name in names)
        by = f"FROM {joined.sql} GROUP BY {', '.join(keys)}"
        one, other = (f"SELECT {named}, {call} AS c, count(*) AS n {by}" for call in (calls[0], "count(1)"))
        numbers = self.of(joined, "int", "bigint")
        where = f"WHERE {self.random.choice(numbers)} % 3 = o.id " if numbers else ""
        same = " AND ".join(f"x.{name} <=> y.{name}" for name in names)
        return self.random.choice(
            [
                f"SELECT count(*), sum(x.n), sum(y.c) FROM ({one}) x JOIN ({other}) y ON {same}",
                f"SELECT {texts}, c, n FROM ({one}) UNION ALL SELECT {texts}, NULL, n FROM ({other})",
                f"SELECT {texts}, n FROM (SELECT /*+ REPARTITION(3, {', '.join(names)}) */ * FROM ({one}))",
                f"SELECT o.id, (SELECT count(*) FROM {joined.sql} {where}) FROM range(4) o",
                f"SELECT o.id, t.n FROM range(4) o, LATERAL (SELECT {calls[0]} AS c, count(*) AS n {by.replace('GROUP', where + 'GROUP')}) t",
                f"SELECT (SELECT {calls[0]} FROM {joined.sql}), (SELECT count(*) FROM {joined.sql})",
            ]
        )

    def over_join(self, depth: int) -> tuple[Relation, Relation]:
        """Return a join, and the side whose columns are arguments."""
        one = self.side()
        if depth and self.random.random() < 0.3:
            one, arguments = self.over_join(depth - 1)
        else:
            arguments = one
        other = self.side()
        pairs = [
            (a, b) for a in self.of(one, *JOINED) for b in self.of(other, *JOINED) if one.columns[a] == other.columns[b]
        ]
        left, right = self.random.choice(pairs)
        self.join_keys = (left, right)
        condition = f"{left} = {right}"
        if self.random.random() < 0.2:
            condition += f" AND {self.simple_condition(self.random.choice([one, other]))}"
        kind = self.random.choice(KINDS)
        columns = one.columns if "SEMI" in kind or "ANTI" in kind else {**one.columns, **other.columns}
        if "SEMI" not in kind and "ANTI" not in kind and self.random.random() < 0.2:
            arguments = other
        first, second = (one.sql, other.sql) if self.random.random() < 0.8 else (other.sql, one.sql)
        if "SEMI" in kind or "ANTI" in kind:
            first, second = one.sql, other.sql
        hint = self.random.choice(["", "", "", f"/*+ SHUFFLE_HASH({other.sql.split()[-1]}) */ "])
        sql = f"(SELECT {hint}{', '.join(columns)} FROM {first} {kind} {second} ON {condition}) AS {self.name()}"
        return Relation(sql, dict(columns)), arguments

    def side(self) -> Relation:
        """Return some rows of a table: so few that a key which is hot on both sides has no million pairs."""
        base = self.base()
        kept = self.random.choice(["% 3 = 0", "% 3 <> 1", "% 7 = 2", "< 0", ">= 0"])
        listed = ", ".join(base.columns)
        return Relation(f"(SELECT {listed} FROM {base.sql} WHERE {base.row} {kept}) AS {self.name()}", base.columns)

    def call(self, one: Relation) -> str:
        chosen = self.random.random()
        if chosen < 0.2:
            return self.random.choice(CONSTANTS)
        if chosen < 0.3:
            return self.random.choice(FAILING).format(y=self.random.choice(self.of(one, "int", "bigint")))
        return self.aggregate(one)[0]

    def confs(self) -> dict[str, str]:
        return super().confs() | {"spark.sql.autoBroadcastJoinThreshold": "-1"}

    def ours(self) -> list[dict[str, str]]:
        return [self.our("auto"), self.our("auto") | {"spark.saltwise.local.memory": "16k"}]


if __name__ == "__main__":
    sys.exit(main(JoinGenerator))
