package org.apache.spark.sql.saltwise.auto

import java.util.{Collections, LinkedHashMap}
import java.util.Map.Entry

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SessionState
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, SkewGroupByHint}

/**
 * What is known of the keys of an aggregate: the statistics of saltwise_analyze, else a sample,
 * else Spark's own statistics.
 */
object KnownKeys {
  private val MaxCached = 100

  /** @param unused why stored statistics are not used */
  private final case class Known(keys: Option[KeyStatistics], unused: Option[String])

  /** By the text of the lineage. Plans as keys would keep sessions alive that have ended. */
  private val cache = Collections.synchronizedMap(
    new LinkedHashMap[String, Known](16, 0.75f, true) {
      override def removeEldestEntry(eldest: Entry[String, Known]): Boolean = size > MaxCached
    })

  /** @return the statistics; where there are none, a remark why, which may be empty */
  def of(
      aggregate: Aggregate,
      state: SessionState,
      context: SparkContext): Either[String, KeyStatistics] = {
    val keys = GroupingKeys.of(aggregate)
    val known = KeySample.lineage(keys, aggregate.child).map { lineage =>
      val text = textOf(lineage)
      Option(cache.get(text)).getOrElse {
        val found = storedOrSampled(keys, aggregate.child, lineage, state, context)
        cache.put(text, found)
        found
      }
    }.getOrElse(Known(None, None))
    val remark = known.unused.map(why => s" ($why)").getOrElse("")
    known.keys.orElse(fromSpark(keys, aggregate.child, context))
      .map(keys => keys.copy(source = keys.source + remark)).toRight(remark)
  }

  /** Call this after statistics were stored, so that the next query reads them. */
  def forget(): Unit = cache.clear()

  private def storedOrSampled(
      keys: Seq[Expression],
      child: LogicalPlan,
      lineage: LogicalPlan,
      state: SessionState,
      context: SparkContext): Known =
    stored(keys, child, lineage, state) match {
      case Some(Right(statistics)) => Known(Some(statistics), None)
      case other => Known(KeySample(lineage, state, context), other.flatMap(_.left.toOption))
    }

  /** The statistics that saltwise_analyze stored for the keys, or why they are not used. */
  private def stored(
      keys: Seq[Expression],
      child: LogicalPlan,
      lineage: LogicalPlan,
      state: SessionState): Option[Either[String, KeyStatistics]] =
    scanned(keys, child).flatMap { case (relation, attributes) =>
      val columns = attributes.distinct.sortBy(_.name)
      try {
        for {
          store <- KeyStatisticsStore.of(relation, columns.map(_.name), state)
          analyzed <- store.read()
        } yield analyzed.now(
          columns.map(AnalyzedKeys.column),
          DataFiles.of(relation.relation.asInstanceOf[HadoopFsRelation]),
          state.executePlan(lineage).toRdd.getNumPartitions)
      } catch {
        case e: KeyStatisticsException => Some(Left(e.getMessage.stripSuffix(".")))
      }
    }

  /**
   * The columns of files that the keys are. None where an operator in between may change how often
   * each key occurs.
   */
  private def scanned(
      keys: Seq[Expression], plan: LogicalPlan): Option[(LogicalRelation, Seq[Attribute])] =
    plan match {
      case SkewGroupByHint(_, child) => scanned(keys, child)
      case Project(columns, child) =>
        val sources = AttributeMap(
          columns.collect { case alias: Alias => alias.toAttribute -> alias.child })
        val sourceKeys = keys.map {
          case key: Attribute => sources.getOrElse(key, key)
          case other => other
        }
        scanned(sourceKeys, child)
      case relation: LogicalRelation if relation.relation.isInstanceOf[HadoopFsRelation] =>
        val columns = keys.collect {
          case key: Attribute => relation.output.find(_.semanticEquals(key))
        }.flatten
        if (columns.length == keys.length) Some((relation, columns)) else None
      case _ => None
    }

  /** A plan, its files and their sizes. Where these change, the keys may change too. */
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

  /**
   * The statistics of ANALYZE TABLE ... FOR COLUMNS, which Spark reads where its cost-based
   * optimizer is on. They name no hot keys.
   */
  private def fromSpark(
      keys: Seq[Expression], child: LogicalPlan, context: SparkContext): Option[KeyStatistics] = {
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
