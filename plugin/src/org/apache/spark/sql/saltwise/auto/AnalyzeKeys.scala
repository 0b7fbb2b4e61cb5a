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
 * The table function saltwise_analyze(source, key...): finds how the rows of a table lie on its keys, and keeps that for
 * `auto`. It runs when the query runs, and EXPLAIN runs nothing.
 *
 * @param source a table, or the path of files in Spark's default format (of another one as json.`/path`)
 * @param keys   names of the key columns
 */
final case class AnalyzeKeys(source: String, keys: Seq[String], output: Seq[Attribute] = AnalyzeKeys.columns)
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

/** One pass over the key columns of a table, on behalf of the driver; its row says what was found, and where it is kept. */
final case class AnalyzeKeysExec(source: String, keys: Seq[String], output: Seq[Attribute]) extends LeafExecNode {
  import AnalyzeKeysExec._

  private lazy val found: UnsafeRow = {
    val state = session.sessionState
    val relation = relationOf(state)
    val columns = columnsOf(relation)
    val store = KeyStatisticsStore.of(relation, columns.map(_.name), state).getOrElse(throw new SaltwiseException(
      s"source is '$source', which stands for several paths; it must be one table, one folder or one file."))
    // What is there and cannot be read is not ours to overwrite.
    store.read()
    val analyzed = analyze(relation, columns, state)
    store.write(analyzed.toJson)
    KnownKeys.forget()
    val hottest = analyzed.sketch.top(1).headOption.map(analyzed.sketch.count(_).toDouble / analyzed.rows)
    UnsafeProjection.create(schema).apply(InternalRow(
      analyzed.rows, analyzed.distinct, hottest.orNull, UTF8String.fromString(store.toString))).copy()
  }

  override protected def doExecute(): RDD[InternalRow] = sparkContext.makeRDD(Seq[InternalRow](found), 1)

  private def relationOf(state: SessionState): LogicalRelation = {
    val name = if (source.contains("/") && !source.contains("`")) s"${conf.defaultDataSourceName}.`$source`" else source
    def read(plan: LogicalPlan): Option[LogicalRelation] = plan match {
      case SubqueryAlias(_, child) => read(child)
      case Project(_, child) => read(child) // pads columns of type CHAR
      case relation: LogicalRelation if relation.relation.isInstanceOf[HadoopFsRelation] => Some(relation)
      case _ => None
    }
    read(state.executePlan(state.sqlParser.parsePlan(s"TABLE $name")).analyzed).getOrElse(throw new SaltwiseException(
      s"source is '$source', which is a view, or no files that Spark lists; it must be a table of files, or a path."))
  }

  /** By name: whichever way a query names them, their rows lie the same. */
  private def columnsOf(relation: LogicalRelation): Seq[Attribute] = keys.map { key =>
    relation.output.find(column => conf.resolver(column.name, key)).getOrElse(
      throw SkewOptions.unknown("key", key, relation.output.map(_.name)))
  }.distinct.sortBy(_.name)

  private def analyze(relation: LogicalRelation, columns: Seq[Attribute], state: SessionState): AnalyzedKeys = {
    val files = DataFiles.of(relation.relation.asInstanceOf[HadoopFsRelation])
    def parsed(expressions: String*): Seq[Expression] = expressions.map(state.sqlParser.parseExpression)
    val hashes = Project(Seq(Alias(GroupingKeys.hash(columns), "hash")()), relation)
    // The keys of each map task, then those of all.
    val query = state.executePlan(hashes
      .groupBy(parsed("spark_partition_id()"): _*)(parsed(
        s"space_saving_agg(hash, $CountersOfPass) AS sketch", s"hll_sketch_agg(hash, $LogRegisters) AS keys"): _*)
      .groupBy()(parsed(
        "space_saving_merge(sketch) AS sketch", "hll_sketch_estimate(hll_union_agg(keys))", "count(1)",
        "CAST(avg(hll_sketch_estimate(keys)) AS BIGINT)"): _*))
    // This query is ours, and is not one to rewrite.
    val off = state.conf.clone()
    off.setConf(SaltwiseConf.Enabled, false)
    val row = SQLConf.withExistingConf(off)(
      SQLExecution.withNewExecutionId(query, Some(s"saltwise_analyze $source"))(query.executedPlan.executeCollect().head))
    val kept = new ItemSketch(LongType, CountersKept)
    if (!row.isNullAt(0)) kept.merge(ItemSketch.deserialize(row.getBinary(0)))
    AnalyzedKeys(columns.map(AnalyzedKeys.column), Instant.now().truncatedTo(ChronoUnit.SECONDS), files,
      math.min(row.getLong(1), kept.total), row.getLong(2).toInt, row.getLong(3), kept)
  }
}

private object AnalyzeKeysExec {
  val CountersOfPass = 4096

  /** The others go by the law that these follow, and a catalog is no place for much. */
  val CountersKept = 512

  /** 2^12 registers: the number of keys is right to 2 %. */
  val LogRegisters = 12
}
