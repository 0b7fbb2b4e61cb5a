"""The README and the pages of the site, and the code in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [README, *sorted((ROOT / "docs").rglob("*.md"))]}
"""Their text, by their path in the checkout."""

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(*languages: str) -> dict[str, list[tuple[str, str]]]:
    """Return the blocks of code in these languages by page, of the pages that have any."""
    found = {page: [block for block in FENCE.findall(text) if block[0] in languages] for page, text in PAGES.items()}
    return {page: code for page, code in found.items() if code}


def reference(page: str) -> str:
    """Return a page of the reference."""
    return PAGES[f"docs/reference/{page}"]
