"""pyspark, or one sentence that says where to get it: Saltwise installs none, since a platform brings its own Spark."""

from ._optional import OptionalPackageError

try:
    from pyspark.sql import DataFrame as DataFrame
except ModuleNotFoundError as error:
    missing = (error.name or "pyspark").partition(".")[0]
    raise OptionalPackageError(
        f"Saltwise needs {missing}: run pip install 'saltwise[spark]', or add the folder python of your Spark, and the "
        "py4j archive in its folder lib, to PYTHONPATH."
    ) from error
