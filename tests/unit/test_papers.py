"""The papers' claims are judged as the committed results were, and experiments keep what they measured."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import papers
from benchmarks.papers import EXPERIMENTS, PAPERS, debian, when_two_choices
from benchmarks.papers.__main__ import ON_SPARK, PAGE, RESULTS, main
from benchmarks.papers.charts import Lines
from benchmarks.papers.check import parse
from benchmarks.papers.claim import Claim, Verdict, claims, judge, over_seeds, ranges
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.jobs import OPERATORS, apart, flights_in_rain, real_job
from benchmarks.papers.lab import ALL_TWEETS, FULL, QUICK, STAND_INS, TWEETS, WIKIPEDIA, Grid, Lab
from benchmarks.papers.levelled import levelled
from benchmarks.papers.page import page
from benchmarks.papers.reconfiguration_milp import fluctuating
from benchmarks.papers.results import VERDICTS, Results, read
from benchmarks.papers.rows import Row, paired, pick, values
from benchmarks.papers.worker_steps import Setting, adapt
from hypothesis import given
from hypothesis import strategies as st

from saltwise import SaltwiseError, SaltwiseValueError, datasets
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
FIGURE_8 = EXPERIMENTS["dchoices-fig8"]
IN_THE_PAPERS = {
    *("pkg-table2", *(f"pkg-fig{i}" for i in range(4, 11)), "pkg-theorem5", "pkg-section4"),
    *("dchoices-fig1", *(f"dchoices-fig{i}" for i in range(3, 13))),
    *("elb-table1", "elb-fig2", "elb-fig3", "elb-fig4"),
    *(f"milp-fig{i}" for i in range(2, 6)),
    *(f"albic-fig{i}" for i in range(10, 15)),
    *("gedik-section4", *(f"gedik-fig{i}" for i in range(3, 15))),
}
ROWS: list[Row] = [
    {"data": data, "n": n, "scheme": scheme, "imbalance": n / 1000 * factor, "messages": 1000}
    for data in ("WP*", "TW*")
    for n in (5, 50)
    for scheme, factor in (("H", 10), ("PKG", 0.1), ("W-C", 0.01))
]


def test_every_table_and_figure_that_needs_no_cluster_has_an_experiment_with_claims() -> None:
    assert set(EXPERIMENTS) == IN_THE_PAPERS
    assert all(experiment.claims for experiment in EXPERIMENTS.values())


def test_the_committed_rows_give_the_committed_verdicts() -> None:
    """Of claims about each run by itself, the rows of the runs are not committed."""
    results = Results(RESULTS, FULL.messages)
    first = pick(read(RESULTS / VERDICTS), seed=1)
    for experiment in EXPERIMENTS.values():
        rows = results.rows(experiment)
        for claim in experiment.claims:
            [kept] = pick(first, experiment=experiment.name, where=claim.where, says=claim.says)
            if "runs" not in claim.draws and "all" not in claim.draws:
                verdict = judge(claim, rows)
                assert (verdict.held, verdict.tried) == (kept["held"], kept["tried"]), (experiment.name, claim.says)


def test_the_page_is_that_of_the_committed_results() -> None:
    assert PAGE.read_text("utf-8") == papers.claims_page(Results(RESULTS, FULL.messages), ON_SPARK)


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("max imbalance scheme=PKG < 0.0051", True),
        ("max imbalance scheme=PKG < 0.005", False),
        ("min imbalance by scheme n=5,50 data!=TW* lowest W-C", True),
        ("min imbalance by scheme highest PKG", False),
        ("min imbalance by scheme highest PKG 1", True),
        ("mean imbalance by scheme order W-C PKG H", True),
        ("mean imbalance by n scheme=H rising", True),
        ("mean imbalance by n scheme=H falling", False),
        ("ratio imbalance scheme H/PKG n>=50 near 100 0.001", True),
        ("ratio imbalance scheme PKG/W-C n=5 near 1 0.001", True),  # both are below one message
        ("difference imbalance scheme H/PKG,W-C | max > 0.4", True),
        ("max imbalance by data scheme=H over max imbalance scheme=PKG spans 100 0.1", True),
        ("max imbalance scheme=H minus max imbalance scheme=PKG > 0.4", True),
        ("halves: max imbalance scheme=H < 0.26", True),
        ("count n=5 >= 6", True),
        ("span imbalance data~WP scheme=H > 0.44", True),
    ],
)
def test_a_check_measures_rows(text: str, meets: bool) -> None:
    own = {
        "halves": lambda rows: [row | {"imbalance": row["imbalance"] / 2} for row in rows],
        "count": lambda rows: {"": len(rows)},
    }
    verdict = judge(Claim("Q1", "it is so", [parse(text, own)]), ROWS)
    assert verdict.holds is meets
    assert verdict.found.startswith(f"{text}: ")
    assert re.search(r"\d", verdict.found.removeprefix(text))


def test_a_word_that_is_no_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="'PKG' is no filter"):
        parse("max imbalance PKG < 1", {})


def test_what_counts_as_a_draw() -> None:
    check = parse("max imbalance by n scheme=PKG < 0.004", {})
    runs = [pick(ROWS, n=5), pick(ROWS, n=50), ROWS]
    held = {draws: judge(Claim("Q1", "", [check], draws=draws), ROWS, runs) for draws in ("", "runs", "numbers", "all")}
    assert {draws: (verdict.held, verdict.tried) for draws, verdict in held.items()} == {
        "": (0, 1),
        "runs": (1, 3),
        "numbers": (1, 2),
        "all": (0, 1),
    }


def test_claims_of_several_figures_are_written_once() -> None:
    found = claims("milp", {"periods": lambda rows: rows})
    assert [found[f"milp-fig{i}"][0].where for i in (2, 3, 4)] == [f"5.1, figure {i}" for i in (2, 3, 4)]
    assert found["milp-fig2"][0].says == found["milp-fig4"][0].says


def test_an_experiment_keeps_its_rows_and_what_each_seed_found(tmp_path: Path) -> None:
    steps = []
    out = tmp_path / "made" / "here"
    missing = papers.reproduce(
        ["dchoices-fig8"], out, TINY, lambda e, done, of: steps.append((e.name, done, of)), seeds=3
    )
    assert not missing
    assert {path.name for path in out.iterdir()} == {"dchoices.csv", "claims.csv", "runs"}
    assert (steps[0], steps[3]) == (("dchoices-fig8", 0, 3), ("dchoices-fig8", 3, 3))
    results = Results(out, TINY.messages)
    rows = results.rows(FIGURE_8)
    assert [(row["scheme"], row["worker"]) for row in rows[:2]] == [("PKG", 1), ("PKG", 2)]
    assert sum(row["head"] + row["tail"] for row in rows) == pytest.approx(3)
    verdicts = results.verdicts(FIGURE_8)
    assert {verdict.tried for verdict in verdicts} == {3}
    assert any("…" in verdict.found for verdict in verdicts)
    assert not Results(out, 10_000).verdicts(FIGURE_8)
    papers.draw(results, tmp_path / "drawn", [FIGURE_8, EXPERIMENTS["pkg-fig4"]])
    [picture] = (tmp_path / "drawn").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_goes_on_and_a_fresh_one_begins_anew(tmp_path: Path) -> None:
    ran: list[str] = []

    def report(experiment: Experiment, done: int, steps: int) -> None:
        if done == 0:
            ran.append(experiment.name)

    papers.reproduce(["dchoices-fig8"], tmp_path, TINY, report)
    papers.reproduce(["dchoices-fig8", "dchoices-fig4"], tmp_path, TINY, report)
    assert ran == ["dchoices-fig4", "dchoices-fig8"] or ran == ["dchoices-fig8", "dchoices-fig4"]
    papers.reproduce(["dchoices-fig8"], tmp_path, TINY, report, fresh=True)
    assert ran[2:] == ["dchoices-fig8"]
    papers.reproduce(["dchoices-fig4"], tmp_path, replace(TINY, messages=6_000), report)
    assert ran[3:] == ["dchoices-fig4"]


def test_an_experiment_without_data_is_named_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_index(direction: str) -> None:
        raise SaltwiseError("No index.")

    monkeypatch.setattr("benchmarks.papers.lab.debian", no_index)
    missing = papers.reproduce(["pkg-fig8", "dchoices-fig4"], tmp_path, TINY)
    assert missing == {EXPERIMENTS["pkg-fig8"]: "No index."}
    assert Results(tmp_path, TINY.messages).rows(EXPERIMENTS["dchoices-fig4"])


def test_the_command_runs_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dchoices-fig4", "--quick", "--out", str(tmp_path)])
    assert re.search(r"dchoices-fig4 +Choices d over the skew +2 of 2", capsys.readouterr().out)
    main(["dchoices-fig4", "--quick", "--out", str(tmp_path), "--draw", str(tmp_path)])
    assert (tmp_path / "dchoices-fig4.png").exists()


def test_an_unknown_name_and_a_folder_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SaltwiseValueError, match="did you mean 'dchoices-fig10'"):
        papers.experiments(["dchoices-figure10"])
    (tmp_path / "file").write_text("")
    with pytest.raises(SaltwiseValueError, match="it must be a folder that can be written"):
        papers.reproduce(["dchoices-fig4"], tmp_path / "file", TINY)


def test_a_claim_that_holds_in_a_few_draws_is_a_matter_of_the_draw() -> None:
    rare, never = Claim("Q1", "rarely", why="By luck."), Claim("Q1", "never", why="It is not so.")
    mostly = Claim("Q1", "mostly | often", why="By luck.")
    cannot = Claim("Q4", "nine choices", why="Ours.", cannot="By |K| = 3 on WP*.")
    verdicts = [
        over_seeds([Verdict(rare, "1", 1, 20), Verdict(rare, "1", 1, 20)]),
        Verdict(never, "0", 0, 20),
        Verdict(mostly, "11", 11, 20),
        Verdict(cannot, "0.3", 0, 1),
    ]
    assert [verdict.by_the_draw for verdict in verdicts] == [True, False, False, False]
    text = page(PAPERS, {EXPERIMENTS["pkg-fig9"]: verdicts}, {PAPERS[4]: [Verdict(never, "0", 1, 1)]}, 5_000)
    assert (
        "Of 5 claims that were tried, 2 hold, 1 cannot, by other numbers or equations of their paper (60.0% together), "
        "1 hold or not by the draw (80.0% with these), and 1 do not." in text
    )
    assert "m = 5,000 messages" in text
    assert "| Q1 | rarely | 1 | simulation | by the draw, with 2 of 40 | By luck. |" in text
    assert "| Q1 | never | 0 | simulation | **no** | It is not so. |" in text
    assert "| Q1 | mostly \\| often | 11 | simulation | yes, with 11 of 20 |  |" in text
    assert "| Q4 | nine choices | 0.3 | simulation | cannot | By \\|K\\| = 3 on WP\\*. |" in text
    assert "| Q1 | never | 0 | Spark | yes |  |" in text
    assert "| not measured | nobody here | needs a cluster |" in text
    assert "Stateful Load Balancing" not in text


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=5))
def test_numbers_of_seeds_become_the_range_of_them(numbers: list[float]) -> None:
    found = ranges([f"at most {number:.1e}, in 5 of 5" for number in numbers], "")
    low, high = f"{min(numbers):.1e}", f"{max(numbers):.1e}"
    assert found == f"at most {low if low == high else f'{low}…{high}'}, in 5 of 5"


def test_pairs_agree_in_the_other_settings() -> None:
    rows: list[Row] = [
        {"n": 5, "scheme": "a", "I": 1.0},
        {"n": 9, "scheme": "a", "I": 2.0},
        {"n": 9, "scheme": "b", "I": 3.0},
    ]
    assert paired(rows, "I", "scheme", "a", "b") == [(rows[1], 2.0, 3.0)]


def test_more_choices_restore_the_balance_of_five_workers() -> None:
    rows = EXPERIMENTS["pkg-fig9"].run(Lab(TINY)).rows
    assert values(rows, "imbalance", n=5, d=2)[0] > 0.02
    assert values(rows, "imbalance", n=5, d=5)[0] < 0.005
    assert values(rows, "states", n=5, d=5)[0] > values(rows, "states", n=5, d=2)[0]


def test_the_first_real_job_collocates_by_airplane_and_the_second_only_half_of_its_messages() -> None:
    for number, most in ((2, 1.0), (3, 0.5)):
        job = real_job(number, 2, nodes=20, groups=100)[0]
        node = np.tile(np.arange(100) % 20, OPERATORS[number])
        node[200:] = 0  # routes, on a node that has a twentieth of the airplanes
        assert job.traffic.collocation(node) == pytest.approx(most, abs=0.06)
        assert job.traffic.collocation(apart(OPERATORS[number], 100, 20)) < 0.1
        assert job.load(node).sum() < job.load(apart(OPERATORS[number], 100, 20)).sum()


def test_flights_come_in_the_order_of_their_hours_with_a_rain_score_in_percent() -> None:
    table = flights_in_rain()
    assert table.num_rows == datasets.flights().num_rows
    hour, rain = (table.column(name).to_numpy() for name in ("hour", "rain_score"))
    assert hour[0] == 0
    assert (np.diff(hour) >= 0).all()
    assert 0 == rain.min() < rain.max() <= 100
    assert 0.05 < (rain > 0).mean() < 0.1


INDEX = """\
Package: editor
Version: 1.0
Depends: libc (>= 2.34), gui-gtk | gui-qt:any, libc (<< 3)
Pre-Depends: init
Description: edits
 Depends: nothing

Package: libc
Description: no dependency
"""


def test_debian_edges_go_both_ways(tmp_path: Path) -> None:
    index = tmp_path / "Packages"
    index.write_text(INDEX)
    inward = debian.debian("in", index)
    assert inward.keys.tolist() == ["libc", "gui-gtk", "gui-qt", "init"]
    assert inward.source_keys is not None
    assert inward.source_keys.tolist() == ["editor"] * 4
    outward = debian.debian("out", index)
    assert outward.source_keys is not None
    assert (outward.keys.tolist(), outward.source_keys.tolist()) == (["editor"] * 4, inward.keys.tolist())


def test_debian_without_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "DPKG_STATUS", tmp_path / "status")
    with pytest.raises(SaltwiseError) as error:
        debian.debian()
    assert str(error.value) == (
        "This machine has no Debian package index: run apt-get update, or name a file with index=."
    )


def test_debian_without_apt_reads_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "status").write_text(INDEX)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "DPKG_STATUS", tmp_path / "status")
    assert debian.debian().messages == 4


@pytest.mark.parametrize(
    ("direction", "index", "sentence"),
    [
        ("inn", None, "direction is 'inn'; it must be one of in, out; did you mean 'in'?"),
        ("in", "no", "index is 'no'; it must be a file that exists."),
        (
            "in",
            "setup.cfg",
            "'setup.cfg' names no dependency of any package: it must be in the format of apt-cache dumpavail.",
        ),
    ],
)
def test_what_is_no_graph_of_debian_is_refused(direction: str, index: str | None, sentence: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        debian.debian(direction, None if index is None else Path(index))
    assert str(error.value) == sentence


def test_the_synthetic_cluster_fluctuates_as_asked() -> None:
    cluster = fluctuating(20, 400, 40, np.random.default_rng(1))
    off = np.sort(cluster.loads() - 50)
    assert off[:2] == pytest.approx([-20, -20], abs=2)
    assert off[-2:] == pytest.approx([20, 20], abs=2)
    assert np.abs(off[2:-2]).max() < 2
    assert cluster.load.min() >= 0


def test_keys_below_delta_leave_more_imbalance_than_the_hottest_key_alone() -> None:
    left = levelled(10, 1_000_000)
    hottest = 1 / np.sum(1 / np.arange(1, 1_000_001))
    rest = 1 - hottest
    tracked = np.sum(zipf_shares(1_000_000, 1.0)[:39]) - hottest
    even = (hottest + (rest - tracked) / 10) / (tracked / 9 + (rest - tracked) / 10) / 1.2
    assert even == pytest.approx(1.22, abs=0.005)
    assert left.even == pytest.approx(even)
    assert left.mean > even + 3 * left.deviation / 5**0.5


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
    assert lab.run(lab.zipf(100, 1.0), "pkg", 5, sources=1) is not lab.run(lab.zipf(100, 1.0), "pkg", 5)
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


def test_uniform_hash_of_ranks_moves_as_much_as_the_paper_says() -> None:
    moved = adapt(Setting(100_000, workers=10), "uniform", 0)
    assert moved.migration == pytest.approx(7.1, abs=0.2)


def test_the_papers_numbers_are_drawn_hollow_in_the_colour_of_their_line() -> None:
    rows: list[Row] = [{"n": n, "scheme": s, "imbalance": n / 100} for s in ("PKG", "H") for n in (5, 10)]
    beside: list[Row] = [{"n": 10, "scheme": "H", "imbalance": 0.2}]
    [axes] = Lines("n", "imbalance", "scheme", paper=beside)(rows).axes
    [theirs] = [line for line in axes.lines if line.get_markerfacecolor() == "none" and np.size(line.get_xdata())]
    [ours] = [line for line in axes.lines if line.get_label() == "H"]
    assert np.asarray(theirs.get_data()).tolist() == [[10], [0.2]]
    assert theirs.get_color() == ours.get_color()
