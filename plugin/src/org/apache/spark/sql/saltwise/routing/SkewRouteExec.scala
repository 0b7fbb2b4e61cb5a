package org.apache.spark.sql.saltwise.routing

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, ReportedOperator}
import org.apache.spark.sql.saltwise.sketch.{HotKeysSeen, KeyNames}

/**
 * Chooses the worker of each row, for the exchange right above ([[WorkerPartitioning]]). Each map
 * task, a source in the papers, has one router.
 *
 * If a row's worker depends on the rows before it, [[RepeatableOrderExec]] gives the rows in an
 * order that a second run of the task repeats. So the second run sends every row where the first
 * run did.
 *
 * @param hot     the hot keys, if they are given; otherwise the routers find hot keys themselves
 * @param head    the head that routers start with when they find hot keys themselves
 * @param content columns that may decide which worker a hot key's row gets
 */
final case class SkewRouteExec(
    keys: Seq[Expression],
    options: SkewOptions,
    hot: Option[Seq[HotKey]],
    head: Seq[HeadKey],
    content: Seq[Attribute],
    child: SparkPlan)
  extends UnaryExecNode with ReportedOperator {

  private lazy val keysSeen = HotKeysSeen.registered(sparkContext)
  override def hotKeys: Seq[HotKeysSeen.HotKey] = keysSeen.value

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning =
    UnknownPartitioning(child.outputPartitioning.numPartitions)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows routed"),
    "headRows" -> SQLMetrics.createMetric(sparkContext, "head rows"),
    "headKeys" -> SQLMetrics.createAverageMetric(sparkContext, "head keys of a source"),
    "choices" -> SQLMetrics.createAverageMetric(sparkContext, "choices d of a source"))

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, keyHash) = (child.output, GroupingKeys.hash(keys))
    val (newRouter, hotKeysSeen) = (routerFactory, keysSeen)
    val newNames = KeyNames.factory(keys, input, conf)
    val (rows, headRows) = (longMetric("rows"), longMetric("headRows"))
    val (headKeys, choices) = (longMetric("headKeys"), longMetric("choices"))

    child.execute().mapPartitionsWithIndex { (source: Int, in: Iterator[InternalRow]) =>
      val hash = UnsafeProjection.create(Seq(keyHash), input)
      val (router, names) = (newRouter(source), newNames())
      val current = CurrentWorker.begin()
      var routed = 0L
      TaskContext.get().addTaskCompletionListener[Unit] { _ =>
        rows += routed
        headRows += router.headRows
        headKeys.set(router.headKeys.toDouble)
        choices.set(router.choices.toDouble)
        router.hotKeys.foreach { key =>
          val rows = (key.share * routed).toLong
          hotKeysSeen.add(HotKeysSeen.HotKey(key.hash, rows, names.of(key.hash)))
        }
      }
      in.map { row =>
        routed += 1
        // Two values, because a pair would be an object for each row.
        val key = hash(row).getLong(0)
        val headRowsBefore = router.headRows
        current.worker = router.route(key, row)
        if (router.headRows > headRowsBefore) names.note(key, row)
        row
      }
    }
  }

  /** Makes the router of a source, in its task. It captures only local values, not this node. */
  private def routerFactory: Int => Router = hot.map(HotKeyRouter.plan(_, options)) match {
    case None =>
      val (routing, known) = (options, head)
      source => routing.router(source, known)
    // All columns of a row are part of its key, so rows with equal keys are equal.
    case Some(plan) if child.outputSet.subsetOf(AttributeSet(keys.filter(isColumn))) =>
      source => new HotKeyRouter(plan, source, None)
    case Some(plan) =>
      val (contentColumns, input) = (content, child.output)
      source => {
        val project = UnsafeProjection.create(contentColumns, input)
        new HotKeyRouter(
          plan, source, Some(row => RepeatableOrderExec.contentHash(project(row))))
      }
  }

  private def isColumn(key: Expression): Boolean = key.isInstanceOf[Attribute]

  override def simpleString(maxFields: Int): String = {
    val known = if (head.isEmpty) "" else s", hot keys known: ${head.length}"
    s"SkewRoute ${keys.mkString("[", ", ", "]")}, $options$known"
  }

  override protected def withNewChildInternal(c: SparkPlan): SkewRouteExec = copy(child = c)
}
