"""Options of a group-by: what is refused, and how the hint spells the others."""

from __future__ import annotations

from typing import Any

import pytest

from saltwise import SaltwiseValueError
from saltwise.options import SkewOptions
from saltwise.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": "dchoise"},
            f"strategy is 'dchoise'; it must be one of {', '.join(STRATEGIES)}; did you mean 'dchoices'?",
        ),
        ({"partitions": 0}, "partitions is 0; it must be a whole number of at least 1."),
        ({"partitions": 2.5}, "partitions is 2.5; it must be a whole number of at least 1."),
        ({"theta": 0}, "theta is 0; it must be a share above 0 and at most 1."),
        ({"theta": 10**400}, f"theta is {10**400}; it must be a share above 0 and at most 1."),
        ({"theta": "x"}, "theta is 'x'; it must be a share above 0 and at most 1."),
        ({"epsilon": 1.0}, "epsilon is 1.0; it must be a share between 0 and 1."),
        ({"choices": 1}, "choices is 1; it must be a whole number of at least 2."),
        (
            {"choices": 9, "partitions": 8},
            "choices is 9; it must be a whole number from 2 to the 8 partitions.",
        ),
        (
            {"sketch_capacity": 10, "theta": 0.01},
            "sketch_capacity is 10; it must be a whole number from 1/theta = 100 to 16777216.",
        ),
        *(
            (
                {"sketch_capacity": 5, "theta": theta},
                "sketch_capacity is 5; it must be a whole number from 16777216 to 16777216.",
            )
            for theta in (1e-9, 1e-320)
        ),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        SkewOptions(**options)
    assert str(error.value) == message


def test_options_are_spelled_as_the_hint_reads_them() -> None:
    options = SkewOptions("DChoices", partitions=7, theta=0.5, sketch_capacity=8)
    assert options.hint() == ["dchoices", "partitions=7", "theta=0.5", "sketch.capacity=8"]
