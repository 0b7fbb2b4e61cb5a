"""How the plan of a query shows what of Saltwise is in it."""

PLANS = {
    "Combine": "Combine [",
    "SkewSplit": "SkewSplit",
    "SlicedPartitions": "SlicedPartitions",
    "SkewRoute": "SkewRoute",
    "placement": "Exchange placement(",
    "left alone": "SkewGroupBy left alone",
}
