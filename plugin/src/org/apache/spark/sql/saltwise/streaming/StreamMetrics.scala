package org.apache.spark.sql.saltwise.streaming

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.TaskContext
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.saltwise.{DChoices, SkewOptions}
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.routing._
import org.apache.spark.sql.saltwise.sketch._
import org.apache.spark.sql.types._

/**
 * The metrics of a micro-batch about its keys and workers, in
 * `StreamingQueryProgress.observedMetrics`. Users, the reports and the next batch read them. The
 * other folders know of `streaming/` only by this object.
 */
object StreamMetrics {

  /** The metrics of the workers have the name of the metrics of the rows, followed by this. */
  val Received = ".received"

  /**
   * A key with a share of theta has about this many rows in the batches that are read. The standard
   * error of its share is then an eighth of the share.
   */
  private val RowsOfHeadKey = 64

  /** Whether progress can show keys of a type as JSON. Spark 3.5 cannot show local times. */
  def canShow(keyType: DataType): Boolean = keyType match {
    case ArrayType(element, _) => canShow(element)
    case StructType(fields) => fields.forall(field => canShow(field.dataType))
    case _: UserDefinedType[_] => false
    case atomic => Try {
      val value = CatalystTypeConverters.convertToScala(Literal.default(atomic).value, atomic)
      new GenericRowWithSchema(Array(value), new StructType().add("key", atomic)).json
    }.isSuccess
  }

  /**
   * The columns strategy, workers, and head, which is the [[HeadOfSketch]] of the keys.
   *
   * @param showsKeys whether the head has the values of keys. Otherwise it has their hashes.
   */
  def ofRows(
      keys: Seq[Expression],
      options: SkewOptions,
      hot: Option[Seq[HotKey]],
      showsKeys: Boolean): Seq[NamedExpression] = {
    val item = keys match {
      case hidden if !showsKeys => GroupingKeys.hash(hidden)
      case Seq(key) => key
      case several => CreateNamedStruct(several.zipWithIndex.flatMap {
        case (key: NamedExpression, _) => Seq(Literal(key.name), key)
        case (key, i) => Seq(Literal(s"key$i"), key)
      })
    }
    val choices = hot match {
      case Some(known) => Some(HotKeyRouter.plan(known, options).choices)
      case None => options.strategy match {
        case strategy: DChoices => strategy.choices
        case _ => Some(options.router(source = 0).choices)
      }
    }
    val sketch = SpaceSavingAgg(item, Literal(options.parameters.capacity)).toAggregateExpression()
    Seq(
      Alias(Literal(options.strategy.name), "strategy")(),
      Alias(Literal(options.workers), "workers")(),
      Alias(HeadOfSketch(sketch, item.dataType, options.workers, options.parameters.theta,
        options.parameters.epsilon, choices), "head")())
  }

  /** The column `most`: the rows of the worker that received the most rows. */
  def ofWorkers(options: SkewOptions): Seq[NamedExpression] = {
    val fullest = HeavyHitters(TaskPartition(), Literal(1), Literal(options.workers))
      .toAggregateExpression()
    val rows = GetStructField(GetArrayItem(fullest, Literal(0), failOnError = false), 1)
    Seq(Alias(Coalesce(Seq(rows, Literal(0L))), "most")())
  }

  /**
   * The head of a stream, from as few of its last batches as have enough rows together.
   *
   * @param batches the metrics of the rows ([[ofRows]]) of each batch, the last one last
   */
  def head(
      batches: Seq[Row],
      keys: Seq[Expression],
      options: SkewOptions,
      showsKeys: Boolean): Seq[HeadKey] = {
    def hash(item: Any): Long =
      if (showsKeys) hashOf(item, keys) else item.asInstanceOf[Long]

    val theta = options.parameters.theta
    val enoughRows = RowsOfHeadKey / theta
    val heads = batches.map(_.getAs[Row]("head")).reverseIterator
    val counts = mutable.Map.empty[Long, Long].withDefaultValue(0L)
    var rows = 0L
    while (rows < enoughRows && heads.hasNext) {
      val head = heads.next()
      rows += head.getAs[Long]("rows")
      head.getAs[scala.collection.Seq[Row]]("hot").foreach { key =>
        counts(hash(key.getAs[Any]("item"))) += key.getAs[Long]("count")
      }
    }
    counts.toSeq.collect {
      case (key, count) if count >= theta * rows =>
        HeadKey(key, math.min(1.0, count.toDouble / rows))
    }.sortBy(_.hash)
  }

  private def hashOf(item: Any, keys: Seq[Expression]): Long = {
    val values = item match {
      case struct: Row if keys.length > 1 => struct.toSeq
      case value => Seq(value)
    }
    val literals = values.zip(keys).map { case (value, key) => Literal.create(value, key.dataType) }
    GroupingKeys.hash(literals).eval(InternalRow.empty).asInstanceOf[Long]
  }
}

/**
 * The head of a sketch: the number of rows that it counted, the choices d that these rows need, and
 * the items with a share of at least theta, in the form of `heavy_hitters`.
 *
 * @param choices d; None if [[FindOptimalChoices]] solves it
 */
final case class HeadOfSketch(
    child: Expression,
    itemType: DataType,
    workers: Int,
    theta: Double,
    epsilon: Double,
    choices: Option[Int])
  extends UnaryExpression with CodegenFallback {

  override def nullable: Boolean = false

  override def dataType: DataType = new StructType()
    .add("rows", LongType, nullable = false)
    .add("choices", IntegerType, nullable = false)
    .add("hot", SketchArguments.topType(itemType), nullable = false)

  override def eval(row: InternalRow): Any = {
    val sketch = ItemSketch.deserialize(child.eval(row).asInstanceOf[Array[Byte]])
    val minCount = math.max(HeadRouter.MinimumRows.toDouble, theta * sketch.total)
    val counts = sketch.top(sketch.size).map(sketch.count).takeWhile(_ >= minCount)
    def solved =
      FindOptimalChoices(counts.map(_.toDouble / sketch.total).toArray, workers, epsilon)
    InternalRow(
      sketch.total, choices.getOrElse(solved), SketchArguments.top(sketch, counts.length))
  }

  override protected def withNewChildInternal(c: Expression): HeadOfSketch = copy(child = c)
}

/** The number of the partition that a task computes. */
final case class TaskPartition() extends LeafExpression with CodegenFallback {
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override def eval(row: InternalRow): Any = TaskContext.getPartitionId()
}
