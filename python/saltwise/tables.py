"""Prints results: as text, in a terminal, and in a notebook.

A result class derives from :class:`Printable` and yields its parts: lines of text, and tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text


@dataclass(frozen=True)
class Table:
    """One table of text.

    >>> Table([("rows", "6"), ("max/mean", "1.5")]).html()
    '<table><tr><th>rows</th><td>6</td></tr><tr><th>max/mean</th><td>1.5</td></tr></table>'
    """

    rows: Sequence[Sequence[str | Text]]
    """The cells. Without headings, each row is a name and its value."""
    heads: Sequence[str] = ()
    """The headings. Columns after the first are aligned to the right."""
    code: bool = False
    """Whether cells hold code or plans. Such cells are aligned to the left, and cut at the edge instead of wrapped."""
    wrapped: bool = False
    """Without headings, whether values are wrapped at the edge. If not, each is one line outside of terminals."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table as RichTable
        from rich.text import Text

        if self.wrapped:
            grid = RichTable.grid(padding=(0, 2, 0, 0))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in self.rows:
                grid.add_row(name, Text(value) if isinstance(value, str) else value)
            yield grid
            return
        if not self.heads:
            width = max((len(name) for name, _ in self.rows), default=0)
            lines = (f"{name!s:<{width}}  {value}" for name, value in self.rows)
            # A terminal may be narrow. Anywhere else, a value is one line.
            yield Text("\n".join(lines), overflow="fold" if console.is_terminal else "ignore")
            return
        table = RichTable()
        for i, head in enumerate(self.heads):
            if self.code:
                table.add_column(head, no_wrap=True, overflow="ellipsis")
            else:
                table.add_column(head, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        yield table

    def html(self) -> str:
        """Return the table as HTML."""
        body = [[self._html_of(cell) for cell in row] for row in self.rows]
        if self.heads:
            body.insert(0, [f"<th>{escape(head)}</th>" for head in self.heads])
        else:
            body = [[f"<th>{escape(str(row[0]))}</th>", *cells[1:]] for row, cells in zip(self.rows, body, strict=True)]
        return "<table>" + "".join(f"<tr>{''.join(cells)}</tr>" for cells in body) + "</table>"

    def _html_of(self, cell: str | Text) -> str:
        text = escape(str(cell))
        if self.code:
            return f"<td style='text-align:left; vertical-align:top'><pre>{text}</pre></td>"
        # Notebooks align cells to the right.
        is_bar = not isinstance(cell, str) and cell.justify == "left"
        return f"<td style='text-align:left'>{text}</td>" if is_bar else f"<td>{text}</td>"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "query", "queries"), counted(1200, "row")
    ('1 query', '1,200 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def bar(value: float, largest: float) -> Text:
    """Return a bar of up to 20 columns, which stands for a value.

    >>> print(bar(1.0, 2.5))
    ████████
    """
    from rich.text import Text

    return Text("█" * max(1, round(20 * value / largest)), justify="left")


class Printable:
    """A dataclass that prints its parts: the same in a terminal, as text and as HTML.

    >>> @dataclass
    ... class Load(Printable):
    ...     rows: int
    ...     worker: str
    >>> print(Load(6, "w1"))
    rows    6
    worker  w1
    >>> Load(6, "w1").to_dict()
    {'rows': 6, 'worker': 'w1'}
    """

    _text_width: ClassVar[int] = 100
    """Columns of the text that ``str`` returns."""

    def _parts(self) -> Iterator[str | Text | Table]:
        """Yield the parts from top to bottom: by default, a table of the fields."""
        yield Table([(name, str(value)) for name, value in _fields(self).items()])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {name: _plain(value) for name, value in _fields(self).items()}

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=self._text_width, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(self, crop=False)
        return "\n".join(map(str.rstrip, capture.get().rstrip().split("\n")))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for part in self._parts():
            # In a plain string, rich would read text in brackets as a style.
            yield Text(part) if isinstance(part, str) else part

    def _repr_html_(self) -> str:
        return "".join(
            part.html() if isinstance(part, Table) else f"<p>{_paragraph(part)}</p>" for part in self._parts()
        )


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields that ``repr`` shows."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.repr}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {name: _plain(field) for name, field in _fields(value).items()}
    if type(value) is dict:
        return {name: _plain(entry) for name, entry in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def _paragraph(text: str | Text) -> str:
    if isinstance(text, str):
        return escape(text)
    from rich.console import Console

    segments = [(escape(segment.text), segment.style) for segment in text.render(Console(), end="")]
    return "".join(f"<b>{html}</b>" if style is not None and style.bold else html for html, style in segments)
