package org.apache.spark.sql.saltwise.join

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{AGGREGATE, JOIN}
import org.apache.spark.sql.execution.aggregate.TypedAggregateExpression
import org.apache.spark.sql.saltwise.{Auto, OrStock, SaltwiseConf, SkewOptions, WithSubqueries}
import org.apache.spark.sql.saltwise.compat.NativeEngine
import org.apache.spark.sql.saltwise.local.UpdateOrMerge
import org.apache.spark.sql.saltwise.plan.{ReasonToLeave, Reported, SkewGroupByHint}
import org.apache.spark.sql.types.{DoubleType, FloatType}

/**
 * Makes an aggregate over a join in two steps: below the join, rows with the same keys become one
 * state; above it, the states are merged (Yan and Larson, "Eager aggregation and lazy aggregation",
 * VLDB 1995).
 *
 * {{{
 *   SELECT r.g, sum(l.v) FROM l JOIN r ON l.k = r.k GROUP BY r.g
 *
 *   before:  Aggregate(g, sum(v)) - Join(k) - [l, r]
 *   after:   Aggregate(g, sum(v) or merge(state)) - Join(k) - [CombinedRows(k) - l, r]
 *
 *   as Spark runs it:
 *            Final(g) - Exchange(g) - Partial(g) - SortMergeJoin(k)
 *              - [Exchange(k) - Combine(k) - l, Exchange(k) - r]
 * }}}
 *
 * There is no exchange more. A hot key crosses the shuffle as a few states, so the join is even,
 * and so is what follows. Each map task decides by its own rows which of them become states; where
 * rows hardly share keys they pass as they are, so there is nothing to predict here.
 *
 * A state that meets m rows of the other side is merged m times, which is the same as aggregating
 * its rows m times: merging adds counts, sums, and moments, unites sets, and joins lists. The keys
 * of the lower step are all columns of its side that anything above reads, beside the arguments:
 * those of the join's condition, of filters, and of the grouping. So the rows of a state meet the
 * same rows of the other side, and belong to the same group.
 *
 * [[SinksAggregate]] finds the place. The rule runs behind all of Spark's own ([[LastRules]]): no
 * filter of theirs finds its way through a node that they do not know.
 */
object AggregateBelowJoin extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val observes = SaltwiseConf.observes(conf)
    if (!plan.containsAllPatterns(AGGREGATE, JOIN) ||
        !(observes || SaltwiseConf.isOn(conf)) || !isPossible) plan
    else {
      def combined(apart: Set[LogicalPlan]): LogicalPlan = WithSubqueries(plan)(_.transformUp {
        case aggregate: Aggregate if !aggregate.isStreaming =>
          OrStock[LogicalPlan]("AggregateBelowJoin", aggregate) {
            if (observes) noted(aggregate) else sunk(aggregate, apart)
          }
      })
      // An aggregate that must not have one side may take the other one.
      @tailrec def sharing(apart: Set[LogicalPlan]): LogicalPlan = {
        val after = combined(apart)
        val lost = SharedSides.lost(plan, after, conf) -- apart
        if (lost.isEmpty) after else sharing(apart ++ lost)
      }
      sharing(apart = Set.empty)
    }
  }

  private def isPossible: Boolean = conf.getConf(SaltwiseConf.JoinCombine) &&
    SkewOptions.resolve(Map.empty, conf).strategy == Auto &&
    NativeEngine.running(conf).isEmpty && !ReasonToLeave.bypassesPartial(conf)

  /** Notes for the reports, in a session that only observes, what would be combined. */
  private def noted(aggregate: Aggregate): LogicalPlan = {
    sunk(aggregate, apart = Set.empty).collectFirst {
      case CombinedRows(keys, _, _, _, _) => Reported.combineBelowJoin(keys)
    }.foreach(aggregate.setTagValue(Reported.JoinWouldRun, _))
    aggregate
  }

  /** @param apart the sides of joins that stay as they are */
  private def sunk(aggregate: Aggregate, apart: Set[LogicalPlan]): LogicalPlan = {
    val functions = ExpressionSet(
      aggregate.aggregateExpressions.flatMap(_.collect { case e: AggregateExpression => e })
    ).toSeq.collect { case e: AggregateExpression => e }
    val keys = AttributeSet(aggregate.groupingExpressions)
    val hinted = SkewGroupByHint.below(aggregate).exists(_.options.nonEmpty)
    if (hinted || functions.isEmpty || !functions.forall(Sinks(_))) aggregate
    else new SinksAggregate(conf, apart).below(aggregate.child, keys, functions).fold[LogicalPlan](
      aggregate) { sunk =>
        val merged = functions.map(_.canonicalized).zip(UpdateOrMerge(sunk.rows)).toMap
        aggregate.withNewChildren(Seq(sunk.plan)).transformExpressionsDown {
          case e: AggregateExpression => merged.get(e.canonicalized)
            .fold(e)(found => found.copy(resultId = e.resultId))
        }
      }
  }
}

/** The functions whose states may be made below a join. */
private object Sinks {
  def apply(aggregate: AggregateExpression): Boolean = {
    val function = aggregate.aggregateFunction
    !aggregate.isDistinct && !callsOut(aggregate) && aggregate.filter.forall(neverFails) &&
      (function match {
        case _: UpdateOrMerge | _: UserDefinedExpression => false
        case _: TypedAggregateExpression | _: V2Aggregator[_, _] => false
        // Spark takes these as not deterministic, because the order of their results is open.
        case lists: Collect[_] => neverFail(lists)
        case _: First | _: Last => false
        case declarative: DeclarativeAggregate => declarative.deterministic
        case typed: TypedImperativeAggregate[_] =>
          typed.deterministic && neverFail(typed)
        case sketch: HyperLogLogPlusPlus => neverFail(sketch)
        case _ => false
      })
  }

  private def callsOut(e: Expression): Boolean = e.exists {
    case _: PlanExpression[_] | _: UserDefinedExpression => true
    case _ => false
  }

  /**
   * Below the join a function sees rows that the join would have dropped. A declarative one either
   * adds a row or, where its arguments fail, leaves its state as it was, and the row is sent. An
   * imperative one may have changed its state by then.
   */
  private def neverFail(function: AggregateFunction): Boolean =
    function.children.forall(neverFails)

  private def neverFails(e: Expression): Boolean = (e match {
    case _: Attribute | _: Literal | _: Alias => true
    case _: IsNull | _: IsNotNull | _: IsNaN | _: Not | _: And | _: Or => true
    case _: BinaryComparison | _: In | _: InSet | _: Coalesce | _: If | _: CaseWhen => true
    case _: GetStructField | _: KnownNotNull | _: StringPredicate => true
    case _: Upper | _: Lower | _: Length | _: Substring | _: Concat | _: GetDateField => true
    case cast: Cast => Cast.canUpCast(cast.child.dataType, cast.dataType)
    case _: Add | _: Subtract | _: Multiply | _: UnaryMinus => isFractional(e)
    case Remainder(_, Literal(divisor: Number, _), _) => divisor.doubleValue != 0
    case Divide(_, Literal(divisor: Number, _), _) => isFractional(e) && divisor.doubleValue != 0
    case _ => false
  }) && e.children.forall(neverFails)

  private def isFractional(e: Expression): Boolean =
    e.dataType == DoubleType || e.dataType == FloatType
}
