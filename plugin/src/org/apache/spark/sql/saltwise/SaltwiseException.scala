package org.apache.spark.sql.saltwise

/**
 * A request of the user that cannot be carried out. The message is one sentence: what was given,
 * what is allowed, what to do.
 */
class SaltwiseException(message: String) extends IllegalArgumentException(message)
