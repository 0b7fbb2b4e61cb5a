package org.apache.spark.sql.saltwise

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * Appends to each row the worker that the strategy sends it to. One router a map task: the papers' source.
 *
 * The column holds not the worker's number w but a value that Spark's own hash partitioning sends to partition
 * w, so the exchange above is an ordinary one.
 *
 * Where a row's worker depends on the rows before it, the RDD is flagged as order sensitive, always: if a map
 * task over a shuffle runs again it may send rows elsewhere, and the flag makes Spark run all of its stage and
 * what was read from it again, or abort the job with a message of its own, but never mix the two.
 */
final case class SkewRouteExec(
    keys: Seq[Expression],
    options: SkewOptions,
    hot: Option[Seq[HotKey]],
    worker: Attribute,
    child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output :+ worker

  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows routed"),
    "headRows" -> SQLMetrics.createMetric(sparkContext, "head rows"),
    "headKeys" -> SQLMetrics.createAverageMetric(sparkContext, "head keys of a source"),
    "choices" -> SQLMetrics.createAverageMetric(sparkContext, "choices d of a source"))

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = longMetric("rows")
    val headRows = longMetric("headRows")
    val headKeys = longMetric("headKeys")
    val choices = longMetric("choices")
    val input = child.output
    val keyHash = GroupingKeys.hash(keys)
    val routing = options
    val tag = SkewRouteExec.partitionTags(options.workers)
    val joinWorker = (SkewRouteExec.schema(input), SkewRouteExec.schema(Seq(worker)))
    val hotChoices = hot.map(HotKeyRouter.choices(_, options.workers, options.epsilon))
      .map(solved => if (options.strategy == SkewStrategy.DChoices) options.choices.getOrElse(solved)
        else SkewRouteExec.fixedChoices(options))
    val hotCandidates = hot.map(HotKeyRouter.candidates(_, hotChoices.get, options.workers))
    val onlyKeys = AttributeSet(input).subsetOf(AttributeSet(keys.collect { case key: Attribute => key }))

    child.execute().mapPartitionsWithIndex({ (source: Int, in: Iterator[InternalRow]) =>
      val toUnsafe = UnsafeProjection.create(input, input)
      val hash = UnsafeProjection.create(Seq(keyHash), input)
      val joiner = GenerateUnsafeRowJoiner.create(joinWorker._1, joinWorker._2)
      val tagRow = new UnsafeRow(1)
      tagRow.pointTo(new Array[Byte](16), 16)
      var routed = 0L

      def send(row: UnsafeRow, worker: Int): InternalRow = {
        routed += 1
        tagRow.setInt(0, tag(worker))
        joiner.join(row, tagRow)
      }
      def unsafe(row: InternalRow): UnsafeRow = row match {
        case unsafeRow: UnsafeRow => unsafeRow
        case other => toUnsafe(other)
      }
      def atEnd(report: => Unit): Unit =
        TaskContext.get().addTaskCompletionListener[Unit] { _ => rows += routed; report }

      hotCandidates match {
        case Some(candidates) =>
          val router = new HotKeyRouter(candidates, routing.workers, source)
          val contentHash = if (onlyKeys) null else UnsafeProjection.create(Seq(new XxHash64(input)), input)
          atEnd {
            headRows += router.rows
            headKeys.set(candidates.size.toDouble)
            choices.set(hotChoices.get.toDouble)
          }
          in.map { row =>
            val current = unsafe(row)
            val content = if (onlyKeys) None else Some(() => contentHash(current).getLong(0))
            send(current, router.route(hash(current).getLong(0), content))
          }
        case None =>
          val router = routing.router(source)
          atEnd {
            headRows += router.headRows
            headKeys.set(router.headKeys.toDouble)
            choices.set(router.choices.toDouble)
          }
          in.map { row =>
            val current = unsafe(row)
            send(current, router.route(hash(current).getLong(0)))
          }
      }
    }, preservesPartitioning = false, isOrderSensitive = options.dependsOnOrder)
  }

  override def simpleString(maxFields: Int): String =
    s"SkewRoute ${keys.mkString("[", ", ", "]")}, $options"

  override protected def withNewChildInternal(newChild: SparkPlan): SkewRouteExec = copy(child = newChild)
}

object SkewRouteExec {

  /** For each partition a value that Spark's hash partitioning, pmod(murmur3(value, 42), n), sends there. */
  private def partitionTags(n: Int): Array[Int] = {
    val tags = new Array[Int](n)
    val found = new Array[Boolean](n)
    var left = n
    var value = 0
    while (left > 0) {
      val partition = Math.floorMod(Murmur3_x86_32.hashInt(value, 42), n)
      if (!found(partition)) {
        found(partition) = true
        tags(partition) = value
        left -= 1
      }
      value += 1
    }
    tags
  }

  private def fixedChoices(options: SkewOptions): Int = options.strategy match {
    case SkewStrategy.Hash => 1
    case SkewStrategy.PartialKey => math.min(2, options.workers)
    case _ => options.workers
  }

  private def schema(attributes: Seq[Attribute]): StructType =
    StructType(attributes.map(a => StructField(a.name, a.dataType, a.nullable)))
}
