"""What key groups send to each other, and how to cut it into parts with METIS.

Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 4.3.2; Karypis
and Kumar, "Multilevel Algorithms for Multi-Constraint Graph Partitioning", SC 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymetis
from scipy import sparse

from ..arrays import Floats, Int64s, checked_numbers
from ..errors import SaltwiseValueError, check_whole

SCALE = 1_000_000
"""The sum of all weights, in whole numbers: METIS takes no others."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """The rates at which key groups send to key groups, and their operators.

    Attributes:
        out: out(g_i, g_j), a matrix or a sparse array of shape (|G|, |G|), at least 0.
        operator: the operator of each key group.

    Raises:
        SaltwiseValueError: a rate is negative, NaN or infinite, or the shapes do not fit.

    >>> traffic = Traffic([[0, 0, 3, 1], [0, 0, 1, 3], [0, 0, 0, 0], [0, 0, 0, 0]], operator=[0, 0, 1, 1])
    >>> traffic.collocation([0, 1, 0, 1])
    0.75
    """

    out: Any
    operator: Any

    def __post_init__(self) -> None:
        out, operator = sparse.csr_array(self.out, dtype=float), np.asarray(self.operator, dtype=np.int64)
        if operator.ndim != 1 or out.shape != (len(operator), len(operator)):
            raise SaltwiseValueError(
                f"out has the shape {out.shape}; it must have a row and a column for each of {operator.size} key "
                "groups."
            )
        if out.nnz:
            checked_numbers("out", out.data)
        object.__setattr__(self, "out", out)
        object.__setattr__(self, "operator", operator)

    def collocation(self, node: Any) -> float:
        """Return the collocation factor: the share of all traffic that stays on a node; 1 if there is no traffic."""
        sent = self.out.tocoo()
        node = np.asarray(node)
        total = float(sent.data.sum())
        return float(sent.data[node[sent.row] == node[sent.col]].sum()) / total if total else 1.0


def graph_part(out: Any, groups: Int64s, weight: Floats, parts: int) -> list[Int64s]:
    """Cut key groups into parts of similar weight that send little to each other: balanced graph partitioning.

    Args:
        out: as in :class:`Traffic`.
        groups: the key groups to cut.
        weight: of each of these.
        parts: how many, at most one for each key group.

    Returns:
        The key groups of each part; none is empty.

    Raises:
        SaltwiseValueError: parts is not a whole number of at least 1.

    >>> ring = [[0, 9, 0, 1], [9, 0, 1, 0], [0, 1, 0, 9], [1, 0, 9, 0]]
    >>> [part.tolist() for part in graph_part(sparse.csr_array(ring), np.arange(4), np.ones(4), 2)]
    [[0, 1], [2, 3]]
    """
    check_whole("parts", parts)
    if parts >= len(groups):
        return [groups[i : i + 1] for i in range(len(groups))]
    between = out[groups][:, groups]
    between = sparse.csr_array(between + between.T)
    between.setdiag(0)
    between.eliminate_zeros()
    _, label = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(between.indptr.tolist(), between.indices.tolist()),
        vweights=_as_whole_numbers(weight),
        eweights=_as_whole_numbers(between.data),
        options=pymetis.Options(seed=1),
    )
    groups_by_part = [groups[np.asarray(label) == part] for part in range(parts)]
    if all(map(len, groups_by_part)):
        return sorted(groups_by_part, key=lambda part: int(part[0]))
    # On very few key groups METIS may leave a part empty.
    ordered = groups[np.argsort(-weight, kind="stable")]
    return [ordered[part::parts] for part in range(parts)]


def _as_whole_numbers(weight: Floats) -> list[int]:
    total = float(weight.sum()) or 1.0
    return list(map(int, np.maximum(1, np.rint(weight / total * SCALE))))
