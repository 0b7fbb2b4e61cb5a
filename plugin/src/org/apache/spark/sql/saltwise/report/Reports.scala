package org.apache.spark.sql.saltwise.report

import java.util.concurrent.{ConcurrentHashMap, TimeoutException}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.saltwise.{GuardedListener, SaltwiseConf}
import org.apache.spark.status.ElementTrackingStore

/**
 * The reports of an application: what each GROUP BY did, in its event log and in its UI. The other
 * folders know of `report/` only by this object.
 */
object Reports {
  private val ledgers = new ConcurrentHashMap[SparkContext, Ledger]

  private val MaxWaitMillis = 5000L

  /** The time and the bytes that queries of this JVM's application took, as a JSON list. */
  def savings: String = ledgers.asScala.headOption.fold("[]") { case (context, ledger) =>
    waitForEvents(context)
    ledger.json
  }

  /** Waits, up to a limit, until the listeners know of the queries that have ended. */
  private def waitForEvents(context: SparkContext): Unit =
    try context.listenerBus.waitUntilEmpty(MaxWaitMillis) catch {
      case _: TimeoutException =>
    }

  /**
   * Shows what a balancer of state partitions reports, in the UI and the event log of an
   * application that is followed.
   *
   * @param run  the run of the streaming query
   * @param json the balancer's report
   */
  def balanced(context: SparkContext, run: String, json: String): Unit =
    if (ledgers.containsKey(context)) context.listenerBus.post(StateLoads.of(run, json))

  /** Follows the application of a session from now on. Another call changes nothing. */
  def follow(session: SparkSession): Unit = {
    val context = session.sparkContext
    if (!ledgers.containsKey(context) && !context.isStopped &&
        context.conf.getBoolean(SaltwiseConf.Ui.key, defaultValue = true)) follow(context)
  }

  private def follow(context: SparkContext): Unit = {
    val ledger = new Ledger
    if (ledgers.putIfAbsent(context, ledger) == null) {
      context.addSparkListener(new SparkListener {
        override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit =
          ledgers.remove(context)
      })
      // It has a queue of its own, so other listeners do not wait for it.
      val groupBys = new GroupByListener(context, ledger)
      context.listenerBus.addToQueue(new GuardedListener("GroupByListener", groupBys), "saltwise")
      val store = context.statusStore.store.asInstanceOf[ElementTrackingStore]
      context.listenerBus.addToStatusQueue(ReportListener.guarded(context.conf, store))
      context.ui.foreach(new SaltwiseTab(new ReportStore(store), _))
    }
  }
}
