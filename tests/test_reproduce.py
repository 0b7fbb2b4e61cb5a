"""The reproduction writes what it promises, and calls no claim held without a number."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import papers as reproduce
from benchmarks.papers import (
    EXPERIMENTS,
    FULL,
    PAPERS,
    QUICK,
    Claim,
    Grid,
    Outcome,
    partial_key_grouping,
    when_two_choices,
)
from benchmarks.papers.charts import lines
from benchmarks.papers.contradicted import CONTRADICTED
from benchmarks.papers.experiment import Claims, Row, highest, paired, pick, values
from benchmarks.papers.jobs import OPERATORS, apart, real_job
from benchmarks.papers.lab import ALL_TWEETS, STAND_INS, TWEETS, WIKIPEDIA, Lab
from benchmarks.papers.levelled import levelled
from benchmarks.papers.over_seeds import over_seeds, ranges
from benchmarks.papers.page import page
from benchmarks.papers.reconfiguration_milp import fluctuating
from benchmarks.papers.worker_steps import Setting, adapt
from hypothesis import given
from hypothesis import strategies as st

from saltwise import SaltwiseError, datasets
from saltwise.streams import zipf_shares

TINY = Grid(
    messages=5_000,
    workers=(5, 10, 20, 50, 100),
    exponents=(0.4, 1.2, 2.0),
    keys=(1_000, 10_000),
    sources=(5, 10),
    data=("WP*", "LN2"),
    fluctuations=(30,),
    migrations=(20,),
    seconds=0.5,
    periods=3,
)

LONG = {
    *("pkg-fig4", "pkg-fig8", "pkg-table2", "elb-fig3", "milp-fig5", "albic-fig10", "albic-fig11"),
    *("gedik-fig4", "gedik-fig11", "gedik-section4"),
}
"""Experiments that take seconds in any size. Each is of a paper of which shorter ones run too."""

IN_THE_PAPERS = {
    *("pkg-table2", *(f"pkg-fig{i}" for i in range(4, 11)), "pkg-theorem5", "pkg-section4"),
    *("dchoices-fig1", *(f"dchoices-fig{i}" for i in range(3, 13))),
    *("elb-table1", "elb-fig2", "elb-fig3", "elb-fig4"),
    *(f"milp-fig{i}" for i in range(2, 6)),
    *(f"albic-fig{i}" for i in range(10, 15)),
    *("gedik-section4", *(f"gedik-fig{i}" for i in range(3, 15))),
}


def run(name: str, seed: int = 1) -> Outcome:
    return EXPERIMENTS[name].run(Lab(TINY, seed))


def test_every_table_and_figure_that_needs_no_cluster_has_an_experiment() -> None:
    assert set(EXPERIMENTS) == IN_THE_PAPERS


def test_an_experiment_writes_its_numbers_its_figure_and_the_page(tmp_path: Path) -> None:
    steps = []
    out = tmp_path / "made" / "here"
    found = reproduce.reproduce(["dchoices-fig8"], out, TINY, lambda e, done, of: steps.append((e.name, done, of)))
    assert {path.name for path in out.iterdir()} == {"dchoices-fig8.csv", "dchoices-fig8.png", "claims.md", "seeds"}
    (claims,) = found.claims.values()
    with (out / "dchoices-fig8.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["scheme"], row["worker"]) for row in rows[:2]] == [("PKG", "1"), ("PKG", "2")]
    assert sum(float(row["head"]) + float(row["tail"]) for row in rows) == pytest.approx(3)
    assert (out / "dchoices-fig8.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "claims.md").read_text()
    for claim in [*claims, *when_two_choices.NEEDS_A_CLUSTER]:
        assert claim.says in text
    assert "Partial Key Grouping" not in text
    assert steps[0] == ("dchoices-fig8", 0, 3)
    assert steps[-1] == ("dchoices-fig8", 3, 3)


def test_two_choices_overload_two_of_five_workers_and_any_worker_balances() -> None:
    rows = run("dchoices-fig8", seed=2).rows  # the first seed gives the hottest key one worker twice
    load = {s: sorted(float(r["head"]) + float(r["tail"]) for r in pick(rows, scheme=s)) for s in ("PKG", "W-C")}
    assert load["PKG"][3] > 0.29
    assert load["PKG"][2] < 0.2
    assert load["W-C"][4] < 0.205


def test_more_choices_restore_the_balance_of_five_workers() -> None:
    rows = run("pkg-fig9").rows
    assert values(rows, "imbalance", n=5, d=2)[0] > 0.02
    assert values(rows, "imbalance", n=5, d=5)[0] < 0.005
    assert values(rows, "states", n=5, d=5)[0] > values(rows, "states", n=5, d=2)[0]


def test_the_first_real_job_collocates_by_airplane_and_the_second_only_half_of_its_messages() -> None:
    for number, most in ((2, 1.0), (3, 0.5)):
        job = real_job(number, 2, nodes=20, groups=100)[0]
        there = np.tile(np.arange(100) % 20, OPERATORS[number])
        there[200:] = 0  # routes, on a node that has a twentieth of the airplanes
        assert job.traffic.collocation(there) == pytest.approx(most, abs=0.06)
        assert job.traffic.collocation(apart(OPERATORS[number], 100, 20)) < 0.1
        assert job.load(there).sum() < job.load(apart(OPERATORS[number], 100, 20)).sum()


def test_flights_come_in_the_order_of_their_hours_with_a_rain_score_in_percent() -> None:
    table = datasets.flights_in_rain()
    assert table.num_rows == datasets.flights().num_rows
    hour, rain = (table.column(name).to_numpy() for name in ("hour", "rain_score"))
    assert hour[0] == 0
    assert (np.diff(hour) >= 0).all()
    assert 0 == rain.min() < rain.max() <= 100
    assert 0.05 < (rain > 0).mean() < 0.1


def test_a_job_without_collocation_loads_nodes_by_half() -> None:
    jobs = real_job(4, 3, nodes=20, groups=20)
    loads = [job.cluster(apart(8, 20, 20), 20).mean for job in jobs]
    assert np.mean(loads) == pytest.approx(50, rel=0.1)


def test_albic_migrates_ten_key_groups_and_cola_nearly_all() -> None:
    rows = run("albic-fig12").rows
    assert highest(rows, "moved", technique="ALBIC") <= 10
    assert min(values(rows, "moved", technique="COLA")) > 150
    assert values(rows, "collocation", technique="COLA") == [1.0] * 3
    collocation = values(rows, "collocation", technique="ALBIC")
    assert collocation[0] < collocation[-1] < 0.2


def test_the_synthetic_cluster_fluctuates_as_asked() -> None:
    cluster = fluctuating(20, 400, 40, np.random.default_rng(1))
    off = np.sort(cluster.loads() - 50)
    assert off[:2] == pytest.approx([-20, -20], abs=2)
    assert off[-2:] == pytest.approx([20, 20], abs=2)
    assert np.abs(off[2:-2]).max() < 2
    assert cluster.load.min() >= 0


def test_the_head_is_counted_as_the_formula_has_it() -> None:
    rows = run("dchoices-fig3").rows
    assert pick(rows, z=2.0, n=50, theta="2/n")[0]["head"] == sum(zipf_shares(10_000, 2.0) >= 2 / 50)
    assert highest(rows, "head") <= 5 * 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in LONG else name for name in sorted(EXPERIMENTS)],
)
def test_no_claim_is_judged_without_a_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.papers.partitioning_functions.RINGS", 2)
    monkeypatch.setattr("benchmarks.papers.partitioning_functions.RUNS", 1)
    outcome = run(name)
    assert outcome.rows
    assert outcome.claims
    for claim in outcome.claims:
        assert claim.holds in (True, False)
        assert re.search(r"\d", claim.found), claim
        assert "\n" not in claim.says + claim.found + claim.why


def test_claims_about_a_cluster_are_not_judged() -> None:
    assert {claim.holds for paper in PAPERS.values() for claim in paper.NEEDS_A_CLUSTER} == {None}


def test_the_page_counts_and_marks_claims_and_names_the_stand_ins() -> None:
    held = Claim("Q1", "the first", "1.5 of |K| = 3 on WP*", True)
    failed = Claim("Q2", "the second", "0.1", False, "Too short.")
    missing = {EXPERIMENTS["pkg-fig8"]: "No index."}
    text = page(
        {EXPERIMENTS["pkg-fig9"]: [held, failed]}, missing, {"pkg": partial_key_grouping.NEEDS_A_CLUSTER}, 5_000
    )
    assert (
        "Of 2 claims that were tried, 1 hold, 0 cannot, by other numbers or equations of their paper (50.0% "
        "together), 0 hold or not by the draw (50.0% with these), and 1 do not." in text
    )
    assert "m = 5,000 messages" in text
    assert "| Q1 | the first | 1.5 of \\|K\\| = 3 on WP\\* | simulation | yes |  |" in text
    assert "| Q2 | the second | 0.1 | simulation | **no** | Too short. |" in text
    assert "| not measured | nobody here | needs a cluster |" in text
    assert "* pkg-fig8 did not run: No index." in text
    for name in STAND_INS:
        escaped = name.replace("*", "\\*")
        assert f"* **{escaped}**: " in text


def test_the_page_shows_a_paper_of_which_only_spark_ran_a_claim() -> None:
    text = page({}, {}, {"milp": []}, 5_000, on_spark={"milp": [Claim("5.2", "it is even", "0.1%", True)]})
    assert "Of 1 claims that were tried, 1 hold" in text
    assert "| 5.2 | it is even | 0.1% | Spark | yes |  |" in text


def test_a_claim_that_the_papers_own_numbers_rule_out_cannot_hold_and_the_page_says_by_which() -> None:
    says = "nine choices restore it for forty workers"
    text = page({EXPERIMENTS["pkg-fig9"]: [Claim("Q4", says, "0.3", False, "Ours.")]}, {}, {"pkg": []}, 5_000)
    assert "0 hold, 1 cannot" in text
    assert f"| Q4 | {says} | 0.3 | simulation | cannot | {CONTRADICTED[says]} |" in text


def test_keys_below_delta_leave_more_imbalance_than_the_hottest_key_alone() -> None:
    left = levelled(10, 1_000_000)
    hottest = 1 / np.sum(1 / np.arange(1, 1_000_001))
    rest = 1 - hottest
    tracked = np.sum(zipf_shares(1_000_000, 1.0)[:39]) - hottest
    even = (hottest + (rest - tracked) / 10) / (tracked / 9 + (rest - tracked) / 10) / 1.2
    assert even == pytest.approx(1.22, abs=0.005)
    assert left.even == pytest.approx(even)
    assert left.mean > even + 3 * left.deviation / 5**0.5


def test_pairs_agree_in_the_other_settings() -> None:
    rows: list[Row] = [
        {"n": 5, "scheme": "a", "I": 1.0},
        {"n": 9, "scheme": "a", "I": 2.0},
        {"n": 9, "scheme": "b", "I": 3.0},
    ]
    assert paired(rows, "I", "scheme", "a", "b") == [(rows[1], 2.0, 3.0)]


def test_the_stand_ins_have_the_p1_that_they_promise() -> None:
    assert zipf_shares(*WIKIPEDIA)[0] == pytest.approx(0.0932, abs=1e-4)
    assert zipf_shares(*TWEETS)[0] == pytest.approx(0.0267, abs=1e-4)
    assert zipf_shares(*ALL_TWEETS)[0] == pytest.approx(0.0267, abs=1e-4)
    lab = Lab(QUICK)
    assert lab.data("CT*").top_share == pytest.approx(0.0329, abs=0.002)
    assert set(FULL.data) <= set(STAND_INS)


def test_a_simulation_is_run_once() -> None:
    lab = Lab(TINY)
    assert lab.run(lab.zipf(100, 1.0), "pkg", 5) is lab.run(lab.zipf(100, 1.0), "pkg", 5)
    assert lab.run(lab.zipf(100, 1.0), "pkg", 5, sources=2) is not lab.run(lab.zipf(100, 1.0), "pkg", 5)
    assert lab.run(lab.zipf(100, 1.0), "pkg", 5, sources=5, load="local") is lab.run(lab.zipf(100, 1.0), "pkg", 5)
    assert lab.run(lab.zipf(100, 1.0), "hash", 5, load="global") is lab.run(lab.zipf(100, 1.0), "hash", 5)


def test_a_simulation_is_kept_for_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lab(TINY, kept=tmp_path)
    made = first.run(first.zipf(100, 1.0), "dchoices", 5)
    other_seed = Lab(TINY, 2, tmp_path)
    assert other_seed.run(other_seed.zipf(100, 1.0), "dchoices", 5).series.tolist() != made.series.tolist()
    monkeypatch.setattr("benchmarks.papers.lab.simulate", None)
    again = Lab(TINY, kept=tmp_path)
    kept = again.run(again.zipf(100, 1.0), "dchoices", 5)
    assert [np.asarray(value).tolist() for value in kept] == [np.asarray(value).tolist() for value in made]


def test_the_least_choices_are_those_of_a_search_from_two_on() -> None:
    lab = Lab(TINY)
    for z, n in ((0.4, 10), (1.2, 10), (2.0, 10)):
        stream = lab.zipf(when_two_choices.KEYS, z)
        target = lab.run(stream, "wchoices", n).imbalance + 1e-3
        every = [d for d in range(2, n) if lab.run(stream, "dchoices", n, choices=d).imbalance <= target]
        assert when_two_choices._least_choices(lab, z, n, target) == min(every, default=n)


def test_an_experiment_without_data_is_named_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_index(direction: str) -> None:
        raise SaltwiseError("No index.")

    monkeypatch.setattr("benchmarks.papers.lab.debian", no_index)
    found = reproduce.reproduce(["pkg-fig8", "dchoices-fig4"], tmp_path, TINY)
    assert found.missing == {EXPERIMENTS["pkg-fig8"]: "No index."}
    assert list(found.claims) == [EXPERIMENTS["dchoices-fig4"]]
    assert "* pkg-fig8 did not run: No index." in (tmp_path / "claims.md").read_text()


def test_seeds_draw_anew_and_vote(tmp_path: Path) -> None:
    found = reproduce.reproduce(["dchoices-fig8"], tmp_path, TINY, seeds=3)
    [claims] = found.claims.values()
    assert {claim.seeds[1] for claim in claims} == {3}
    assert all((2 * claim.seeds[0] > 3) == claim.holds for claim in claims)
    assert any("…" in claim.found for claim in claims)
    assert "Every simulation ran with 3 seeds" in (tmp_path / "claims.md").read_text()


def test_a_claim_that_holds_in_a_few_draws_is_a_matter_of_the_draw() -> None:
    claims = Claims("Q1")
    claims.add("rarely", "1 of 20", [True] + [False] * 19, "By luck.")
    claims.add("never", "0 of 20", [False] * 20, "It is not so.")
    claims.add("mostly", "11 of 20", [True] * 11 + [False] * 9, "By luck.")
    rarely, never, mostly = over_seeds([claims, claims])
    assert [claim.seeds for claim in (rarely, never, mostly)] == [(2, 40), (0, 40), (22, 40)]
    assert [claim.by_the_draw for claim in (rarely, never, mostly)] == [True, False, False]
    assert (mostly.holds, mostly.why) == (True, "")
    text = page({EXPERIMENTS["pkg-fig9"]: [rarely, never, mostly]}, {}, {"pkg": []}, 5_000)
    assert "1 hold or not by the draw" in text
    assert "| by the draw, with 2 of 40 | By luck. |" in text
    assert "| **no** | It is not so. |" in text
    assert "| yes, with 22 of 40 |  |" in text


def test_uniform_hash_of_ranks_moves_as_much_as_the_paper_says() -> None:
    moved = {workers: adapt(Setting(1_000_000, workers=workers), "uniform", 0) for workers in (10, 32)}
    assert moved[32].migration == pytest.approx(22, abs=0.6)
    assert moved[10].migration == pytest.approx(7.35, abs=0.01)


def test_an_interrupted_run_goes_on_and_a_fresh_one_begins_anew(tmp_path: Path) -> None:
    ran: list[str] = []

    def report(experiment: reproduce.Experiment, done: int, steps: int) -> None:
        if done == 0:
            ran.append(experiment.name)

    first = reproduce.reproduce(["dchoices-fig8"], tmp_path, TINY, report)
    again = reproduce.reproduce(["dchoices-fig8", "dchoices-fig4"], tmp_path, TINY, report)
    assert ran == ["dchoices-fig8", "dchoices-fig4"]
    assert again.claims[EXPERIMENTS["dchoices-fig8"]] == first.claims[EXPERIMENTS["dchoices-fig8"]]
    reproduce.reproduce(["dchoices-fig8"], tmp_path, TINY, report, fresh=True)
    assert ran[2:] == ["dchoices-fig8"]
    reproduce.reproduce(["dchoices-fig4"], tmp_path, replace(TINY, messages=6_000), report)
    assert ran[3:] == ["dchoices-fig4"]


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=5))
def test_numbers_of_seeds_become_the_range_of_them(numbers: list[float]) -> None:
    found = ranges([f"at most {number:.1e}, in 5 of 5" for number in numbers], "")
    low, high = f"{min(numbers):.1e}", f"{max(numbers):.1e}"
    assert found == f"at most {low if low == high else f'{low}…{high}'}, in 5 of 5"


def test_the_papers_numbers_are_drawn_hollow_in_the_colour_of_their_line() -> None:
    rows = [{"n": n, "scheme": s, "imbalance": n / 100} for s in ("PKG", "H") for n in (5, 10)]
    paper = [{"n": 10, "scheme": "H", "imbalance": 0.2}]
    [axes] = lines(rows, "n", "imbalance", "scheme", paper=paper).axes
    [theirs] = [line for line in axes.lines if line.get_markerfacecolor() == "none" and np.size(line.get_xdata())]
    [ours] = [line for line in axes.lines if line.get_label() == "H"]
    assert np.asarray(theirs.get_data()).tolist() == [[10], [0.2]]
    assert theirs.get_color() == ours.get_color()
