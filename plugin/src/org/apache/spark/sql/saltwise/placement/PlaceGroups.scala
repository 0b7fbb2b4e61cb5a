package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.InferWindowGroupLimit
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.saltwise._
import org.apache.spark.sql.saltwise.compat.{GroupMap, SparkCompat}
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, OrStock, SkewAggregation, SkewGroupByHint}
import org.apache.spark.sql.saltwise.report.GroupsOfPlan
import org.apache.spark.sql.saltwise.routing.SkewReceiveExec
import org.apache.spark.sql.saltwise.sketch.SpaceSavingAgg
import org.apache.spark.sql.types.NumericType

/** Sends all rows of a key to one worker. The expression `worker`, a [[PlaceKey]], chooses it. */
final case class Placed(
    keys: Seq[Attribute], worker: Expression, workers: Int, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(c: LogicalPlan): Placed = copy(child = c)

  def exchange(rows: SparkPlan): SparkPlan =
    SkewReceiveExec(SparkCompat.exchange(new PlacementPartitioning(keys, workers, worker), rows))
}

/** Holds the reason why the node right above was left unchanged. */
final case class LeftAlone(reason: String, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(c: LogicalPlan): LeftAlone = copy(child = c)
}

/**
 * Places the keys of groups that may not be split, so that all workers get about the same load.
 *
 * {{{
 *   df.skew_groupby("k").applyInPandas(f, schema)
 *
 *   before:  FlatMapGroupsInPandas(k) - Sort(k) - Exchange(hash of k) - t
 *   after:   FlatMapGroupsInPandas(k) - Sort(k) - SkewReceive - Exchange(placement of k) - t
 *                                                                           |
 *                                             subquery: PlaceLargestFirst(sketch of k) - t
 * }}}
 *
 * The user may give the partition function. Otherwise one pass over the key columns finds the heavy
 * keys, and [[LargestFirst]] places them. The pass is a subquery, so it runs once, when the query
 * runs. The worker of a row depends only on its key and on what the driver knows, so any task may
 * run again.
 *
 * In a session that observes, the rule changes no plan. It notes what it would have done, for the
 * reports.
 */
final case class PlaceGroups(session: SparkSession) extends Rule[LogicalPlan] {
  import PlaceGroups._

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SaltwiseConf.observes(conf)) {
      observe(plan)
      plan
    } else if (!isEnabled && !SaltwiseConf.isOn(conf) &&
        !plan.exists(_.isInstanceOf[SkewGroupByHint])) {
      plan
    } else {
      val limitedWindows = windowsWithLimit(plan)
      plan.transformUp {
        case node: UnaryNode if !node.isStreaming && !node.child.isInstanceOf[LeftAlone] =>
          OrStock[LogicalPlan]("PlaceGroups", node) {
            groups(node, limitedWindows, isEnabled).map(place(node, _)).getOrElse(node)
          }
      }
    }

  private def isEnabled: Boolean = conf.getConf(SaltwiseConf.PlacementEnabled)

  /** Notes at each node what would become of its groups. The plan stays as it is. */
  private def observe(plan: LogicalPlan): Unit = {
    val limitedWindows = windowsWithLimit(plan)
    plan.foreach {
      case node: UnaryNode if !node.isStreaming =>
        wouldRun(node, limitedWindows).foreach(node.setTagValue(GroupsOfPlan.WouldRun, _))
      case _ =>
    }
  }

  /** What would run if placement was enabled; None if it is not for these groups. */
  private def wouldRun(node: UnaryNode, limitedWindows: Set[ExprId]): Option[String] =
    try node match {
      case window: Window if isLimited(window, limitedWindows) => Some(s"nothing: $FirstRowsOnly")
      case _ =>
        groups(node, limitedWindows, enabled = true).map(place(node, _).children.head).collect {
          case _: Placed if groups(node, limitedWindows, isEnabled).isEmpty =>
            s"placement, if ${SaltwiseConf.PlacementEnabled.key} is true"
          case _: Placed => "placement"
          case LeftAlone(reason, _) => s"nothing: $reason"
        }
    } catch {
      case wrong: SaltwiseException => Some(s"nothing: ${wrong.getMessage}")
    }

  /** The groups of a node, if the hint or the confs ask to place them. */
  private def groups(
      node: UnaryNode, limitedWindows: Set[ExprId], enabled: Boolean): Option[Groups] = {
    lazy val hint = SkewGroupByHint.below(node).map(_.options)
    // Hot keys are for groups that are split.
    lazy val options = SkewOptions.resolve(hint.getOrElse(Map.empty) - "hot", conf)
    lazy val namedInHint = hint.exists(hintOptions =>
      hintOptions.get("strategy").exists(_ != Auto.name) ||
        hintOptions.contains("placement.function"))
    node match {
      case aggregate: Aggregate if aggregate.groupingExpressions.nonEmpty =>
        val rewritten = hint.isDefined || SaltwiseConf.mode(conf) != SaltwiseConf.Off
        val alwaysPlaced = rewritten && meansOnlyPlacement(options.strategy)
        val callsPython =
          aggregate.aggregateExpressions.exists(_.exists(_.isInstanceOf[PythonUDAF]))
        val byDefault = callsPython && (enabled || (hint.isDefined && options.strategy == Auto))
        if (!alwaysPlaced && !byDefault) None
        else Some(Groups(aggregate.groupingExpressions, hint, options, alwaysPlaced || namedInHint))
      case window: Window if enabled && !isLimited(window, limitedWindows) =>
        Some(Groups(window.partitionSpec, None, options, requested = false))
      case _ =>
        GroupMap.keys(node).filter(_ => enabled || hint.isDefined)
          .map(Groups(_, hint, options, requested = hint.isDefined))
    }
  }

  /**
   * The windows that keep only the first rows of each group. They drop the other rows before the
   * shuffle, most of them rows of hot keys, so there is little to place.
   */
  private def windowsWithLimit(plan: LogicalPlan): Set[ExprId] =
    if (!plan.exists(_.isInstanceOf[Window])) Set.empty else InferWindowGroupLimit(plan).collect {
      case window: Window if window.child.isInstanceOf[WindowGroupLimit] =>
        window.windowExpressions.map(_.exprId)
    }.flatten.toSet

  private def isLimited(window: Window, limitedWindows: Set[ExprId]): Boolean =
    window.windowExpressions.exists(e => limitedWindows.contains(e.exprId))

  private def place(node: UnaryNode, groups: Groups): LogicalPlan = {
    val rows = node.child
    def leave(reason: String) = node.withNewChildren(Seq(LeftAlone(reason, rows)))
    // A constant does not tell groups apart.
    val others = groups.keys.filterNot(_.foldable)
    val keys = others.collect { case key: Attribute => key }
    // A window may compute a key itself.
    if (keys.length < others.length || groups.keys.isEmpty) node
    else if (keys.isEmpty) leave(ConstantKeys)
    else if (SkewAggregation.isClustered(keys, rows)) {
      if (rows.isInstanceOf[Placed]) node else leave(SkewAggregation.AlreadyGrouped)
    } else if (!groups.requested &&
        rows.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) {
      leave(SkewAggregation.smallInput(rows, conf))
    } else {
      val (function, workers) = partitionFunction(keys, rows, groups)
      if (!groups.requested && function.isInstanceOf[ScalarSubquery] && !isCheap(rows)) {
        leave("a pass over its keys would compute its rows a second time; cache them, or name a " +
          "strategy")
      } else if (workers == 1) {
        leave(SkewAggregation.OnePartition)
      } else if (workers > PartitionFunction.MaxWorkers) {
        leave(s"a partition function has at most ${PartitionFunction.MaxWorkers} workers")
      } else {
        val worker = PlaceKey(GroupingKeys.hash(keys), function)
        node.withNewChildren(Seq(Placed(keys, worker, workers, rows)))
      }
    }
  }

  /** Whether computing the rows costs no more than reading them. */
  private def isCheap(rows: LogicalPlan): Boolean = rows match {
    case _: LeafNode => true
    case _: Project | _: Filter | _: Union | _: SkewGroupByHint =>
      !rows.expressions.exists(_.exists(_.isInstanceOf[PythonUDF])) && rows.children.forall(isCheap)
    case _ => false
  }

  /** The partition function as JSON, and its n. */
  private def partitionFunction(
      keys: Seq[Attribute], rows: LogicalPlan, groups: Groups): (Expression, Int) = {
    val options = groups.options
    val keyType = PartitionFunction.keyType(keys)
    def constant(function: PartitionFunction) =
      (Literal(PartitionFunction.toJson(function, keyType)), function.workers)
    def fromSketch = (largestFirst(keys, keyType, rows, options), options.workers)
    placementStrategy(groups) match {
      case Hash => constant(UniformHash(options.workers))
      case Consistent => constant(ConsistentHash(options.workers, Replicas))
      case _: OffGreedy => fromSketch
      case Auto => givenFunction(keyType, groups).fold(fromSketch)(constant)
      case other => constant(givenFunction(keyType, groups).getOrElse(throw new SaltwiseException(
        s"strategy is '${other.name}', and there is no partition function for keys of type " +
          s"$keyType; give placement.function, or use df.skew_groupby in Python, which makes " +
          "one.")))
    }
  }

  private def placementStrategy(groups: Groups): Strategy = groups.options.strategy match {
    case Auto => Auto
    case whole: WholeGroups => whole
    // The session's strategy is for groups of all kinds. If it splits groups, auto replaces it
    // here.
    case _ if !groups.hint.exists(_.contains("strategy")) => Auto
    case other =>
      throw new SaltwiseException(s"strategy is '${other.name}', and these groups may not be " +
        s"split; it must be one of ${(Auto.name +: Strategies.placement).mkString(", ")}.")
  }

  /**
   * The function in placement.function. One in the conf belongs to some of the session's groups,
   * and groups with keys of another type ignore it.
   */
  private def givenFunction(keyType: String, groups: Groups): Option[PartitionFunction] = {
    val n = groups.options.workers
    groups.options.placement.function.map(PartitionFunction.fromJson).flatMap {
      case PartitionFunction.Saved(function, `keyType`) =>
        if (groups.options.workersGiven && n != function.workers) {
          throw new SaltwiseException(s"partitions is $n, and placement.function has " +
            s"${function.workers} workers; leave partitions out, or construct a function for $n " +
            "workers.")
        }
        Some(function)
      case PartitionFunction.Saved(_, otherType)
          if groups.hint.exists(_.contains("placement.function")) =>
        throw new SaltwiseException(s"placement.function is for keys of type $otherType, and the " +
          s"keys here are of type $keyType; give one that was constructed for these keys.")
      case _ => None
    }
  }

  private def largestFirst(
      keys: Seq[Attribute],
      keyType: String,
      rows: LogicalPlan,
      options: SkewOptions): Expression = {
    val sketch = SpaceSavingAgg(
      GroupingKeys.hash(keys), Literal(OffGreedy(options.parameters).capacity),
      weight(options.placement.cost, rows))
    val function = PlaceLargestFirst(
      sketch.toAggregateExpression(), options.workers, keyType,
      options.placement.cost == SquaredRows)
    val pass = SparkCompat.aggregate(Alias(function, "function")(), rows)
    // A session that observes does not run it.
    val runs = !SaltwiseConf.observes(conf)
    SparkCompat.scalarSubquery(if (runs) state.optimizer.execute(pass) else pass)
  }

  private def weight(cost: String, rows: LogicalPlan): Expression = cost match {
    case "rows" | SquaredRows => SpaceSavingAgg.OneRow
    case "bytes" => RowBytes(rows.output)
    case name =>
      rows.output
        .find(c => conf.resolver(c.name, name) && c.dataType.isInstanceOf[NumericType])
        .getOrElse(throw new SaltwiseException(
          s"placement.cost is '$name'; it must be rows, bytes, $SquaredRows, or a column of " +
            s"numbers that the query reads: ${rows.output.map(_.name).mkString(", ")}."))
  }

  private lazy val state = SparkCompat.state(session)
}

object PlaceGroups {

  /**
   * @param hint      the options in the hint of these groups
   * @param requested whether the user asked to place these groups. If not, placement must be worth
   *                  its cost.
   */
  private final case class Groups(
      keys: Seq[Expression],
      hint: Option[Map[String, String]],
      options: SkewOptions,
      requested: Boolean)

  private val ConstantKeys = "its keys are constants, so there is one group"
  private val FirstRowsOnly =
    "it keeps the first rows of each group, and Spark drops the others before the shuffle"
  private val SquaredRows = "rows^2"
  private val Replicas = 1000

  /** Whether a strategy always means placement. `hash` may also be a plan in two phases. */
  def meansOnlyPlacement(strategy: Strategy): Boolean =
    strategy.isInstanceOf[WholeGroups] && strategy != Hash
}
