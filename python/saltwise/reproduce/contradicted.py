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
    "PKG's imbalance grows with 20, 50 or 100 workers and gets close to 10 %": (
        "By section III-A the imbalance is p1/2 - 1/n: 9.32 % / 2 - 1/100 = 3.7 % on WP, and table II of the PKG paper "
        "has 3.7e-2 for the same."
    ),
    "uniform hash moves about 22 times the ideal with 32 workers": (
        "A hash modulo N, or a new independent one, leaves 1/N of the keys where they are. (1 - 1/32) of the state is "
        "31 times the ideal of 1/32; 22 times would leave 31 % where it is."
    ),
    "uniform hash moves 6.5 to 7.5 times the ideal": (
        "With ten workers it is (1 - 1/10) / (1/10) = 9 times, and figures 3 and 4 have more than 8 times for the same "
        "million keys, ten workers and LCL."
    ),
}
"""What a claim says, and the paper's own numbers that rule it out."""
