"""The page that lists, claim by claim, what a paper says and what we found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .experiment import Claim, Experiment, Outcome

TITLES = {
    "pkg": "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams",
    "dchoices": "When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing",
    "gedik": "Partitioning functions for stateful data parallelism in stream processing",
    "elb": "Stateful Load Balancing for Parallel Stream Processing",
    "milp": "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine: the MILP",
    "albic": "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine: ALBIC",
}

_HEADER = "| Where | What the paper says | What came out | Holds | Why |\n|---|---|---|---|---|"


def page(
    outcomes: Mapping[Experiment, Outcome],
    missing: Mapping[Experiment, str],
    on_a_cluster: Mapping[str, Sequence[Claim]],
    stand_ins: Mapping[str, str],
    messages: int,
) -> str:
    """Return the page as Markdown.

    Args:
        outcomes: what each experiment found, in order.
        missing: experiments without data, and the sentence that says so.
        on_a_cluster: claims of each paper that no simulation can test.
        stand_ins: what is used in place of each data set that is not public.
        messages: m of the synthetic streams.
    """
    claims = [claim for outcome in outcomes.values() for claim in outcome.claims]
    held = sum(claim.holds is True for claim in claims)
    parts = [
        "# The papers' claims, one by one",
        f"Of {len(claims)} claims that were tried, {held} hold and {len(claims) - held} do not. Synthetic streams have "
        f"m = {messages:,} messages (the papers: up to ten million). Imbalance is (max load - mean load) as a share of "
        "the messages so far, in the mean over 100 samples in time.",
        "The data sets that are not public have stand-ins, and claims about them are claims about these:",
        "\n".join(f"* **{name}**: {what}" for name, what in stand_ins.items()),
    ]
    if missing:
        parts.append(
            "\n".join(f"* {experiment.name} did not run: {sentence}" for experiment, sentence in missing.items())
        )
    for paper, title in TITLES.items():
        paper_outcomes = {e: outcome for e, outcome in outcomes.items() if e.name.startswith(f"{paper}-")}
        if not paper_outcomes:
            continue
        parts.append(f"## {title}")
        for experiment, outcome in paper_outcomes.items():
            name = experiment.name
            parts += [
                f"### {experiment.title} ({name})",
                f"![{experiment.title}]({name}.png)",
                f"Numbers: [{name}.csv]({name}.csv)",
                _table(outcome.claims),
            ]
        parts += ["### What needs a cluster", _table(on_a_cluster[paper])]
    return "\n\n".join(parts) + "\n"


def _table(claims: Sequence[Claim]) -> str:
    return "\n".join([_HEADER, *map(_line, claims)])


def _line(claim: Claim) -> str:
    holds = "needs a cluster" if claim.holds is None else "yes" if claim.holds else "**no**"
    cells = (claim.where, claim.says, claim.found, holds, claim.why)
    return "| " + " | ".join(cell.replace("|K|", "\\|K\\|") for cell in cells) + " |"
