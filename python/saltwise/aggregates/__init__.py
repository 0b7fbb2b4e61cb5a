"""Ready-made Aggregators for ``skew_groupby(...).agg``.

Run pip install 'saltwise[aggregates]', also where tasks run. The sketches are those of Apache DataSketches. The other
aggregates are a few lines of numpy and pyarrow each.
"""

from .._optional import required_by

with required_by("saltwise.aggregates", extra="aggregates"):
    from .bloom_filter import BloomFilter
    from .distinct import ApproxDistinct
    from .heavy_hitters import HeavyHitters
    from .histogram import StreamingHistogram
    from .moments import Covariance, Moments
    from .naive_bayes import NaiveBayes
    from .quantiles import KllQuantiles, TDigestQuantiles
    from .regression import LinearRegression
    from .reservoir import ReservoirSample
    from .top_k import TopK

__all__ = [
    "ApproxDistinct",
    "BloomFilter",
    "Covariance",
    "HeavyHitters",
    "KllQuantiles",
    "LinearRegression",
    "Moments",
    "NaiveBayes",
    "ReservoirSample",
    "StreamingHistogram",
    "TDigestQuantiles",
    "TopK",
]
