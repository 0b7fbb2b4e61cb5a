"""How each aggregate function of Spark is called, so that its answer is one that Spark does not leave open."""

# Sketches to merge: those of thirty parts of each group.
SKETCHES = """
SELECT k, id % 30 AS part,
  hll_sketch_agg(i) AS hll, bitmap_construct_agg(bitmap_bit_position(l)) AS bits, space_saving_agg(s, 300) AS spacesaving
FROM events GROUP BY k, id % 30
"""
SKETCHES_OF_4_3 = """
SELECT k, id % 30 AS part,
  hll_sketch_agg(i) AS hll, bitmap_construct_agg(bitmap_bit_position(l)) AS bits,
  space_saving_agg(s, 300) AS spacesaving, theta_sketch_agg(i % 10) AS theta, approx_top_k_accumulate(i % 3, 1000) AS topk,
  kll_sketch_agg_bigint(l, 4000) AS kll_bigint, kll_sketch_agg_float(f, 4000) AS kll_float,
  kll_sketch_agg_double(d, 4000) AS kll_double, tuple_sketch_agg_double(i, d) AS tuple_double,
  tuple_sketch_agg_integer(i % 7, 1) AS tuple_integer
FROM events GROUP BY k, id % 30
"""

# Bins of one place stay apart where they were made apart, so they are put together.
BINS = """
transform(array_sort(array_distinct(transform(histogram_numeric({0}, 200), bin -> bin.x))), x ->
  (x, aggregate(filter(histogram_numeric({0}, 200), bin -> bin.x = x), 0D, (sum, bin) -> sum + bin.y)))
""".replace("\n", " ").strip()

# How each function is called, by the operator that runs it. Its state has a fixed size and fixed-size fields:
HASHED = {
    "any": ["any(t)"],
    "any_value": ["any_value(k + 1)", "any_value(k + 1, true)"],
    "approx_count_distinct": [
        "approx_count_distinct(i)",
        "approx_count_distinct(s, 0.1)",
        "approx_count_distinct(st)",
    ],
    "avg": ["avg(i)", "avg(l)", "avg(d)", "avg(f)", "avg(dec)", "avg(odd)", "CAST(avg(ym) AS STRING)", "avg(ds)"],
    "bit_and": ["bit_and(l)"],
    "bit_or": ["bit_or(l)"],
    "bit_xor": ["bit_xor(i)"],
    "bool_and": ["bool_and(t)"],
    "bool_or": ["bool_or(t)"],
    "count": ["count(*)", "count(i)", "count(i, s)", "count(odd)"],
    "count_if": ["count_if(t)"],
    "every": ["every(t)"],
    "first": ["first(k + 1)", "first(k + 1, true)"],
    "first_value": ["first_value(k + 1)"],
    "last": ["last(k + 1)", "last(k + 1, true)"],
    "last_value": ["last_value(k + 1)"],
    "max": ["max(i)", "max(d)", "max(odd)", "max(dec)", "max(t)", "max(dt)", "max(ts)", "max(ds)"],
    "max_by": ["max_by(i, id)", "max_by(odd, id)"],
    "mean": ["mean(i)"],
    "min": ["min(i)", "min(f)", "min(odd)", "min(dec)", "min(t)", "min(dt)", "min(ts)", "CAST(min(ym) AS STRING)"],
    "min_by": ["min_by(i, id)", "min_by(dec, -id)"],
    "regr_avgx": ["regr_avgx(d, i)"],
    "regr_avgy": ["regr_avgy(d, i)"],
    "regr_count": ["regr_count(d, i)"],
    "some": ["some(t)"],
    "sum": ["sum(i)", "sum(l)", "sum(d)", "sum(f)", "sum(dec)", "sum(odd)", "CAST(sum(ym) AS STRING)", "sum(ds)"],
    "try_avg": ["try_avg(i)", "try_avg(dec)"],
    "try_sum": ["try_sum(i)", "try_sum(dec)", "try_sum(ds)"],
}
# The same, but each merge divides, so the last bits depend on the order of merging: equal to nine digits.
CLOSE = {
    name: [f"{name}({arguments})"]
    for arguments, names in {
        "d": ["kurtosis", "skewness", "std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"],
        "d, i": [
            "corr",
            "covar_pop",
            "covar_samp",
            "regr_intercept",
            "regr_r2",
            "regr_slope",
            "regr_sxx",
            "regr_sxy",
            "regr_syy",
        ],
    }.items()
    for name in names
}
# Strings, arrays and the like in the state:
SORTED = {
    "any_value": ["any_value(concat('key ', k))"],
    "first": ["first(concat('key ', k), true)"],
    "last_value": ["last_value(array(k))"],
    "max": ["max(s)", "max(b)", "max(st)", "max(a)"],
    "max_by": ["max_by(s, id)", "max_by(id, struct(s, id))"],
    "min": ["min(s)", "min(b)", "min(st)", "min(a)"],
    "min_by": ["min_by(st, id)", "min_by(a, -id)"],
}
# An object as state:
OBJECT = {
    "approx_percentile": [
        "approx_percentile(i, 0.5)",
        "approx_percentile(d, array(0.1, 0.9), 100000)",
        "approx_percentile(ts, 0.3)",
    ],
    "approx_top_k": ["approx_top_k(i % 3, 1, 1000)", "approx_top_k(t, 1)"],
    "approx_top_k_accumulate": ["approx_top_k_estimate(approx_top_k_accumulate(i % 3, 1000), 1)"],
    "array_agg": ["array_sort(array_agg(i))"],
    "bitmap_construct_agg": ["bitmap_construct_agg(bitmap_bit_position(l))"],
    "collect_list": [
        "array_sort(collect_list(i))",
        "array_sort(collect_list(CAST(odd AS STRING)))",
        "array_sort(collect_list(st))",
        "array_sort(collect_list(b))",
    ],
    "collect_set": [
        "array_sort(collect_set(i))",
        "array_sort(collect_set(odd))",
        "array_sort(collect_set(st))",
        "array_sort(collect_set(a))",
    ],
    "collect_union": ["array_sort(collect_union(a))"],
    "count_min_sketch": ["count_min_sketch(l, 0.1D, 0.9D, 1)", "count_min_sketch(s, 0.1D, 0.9D, 1)"],
    "heavy_hitters": ["heavy_hitters(i, 10, 200)", "heavy_hitters(st, 20, 200)", "heavy_hitters(odd, 10, 200)"],
    "histogram_numeric": [BINS.format("i % 5"), BINS.format("dt")],
    "hll_sketch_agg": ["hll_sketch_estimate(hll_sketch_agg(i))"],
    "kll_sketch_agg_bigint": ["kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(l, 4000), 0.5D)"],
    "kll_sketch_agg_double": ["kll_sketch_get_quantile_double(kll_sketch_agg_double(d, 4000), 0.1D)"],
    "kll_sketch_agg_float": ["kll_sketch_get_quantile_float(kll_sketch_agg_float(f, 4000), 0.9D)"],
    "listagg": ["array_sort(split(listagg(s, ','), ','))", "listagg(s, ',') WITHIN GROUP (ORDER BY s DESC)"],
    "max_by": ["max_by(s, id, 3)"],
    "median": ["median(i)", "median(d)", "CAST(median(ym) AS STRING)"],
    "min_by": ["min_by(st, id, 2)"],
    "mode": ["mode(t)", "mode(i, true)", "mode(st, true)", "mode() WITHIN GROUP (ORDER BY i DESC)"],
    "percentile": ["percentile(i, 0.3)", "percentile(d, array(0.1, 0.9), l)", "percentile(ds, 0.5)"],
    "percentile_approx": ["percentile_approx(dec, 0.5)"],
    "percentile_cont": ["percentile_cont(0.3) WITHIN GROUP (ORDER BY d DESC)"],
    "percentile_disc": ["percentile_disc(0.3) WITHIN GROUP (ORDER BY ds)"],
    "space_saving_agg": ["space_saving_agg(s, 300)", "space_saving_agg(odd, 300)"],
    "string_agg": ["string_agg(b) WITHIN GROUP (ORDER BY b)"],
    "theta_sketch_agg": ["theta_sketch_estimate(theta_sketch_agg(i))"],
    "tuple_sketch_agg_double": ["tuple_sketch_summary_double(tuple_sketch_agg_double(i, d))"],
    "tuple_sketch_agg_integer": ["tuple_sketch_summary_integer(tuple_sketch_agg_integer(i, 1))"],
}
# Merges of sketches:
MERGED = {
    "approx_top_k_combine": ["approx_top_k_estimate(approx_top_k_combine(topk, 1000), 1)"],
    "bitmap_and_agg": ["bitmap_and_agg(bits)"],
    "bitmap_or_agg": ["bitmap_or_agg(bits)"],
    "hll_union_agg": ["hll_sketch_estimate(hll_union_agg(hll))"],
    "kll_merge_agg_bigint": ["kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(kll_bigint), 0.5D)"],
    "kll_merge_agg_double": ["kll_sketch_get_quantile_double(kll_merge_agg_double(kll_double), 0.1D)"],
    "kll_merge_agg_float": ["kll_sketch_get_quantile_float(kll_merge_agg_float(kll_float), 0.9D)"],
    "space_saving_merge": ["space_saving_merge(spacesaving)"],
    "theta_intersection_agg": ["theta_sketch_estimate(theta_intersection_agg(theta))"],
    "theta_union_agg": ["theta_sketch_estimate(theta_union_agg(theta))"],
    "tuple_intersection_agg_double": ["tuple_sketch_summary_double(tuple_intersection_agg_double(tuple_double))"],
    "tuple_intersection_agg_integer": ["tuple_sketch_summary_integer(tuple_intersection_agg_integer(tuple_integer))"],
    "tuple_union_agg_double": ["tuple_sketch_summary_double(tuple_union_agg_double(tuple_double))"],
    "tuple_union_agg_integer": ["tuple_sketch_summary_integer(tuple_union_agg_integer(tuple_integer))"],
}
# Only under GROUP BY CUBE and its like:
CUBED = {"grouping": ["grouping(k)", "grouping(t)"], "grouping_id": ["grouping_id()", "grouping_id(k, t)"]}

CALLS = {"hashed": HASHED, "close": CLOSE, "sorted": SORTED, "object": OBJECT, "merged": MERGED, "cubed": CUBED}

NOT_COMPARED = {"measure": "only a metric view can be asked for a measure, not ordinary columns"}

# Calls that older versions do not know, although they know the function.
SINCE = {
    "max_by(s, id, 3)": (4, 3),
    "min_by(st, id, 2)": (4, 3),
    "mode(i, true)": (4, 0),
    "mode(st, true)": (4, 0),
    "mode() WITHIN GROUP (ORDER BY i DESC)": (4, 0),
}
