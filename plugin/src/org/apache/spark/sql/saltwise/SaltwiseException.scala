package org.apache.spark.sql.saltwise

import org.apache.spark.SparkThrowable

/**
 * A request of the user that cannot be carried out. The message is one sentence with the value that
 * was given, the values that are allowed, and what to do.
 *
 * It is a SparkThrowable, so that it also reaches the user as it is if a task or a subquery raises
 * it: Spark wraps all others into errors of its own.
 */
class SaltwiseException(message: String)
  extends IllegalArgumentException(message) with SparkThrowable {

  override def getErrorClass: String = SaltwiseException.Condition
  /** The name of the same since Spark 4. */
  def getCondition: String = SaltwiseException.Condition
  // Spark would look for it in its own list of conditions.
  override def getSqlState: String = null
}

private object SaltwiseException {
  val Condition = "SALTWISE"
}
