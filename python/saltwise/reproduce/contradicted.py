"""Claims that no experiment can confirm, since other numbers of the same paper rule them out."""

from __future__ import annotations

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
}
"""What a claim says, and the paper's own numbers that rule it out."""
