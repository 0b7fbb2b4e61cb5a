"""Everything that plans queries in Spark, or reads what they did."""
