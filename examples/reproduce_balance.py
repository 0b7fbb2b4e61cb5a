"""The two papers in a minute, without Spark: how evenly each scheme spreads keys over workers, and what that costs.

Run it with: python examples/reproduce_balance.py (needs pip install 'saltwise[simulate]'). All figures of the papers
come from: make papers.
"""

from saltwise import streams
from saltwise.options import EPSILON, default_theta
from saltwise.simulate import simulate
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.splitting.choices import find_optimal_choices

SCHEMES = ("hash", "pkg", "dchoices", "wchoices", "shuffle")


def balance(stream: streams.Stream) -> None:
    """Two choices are enough up to 2/p1 workers ("When Two Choices Are not Enough", figures 1 and 11)."""
    p1 = stream.top_share
    print(f"\n{stream.name}: the hottest key has {p1:.1%} of {stream.messages:,} messages")
    print(f"two choices cannot balance more than 2/p1 = {2 / p1:.0f} workers")
    print("average imbalance, share of messages\nworkers " + "".join(f"{scheme:>10}" for scheme in SCHEMES))
    for workers in (5, 10, 20, 50, 100):
        found = [simulate(stream.keys, scheme, workers).average_imbalance for scheme in SCHEMES]
        print(f"{workers:7} " + "".join(f"{imbalance:10.1e}" for imbalance in found))


def memory(stream: streams.Stream, workers: int = 100) -> None:
    """What splitting costs: states on all workers (figures 5 and 6)."""
    print(f"\nstates of {stream.distinct:,} keys on {workers} workers")
    for scheme in SCHEMES:
        found = simulate(stream.keys, scheme, workers)
        print(f"{scheme:>10}: {found.states:9,}")


def hot_keys(stream: streams.Stream, workers: int = 100) -> None:
    """How D-Choices gets its d: heavy hitters, then Proposition 4.1 (sections III-A and IV-A)."""
    theta = default_theta(workers)
    sketch = SpaceSaving(round(4 / theta))
    for key in stream.keys.tolist():
        sketch.offer(key)
    head = [found.count / sketch.total for found in sketch.top() if found.count >= theta * sketch.total]
    d = find_optimal_choices(head, workers, EPSILON)
    print(f"\n{len(head)} keys have a share of 1/(5n) = {theta:g}; each of them may use d = {d} of {workers} workers")


def main() -> None:
    zipf = streams.zipf(1_000_000, keys=10_000, exponent=1.4)
    balance(zipf)
    balance(streams.words(1_000_000))
    memory(zipf)
    hot_keys(zipf)


if __name__ == "__main__":
    main()
