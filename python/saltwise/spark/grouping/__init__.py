"""``df.skew_groupby``: the request, the plan that it chooses, and where the keys of whole groups are placed."""
