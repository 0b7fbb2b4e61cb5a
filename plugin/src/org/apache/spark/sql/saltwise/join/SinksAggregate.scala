package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.local.RawRows
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, SkewGroupByHint}
import org.apache.spark.sql.saltwise.routing.StableColumns

/**
 * A plan whose rows carry states.
 *
 * @param rows the columns of these rows
 */
private[join] final case class Sunk(plan: LogicalPlan, rows: RawRows) {

  /** What the upper step reads beside the columns that anything else reads. */
  def read: AttributeSet = AttributeSet(rows.aggregates.flatMap(_.references)) + rows.state
}

/**
 * Finds the lowest shuffled join below an aggregate, on the side of its arguments, and combines the
 * rows below it. A side that is broadcast is passed by: there is no exchange to save.
 *
 * @param apart the canonical plans of sides that stay as they are ([[SharedSides]])
 */
private[join] final class SinksAggregate(conf: SQLConf, apart: Set[LogicalPlan]) {

  /**
   * The plan with combined rows in it. None if there is no place for them.
   *
   * @param needed    the columns of `plan` that must stay as they are
   * @param functions the aggregates, in terms of `plan`
   */
  def below(
      plan: LogicalPlan,
      needed: AttributeSet,
      functions: Seq[AggregateExpression]): Option[Sunk] = plan match {
    case hint: SkewGroupByHint =>
      below(hint.child, needed, functions)
        .map(sunk => sunk.copy(plan = hint.withNewChildren(Seq(sunk.plan))))

    case Project(columns, child) if columns.forall(_.deterministic) =>
      val kept = columns.filter(column => needed.contains(column.toAttribute))
      val inline = new InlineAliases(columns)
      val inlined = functions.map(inline(_).asInstanceOf[AggregateExpression])
      if (!inlined.forall(Sinks(_))) None
      else below(child, AttributeSet(kept.flatMap(_.references)), inlined).map { sunk =>
        val passed = sunk.read -- AttributeSet(kept.collect { case column: Attribute => column })
        sunk.copy(plan = Project(kept ++ passed.toSeq, sunk.plan))
      }

    case filter @ Filter(condition, child) if condition.deterministic =>
      below(child, needed ++ condition.references, functions)
        .map(sunk => sunk.copy(plan = filter.copy(child = sunk.plan)))

    case join: Join if join.condition.forall(_.deterministic) =>
      val read = needed ++ AttributeSet(join.condition.toSeq)
      val arguments = AttributeSet(functions)
      sidesOf(join).filter(side => arguments.subsetOf(side.outputSet)).flatMap { side =>
        val neededHere = AttributeSet(read.filter(side.outputSet.contains))
        below(side, neededHere, functions)
          .orElse(if (ShuffledJoin(join, conf)) combined(side, neededHere, functions) else None)
          .map(sunk => sunk.copy(plan = join.withNewChildren(join.children.map {
            case child if child eq side => sunk.plan
            case other => other
          })))
      }.headOption

    case _ => None
  }

  /**
   * The sides whose rows all keep their columns in the join, the larger one first. One that is
   * broadcast stays as it is, because Spark may run it again to prune the other one's partitions.
   */
  private def sidesOf(join: Join): Seq[LogicalPlan] = join.joinType match {
    case Inner =>
      val broadcast = ShuffledJoin.broadcastSide(join, conf)
      Seq(join.left, join.right).filterNot(broadcast.contains(_)).sortBy(-_.stats.sizeInBytes)
    case LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_) => Seq(join.left)
    case RightOuter => Seq(join.right)
    case _ => Nil
  }

  private def combined(
      side: LogicalPlan,
      needed: AttributeSet,
      functions: Seq[AggregateExpression]): Option[Sunk] = {
    val keys = side.output.filter(needed.contains)
    val isUnique = side.distinctKeys.exists(_.subsetOf(ExpressionSet(keys)))
    // Equal texts of a collation differ in their bytes, and stock Spark shows one of them. Maps and
    // the like are no keys of Spark, and have no names in the reports.
    val areKeys = keys.nonEmpty && keys.map(_.dataType).forall { dataType =>
      RowOrdering.isOrderable(dataType) && !GroupingKeys.isCollated(dataType)
    }
    // A task that runs again may send other states for the same rows, and Spark would compare them.
    val mayDiffer = SparkCompat.checksRows(conf) && !StableColumns.staysInPlace(side) &&
      !(conf.adaptiveExecutionEnabled && StableColumns.sameRows(side))
    if (!areKeys || isUnique || mayDiffer || apart.contains(side.canonicalized) ||
        side.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) None
    else {
      val raw = RawRows(keys, functions, side.outputSet)
      // In a row that carries a state, these are NULL.
      val columns = AttributeMap(raw.columns.drop(keys.length).map { column =>
        column.toAttribute -> column.toAttribute.withNullability(true)
      })
      val rows = raw.copy(aggregates = raw.aggregates.map(_.transform {
        case column: Attribute => columns.getOrElse(column, column)
      }.asInstanceOf[AggregateExpression]))
      Some(Sunk(CombinedRows(rows, side), rows))
    }
  }
}
