"""How the plan of a query shows what of Saltwise is in it."""

PLANS = {
    "Combine": "Combine [",
    "SkewSplit": "SkewSplit",
    "SlicedPartitions": "SlicedPartitions",
    "SkewRoute": "SkewRoute",
    "placement": "Exchange placement(",
    "left alone": "SkewGroupBy left alone",
}

JOIN_PLANS = {"Combine below a join": ", below a join", "SkewJoinSplit": "SkewJoinSplit"}
"""What is only in plans of aggregates over joins that are shuffled."""

WINDOW_PLANS = {"SkewWindow": "SkewWindow [", "SlicedRows": "SlicedRows in "}
"""What is only in plans of windows."""
