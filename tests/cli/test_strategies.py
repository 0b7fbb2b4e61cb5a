"""The demo of the strategies: answers are equal, hot keys are spread, and the picture is drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.cli.command import stdout

from saltwise import datasets
from saltwise.cli import strategies
from saltwise.cli.picture import draw_loads
from saltwise.cli.strategies import QUERIES, STRATEGIES, Outcome

pytestmark = [pytest.mark.classic("run the command saltwise"), pytest.mark.slow]

WORKERS = 8


class Demo(NamedTuple):
    """The command `saltwise demo --strategies` has run."""

    stdout: str
    picture: Path
    outcomes: list[Outcome]


@pytest.fixture(scope="module", params=[10, pytest.param(1, marks=pytest.mark.full)], ids=["a tenth", "all"])
def demo_run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo in quick size, over every tenth flight or all, and so many words."""
    picture = tmp_path_factory.mktemp("demo") / "demo.png"
    flights = datasets.flights()
    tenth = flights.take([*range(0, flights.num_rows, request.param)])
    outcomes: list[Outcome] = []
    run, words = strategies.run, datasets.words

    def recorded(*arguments: Any, **options: Any) -> Outcome:
        outcomes.append(run(*arguments, **options))
        return outcomes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "flights", lambda: tenth)
        patch.setattr(datasets, "words", lambda rows: words(rows // request.param, 20_000 // request.param))
        patch.setattr(strategies, "run", recorded)
        printed = stdout("demo", "--strategies", "--quick", "--partitions", str(WORKERS), "--out", str(picture))
    return Demo(printed, picture, outcomes)


@pytest.fixture(scope="module")
def outcome(demo_run: Demo) -> Outcome:
    """The delays by quarter hours, where NULL is a key, by every strategy."""
    return demo_run.outcomes[1]


def test_every_query_is_printed_and_drawn(demo_run: Demo, spark: SparkSession) -> None:
    assert demo_run.picture.read_bytes().startswith(b"\x89PNG")
    assert "All answers equal stock Spark's." in demo_run.stdout
    assert demo_run.stdout.endswith(f"Picture: {demo_run.picture}\n")
    for query in QUERIES:
        assert f"{query.title}: " in demo_run.stdout
        assert query.sql in demo_run.stdout
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


def test_every_strategy_gives_the_answers_of_stock_spark(demo_run: Demo) -> None:
    assert [outcome.differing for outcome in demo_run.outcomes] == [()] * len(QUERIES)
    assert all(set(outcome.loads) == set(STRATEGIES) for outcome in demo_run.outcomes)


def test_the_rows_of_every_worker_are_counted(outcome: Outcome) -> None:
    loads = dict(outcome.loads)
    # Its workers are as many tasks as it takes, and some of them merge states.
    assert sum(loads.pop("split").rows) >= outcome.rows
    # Its workers get the hot keys as states.
    assert sum(loads["local"].rows) < outcome.rows / 2
    assert {len(load.rows) for load in loads.values()} == {WORKERS}
    assert {sum(load.rows) for strategy, load in loads.items() if strategy != "local"} == {outcome.rows}


def test_hot_keys_are_spread(outcome: Outcome) -> None:
    ratio = {strategy: load.max_to_mean for strategy, load in outcome.loads.items()}
    assert ratio["stock"] > 6
    assert ratio["hash"] > 6
    assert ratio["pkg"] > 3
    assert max(ratio["shuffle"], ratio["dchoices"], ratio["wchoices"]) < 1.02


def test_a_heading_says_how_skewed_the_data_is(outcome: Outcome) -> None:
    assert re.fullmatch(
        r"Air time by quarter hours of delay, NULL if cancelled: [\d,]+ rows, \d+ keys, 0 has 75\.6%, "
        r"NULL has 2\.5%; n = 8 workers",
        strategies.heading(outcome),
    )
    assert strategies.summary([outcome]).startswith("All answers equal stock Spark's.")
    assert re.fullmatch(r"Left alone: its input has about \d+ bytes, and spark.*smallInput is 1048576.", outcome.auto)


def test_the_picture_may_be_an_svg(outcome: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "loads.svg"
    draw_loads(strategies.drawn([outcome]), path)
    assert path.stat().st_size > 10_000
