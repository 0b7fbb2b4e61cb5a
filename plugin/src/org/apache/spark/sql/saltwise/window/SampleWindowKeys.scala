package org.apache.spark.sql.saltwise.window

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.logical.Window
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SortExec, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.exchange.{
  ENSURE_REQUIREMENTS, ShuffleExchangeExec, ValidateRequirements}
import org.apache.spark.sql.execution.window.WindowExec
import org.apache.spark.sql.saltwise.OrStock
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.plan.ReportedSample
import org.apache.spark.sql.saltwise.window.OrderSample.WeightedRows
import org.apache.spark.sql.types.DataType

/**
 * Draws a sample of the rows that an exchange sends to a window with PARTITION BY. So it is known,
 * once the exchange has run, which keys are hot, and where their slices begin.
 *
 * {{{
 *   before:  Window(k, x) - Sort(k, x) - Exchange(hash of k) - t
 *   after:   Window(k, x) - Sort(k, x) - Exchange(hash of k, a sample of k and x) - t
 * }}}
 *
 * [[SliceHotKeys]] reads it.
 */
object SampleWindowKeys extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (!WindowReasons.isOn) plan
    else {
      val sampling = plan.transformUp {
        case window @ WindowExec(_, keys, order, sort @ SortExec(_, false, Exchanged(exchange), _))
            if mayRunInSlices(window) =>
          OrStock[SparkPlan]("SampleWindowKeys", window) {
            window.withNewChildren(Seq(sort.withNewChildren(Seq(sampled(exchange, order)))))
          }
      }
      // A union has the partitioning of its branches only if all have the same, and operators above
      // may rely on that. One branch may have no window.
      val fits =
        !plan.exists(_.isInstanceOf[UnionExec]) || ValidateRequirements.validate(sampling)
      if (fits) sampling else plan
    }

  /** An exchange that Spark put there for the window, and that sends rows by their hash. */
  private object Exchanged {
    def unapply(plan: SparkPlan): Option[ShuffleExchangeExec] = plan match {
      case exchange: ShuffleExchangeExec if exchange.shuffleOrigin == ENSURE_REQUIREMENTS &&
          exchange.outputPartitioning.getClass == classOf[HashPartitioning] => Some(exchange)
      case _ => None
    }
  }

  private def mayRunInSlices(window: WindowExec): Boolean = window.logicalLink.exists {
    case logical: Window => WindowReasons.of(logical).isEmpty
    case _ => false
  }

  private def sampled(exchange: ShuffleExchangeExec, order: Seq[SortOrder]): SparkPlan = {
    val hash = exchange.outputPartitioning.asInstanceOf[HashPartitioning]
    val samples = OfTasks[WeightedRows](exchange.session.sparkContext)
    val partitioning =
      new SampledPartitioning(hash.expressions, hash.numPartitions, order, samples)
    val drawing = SparkCompat.exchange(partitioning, exchange.child, ENSURE_REQUIREMENTS)
    drawing.copyTagsFrom(exchange)
    drawing
  }
}

/**
 * Spark's hash partitioning, which also draws a sample of its rows. All rules treat it as Spark's
 * own. It equals one of another order, as the branches of a union may have.
 *
 * @param samples rows of (keys, order), once the exchange has run
 */
final class SampledPartitioning(
    val keys: Seq[Expression],
    n: Int,
    val order: Seq[SortOrder],
    val samples: OfTasks[WeightedRows])
  extends HashPartitioning(keys, n) with ReportedSample {

  /** The partition that a row of keys is sent to. */
  def partitionOf(key: InternalRow): Int = {
    val columns = keys.zipWithIndex.map { case (e, i) => BoundReference(i, e.dataType, e.nullable) }
    HashPartitioning(columns, n).partitionIdExpression.eval(key).asInstanceOf[Int]
  }

  override def partitionIdExpression: Expression =
    SampleRows(super.partitionIdExpression, keys ++ order.map(_.child), n, samples)

  override def nodeName: String = "HashPartitioning"
  override def toString: String =
    s"hashpartitioning(${keys.mkString(", ")}, $n, SkewWindow samples its keys)"

  /** Spark may use its exchange in place of another one with the same rows. */
  override lazy val canonicalized: Expression = HashPartitioning(keys.map(_.canonicalized), n)

  override protected def withNewChildrenInternal(
      newKeys: IndexedSeq[Expression]): SampledPartitioning =
    new SampledPartitioning(newKeys, n, order, samples)

  // To a plan, an exchange with a sample is another one.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[SampledPartitioning]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode(): Int = super.hashCode
}

/** Draws a sample of the rows of a map task. `partition` is the partition of a row. */
final case class SampleRows(
    partition: Expression, columns: Seq[Expression], n: Int, samples: OfTasks[WeightedRows])
  extends Expression {
  import SampleRows._

  @transient private lazy val project = UnsafeProjection.create(columns)
  @transient private lazy val sample = {
    val tasks = TaskContext.get().numPartitions()
    val ofTask = new OrderSample(math.max(RowsOfTask, OrderCuts.share(n, tasks)), Nil)
    samples.whenTaskEnds {
      // The driver holds the samples of all tasks. Without one of wide rows, no key is hot.
      val rows = ofTask.weighted
      if (rows.map(_._2.length.toLong).sum <= BytesOfTask) rows else Nil
    }
    ofTask
  }

  /** Called for each row by the code below. */
  def draw(partition: Int, row: InternalRow): Int = {
    if (sample.draws()) sample.add(project(row).getBytes.clone())
    partition
  }

  override def children: Seq[Expression] = partition +: columns
  override def nullable: Boolean = false
  override def dataType: DataType = partition.dataType
  override def eval(row: InternalRow): Any = draw(partition.eval(row).asInstanceOf[Int], row)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("sampleRows", this)
    val of = partition.genCode(ctx)
    ev.copy(
      code = code"""
        ${of.code}
        final int ${ev.value} = $self.draw(${of.value}, ${ctx.INPUT_ROW});""",
      isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SampleRows =
    copy(partition = c.head, columns = c.tail)
}

private object SampleRows {
  private val RowsOfTask = 100
  private val BytesOfTask = 256L << 10
}
