package org.apache.spark.sql.saltwise

import java.util.{Map => JavaMap, UUID}

import scala.reflect.ClassTag

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Expression, NamedExpression, ScalarSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec, ShuffleOrigin}
import org.apache.spark.sql.internal.{SessionState, SharedState}
import org.apache.spark.sql.streaming.StreamingQuery

/** What differs between the supported versions of Spark: constructors, which have more parameters in later ones, and a class. */
object AcrossVersions {

  /** An exchange with a number of partitions that AQE keeps. */
  def exchange(partitioning: Partitioning, child: SparkPlan): ShuffleExchangeExec = {
    val noAdvisorySize: Option[Long] = None
    val notPipelined = java.lang.Boolean.FALSE
    make[ShuffleExchangeExec](Seq(partitioning, child, REPARTITION_BY_NUM: ShuffleOrigin, noAdvisorySize), notPipelined)
  }

  /** An aggregate over all rows. */
  def aggregate(result: NamedExpression, child: LogicalPlan): Aggregate =
    make[Aggregate](Seq(Nil, Seq(result), child), None)

  def scalarSubquery(plan: LogicalPlan): ScalarSubquery =
    make[ScalarSubquery](Seq(plan, Seq.empty[Expression], NamedExpression.newExprId, Seq.empty[Expression]), None)

  def withProperties(table: CatalogTable, properties: Map[String, String]): CatalogTable = {
    val fields = table.productIterator.map(_.asInstanceOf[AnyRef]).toSeq
    // The first of its fields that is this map; those that are ignored may be the same empty one.
    make[CatalogTable](fields.updated(fields.indexWhere(_ eq table.properties), properties), None)
  }

  /** `SparkSession` became an interface in 4.0, hence the call by name. */
  def state(session: SparkSession): SessionState =
    session.getClass.getMethod("sessionState").invoke(session).asInstanceOf[SessionState]

  /** The stream whose batch is planned in this thread. Its class moved in 4.1, so the map is taken for one of its interface. */
  def runningStream(session: SparkSession): Option[StreamingQuery] =
    Option(session.sparkContext.getLocalProperty("sql.streaming.queryId")).flatMap { id =>
      val shared = session.getClass.getMethod("sharedState").invoke(session).asInstanceOf[SharedState]
      Option(shared.activeStreamingQueries.asInstanceOf[JavaMap[UUID, StreamingQuery]].get(UUID.fromString(id)))
    }

  private def make[T](first: Seq[AnyRef], more: AnyRef)(implicit node: ClassTag[T]): T = {
    val constructor = node.runtimeClass.getConstructors.maxBy(_.getParameterCount)
    constructor.newInstance(first ++ Seq.fill(constructor.getParameterCount - first.length)(more): _*).asInstanceOf[T]
  }
}
