"""The page that lists, claim by claim, what a paper says and what we found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from .contradicted import CONTRADICTED
from .experiment import Claim, Experiment
from .lab import STAND_INS

TITLES = {
    "pkg": "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams",
    "dchoices": "When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing",
    "gedik": "Partitioning functions for stateful data parallelism in stream processing",
    "elb": "Stateful Load Balancing for Parallel Stream Processing",
    "milp": "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine: the MILP",
    "albic": "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine: ALBIC",
}

_SEEDS = " Every simulation ran with {} seeds, and a…b is the range over them."
_DRAWS = (
    "Some claims are judged several times: with each seed, each hash, or each setting of a figure. *Yes, with 3 of 5* "
    "is one that holds with most of them. *By the draw, with 1 of 5* is one that does not, but in at least one of "
    "twenty: the paper drew once, and what it saw is within the spread of ours."
)
_HEADER = "| Where | What the paper says | What came out | Run by | Holds | Why |\n|---|---|---|---|---|---|"


def page(
    found: Mapping[Experiment, Sequence[Claim]],
    missing: Mapping[Experiment, str],
    on_a_cluster: Mapping[str, Sequence[Claim]],
    messages: int,
    on_spark: Mapping[str, Sequence[Claim]] | None = None,
    pictures: str = "",
    seeds: int = 1,
    lead: str = "",
) -> str:
    """Return the page as Markdown.

    Args:
        found: the claims of each experiment, in order.
        missing: experiments without data, and the sentence that says so.
        on_a_cluster: claims of each paper that no simulation can test.
        messages: m of the synthetic streams.
        on_spark: claims of each paper that ran on Spark.
        pictures: what stands before the name of a picture.
        seeds: with how many each experiment ran.
        lead: a first paragraph, which says where the results are from.
    """
    on_spark = on_spark or {}
    claims = [claim for each in (*found.values(), *on_spark.values()) for claim in each]
    held = sum(claim.holds is True for claim in claims)
    ruled_out = sum(claim.holds is False and claim.says in CONTRADICTED for claim in claims)
    by_the_draw = sum(claim.by_the_draw and claim.says not in CONTRADICTED for claim in claims)
    decided, tried = held + ruled_out, max(1, len(claims))
    parts = [
        "# The papers' claims, one by one",
        *([lead] if lead else []),
        f"Of {len(claims)} claims that were tried, {held} hold, {ruled_out} cannot, by other numbers or equations of "
        f"their paper ({decided / tried:.1%} together), {by_the_draw} hold or not by the draw "
        f"({(decided + by_the_draw) / tried:.1%} with these), and {len(claims) - decided - by_the_draw} do not. "
        "Synthetic streams have "
        f"m = {messages:,} messages (the papers: up to ten million). Imbalance is (max load - mean load) as a share of "
        "the messages so far: in the mean over 100 samples in time, but at the end of the stream for partial key "
        "grouping, apart from its figure 5." + (_SEEDS.format(seeds) if seeds > 1 else ""),
        _DRAWS,
        "The data sets that are not public have stand-ins, and claims about them are claims about these:",
        "\n".join(f"* **{_plain(name)}**: {what}" for name, what in STAND_INS.items()),
    ]
    if missing:
        parts.append(
            "\n".join(f"* {experiment.name} did not run: {sentence}" for experiment, sentence in missing.items())
        )
    for paper, title in TITLES.items():
        of_paper = {e: each for e, each in found.items() if e.name.startswith(f"{paper}-")}
        if not of_paper and paper not in on_spark:
            continue
        parts.append(f"## {title}")
        for experiment, its_claims in of_paper.items():
            name = experiment.name
            parts += [
                f"### {experiment.title} ({name})",
                f"![{experiment.title}]({pictures}{name}.png)",
                f"Made by `{made_by(experiment)}`." + ("" if pictures else f" Numbers: [{name}.csv]({name}.csv)"),
                table(its_claims, "simulation"),
            ]
        if paper in on_spark:
            parts += ["### On Spark", table(on_spark[paper], "Spark")]
        if on_a_cluster[paper]:
            parts += ["### What needs a cluster", table(on_a_cluster[paper], "nobody here")]
    return "\n\n".join(parts) + "\n"


def table(claims: Sequence[Claim], run_by: str) -> str:
    """Return a table of claims.

    Args:
        claims: its rows.
        run_by: what ran them: a simulation, or Spark.
    """
    return "\n".join([_HEADER, *(_line(claim, run_by) for claim in claims)])


def made_by(experiment: Experiment) -> str:
    """Return the name of the function that makes an experiment.

    >>> from benchmarks.papers.when_two_choices import EXPERIMENTS
    >>> made_by(EXPERIMENTS[0])
    'benchmarks.papers.when_two_choices.figure_1'
    """
    run = experiment.run.func if isinstance(experiment.run, partial) else experiment.run
    return f"{run.__module__}.{run.__qualname__}"


def _line(claim: Claim, run_by: str) -> str:
    held, tried = claim.seeds
    contradiction = CONTRADICTED.get(claim.says, "") if claim.holds is False else ""
    holds = "cannot" if contradiction else _verdict(claim)
    if 0 < held < tried:
        holds += f", with {held} of {tried}"
    cells = (_plain(claim.where), _plain(claim.says), _plain(claim.found), run_by, holds)
    return "| " + " | ".join((*cells, _plain(contradiction or claim.why))) + " |"


def _verdict(claim: Claim) -> str:
    if claim.holds is None:
        return "needs a cluster"
    if claim.by_the_draw:
        return "by the draw"
    return "yes" if claim.holds else "**no**"


def _plain(text: str) -> str:
    """Return a text in which no character of it is Markdown's."""
    return text.replace("|", "\\|").replace("*", "\\*")
