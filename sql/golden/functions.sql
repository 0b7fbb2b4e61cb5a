-- Which values are frequent, and how a sketch of them is kept, merged and asked.

CREATE TEMPORARY VIEW visits AS SELECT * FROM VALUES
  (1, 'a'), (1, 'b'), (1, 'a'), (1, NULL), (1, 'a'), (2, 'a'), (2, NULL), (2, 'c'), (2, NULL) AS t(day, page);

SELECT heavy_hitters(page) AS pages FROM visits;

SELECT heavy_hitters(page, 2) AS pages FROM visits;

SELECT day, heavy_hitters(page, 1) AS pages FROM visits GROUP BY day ORDER BY day;

-- An item keeps its type.
SELECT hitter.item.page AS page, hitter.item.day + 1 AS next_day, hitter.count
FROM (SELECT explode(heavy_hitters(struct(page, day), 3)) AS hitter FROM visits) ORDER BY count DESC, page, next_day;

-- Two counters for four values: counts are upper bounds, and count - error is a lower one.
SELECT heavy_hitters(page, 2, 2) AS pages FROM (SELECT /*+ COALESCE(1) */ * FROM visits);

SELECT day, space_saving_top(space_saving_agg(page, 10)) AS pages FROM visits GROUP BY day ORDER BY day;

-- Sketches of days make the sketch of all days.
SELECT space_saving_top(space_saving_merge(sketch), 3) AS pages, space_saving_estimate(space_saving_merge(sketch), 'c') AS c,
  space_saving_estimate(space_saving_merge(sketch), 'z') AS z
FROM (SELECT day, space_saving_agg(page, 10) AS sketch FROM visits GROUP BY day);

SELECT space_saving_top(space_saving_agg(day, 10), 2, 'int') AS days FROM visits;

SELECT heavy_hitters(page) AS pages, space_saving_merge(NULL) AS nothing FROM visits WHERE day > 7;

SELECT heavy_hitters(page, 0) FROM visits;

SELECT space_saving_top(X'53414C54') AS pages;

SELECT space_saving_top(space_saving_agg(day), 2, 'string') AS days FROM visits;
