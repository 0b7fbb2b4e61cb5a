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
import org.apache.spark.sql.saltwise.routing.SkewReceiveExec
import org.apache.spark.sql.saltwise.sketch.SpaceSavingAgg
import org.apache.spark.sql.types.NumericType

/** Its rows lie by a partition function of their key: all rows of a key are where `worker`, a [[PlaceKey]], says. */
final case class Placed(keys: Seq[Attribute], worker: Expression, workers: Int, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(newChild: LogicalPlan): Placed = copy(child = newChild)

  def exchange(rows: SparkPlan): SparkPlan =
    SkewReceiveExec(SparkCompat.exchange(new PlacementPartitioning(keys, workers, worker), rows))
}

/** Says why what is right above was left as it was. */
final case class LeftAlone(reason: String, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(newChild: LogicalPlan): LeftAlone = copy(child = newChild)
}

/**
 * Places the keys of groups that may not be split, so that no worker gets more than the others.
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
 * The partition function is given, or one pass over the key columns finds the heavy keys, and [[LargestFirst]] places them.
 * The pass is a subquery, so it runs when the query runs, and once. The worker of a row is then a function of its key and
 * of what the driver knows: any task may run again.
 */
final case class PlaceGroups(session: SparkSession) extends Rule[LogicalPlan] {
  import PlaceGroups._

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!Seq(SaltwiseConf.PlacementEnabled, SaltwiseConf.Enabled).exists(conf.getConf(_)) &&
        !plan.exists(_.isInstanceOf[SkewGroupByHint])) {
      plan
    } else {
      val limited = windowsWithLimit(plan)
      plan.transformUp {
        case node: UnaryNode if !node.isStreaming && !node.child.isInstanceOf[LeftAlone] =>
          OrStock[LogicalPlan](node)(groups(node, limited).map(placed(node, _)).getOrElse(node))
      }
    }

  /** The groups of a node that are to be placed, if any. */
  private def groups(node: UnaryNode, limited: Set[ExprId]): Option[Groups] = {
    val toggled = conf.getConf(SaltwiseConf.PlacementEnabled)
    lazy val hint = SkewGroupByHint.below(node).map(_.options)
    lazy val options = SkewOptions.resolve(hint.getOrElse(Map.empty), conf)
    lazy val named = hint.exists(given =>
      given.get("strategy").exists(_ != Auto.name) || given.contains("placement.function"))
    def by(keys: Seq[Expression], asked: Boolean) = Some(Groups(keys, hint, options, asked || named))
    node match {
      case aggregate: Aggregate if aggregate.groupingExpressions.nonEmpty =>
        val rewritten = hint.isDefined || conf.getConf(SaltwiseConf.Enabled)
        val chosen = rewritten && isPlacementAlone(options.strategy)
        val whole = aggregate.aggregateExpressions.exists(_.exists(_.isInstanceOf[PythonUDAF]))
        val byDefault = whole && (toggled || (hint.isDefined && options.strategy == Auto))
        if (chosen || byDefault) by(aggregate.groupingExpressions, asked = chosen) else None
      case window: Window if toggled && !window.windowExpressions.exists(e => limited.contains(e.exprId)) =>
        Some(Groups(window.partitionSpec, None, options, asked = false))
      case _ => GroupMap.keys(node).filter(_ => toggled || hint.isDefined).flatMap(by(_, asked = hint.isDefined))
    }
  }

  /** A window that keeps the first rows of each group drops the others before the shuffle, those of hot keys above all. */
  private def windowsWithLimit(plan: LogicalPlan): Set[ExprId] =
    if (!plan.exists(_.isInstanceOf[Window])) Set.empty else InferWindowGroupLimit(plan).collect {
      case window: Window if window.child.isInstanceOf[WindowGroupLimit] => window.windowExpressions.map(_.exprId)
    }.flatten.toSet

  private def placed(node: UnaryNode, groups: Groups): LogicalPlan = {
    val (keys, rows) = (groups.keys.collect { case key: Attribute => key }, node.child)
    def left(reason: String) = node.withNewChildren(Seq(LeftAlone(reason, rows)))
    // What is a constant, or is computed in the window itself.
    if (keys.isEmpty || keys.length < groups.keys.length) node
    else if (SkewAggregation.isClustered(keys, rows)) {
      if (rows.isInstanceOf[Placed]) node else left("its rows are already grouped by key, without another shuffle")
    } else if (!groups.asked && rows.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) {
      left(SkewAggregation.smallInput(rows, conf))
    } else {
      val (function, workers) = functionOf(keys, rows, groups)
      if (!groups.asked && function.isInstanceOf[ScalarSubquery] && !isCheap(rows)) {
        left("a pass over its keys would compute its rows a second time; cache them, or name a strategy")
      } else if (workers == 1) left("there is one partition, so there is nothing to balance")
      else node.withNewChildren(Seq(Placed(keys, PlaceKey(GroupingKeys.hash(keys), function), workers, rows)))
    }
  }

  /** Whether rows cost no more than to read them. */
  private def isCheap(rows: LogicalPlan): Boolean = rows match {
    case _: LeafNode => true
    case _: Project | _: Filter | _: Union | _: SkewGroupByHint =>
      !rows.expressions.exists(_.exists(_.isInstanceOf[PythonUDF])) && rows.children.forall(isCheap)
    case _ => false
  }

  /** The partition function as JSON, and its n. */
  private def functionOf(keys: Seq[Attribute], rows: LogicalPlan, groups: Groups): (Expression, Int) = {
    val options = groups.options
    val keyType = PartitionFunction.keyType(keys)
    def constant(function: PartitionFunction) =
      (Literal(PartitionFunction.toJson(function, keyType)), function.workers)
    // What the session says is meant for groups of all kinds.
    val strategy = options.strategy match {
      case auto @ Auto => auto
      case whole: WholeGroups => whole
      case _ if !groups.hint.exists(_.contains("strategy")) => Auto
      case other =>
        throw new SaltwiseException(s"strategy is '${other.name}', and these groups may not be " +
          s"split; it must be one of ${(Auto.name +: Strategies.placement).mkString(", ")}.")
    }
    def largest = (largestFirst(keys, keyType, rows, options), options.workers)
    strategy match {
      case Hash => constant(UniformHash(options.workers))
      case Consistent => constant(ConsistentHash(options.workers, Replicas))
      case _: OffGreedy => largest
      case Auto => saved(keyType, groups).fold(largest)(constant)
      case other => constant(saved(keyType, groups).getOrElse(throw new SaltwiseException(
        s"strategy is '${other.name}', and there is no partition function for keys of type " +
          s"$keyType; give placement.function, or group by df.skew_groupby of Python, which " +
          "makes one.")))
    }
  }

  /** One in the conf belongs to some of the session's groups, and is passed over by those with other keys. */
  private def saved(keyType: String, groups: Groups): Option[PartitionFunction] =
    groups.options.placement.function.map(PartitionFunction.fromJson).flatMap {
      case PartitionFunction.Saved(function, ofFunction) if ofFunction == keyType =>
        if (groups.options.workersGiven && groups.options.workers != function.workers) {
          throw new SaltwiseException(s"partitions is ${groups.options.workers}, and placement.function has " +
            s"${function.workers} workers; leave partitions out, or construct a function for as many.")
        }
        Some(function)
      case PartitionFunction.Saved(_, ofFunction) if groups.hint.exists(_.contains("placement.function")) =>
        throw new SaltwiseException(s"placement.function is for keys of type $ofFunction, and the keys here are of type " +
          s"$keyType; give one that was constructed for these keys.")
      case _ => None
    }

  private def largestFirst(
      keys: Seq[Attribute], keyType: String, rows: LogicalPlan, options: SkewOptions): Expression = {
    val sketch = SpaceSavingAgg(
      GroupingKeys.hash(keys), Literal(OffGreedy(options.parameters).capacity),
      weight(options.placement.cost, rows))
    val function = PlaceLargestFirst(
      sketch.toAggregateExpression(), options.workers, keyType,
      options.placement.cost == SquaredRows)
    val pass = SparkCompat.aggregate(Alias(function, "function")(), rows)
    SparkCompat.scalarSubquery(state.optimizer.execute(pass))
  }

  private def weight(cost: String, rows: LogicalPlan): Expression = cost match {
    case "rows" | SquaredRows => SpaceSavingAgg.OneRow
    case "bytes" => RowBytes(rows.output)
    case name => rows.output.find(c => conf.resolver(c.name, name) && c.dataType.isInstanceOf[NumericType]).getOrElse(
      throw new SaltwiseException(s"placement.cost is '$name'; it must be rows, bytes, ${SquaredRows}, or a " +
        s"column of numbers that the query reads: ${rows.output.map(_.name).mkString(", ")}."))
  }

  private lazy val state = SparkCompat.state(session)
}

object PlaceGroups {

  /**
   * @param hint  options of these groups alone
   * @param asked whether placement was asked for by name: where it was not, it has to be worth it
   */
  private final case class Groups(
      keys: Seq[Expression], hint: Option[Map[String, String]], options: SkewOptions, asked: Boolean)

  private val SquaredRows = "rows^2"
  private val Replicas = 1000

  /** Whether a strategy means placement for every aggregate. `hash` may also run in two phases. */
  private def isPlacementAlone(strategy: Strategy): Boolean =
    strategy.isInstanceOf[WholeGroups] && strategy != Hash
}
