"""Claims that no experiment can confirm, since other numbers or equations of the same paper rule them out."""

from __future__ import annotations

_BY_FIGURE_8 = (
    "By section 4.4 the algorithms ignore constant resources, so LCL and LLL have the same functions, and the same "
    "max/min r of linear loads. By equation 11 b grows with r for LLL, and with r^(2/3) for LCL. Figure 8 has redist "
    "at most 3 % above readj, for LCL and a million keys, too: for LLL that is 1.03^(3/2), 4.5 % at most."
)

CONTRADICTED: dict[str, str] = {
    "PKG is even better than Off-Greedy": (
        "Table II has 1.3e-7 for PKG and 4.1e-8 for Off-Greedy on WP, 1.4e-9 and 6e-10 on TW, with ten workers, and "
        "the same for both with five."
    ),
    "nine choices restore it for forty workers": (
        "Two choices fail for any number of workers only if p1 > 2/5, since they suffice for five otherwise (n <= "
        "2/p1). Then the hottest key needs more than 40 · 2/5 = 16 of forty workers, and nine choices give it nine."
    ),
    "in all cases D-C's d is slightly larger than the minimum": (
        "By section IV-A inequality (3) is necessary for an expected imbalance of at most epsilon, and d is the least "
        "that meets it: a lower bound, as section I says. A lower bound is not above the minimum in all cases, but "
        "where the hash functions of one stream are luckier than the expectation."
    ),
    "PKG's imbalance grows with 20, 50 or 100 workers and gets close to 10 %": (
        "By section III-A the imbalance is p1/2 - 1/n: 9.32 % / 2 - 1/100 = 3.7 % on WP, and table II of the PKG paper "
        "has 3.7e-2 for the same."
    ),
    "scan moves most, then readj, then redist": (
        "Figure 3 has 1.34 for readj and 1.23 for scan and redist alike, with LLL, z = 1, a million keys and ten "
        "workers: there readj moves most, and scan no more than redist."
    ),
    "all key groups leave the nodes that are marked for removal in the end": (
        "By constraints (3) and (4) not so: let three nodes of A have a key group of 30 % each, and B one of 20 %. The "
        "mean is 110 / 3, rounded up 37, so d is 7 while that one stays on B and 13 wherever it goes. The proof "
        "compares lower bounds of d alone, of which the second, 0, need not be reached."
    ),
    "for LLL readj has one of 1.2, which is 10 % less": _BY_FIGURE_8,
    "readj is best for LCL and LLL, by up to 8 % at z = 1": _BY_FIGURE_8,
}
"""What a claim says, and the paper's own numbers or equations that rule it out."""
