"""What `saltwise.audit` says of queries that nobody here wrote: TPC-DS, with every aggregate that `auto` can rewrite.

    python benchmarks/audits.py [--suites tpcds] [--variants plain,objects] [--data zipf] [--scale 1]

An answer that differs ends the run with 1, unless stock Spark's own runs differ, or the query calls an aggregate whose
answer Spark leaves open, and audit says so.

It needs: pip install saltwise[bench]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common import RESULTS, console, write_csv
from others import is_accepted, queries, session_over, tables

import saltwise
from saltwise import SaltwiseError


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suites", type=lambda text: text.split(","), default=["tpcds"], help="tpch, tpcds, h2o")
    parser.add_argument("--variants", type=lambda text: text.split(","), default=["plain", "objects"])
    parser.add_argument("--data", default="zipf", help="uniform, zipf")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "audits.csv")
    given = parser.parse_args()
    rows = []
    for suite in given.suites:
        spark = session_over(tables(suite, given.data, given.scale))
        spark.conf.set("spark.saltwise.auto.smallInput", "0")
        for variant in given.variants:
            for name, query in queries(suite, variant).items():
                if is_accepted(spark, name, query):
                    rows.append({"query": f"{suite} {given.data} {variant} {name}", **audited(query)})
                    console.print(rows[-1], soft_wrap=True)
        spark.stop()
    write_csv(given.out, rows)
    verdicts = [row["answers"] for row in rows]
    console.print({verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))})
    return int("differ" in verdicts)


def audited(query: str) -> dict[str, str]:
    try:
        found = saltwise.audit(query, rounds=1)
    except SaltwiseError as error:
        return {"answers": "not compared", "rewritten": "", "says": str(error)}
    if found.same:
        answers = "the same"
    elif not found.steady:
        answers = "stock Spark's differ"
    else:
        answers = "left open" if found.open else "differ"
    return {
        "answers": answers,
        "rewritten": "yes" if found.rewritten else "no",
        "says": str(found).splitlines()[0],
    }


if __name__ == "__main__":
    sys.exit(main())
