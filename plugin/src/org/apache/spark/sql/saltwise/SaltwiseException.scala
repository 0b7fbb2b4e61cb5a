package org.apache.spark.sql.saltwise

/**
 * A request of the user that cannot be carried out. The message is one sentence with the value that
 * was given, the values that are allowed, and what to do.
 */
class SaltwiseException(message: String) extends IllegalArgumentException(message)
