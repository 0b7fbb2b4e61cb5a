package org.apache.spark.sql.saltwise.compat

import java.util.{Map => JavaMap, UUID}

import scala.reflect.ClassTag
import scala.xml.Node

import org.apache.spark.{ShuffleDependency, SPARK_VERSION}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange._
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId
import org.apache.spark.sql.internal.{SessionState, SharedState, SQLConf}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.StringType
import org.apache.spark.ui.{SparkUITab, UIUtils}

/**
 * Everything that differs between the supported lines of Spark: constructors that got more
 * parameters, classes that moved, and classes that only some lines have.
 */
object SparkCompat {

  /** An exchange. With the default origin, AQE keeps its number of partitions. */
  def exchange(
      partitioning: Partitioning,
      child: SparkPlan,
      origin: ShuffleOrigin = REPARTITION_BY_NUM): ShuffleExchangeExec = {
    val noAdvisorySize: Option[Long] = None
    val notPipelined = java.lang.Boolean.TYPE -> java.lang.Boolean.FALSE
    construct[ShuffleExchangeExec](
      Seq(partitioning, child, origin, noAdvisorySize), later = Seq(notPipelined))
  }

  /** An aggregate over all rows. */
  def aggregate(result: NamedExpression, child: LogicalPlan): Aggregate =
    construct[Aggregate](Seq(Nil, Seq(result), child), later = Seq(NoOption))

  def scalarSubquery(plan: LogicalPlan): ScalarSubquery = {
    val (noOuterReferences, noJoinConditions) = (Seq.empty[Expression], Seq.empty[Expression])
    val (noHint, noCountBug, noSingleJoin) = (NoOption, NoOption, NoOption)
    construct[ScalarSubquery](
      Seq(plan, noOuterReferences, NamedExpression.newExprId, noJoinConditions),
      later = Seq(noHint, noCountBug, noSingleJoin))
  }

  /** Called by name, because from Spark 4.0 only a subclass of `SparkSession` has this method. */
  def state(session: SparkSession): SessionState =
    session.getClass.getMethod("sessionState").invoke(session).asInstanceOf[SessionState]

  /**
   * The stream whose batch is planned in this thread. The class of streams moved in Spark 4.1, so
   * the map is cast to one of their interface.
   */
  def runningStream(session: SparkSession): Option[StreamingQuery] =
    Option(session.sparkContext.getLocalProperty("sql.streaming.queryId")).flatMap { id =>
      val shared =
        session.getClass.getMethod("sharedState").invoke(session).asInstanceOf[SharedState]
      val streams = shared.activeStreamingQueries.asInstanceOf[JavaMap[UUID, StreamingQuery]]
      Option(streams.get(UUID.fromString(id)))
    }

  /**
   * Whether a map task that runs again must write the same rows, in any order, or else Spark may
   * end the job. So it is from Spark 4.2 on.
   */
  def checksRows(conf: SQLConf): Boolean =
    SQLConf.containsConfigKey(RowChecksums) && conf.getConfString(RowChecksums).toBoolean

  private val RowChecksums = "spark.sql.shuffle.orderIndependentChecksum.enabled"

  /**
   * Lets map tasks of this shuffle write other rows when they run again. The rows that a reducer
   * reads of one map task must be worth the same, whichever run wrote them.
   */
  def letRowsDiffer(shuffle: ShuffleDependency[_, _, _]): Unit =
    shuffle.getClass.getDeclaredFields.find(_.getName == "_checksumMismatchFullRetryEnabled")
      .foreach { field =>
        field.setAccessible(true)
        field.setBoolean(shuffle, false)
      }

  /** Whether equal strings of this type may have different bytes. Spark 3.5 has no collations. */
  def isCollated(string: StringType): Boolean =
    binaryEquality.exists(!_.invoke(string).asInstanceOf[Boolean])

  private lazy val binaryEquality =
    classOf[StringType].getMethods.find(_.getName == "supportsBinaryEquality")

  /** The bytes by which a collated string compares. */
  def collationKey(string: Expression): Expression =
    Class.forName("org.apache.spark.sql.catalyst.expressions.CollationKey")
      .getConstructor(classOf[Expression]).newInstance(string).asInstanceOf[Expression]

  /** A page of Spark's UI. How many defaults follow these four arguments differs between lines. */
  def page(request: AnyRef, title: String, content: => Seq[Node], tab: SparkUITab): Seq[Node] = {
    val page = UIUtils.getClass.getMethods.filter(_.getName == "headerSparkPage")
      .maxBy(_.getParameterCount)
    val defaults: Seq[AnyRef] = page.getParameterTypes.toSeq.drop(4).map {
      case java.lang.Boolean.TYPE => Boolean.box(false)
      case option if option == classOf[Option[_]] => None
      case other => throw new NoSuchMethodError(s"headerSparkPage has an argument of $other")
    }
    page.invoke(UIUtils, Seq[AnyRef](request, title, () => content, tab) ++ defaults: _*)
      .asInstanceOf[Seq[Node]]
  }

  /**
   * The state partitions that no other executor should open without need.
   *
   * A batch without new rows of a source may have columns of other nullability. When an executor of
   * Spark 3.5 opens partition 0, it compares the columns with those in the checkpoint, and a batch
   * with others fails. From 4.0 on the driver compares them, once in each run of a query.
   */
  def pinnedPartitions: Seq[Int] = if (SPARK_VERSION.startsWith("3.")) Seq(0) else Nil

  /**
   * Tells Spark's driver that a state store is on an executor. What the driver answers has another
   * type from Spark 4.3 on, so the method is called by name.
   */
  def reportActive(
      coordinator: StateStoreCoordinatorRef, store: StateStoreProviderId,
      host: String, executor: String): Unit =
    coordinator.getClass
      .getMethod("reportActiveInstance", classOf[StateStoreProviderId],
        classOf[String], classOf[String], classOf[Seq[_]])
      .invoke(coordinator, store, host, executor, Nil)

  private val NoOption = classOf[Option[_]] -> None

  /**
   * Calls the longest constructor.
   *
   * @param later the types and values of parameters that some lines have after `arguments`. Of a
   *              parameter that none of them has, the meaning would be guessed, so it is an error.
   */
  private def construct[T](arguments: Seq[AnyRef], later: Seq[(Class[_], AnyRef)])(
      implicit node: ClassTag[T]): T = {
    val constructor = node.runtimeClass.getConstructors.maxBy(_.getParameterCount)
    val more = constructor.getParameterTypes.toSeq.drop(arguments.length)
    if (!later.map(_._1).startsWith(more)) throw new NoSuchMethodError(
      s"${node.runtimeClass.getName} has parameters that are not known: ${more.mkString(", ")}")
    constructor.newInstance(arguments ++ later.take(more.length).map(_._2): _*).asInstanceOf[T]
  }
}

/** Nodes that give whole groups to a function of the user. Their classes differ between lines. */
object GroupMap {

  /** The keys of a node that calls Python. Spark 3.5 has no FlatMapGroupsInArrow. */
  def keys(plan: LogicalPlan): Option[Seq[Attribute]] = plan.nodeName match {
    case "FlatMapGroupsInPandas" | "FlatMapGroupsInArrow" =>
      Some(plan.productElement(0).asInstanceOf[Seq[Attribute]])
    case _ => None
  }

  /** Whether a function in Scala or in Python keeps a state for each group. */
  def keepsState(plan: LogicalPlan): Boolean = plan.nodeName match {
    case "FlatMapGroupsWithState" | "FlatMapGroupsInPandasWithState" => true
    case name => name.startsWith("TransformWithState")
  }
}
