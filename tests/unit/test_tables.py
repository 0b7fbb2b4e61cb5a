"""Every result prints the same parts as text, in a terminal, as HTML and as a dict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from saltwise.loads import WorkerLoads
from saltwise.tables import Printable, Table


@dataclass(frozen=True)
class Findings(Printable):
    keys: tuple[str, ...]
    rows: dict[str, int]
    secret: int = field(default=1, repr=False)

    def _parts(self) -> Iterator[str | Text | Table]:
        yield Text.assemble(("Keys", "bold"), " <of> [red]")
        yield Table([(key, f"{self.rows[key]:,}") for key in self.keys], ("key", "rows"))
        yield "Nothing to do."


FINDINGS = Findings(("[red]", "<b>"), {"[red]": 1234, "<b>": 5})


def test_text_shows_brackets_and_aligns_numbers() -> None:
    assert str(FINDINGS).split("\n") == [
        "Keys <of> [red]",
        "┏━━━━━━━┳━━━━━━━┓",
        "┃ key   ┃  rows ┃",
        "┡━━━━━━━╇━━━━━━━┩",
        "│ [red] │ 1,234 │",
        "│ <b>   │     5 │",
        "└───────┴───────┘",
        "Nothing to do.",
    ]


def test_html_is_escaped() -> None:
    assert FINDINGS._repr_html_() == (
        "<p><b>Keys</b> &lt;of&gt; [red]</p><table><tr><th>key</th><th>rows</th></tr>"
        "<tr><td>[red]</td><td>1,234</td></tr><tr><td>&lt;b&gt;</td><td>5</td></tr></table><p>Nothing to do.</p>"
    )


def test_a_dict_has_plain_values_and_only_what_repr_shows() -> None:
    assert FINDINGS.to_dict() == {"keys": ("[red]", "<b>"), "rows": {"[red]": 1234, "<b>": 5}}


@dataclass(frozen=True)
class Statistics(Printable):
    rows: int
    hottest: float
    stored: str


def test_a_long_value_is_one_line_and_folds_only_in_a_terminal() -> None:
    statistics = Statistics(rows=8, hottest=0.5, stored="x" * 150)
    assert str(statistics).split("\n")[-1] == f"stored   {'x' * 150}"
    console = Console(width=40, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(statistics)
    assert capture.get().count("x") == 150


def test_results_without_a_form_of_their_own_list_their_fields() -> None:
    statistics = Statistics(rows=8, hottest=0.5, stored="table t")
    assert str(statistics) == "rows     8\nhottest  0.5\nstored   table t"
    loads = WorkerLoads([6, 0], states=3, seconds=0.1, result=["large"])
    assert str(loads).split("\n")[:2] == ["workers         2", "max rows        6"]
    assert loads.to_dict() == {"rows": [6, 0], "states": 3, "seconds": 0.1}
