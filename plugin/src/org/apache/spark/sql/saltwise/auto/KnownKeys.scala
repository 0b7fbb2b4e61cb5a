package org.apache.spark.sql.saltwise.auto

import java.util.{Collections, LinkedHashMap}
import java.util.Map.Entry

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SessionState
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, SkewGroupByHint}

/** What is known of the keys of aggregates: from saltwise_analyze, else a sample, else the statistics that Spark has. */
object KnownKeys {
  private val MostFound = 100

  /** @param unused why statistics that are stored are not used */
  private final case class Found(keys: Option[KeyStatistics], unused: Option[String])

  /** By the text of the plan that leads to the keys: plans would hold on to sessions that have ended. */
  private val found = Collections.synchronizedMap(
    new LinkedHashMap[String, Found](16, 0.75f, true) {
      override def removeEldestEntry(eldest: Entry[String, Found]): Boolean = size > MostFound
    })

  /** @return what is known; or, where that is nothing, a remark why, which may be empty */
  def of(aggregate: Aggregate, state: SessionState, context: SparkContext): Either[String, KeyStatistics] = {
    val keys = GroupingKeys.of(aggregate)
    val known = KeySample.lineage(keys, aggregate.child).map { lineage =>
      val text = textOf(lineage)
      Option(found.get(text)).getOrElse {
        val now = look(keys, aggregate.child, lineage, state, context)
        found.put(text, now)
        now
      }
    }.getOrElse(Found(None, None))
    val remark = known.unused.map(why => s" ($why)").getOrElse("")
    known.keys.orElse(ofSpark(keys, aggregate.child, context))
      .map(keys => keys.copy(source = keys.source + remark)).toRight(remark)
  }

  /** Other statistics may be stored now. */
  def forget(): Unit = found.clear()

  private def look(
      keys: Seq[Expression],
      child: LogicalPlan,
      lineage: LogicalPlan,
      state: SessionState,
      context: SparkContext): Found =
    stored(keys, child, lineage, state) match {
      case Some(Right(statistics)) => Found(Some(statistics), None)
      case other => Found(KeySample(lineage, state, context), other.flatMap(_.left.toOption))
    }

  /** What saltwise_analyze has stored of the keys, or why that is not used. */
  private def stored(
      keys: Seq[Expression],
      child: LogicalPlan,
      lineage: LogicalPlan,
      state: SessionState): Option[Either[String, KeyStatistics]] =
    scanned(keys, child).flatMap { case (relation, attributes) =>
      val columns = attributes.distinct.sortBy(_.name)
      try {
        KeyStatisticsStore.of(relation, columns.map(_.name), state).flatMap(_.read()).map(_.now(
          columns.map(AnalyzedKeys.column),
          DataFiles.of(relation.relation.asInstanceOf[HadoopFsRelation]),
          state.executePlan(lineage).toRdd.getNumPartitions))
      } catch {
        case e: KeyStatisticsException => Some(Left(e.getMessage.stripSuffix(".")))
      }
    }

  /** The columns of files that keys are, where nothing in between changes how often each of them occurs. */
  private def scanned(keys: Seq[Expression], plan: LogicalPlan): Option[(LogicalRelation, Seq[Attribute])] = plan match {
    case SkewGroupByHint(_, child) => scanned(keys, child)
    case Project(columns, child) =>
      val made = AttributeMap(columns.collect { case alias: Alias => alias.toAttribute -> alias.child })
      scanned(keys.map { case key: Attribute => made.getOrElse(key, key); case other => other }, child)
    case relation: LogicalRelation if relation.relation.isInstanceOf[HadoopFsRelation] =>
      val columns = keys.collect { case key: Attribute => relation.output.find(_.semanticEquals(key)) }.flatten
      if (columns.length == keys.length) Some((relation, columns)) else None
    case _ => None
  }

  /** A plan, the files that it reads, and their size: where that has changed, the keys may have, too. */
  private def textOf(plan: LogicalPlan): String = {
    val files = plan.collectLeaves().map {
      case leaf: LogicalRelation => leaf.relation match {
        case relation: HadoopFsRelation => relation.location.rootPaths.mkString(",")
        case other => other.toString
      }
      case leaf => leaf.nodeName
    }
    s"${plan.canonicalized} $files ${plan.collectLeaves().map(_.stats.sizeInBytes)}"
  }

  /** From ANALYZE TABLE ... FOR COLUMNS, where the cost-based optimizer is on: no key is known to be hot. */
  private def ofSpark(keys: Seq[Expression], child: LogicalPlan, context: SparkContext): Option[KeyStatistics] = {
    val distinct = keys.map {
      case key: Attribute => child.stats.attributeStats.get(key).flatMap(_.distinctCount)
      case _ => None
    }
    for (rows <- child.stats.rowCount if rows > 0 && distinct.forall(_.isDefined)) yield {
      val tasks = math.max(1, context.defaultParallelism)
      val keys = distinct.flatten.product.min(rows).toDouble
      KeyStatistics(rows.toDouble, tasks, KeyStatistics.equal(keys, 1), "Spark's statistics")
    }
  }
}
