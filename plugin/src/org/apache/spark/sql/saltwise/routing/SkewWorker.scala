package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Nondeterministic, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * skew_worker(n, strategy, key...): the worker in [0, n) that a splitting strategy gives this row.
 * It is for two-phase SQL that is written by hand. Each task is a source with its own router, so
 * the result depends on the rows before.
 */
final case class SkewWorker(keyHash: Expression, options: SkewOptions)
    extends UnaryExpression with Nondeterministic with CodegenFallback {

  @transient private var router: KeyRouter = _

  override def child: Expression = keyHash
  override def stateful: Boolean = true
  override def prettyName: String = "skew_worker"
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  override protected def initializeInternal(partitionIndex: Int): Unit =
    router = options.router(partitionIndex)

  override protected def evalInternal(row: InternalRow): Any =
    router.route(keyHash.eval(row).asInstanceOf[Long])

  override protected def withNewChildInternal(c: Expression): SkewWorker = copy(keyHash = c)
}

/**
 * Makes the rows that `skew_worker` reads come in a repeatable order.
 *
 * {{{
 *   before:  Project(skew_worker(...)) - child
 *   after:   Project(skew_worker(...)) - RepeatableOrder - child
 * }}}
 */
object OrderRowsOfSkewWorkers extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: UnaryExecNode if !node.child.isInstanceOf[RepeatableOrderExec] &&
        node.expressions.exists(_.collect { case worker: SkewWorker => worker.options }
          .exists(_.dependsOnOrder)) =>
      node.withNewChildren(Seq(RepeatableOrderExec(node.child)))
  }
}
