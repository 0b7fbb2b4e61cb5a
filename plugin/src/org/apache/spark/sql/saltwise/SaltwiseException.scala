package org.apache.spark.sql.saltwise

/** What a user did that cannot be done, in one sentence: what was given, what is allowed, what to do. */
class SaltwiseException(message: String) extends IllegalArgumentException(message)
