package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{PlanLater, SparkPlan}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.joins.{ShuffledJoin => ShuffledJoinExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{SaltwiseConf, SkewOptions}
import org.apache.spark.sql.saltwise.plan.{
  AggregatePhases, SkewGroupByHint, SkewLeftAloneExec, TransparentExec, UndecidedExec}

/**
 * An aggregate over a join whose skewed partitions Spark may split.
 *
 * {{{
 *   SELECT l.k, sum(l.v * r.w) FROM l JOIN r ON l.k = r.k GROUP BY l.k
 *
 *   before:  Final(k) - Partial(k) - SortMergeJoin(k)
 *   after:   SkewJoinSplit - Final(k) - Exchange(k) - Partial(k) - SkewJoinRead - SortMergeJoin(k)
 * }}}
 *
 * Spark splits a skewed partition of a join only if that makes no exchange more, and the aggregate
 * would need one: the groups of a partition in parts are no longer whole. So the exchange is there
 * from the start, for states, and goes again when nothing was skewed ([[DropUnusedSplit]]).
 */
final case class SkewJoinSplitExec(options: SkewOptions, child: SparkPlan) extends UndecidedExec {

  /** What the join makes. */
  def joined: Option[SparkPlan] = child.collectFirst { case SkewJoinReadExec(rows) => rows }

  /** None if Spark itself needs the exchange. */
  override def even: Option[SparkPlan] = for {
    rows <- joined
    phases <- AggregatePhases.of(child)
    if rows.outputPartitioning.satisfies(phases.last.requiredChildDistribution.head)
  } yield phases.inOnePhase(clustered = true, rows)

  override def inStock: Partitioning = even.getOrElse(child).outputPartitioning

  override def simpleString(maxFields: Int): String = s"SkewJoinSplit $options"
  override protected def withNewChildInternal(c: SparkPlan): SkewJoinSplitExec = copy(child = c)
}

/** Hides that the rows of a join lie by its keys. If the join is split, they do not. */
final case class SkewJoinReadExec(child: SparkPlan) extends TransparentExec {
  override def outputPartitioning: Partitioning =
    UnknownPartitioning(child.outputPartitioning.numPartitions)
  override protected def withNewChildInternal(c: SparkPlan): SkewJoinReadExec = copy(child = c)
}

object SkewJoinSplit {

  /**
   * Whether the groups of these keys are whole in each partition of a join that may be split.
   *
   * A side that is small is not worth it: the join's own estimate would multiply its sides.
   */
  def isBelow(keys: Seq[Expression], rows: LogicalPlan, conf: SQLConf): Boolean = rows match {
    case hint: SkewGroupByHint => isBelow(keys, hint.child, conf)
    case Filter(_, child) => isBelow(keys, child, conf)
    case Project(columns, child) =>
      val inline = new InlineAliases(columns)
      isBelow(keys.map(inline(_)), child, conf)
    case join: Join if !ShuffledJoin(join, conf) => false
    case ExtractEquiJoinKeys(joinType, leftKeys, rightKeys, _, _, left, right, _) =>
      def areKeys(pair: (Expression, Expression)): Boolean = {
        val Seq(leftIs, rightIs) = Seq(pair._1, pair._2).map(e => keys.exists(_.semanticEquals(e)))
        joinType match {
          case Inner => leftIs || rightIs
          case LeftOuter | LeftSemi | LeftAnti => leftIs
          case RightOuter => rightIs
          case _ => false
        }
      }
      val small = conf.getConf(SaltwiseConf.SmallInput)
      Seq(left, right).exists(_.stats.sizeInBytes > small) &&
        leftKeys.zip(rightKeys).forall(areKeys)
    case _ => false
  }

  /** Marks an aggregate as Spark plans it over `rows`. */
  def apply(options: SkewOptions, rows: LogicalPlan, stock: SparkPlan): SparkPlan =
    SkewJoinSplitExec(options, stock.transformUp {
      case child @ PlanLater(logical) if logical eq rows => SkewJoinReadExec(child)
    })
}

/**
 * Takes the exchange above a join away, once it is known that no partition of it is split.
 *
 * {{{
 *   before:  SkewJoinSplit - Final(k) - Exchange(k) - Partial(k) - SkewJoinRead - SortMergeJoin(k)
 *   after:   SkewLeftAlone - Complete(k) - SortMergeJoin(k)
 * }}}
 */
object DropUnusedSplit extends Rule[SparkPlan] {
  private val Even = "no partition of the join below is skewed, and its rows are grouped by key"

  override def apply(plan: SparkPlan): SparkPlan =
    plan.collect { case marked: SkewJoinSplitExec => marked }.foldLeft(plan) { (before, marked) =>
      whole(marked).flatMap { aggregate =>
        val left = SkewLeftAloneExec(Even, aggregate)
        marked.logicalLink.foreach(left.setLogicalLink)
        marked.decidedIn(before, left)
      }.getOrElse(before)
    }

  private def whole(marked: SkewJoinSplitExec): Option[SparkPlan] =
    if (marked.joined.exists(rows => isDecided(rows) && !isSplit(rows))) marked.even else None

  /** Whether all that the join reads has run, so that Spark has decided what it splits. */
  private def isDecided(rows: SparkPlan): Boolean = rows.collect {
    case stage: QueryStageExec => stage.isMaterialized
    case _: ShuffleExchangeLike => false
  }.forall(identity)

  private def isSplit(rows: SparkPlan): Boolean = rows.exists {
    case join: ShuffledJoinExec => join.isSkewJoin
    case _ => false
  }
}
