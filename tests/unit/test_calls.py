"""The table of aggregate calls names each function that it calls, and a call is read from SQL text."""

from tests.plans.calls import CALLS

from saltwise.spark.aggregate_calls import Call, parse_call


def test_every_call_calls_the_function_that_it_is_listed_for() -> None:
    wrong = [
        call for batch in CALLS.values() for name, texts in batch.items() for call in texts if f"{name}(" not in call
    ]

    assert wrong == []


def test_the_alias_of_a_call_may_have_any_characters() -> None:
    for alias in "", "n", "AS n", "`a b`", "AS `a``b`", "as ```)`":
        assert parse_call(f"count(*) {alias}") == Call("count", [])
    assert parse_call("count(*) AS `a` + 1") is None
