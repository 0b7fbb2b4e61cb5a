package org.apache.spark.sql.saltwise.compat

import java.util.{Map => JavaMap, UUID}

import scala.reflect.ClassTag
import scala.xml.Node

import org.apache.spark.{ShuffleDependency, SPARK_VERSION}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange._
import org.apache.spark.sql.execution.python.MapInBatchExec
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

  /**
   * The first thing that this Spark lacks among those that are called by name; None if it has all.
   * Without it, equal keys might count as different, or a job might end. The class files do not
   * show these calls, so [[SparkLinks]] does not check them.
   */
  def lacking: Option[String] = Seq(
    "StringType.supportsBinaryEquality" -> (!since(4, 0) || binaryEquality.nonEmpty),
    RowChecksums -> (!since(4, 1) || SQLConf.containsConfigKey(RowChecksums)),
    s"ShuffleDependency.$RowsMustAgree" -> (!since(4, 2) || rowsMustAgree.nonEmpty),
    newExchange.name -> newExchange.isKnown,
    newAggregate.name -> newAggregate.isKnown,
    newScalarSubquery.name -> newScalarSubquery.isKnown
  ).collectFirst { case (name, false) => name }

  private def since(major: Int, minor: Int): Boolean = {
    val Array(ours, next) = SPARK_VERSION.split('.').take(2).map(_.toInt)
    ours > major || ours == major && next >= minor
  }

  /** An exchange. With the default origin, AQE keeps its number of partitions. */
  def exchange(
      partitioning: Partitioning,
      child: SparkPlan,
      origin: ShuffleOrigin = REPARTITION_BY_NUM): ShuffleExchangeExec =
    newExchange(partitioning, child, origin)

  private lazy val newExchange = new Constructor[ShuffleExchangeExec](
    Seq(classOf[Partitioning], classOf[SparkPlan], classOf[ShuffleOrigin]),
    later = Seq(NoOption, No)) // no advisory size; not pipelined

  /** An aggregate over all rows. */
  def aggregate(result: NamedExpression, child: LogicalPlan): Aggregate =
    newAggregate(Nil, Seq(result), child)

  private lazy val newAggregate = new Constructor[Aggregate](
    Seq(classOf[Seq[_]], classOf[Seq[_]], classOf[LogicalPlan]), later = Seq(NoOption)) // no hint

  /** A subquery without outer references and join conditions. */
  def scalarSubquery(plan: LogicalPlan): ScalarSubquery =
    newScalarSubquery(plan, Nil, NamedExpression.newExprId, Nil)

  private lazy val newScalarSubquery = new Constructor[ScalarSubquery](
    Seq(classOf[LogicalPlan], classOf[Seq[_]], classOf[ExprId], classOf[Seq[_]]),
    later = Seq(NoOption, NoOption, NoOption)) // no hint, no count bug, no single join

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
   * Whether Spark may end a job because a map task writes other rows when it runs again. The order
   * of the rows does not matter. Spark 4.2 and later do this.
   */
  def checksRows(conf: SQLConf): Boolean =
    SQLConf.containsConfigKey(RowChecksums) && conf.getConfString(RowChecksums).toBoolean

  private val RowChecksums = "spark.sql.shuffle.orderIndependentChecksum.enabled"

  /**
   * Lets map tasks of this shuffle write other rows when they run again. For a reducer, the rows
   * that one map task writes must mean the same in every run.
   *
   * This is the one place that changes a private field of Spark. Nobody can pass the value when the
   * dependency is made: ShuffleExchangeExec makes it, and takes the value from the conf of the
   * whole session. A subclass of that node could, but one jar serves several lines of Spark, and
   * the constructor that a subclass calls has one more parameter on the newest. Another node in its
   * place would not do, because rules of Spark look for ShuffleExchangeExec.
   */
  def letRowsDiffer(shuffle: ShuffleDependency[_, _, _]): Unit =
    rowsMustAgree.foreach(_.setBoolean(shuffle, false))

  private val RowsMustAgree = "_checksumMismatchFullRetryEnabled"

  private lazy val rowsMustAgree = {
    val field = classOf[ShuffleDependency[_, _, _]].getDeclaredFields
      .find(_.getName == RowsMustAgree)
    field.foreach(_.setAccessible(true))
    field
  }

  /** Whether a sum or an average is NULL once it has overflowed, as `try_sum` is. */
  def triesToAdd(function: AggregateFunction): Boolean = hasMode(function, EvalMode.TRY)

  /** Whether a sum or an average fails where it overflows. */
  def failsToAdd(function: AggregateFunction): Boolean = hasMode(function, EvalMode.ANSI)

  /** In some lines of Spark, the mode is a parameter, in others a part of one. */
  private def hasMode(function: AggregateFunction, mode: EvalMode.Value): Boolean =
    function.productIterator.exists {
      case _: Expression => false
      case parameter => parameter.toString.contains(mode.toString)
    }

  /** Whether equal strings of this type may have different bytes. Spark 3.5 has no collations. */
  def isCollated(string: StringType): Boolean =
    binaryEquality.exists(!_.invoke(string).asInstanceOf[Boolean])

  private lazy val binaryEquality =
    classOf[StringType].getMethods.find(_.getName == "supportsBinaryEquality")

  /** The bytes that compare like this collated string. */
  def collationKey(string: Expression): Expression =
    Class.forName("org.apache.spark.sql.catalyst.expressions.CollationKey")
      .getConstructor(classOf[Expression]).newInstance(string).asInstanceOf[Expression]

  /** A page of Spark's UI. */
  def page(request: AnyRef, title: String, content: => Seq[Node], tab: SparkUITab): Seq[Node] = {
    val page = UIUtils.getClass.getMethods.filter(_.getName == "headerSparkPage")
      .maxBy(_.getParameterCount)
    // No help text, and no script for graphs, tables or a time line.
    val more = valuesOf(page.getParameterTypes.toSeq.drop(4), Seq(NoOption, No, No, No))
      .getOrElse(throw new NoSuchMethodError(s"$page has parameters that are not known"))
    page.invoke(UIUtils, Seq[AnyRef](request, title, () => content, tab) ++ more: _*)
      .asInstanceOf[Seq[Node]]
  }

  /**
   * The state partitions that should stay on their executor.
   *
   * If a source has no new rows, the columns of a batch may differ in nullability. When an executor
   * of Spark 3.5 opens partition 0, it compares the columns with those in the checkpoint, and the
   * batch fails if they differ. Since 4.0 the driver compares them, once in each run of a query.
   */
  def pinnedPartitions: Seq[Int] = if (SPARK_VERSION.startsWith("3.")) Seq(0) else Nil

  /**
   * Tells Spark's driver that a state store is on an executor. The result has another type since
   * Spark 4.3, so the method is called by name.
   */
  def reportActive(
      coordinator: StateStoreCoordinatorRef, store: StateStoreProviderId,
      host: String, executor: String): Unit =
    coordinator.getClass
      .getMethod("reportActiveInstance", classOf[StateStoreProviderId],
        classOf[String], classOf[String], classOf[Seq[_]])
      .invoke(coordinator, store, host, executor, Nil)

  /** Whether the tasks of this node's stage start together. Its field is hidden from Scala. */
  def isBarrier(node: MapInBatchExec): Boolean =
    node.getClass.getMethod("isBarrier").invoke(node).asInstanceOf[Boolean]

  /** The same for a node before it is planned. */
  def isBarrier(node: LogicalPlan): Boolean =
    Set("MapInPandas", "MapInArrow", "PythonMapInArrow")(node.nodeName) &&
      node.productIterator.contains(true)

  private type Parameter = (Class[_], AnyRef)
  private val NoOption: Parameter = classOf[Option[_]] -> None
  private val No: Parameter = java.lang.Boolean.TYPE -> java.lang.Boolean.FALSE

  /** The values of the last parameters; None if one of them is in no supported line. */
  private def valuesOf(types: Seq[Class[_]], known: Seq[Parameter]): Option[Seq[AnyRef]] =
    if (known.map(_._1).startsWith(types)) Some(known.take(types.length).map(_._2)) else None

  /**
   * The longest constructor of a node.
   *
   * @param first the types of the parameters that all lines have
   * @param later the types and values of the parameters after these, which only some lines have.
   *              The value of any other parameter would be a guess.
   */
  private final class Constructor[T](first: Seq[Class[_]], later: Seq[Parameter])(
      implicit node: ClassTag[T]) {
    private val constructor = node.runtimeClass.getConstructors.maxBy(_.getParameterCount)
    private val types = constructor.getParameterTypes.toSeq
    private val more =
      if (types.startsWith(first)) valuesOf(types.drop(first.length), later) else None

    def name: String = s"constructor of ${node.runtimeClass.getSimpleName} that it knows"

    def isKnown: Boolean = more.nonEmpty

    def apply(arguments: AnyRef*): T =
      constructor.newInstance(arguments ++ more.get: _*).asInstanceOf[T]
  }
}

/** Nodes that give whole groups to a function of the user. Their classes differ by line. */
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
