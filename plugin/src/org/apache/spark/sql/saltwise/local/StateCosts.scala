package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.saltwise.local.StateCosts._

/**
 * What it costs to send rows, or a state in their place. The unit is the cost of a byte of a row.
 *
 * @param rowBytes the mean bytes of a row
 * @param empty    the bytes of a key and a state before its first row
 * @param kept     the bytes of single values that a state keeps; they cost as bytes of rows do
 * @param added    the bytes that each row adds to a state
 */
private[local] final case class StateCosts(
    rowBytes: Double, empty: Double, kept: Double, added: Double) {

  private val row = rowBytes + RowOverhead
  private val state = StateCost * empty + kept

  /** The fewest rows for which a state pays. */
  val minRows: Int =
    if (added >= (1 - Tenth) * rowBytes) Never
    else math.max(2.0, math.ceil(state / (row - added))).toInt

  /** Whether states go on growing as rows come. They take memory that waiting rows take as well. */
  def statesGrow: Boolean = added >= Tenth * rowBytes

  /**
   * The cost of rows as a share of their cost if each is sent.
   *
   * @param combined the share of the rows that are combined
   * @param states   the states that stand for them, as a share of the rows
   */
  def share(combined: Double, states: Double): Double =
    1 - (combined * (row - added) - states * state) / row
}

private[local] object StateCosts {

  /** No number of rows is enough for a state to pay. */
  val Never: Int = Int.MaxValue

  /** The cost of a row beside its bytes, in bytes. */
  private val RowOverhead = 16

  /** The cost of a byte of a state, in bytes of rows: it is made, sent and merged. */
  private val StateCost = 2.0

  /**
   * What saves less than this share of the bytes is not worth the work. So states grow if each row
   * adds this share of its own bytes to one, and no state pays if it adds all but this share.
   */
  val Tenth = 0.1
}
