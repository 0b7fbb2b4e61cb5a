"""What a placement balances, and how well: the parameters of a partition function that an application chooses.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, table 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import SaltwiseValueError, check_number, check_share, check_whole
from .utility import UTILITIES

EXPONENTS = {"C": 0, "L": 1, "Q": 2}
"""The resource functions beta(f): 1 is constant, f linear, f^2 quadratic."""


def check_resources(resources: str) -> None:
    """Raise unless `resources` is a triple such as "LCL".

    Raises:
        SaltwiseValueError: it is not such a triple.
    """
    if len(resources) != 3 or not set(resources) <= set(EXPONENTS):
        raise SaltwiseValueError(
            f"resources is {resources!r}; it must be three of C, L and Q, for state, computation and communication."
        )


@dataclass(frozen=True)
class Aims:
    """The parameters of the paper's table 1 that an application chooses. Their defaults are here, and nowhere else.

    All defaults but `resources` are the paper's. The paper has "LCL": it assumes an incremental aggregate, which takes
    a constant time for each key. Here each row of a group takes time, so computation is linear too.

    Args:
        resources: letters of the resource functions beta of state, computation and communication: C (constant), L
            (linear) or Q (quadratic), of the rows of a key.
        alpha: the largest load by the smallest that is tolerated, above 1.
        sigma: the part of the tolerated imbalance that one key without a worker of its own may use, above 0 and at
            most 1.
        utility: how imbalance and migration are weighed: A, APM, APLM, ATM or ATLM, as
            :func:`saltwise.placement.construct.construct` says.
        domain: |D|, the number of different keys; needed if a resource is quadratic.

    Raises:
        SaltwiseValueError: an argument is not allowed.
    """

    resources: str = "LLL"
    alpha: float = 1.2
    sigma: float = 0.1
    utility: str = "APM"
    domain: int | None = None

    def __post_init__(self) -> None:
        check_resources(self.resources)
        check_number("alpha", self.alpha, lambda alpha: 1 < alpha < math.inf, "a number above 1")
        check_share("sigma", self.sigma)
        if self.utility not in UTILITIES:
            raise SaltwiseValueError.unknown("utility", self.utility, UTILITIES)
        if self.domain is not None:
            check_whole("domain", self.domain)
        elif "Q" in self.resources:
            raise SaltwiseValueError(
                f"domain is None; it must be the number of different keys, as {self.resources} has a "
                "quadratic resource."
            )

    @property
    def state(self) -> str:
        """The resource function of the state: what moves when a key gets another worker."""
        return self.resources[0]


DEFAULT_AIMS = Aims()
