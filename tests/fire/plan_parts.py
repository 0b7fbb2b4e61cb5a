"""How the plan of a query shows what of Saltwise is in it."""

PLANS = {
    "Combine": "Combine [",
    "Combine below a join": ", below a join",
    "SkewSplit": "SkewSplit",
    "SlicedPartitions": "SlicedPartitions",
    "SkewRoute": "SkewRoute",
    "placement": "Exchange placement(",
    "left alone": "SkewGroupBy left alone",
}
