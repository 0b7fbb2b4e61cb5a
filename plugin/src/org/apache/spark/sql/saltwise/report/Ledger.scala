package org.apache.spark.sql.saltwise.report

import java.util.{LinkedHashMap, Map => JavaMap}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.saltwise.report.Ledger._

/**
 * The time and bytes of queries, with a rewritten GROUP BY and without one, by the fingerprint of
 * the query. It keeps the queries that ran last, and the last runs of each.
 */
private[report] final class Ledger {
  private val queries = new LinkedHashMap[Int, Query](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[Int, Query]): Boolean = size > MaxQueries
  }

  def add(fingerprint: Int, description: String, rewritten: Boolean, run: Run): Unit =
    synchronized {
      val query = Option(queries.get(fingerprint)).getOrElse(Query(description, Nil, Nil))
      queries.put(fingerprint,
        if (rewritten) query.copy(on = (run +: query.on).take(MaxRuns))
        else query.copy(off = (run +: query.off).take(MaxRuns)))
    }

  /** All queries as a JSON list. */
  def json: String = synchronized {
    val mapper = new ObjectMapper
    val list = mapper.createArrayNode()
    queries.entrySet.asScala.foreach { entry =>
      val (query, node) = (entry.getValue, list.addObject())
      node.put("fingerprint", f"${entry.getKey}%08x").put("description", query.description)
      for ((name, runs) <- Seq("on" -> query.on, "off" -> query.off)) {
        val array = node.putArray(name)
        runs.foreach { run =>
          array.addObject().put("millis", run.millis).put("bytes", run.bytes)
        }
      }
    }
    mapper.writeValueAsString(list)
  }
}

private[report] object Ledger {
  private val MaxQueries = 1000
  private val MaxRuns = 100

  /** @param bytes the bytes that its tasks wrote to shuffles */
  final case class Run(millis: Long, bytes: Long)

  private final case class Query(description: String, on: Seq[Run], off: Seq[Run])
}
