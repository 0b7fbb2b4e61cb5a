package org.apache.spark.sql.saltwise.compat

import java.util.{Map => JavaMap, UUID}

import scala.reflect.ClassTag

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, NamedExpression, ScalarSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec, ShuffleOrigin}
import org.apache.spark.sql.internal.{SessionState, SharedState}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.StringType

/**
 * Everything that differs between the supported lines of Spark: constructors with more parameters in later lines, and
 * classes that moved or that only some lines have.
 */
object SparkCompat {

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

  /** Whether equal strings of this type may have different bytes. Only 4.0 and later have collations. */
  def isCollated(string: StringType): Boolean =
    binaryEquality.exists(!_.invoke(string).asInstanceOf[Boolean])

  private lazy val binaryEquality =
    classOf[StringType].getMethods.find(_.getName == "supportsBinaryEquality")

  /** The bytes by which a collated string compares. */
  def collationKey(string: Expression): Expression =
    Class.forName("org.apache.spark.sql.catalyst.expressions.CollationKey")
      .getConstructor(classOf[Expression]).newInstance(string).asInstanceOf[Expression]

  private def make[T](first: Seq[AnyRef], more: AnyRef)(implicit node: ClassTag[T]): T = {
    val constructor = node.runtimeClass.getConstructors.maxBy(_.getParameterCount)
    constructor.newInstance(first ++ Seq.fill(constructor.getParameterCount - first.length)(more): _*).asInstanceOf[T]
  }
}

/** What hands each group, as a whole, to a function in Python. Spark 3.5 has no FlatMapGroupsInArrow. */
object GroupMap {
  def keys(plan: LogicalPlan): Option[Seq[Attribute]] = plan.nodeName match {
    case "FlatMapGroupsInPandas" | "FlatMapGroupsInArrow" => Some(plan.productElement(0).asInstanceOf[Seq[Attribute]])
    case _ => None
  }

  /** What keeps a state for each group, in Scala and in Python; their classes differ between the versions. */
  def keepsState(plan: LogicalPlan): Boolean = plan.nodeName match {
    case "FlatMapGroupsWithState" | "FlatMapGroupsInPandasWithState" => true
    case name => name.startsWith("TransformWithState")
  }
}
