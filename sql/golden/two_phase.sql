-- Two phases by hand: group by the key and its worker first, then by the key.

CREATE TEMPORARY VIEW clicks AS
SELECT IF(id % 10 < 6, 0, id % 97) AS visitor, id % 12 AS ms FROM range(0, 3000, 1, 3);

-- Key grouping sends a visitor to one worker, so the worker of the hot visitor gets most rows.
SELECT worker, count(*) AS clicks, count(DISTINCT visitor) AS visitors
FROM (SELECT visitor, skew_worker(4, 'hash', visitor) AS worker FROM clicks) GROUP BY worker ORDER BY worker;

-- With W-Choices the workers get equal shares: three sources, each of which is out by one row at most.
SELECT max(clicks) - min(clicks) <= 3 AS balanced, sum(clicks) AS clicks
FROM (SELECT worker, count(*) AS clicks
      FROM (SELECT visitor, skew_worker(4, 'wchoices', visitor) AS worker FROM clicks) GROUP BY worker);

-- With partial key grouping every visitor has two workers at most, from whatever source.
SELECT max(workers) <= 2 AS two_choices
FROM (SELECT visitor, count(DISTINCT worker) AS workers
      FROM (SELECT visitor, skew_worker(16, 'pkg', visitor) AS worker FROM clicks) GROUP BY visitor);

SELECT visitor, sum(clicks) AS clicks, max(worst) AS worst, array_distinct(array_sort(flatten(collect_list(seen)))) AS seen
FROM (SELECT visitor, worker, count(*) AS clicks, max(ms) AS worst, collect_list(ms) AS seen
      FROM (SELECT visitor, ms, skew_worker(4, 'dchoices', visitor) AS worker FROM clicks) GROUP BY visitor, worker)
GROUP BY visitor HAVING sum(clicks) > 12 ORDER BY clicks DESC, visitor LIMIT 5;

-- The same as in one phase: no row is left on either side.
SELECT count(*) AS different FROM (
  (SELECT visitor, sum(clicks) AS clicks, sum(ms) AS ms
   FROM (SELECT visitor, worker, count(*) AS clicks, sum(ms) AS ms
         FROM (SELECT visitor, ms, skew_worker(7, 'pkg', visitor) AS worker FROM clicks) GROUP BY visitor, worker)
   GROUP BY visitor)
  EXCEPT SELECT visitor, count(*), sum(ms) FROM clicks GROUP BY visitor);

-- Several columns make one key, which goes to one worker.
SELECT count(*) AS keys, max(workers) AS workers_of_a_key, count(DISTINCT worker) > 1 AS spread
FROM (SELECT v, m, count(DISTINCT worker) AS workers, max(worker) AS worker
      FROM (SELECT visitor % 3 AS v, ms % 2 AS m, skew_worker(64, 'hash', visitor % 3, ms % 2) AS worker FROM clicks)
      GROUP BY v, m);

SELECT skew_worker(0, 'pkg', 1) AS worker;

SELECT skew_worker(4, 'auto', 1) AS worker;

SELECT skew_worker(4, 'pkg') AS worker;

SELECT skew_worker(visitor, 'pkg', 1) AS worker FROM clicks;
