"""One claim from what several seeds found: numbers become ranges, and the seeds vote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .experiment import Claim

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")


def over_seeds(found: Sequence[Sequence[Claim]]) -> list[Claim]:
    """Return the claims of an experiment, each one from all seeds that judged it.

    Args:
        found: for each seed, its claims.

    >>> one, other = Claim("Q1", "low", "at most 0.1", True), Claim("Q1", "low", "at most 0.3", False, "Bad luck.")
    >>> [claim] = over_seeds([[one], [other], [one]])
    >>> claim.found, claim.holds, claim.seeds
    ('at most 0.1…0.3', True, (2, 3))
    """
    judged: dict[tuple[str, str], list[Claim]] = {}
    for claims in found:
        for claim in claims:
            judged.setdefault((claim.where, claim.says), []).append(claim)
    return [_voted(each) for each in judged.values()]


def _voted(claims: Sequence[Claim]) -> Claim:
    held, tried = (sum(counts) for counts in zip(*(claim.seeds for claim in claims), strict=True))
    holds = 2 * held > tried
    shown = next(claim for claim in claims if claim.holds is holds)
    found = ranges([claim.found for claim in claims], shown.found)
    return replace(shown, found=found, holds=holds, seeds=(held, tried))


def ranges(texts: Sequence[str], shown: str) -> str:
    """Return a text in which numbers that differ are ranges; `shown` where the texts differ in their words.

    >>> ranges(["5 of 9 at 1.5e-03", "5 of 9 at 2.0e-03"], "")
    '5 of 9 at 1.5e-03…2.0e-03'
    """
    words = {_NUMBER.sub("#", text) for text in texts}
    if len(words) > 1:
        return f"{shown} (one of {len(texts)} seeds)"
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    parts = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(parts), texts[0])


def _range(numbers: Sequence[str]) -> str:
    low, high = (pick(numbers, key=lambda text: float(text.replace(",", ""))) for pick in (min, max))
    return low if float(low.replace(",", "")) == float(high.replace(",", "")) else f"{low}…{high}"
