package org.apache.spark.sql.saltwise

import java.util.{Collections, LinkedHashMap}
import java.util.Map.Entry

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SessionState

/** What is known of the keys of aggregates: from a sample, else from the statistics that Spark has, else nothing. */
object KnownKeys {
  private val MostSamples = 100

  /** By the text of the plan that was sampled: plans would hold on to sessions that have ended. */
  private val samples = Collections.synchronizedMap(
    new LinkedHashMap[String, Option[KeyStatistics]](16, 0.75f, true) {
      override def removeEldestEntry(eldest: Entry[String, Option[KeyStatistics]]): Boolean = size > MostSamples
    })

  def of(aggregate: Aggregate, state: SessionState, context: SparkContext): Option[KeyStatistics] = {
    val keys = aggregate.groupingExpressions
    KeySample.lineage(keys, aggregate.child).flatMap { lineage =>
      val text = textOf(lineage)
      if (!samples.containsKey(text)) samples.put(text, KeySample(lineage, state, context))
      samples.get(text)
    }.orElse(ofSpark(keys, aggregate.child, context))
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
      KeyStatistics(rows.toDouble, tasks, Array.empty, distinct.flatten.product.min(rows).toDouble, "Spark's statistics")
    }
  }
}
