"""The table of aggregate calls names each function that it calls."""

from tests.plans.calls import CALLS


def test_every_call_calls_the_function_that_it_is_listed_for() -> None:
    wrong = [
        call for batch in CALLS.values() for name, texts in batch.items() for call in texts if f"{name}(" not in call
    ]

    assert wrong == []
