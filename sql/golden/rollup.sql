-- ROLLUP, CUBE and GROUPING SETS multiply rows before they are grouped; so SkewRoute stands above Expand.

CREATE TEMPORARY VIEW sales AS
SELECT IF(id % 4 < 3, 'north', 'south') AS region, IF(id % 6 = 0, NULL, id % 3) AS product, id % 10 / 4 AS amount
FROM range(0, 600, 1, 4);

SET spark.saltwise.enabled = true;

SET spark.saltwise.strategy = pkg;

SELECT region, product, grouping_id() AS level, count(*) AS n, sum(amount) AS amount
FROM sales GROUP BY ROLLUP (region, product) ORDER BY level, region, product;

SELECT region, product, sum(amount) FILTER (WHERE product > 0) AS amount, array_sort(collect_set(amount)) AS amounts
FROM sales GROUP BY CUBE (region, product) HAVING count(*) > 100 ORDER BY region, product, amount;

SELECT /*+ SKEW_GROUPBY(roundrobin, 'theta=0.5') */ region, product, max(amount) AS highest
FROM sales GROUP BY GROUPING SETS ((region), (product), ()) ORDER BY region, product, highest;

SELECT product, region, count(*) AS n FROM sales GROUP BY product, ROLLUP (region) ORDER BY product, region;
