package org.apache.spark.sql.saltwise

/**
 * Whether a query of this application has concerned Saltwise: it had a hint or `skew_worker`, or
 * its session had set a conf that switches a part of Saltwise on or off. Before that, the rules
 * return every plan without a look at it.
 */
object InUse {
  @volatile private var begun = false

  def apply(): Boolean = begun
  def begin(): Unit = begun = true
}
