-- The hint: first a strategy, then 'option=value' strings; both may be left out.

CREATE TEMPORARY VIEW flights AS
SELECT IF(id % 5 < 2, 'UA', IF(id % 5 = 2, NULL, chr(CAST(65 + id % 7 AS INT)))) AS carrier, id % 60 - 10 AS delay
FROM range(0, 1000, 1, 4);

SELECT carrier, count(*) AS flights, max(delay) AS worst FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(pkg) */ carrier, count(*) AS flights, max(delay) AS worst
FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(dchoices, 'partitions=8', 'theta=0.1') */ carrier, percentile(delay, 0.5) AS middle
FROM flights GROUP BY carrier HAVING count(*) > 100 ORDER BY carrier;

SELECT /*+ skew_groupby('strategy=WCHOICES', 'sketch.capacity=40') */ carrier, size(collect_set(delay)) AS delays
FROM flights GROUP BY carrier ORDER BY carrier;

-- Hot keys that are known beforehand make routing exact under every retry.
SELECT /*+ SKEW_GROUPBY(dchoices, 'hot=[{"key": ["UA"], "share": 0.4}, {"key": [null]}]') */ carrier, count(*) AS flights
FROM flights GROUP BY carrier ORDER BY carrier;

-- Only the aggregate of its own query block is rewritten.
SELECT flights, count(*) AS carriers
FROM (SELECT /*+ SKEW_GROUPBY(roundrobin) */ carrier, count(*) AS flights FROM flights GROUP BY carrier)
GROUP BY flights ORDER BY flights;

-- auto, the default, leaves states of a fixed size and small inputs alone.
SELECT /*+ SKEW_GROUPBY */ carrier, sum(delay) AS delay FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY */ carrier, median(delay) AS delay FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(split) */ carrier, median(delay) AS delay FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(local) */ carrier, median(delay) AS delay FROM flights GROUP BY carrier ORDER BY carrier;

-- What may not be split is left alone, and the plan says why.
SELECT /*+ SKEW_GROUPBY(pkg) */ carrier, count(DISTINCT delay) AS delays FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(shuffle) */ carrier FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(pkg, 'partitions=1') */ carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier;

SELECT /*+ SKEW_GROUPBY(dchoise) */ carrier, count(*) FROM flights GROUP BY carrier;

SELECT /*+ SKEW_GROUPBY(pkg, 'partition=8') */ carrier, count(*) FROM flights GROUP BY carrier;

SELECT /*+ SKEW_GROUPBY('partitions=8', pkg) */ carrier, count(*) FROM flights GROUP BY carrier;

SELECT /*+ SKEW_GROUPBY(pkg, 'partitions=0') */ carrier, count(*) FROM flights GROUP BY carrier;

SELECT /*+ SKEW_GROUPBY(pkg, 'theta=1.5') */ carrier, count(*) FROM flights GROUP BY carrier;

SELECT /*+ SKEW_GROUPBY(pkg, 'hot=UA') */ carrier, count(*) FROM flights GROUP BY carrier;
