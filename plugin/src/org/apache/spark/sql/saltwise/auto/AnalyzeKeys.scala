package org.apache.spark.sql.saltwise.auto

import java.time.Instant
import java.time.temporal.ChronoUnit

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.dsl.plans._
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.{SQLConf, SessionState}
import org.apache.spark.sql.saltwise.{SaltwiseConf, SaltwiseException, SkewOptions}
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.sketch.ItemSketch
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The table function saltwise_analyze(source, key...). It finds how many rows each key of a table
 * has, and stores the result for `auto`. It runs when the query runs. EXPLAIN runs nothing.
 *
 * @param source a table, or the path of files. Files in another format than Spark's default one are
 *               given like json.`/path`.
 * @param keys   names of the key columns
 */
final case class AnalyzeKeys(
    source: String, keys: Seq[String], output: Seq[Attribute] = AnalyzeKeys.columns)
  extends LeafNode with MultiInstanceRelation {

  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics.DUMMY
}

object AnalyzeKeys {
  private def columns: Seq[Attribute] = Seq(
    AttributeReference("rows", LongType, nullable = false)(),
    AttributeReference("keys", LongType, nullable = false)(),
    AttributeReference("hottest", DoubleType)(),
    AttributeReference("stored", StringType, nullable = false)())
}

object PlanAnalyzeKeys extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case AnalyzeKeys(source, keys, output) => AnalyzeKeysExec(source, keys, output) :: Nil
    case _ => Nil
  }
}

/**
 * One pass over the key columns of a table, started by the driver. The result is one row: what was
 * found, and where it is stored.
 */
final case class AnalyzeKeysExec(source: String, keys: Seq[String], output: Seq[Attribute])
  extends LeafExecNode {
  import AnalyzeKeysExec._

  private lazy val result: UnsafeRow = {
    val state = session.sessionState
    val relation = relationOf(state)
    val columns = columnsOf(relation)
    val store = storeOf(relation, columns, state)
    // Fails where something is stored that cannot be read, so that it is not overwritten.
    store.read()
    val analyzed = analyze(relation, columns, state)
    store.write(analyzed.toJson)
    val hottest = analyzed.sketch.top(1).headOption
      .map(analyzed.sketch.count(_).toDouble / analyzed.rows)
    val row = InternalRow(
      analyzed.rows, analyzed.distinct, hottest.orNull, UTF8String.fromString(store.toString))
    UnsafeProjection.create(schema).apply(row).copy()
  }

  override protected def doExecute(): RDD[InternalRow] =
    sparkContext.makeRDD(Seq[InternalRow](result), 1)

  private def relationOf(state: SessionState): LogicalRelation = {
    val isPath = source.contains("/") && !source.contains("`")
    val name = if (isPath) s"${conf.defaultDataSourceName}.`$source`" else source
    def find(plan: LogicalPlan): Option[LogicalRelation] = plan match {
      case SubqueryAlias(_, child) => find(child)
      case Project(_, child) => find(child) // pads columns of type CHAR
      case relation: LogicalRelation if relation.relation.isInstanceOf[HadoopFsRelation] =>
        Some(relation)
      case _ => None
    }
    val table = state.executePlan(state.sqlParser.parsePlan(s"TABLE $name")).analyzed
    find(table).getOrElse(throw new SaltwiseException(
      s"source is '$source', which is a view or has no files that Spark lists; " +
        "it must be a table of files or a path."))
  }

  /** Sorted by name, because the order in which a query names the keys makes no difference. */
  private def columnsOf(relation: LogicalRelation): Seq[Attribute] = keys.map { key =>
    relation.output.find(column => conf.resolver(column.name, key)).getOrElse(
      throw SkewOptions.unknown("key", key, relation.output.map(_.name)))
  }.distinct.sortBy(_.name)

  private def storeOf(
      relation: LogicalRelation,
      columns: Seq[Attribute],
      state: SessionState): KeyStatisticsStore =
    KeyStatisticsStore.of(relation, columns.map(_.name), state).getOrElse(
      throw new SaltwiseException(s"source is '$source', which names several paths; " +
        "it must be one table, one folder or one file."))

  private def analyze(
      relation: LogicalRelation, columns: Seq[Attribute], state: SessionState): AnalyzedKeys = {
    val files = DataFiles.of(relation.relation.asInstanceOf[HadoopFsRelation])
    val query = state.executePlan(keyCounts(relation, columns, state))
    // The session's conf may rewrite all aggregates, but this query is not to be rewritten.
    val off = state.conf.clone()
    off.setConf(SaltwiseConf.Enabled, false)
    val row = SQLConf.withExistingConf(off) {
      SQLExecution.withNewExecutionId(query, Some(s"saltwise_analyze $source")) {
        query.executedPlan.executeCollect().head
      }
    }
    val sketch = new ItemSketch(LongType, CountersKept)
    if (!row.isNullAt(0)) sketch.merge(ItemSketch.deserialize(row.getBinary(0)))
    AnalyzedKeys(
      columns.map(AnalyzedKeys.column),
      Instant.now().truncatedTo(ChronoUnit.SECONDS),
      files,
      distinct = math.min(row.getLong(1), sketch.total),
      tasks = row.getLong(2).toInt,
      distinctOfTask = row.getLong(3),
      sketch)
  }

  /** Counts the keys of each map task, and then the keys of all tasks. */
  private def keyCounts(
      relation: LogicalRelation, columns: Seq[Attribute], state: SessionState): LogicalPlan = {
    def parsed(expressions: String*): Seq[Expression] =
      expressions.map(state.sqlParser.parseExpression)
    Project(Seq(Alias(GroupingKeys.hash(columns), "hash")()), relation)
      .groupBy(parsed("spark_partition_id()"): _*)(parsed(
        s"space_saving_agg(hash, $CountersOfPass) AS sketch",
        s"hll_sketch_agg(hash, $LogRegisters) AS keys"): _*)
      .groupBy()(parsed(
        "space_saving_merge(sketch) AS sketch",
        "hll_sketch_estimate(hll_union_agg(keys))",
        "count(1)",
        "CAST(avg(hll_sketch_estimate(keys)) AS BIGINT)"): _*)
  }
}

private object AnalyzeKeysExec {
  val CountersOfPass = 4096

  /** The shares of all other keys are estimated from these, and a catalog should not store much. */
  val CountersKept = 512

  /** 2^12 registers. The estimated number of keys is off by about 2 %. */
  val LogRegisters = 12
}
