package org.apache.spark.sql.saltwise.report

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

/** Reads the part that the UI shows of the JSON report of a balancer of state partitions. */
private[report] object StateLoads {
  private val mapper = new ObjectMapper

  def of(run: String, json: String): StateBalanceEvent = {
    val report = mapper.readTree(json)
    val loads = report.get("executors").properties.asScala.toSeq
    StateBalanceEvent(
      run,
      report.get("batch").asLong,
      loads.map(_.getKey).toArray,
      loads.map(load => (1000 * load.getValue.asDouble).toLong).toArray,
      report.get("moved").asLong)
  }
}
