"""An analysed plan tells in which columns the order inside arrays is given. What it does not tell is taken as open."""

from __future__ import annotations

import pytest

from saltwise.spark.reports.array_order import ArrayOrder

XS = "Aggregate [k#0L], [k#0L, collect_list(v#1L, 0, 0, true) AS xs#5, sort_array(collect_list(v#1L, 0, 0), true) AS ys#6]"
"""Makes an array in any order and a sorted one."""


@pytest.mark.parametrize(
    ("plan", "columns", "given"),
    [
        (f"Project [k#0L, xs#5, ys#6]\n+- {XS}", 3, {0, 2}),
        (f"k: bigint, Union: array<bigint>\nProject [k#0L, xs#5]\n+- {XS}", 2, {0}),
        (f"Project [k#0L, ys#6, sort_array(xs#5, true)]\n+- {XS}", 3, {0, 1, 2}),
        (f"Project [as#7, bs#8]\n+- Project [flatten(array(xs#5)) AS as#7, array(ys#6) AS bs#8]\n   +- {XS}", 2, {1}),
        (
            f"Project [as#7]\n+- Project [sort_array(array_distinct(concat(xs#5, xs#5)), true) AS as#7]\n   +- {XS}",
            1,
            {0},
        ),
        # Sorting gives no order to the arrays inside of an array.
        (f"Project [zs#9]\n+- Aggregate [sort_array(collect_list(xs#5, 0, 0), true) AS zs#9]\n   +- {XS}", 1, set()),
        (f"Project [zs#9]\n+- Aggregate [sort_array(collect_list(ys#6, 0, 0), true) AS zs#9]\n   +- {XS}", 1, {0}),
        # A subquery, the rows of an array of arrays, and the name of another table expression.
        (f"Project [s#3, k#0L]\n+- Project [scalar-subquery#2 [] AS s#3, k#0L]\n   :  +- {XS}", 2, {1}),
        (
            f"Project [x#7, y#8]\n+- Generate stack(xs#5), false, [x#7]\n   +- Generate explode(ys#6), [y#8]\n      +- {XS}",
            2,
            {1},
        ),
        (
            f"Project [xs#8, ys#9]\n+- WithCTE\n   :  +- {XS}\n   +- CTERelationRef 0, true, [k#7L, xs#8, ys#9], false",
            2,
            {1},
        ),
        # The names of columns are the calls that made them.
        (
            "Project [collect_list(v)#7, sort_array(collect_list(v), true)#8]\n+- Aggregate [collect_list(v#1L, 0, 0) AS "
            "collect_list(v)#7, sort_array(collect_list(v#1L, 0, 0), true) AS sort_array(collect_list(v), true)#8]",
            2,
            {1},
        ),
        # What cannot be told: the other side of a union, what Python makes of rows, names and literals with brackets.
        (f"Project [k#0L, ys#6]\n+- Union false, false\n   :- {XS}\n   +- LocalRelation [k#7L, xs#8, ys#9]", 2, set()),
        (f"Project [k#7L, ys#8]\n+- FlatMapGroupsInPandas [k#0L], f(xs#5)#9, [k#7L, ys#8]\n   +- {XS}", 2, set()),
        (f"Project [ys#6, a#7]\n+- Project [ys#6, concat(s#9, () AS a#7]\n   +- {XS}", 2, set()),
        (f"Project [ys#6, a, b#7]\n+- Project [ys#6, k#0L AS a, b#7]\n   +- {XS}", 2, set()),
        (f"Project [ys#6, a#7]\n+- Project [ys#6, concat(s#9,\n) AS a#7]\n   +- {XS}", 2, set()),
        # Without arrays in any order, all of them count.
        ("Project [xs#5, a, b#7]\n+- Union false, false\n   :- LocalRelation [xs#5, b#7]", 2, {0, 1}),
    ],
)
def test_the_order_is_given_where_the_plan_says_so(plan: str, columns: int, given: set[int]) -> None:
    assert ArrayOrder(plan).given(columns) == given


@pytest.mark.parametrize(
    ("call", "readers"),
    [
        ("array_join(xs#5, ,)", ("array_join",)),
        ("array_join(ys#6, ,)", ()),
        ("slice(transform(xs#5, lambdafunction(lambda x#9, lambda x#9, false)), 1, 2)", ("slice",)),
        ("concat_ws(,, array_join(sort_array(xs#5, true), ,), to_json(xs#5))", ("concat_ws", "to_json")),
    ],
)
@pytest.mark.parametrize(
    "plan", ["Project [{} AS a#7]", "Project [k#0L]\n+- Filter ({} = a)", "Project [k#0L]\n+- Sort [{} ASC]"]
)
def test_a_function_that_reads_an_open_order_is_named(plan: str, call: str, readers: tuple[str, ...]) -> None:
    assert ArrayOrder(f"{plan.format(call)}\n+- {XS}").readers == readers
