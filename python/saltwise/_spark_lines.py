"""The Spark lines that Saltwise supports: the one list that the package, setup.py, the Makefile and the tests read.

Run as a script it prints the newest version of each line, or all of it as JSON with ``--json``. It imports nothing
that has to be installed first.
"""

import json
import sys

SPARK_LINES = {
    "3.5": ("3.5.9", "2.12"),
    "4.0": ("4.0.5", "2.13"),
    "4.1": ("4.1.4", "2.13"),
    "4.2": ("4.2.1", "2.13"),
    "4.3": ("4.3.0", "2.13"),
}
"""Line to its newest version, with which it is tested, and to its Scala version. The oldest line stands first."""

VERSIONS = tuple(version for version, _ in SPARK_LINES.values())

NEWEST = VERSIONS[-1]
"""The version that the 2.13 jar is compiled against, and the one of `make test`."""

OLDEST = VERSIONS[0]
"""The version that the 2.12 jar is compiled against."""

SCALA_VERSIONS = tuple(sorted({scala for _, scala in SPARK_LINES.values()}))

if __name__ == "__main__":
    sys.stdout.write(json.dumps(VERSIONS) if "--json" in sys.argv else " ".join(VERSIONS))
