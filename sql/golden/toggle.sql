-- The toggle: queries stay as they are, and a conf has their aggregates rewritten.

CREATE TEMPORARY VIEW words AS
SELECT element_at(split('the of and to a in that is was he', ' '), 1 + CAST(sqrt(id % 100) AS INT)) AS word, id % 7 AS page
FROM range(0, 2000, 1, 3);

SELECT word, count(*) AS n FROM words GROUP BY word ORDER BY n DESC, word;

SET spark.saltwise.enabled = true;

-- auto leaves a count alone, and says why.
SELECT word, count(*) AS n FROM words GROUP BY word ORDER BY n DESC, word;

SELECT word, array_sort(collect_set(page)) AS pages FROM words GROUP BY word ORDER BY word;

SET spark.saltwise.strategy = wchoices;

SET spark.saltwise.partitions = 3;

SELECT word, count(*) AS n FROM words GROUP BY word ORDER BY n DESC, word;

-- The option of a hint wins over the conf.
SELECT /*+ SKEW_GROUPBY(dchoices, 'partitions=6', 'choices=4') */ word, count(*) AS n
FROM words GROUP BY word ORDER BY n DESC, word;

-- Two aggregates, two rewrites.
SELECT n, count(*) AS words FROM (SELECT word, count(*) AS n FROM words GROUP BY word) GROUP BY n ORDER BY n;

SELECT count(*) AS n FROM words;

SET spark.saltwise.enabled = false;

SELECT word, count(*) AS n FROM words GROUP BY word ORDER BY n DESC, word;
