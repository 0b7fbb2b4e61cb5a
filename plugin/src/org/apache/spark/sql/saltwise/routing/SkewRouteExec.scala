package org.apache.spark.sql.saltwise.routing

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.{SkewOptions, Split}
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.split.RowsReceived

/**
 * Gives each row the worker that the strategy sends it to, for the exchange right above ([[WorkerPartitioning]]).
 * One router a map task: the papers' source.
 *
 * Where a row's worker depends on the rows before it, these come in an order that a second run of the task repeats
 * ([[RepeatableOrderExec]]), so it sends every row where the first run sent it.
 *
 * @param hot     hot keys that are known beforehand
 * @param head    what the routers begin with where they find hot keys as they go
 * @param content columns that may choose the worker of a hot key's row
 */
final case class SkewRouteExec(
    keys: Seq[Expression],
    options: SkewOptions,
    hot: Option[Seq[HotKey]],
    head: Seq[HeadKey],
    content: Seq[Attribute],
    child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows routed"),
    "headRows" -> SQLMetrics.createMetric(sparkContext, "head rows"),
    "headKeys" -> SQLMetrics.createAverageMetric(sparkContext, "head keys of a source"),
    "choices" -> SQLMetrics.createAverageMetric(sparkContext, "choices d of a source"))

  /** Rows that each worker got from all sources: what adaptive execution asks when the `split` plan's exchange has run. */
  @transient lazy val received: RowsReceived = {
    val sums = new RowsReceived(options.workers)
    sparkContext.register(sums)
    sums
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val counts = if (options.strategy == Split) Some(received) else None
    val input = child.output
    val keyHash = GroupingKeys.hash(keys)
    val routing = options
    val (rows, headRows) = (longMetric("rows"), longMetric("headRows"))
    val (headKeys, choices) = (longMetric("headKeys"), longMetric("choices"))
    // Rows that are nothing but their key need no hash of their content: equal keys are equal rows.
    val onlyKeys = AttributeSet(input).subsetOf(AttributeSet(keys.collect { case key: Attribute => key }))
    val frozen = hot.map(HotKeyRouter.plan(_, options))
    val (contentColumns, known) = (content, head)

    child.execute().mapPartitionsWithIndex { (source: Int, in: Iterator[InternalRow]) =>
      val hash = UnsafeProjection.create(Seq(keyHash), input)
      val router = frozen match {
        case Some(plan) if onlyKeys => new HotKeyRouter(plan, source, None)
        case Some(plan) =>
          val project = UnsafeProjection.create(contentColumns, input)
          new HotKeyRouter(plan, source, Some(row => RepeatableOrderExec.contentHash(project(row))))
        case None => routing.router(source, known)
      }
      val current = CurrentWorker.begin()
      var routed = 0L
      val sent = new Array[Long](if (counts.isDefined) routing.workers else 0)
      TaskContext.get().addTaskCompletionListener[Unit] { _ =>
        rows += routed
        headRows += router.headRows
        headKeys.set(router.headKeys.toDouble)
        choices.set(router.choices.toDouble)
        counts.foreach(_.add(sent))
      }
      in.map { row =>
        routed += 1
        current.worker = router.route(hash(row).getLong(0), row)
        if (sent.length > 0) sent(current.worker) += 1
        row
      }
    }
  }

  override def simpleString(maxFields: Int): String = {
    val known = if (head.isEmpty) "" else s", hot keys known: ${head.length}"
    s"SkewRoute ${keys.mkString("[", ", ", "]")}, $options$known"
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SkewRouteExec = copy(child = newChild)
}
