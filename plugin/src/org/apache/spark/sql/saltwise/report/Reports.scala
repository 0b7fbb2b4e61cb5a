package org.apache.spark.sql.saltwise.report

import java.util.concurrent.{ConcurrentHashMap, TimeoutException}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd, SparkListenerEvent}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.plan.GuardedListener
import org.apache.spark.status.ElementTrackingStore

/** Begins to tell of the GROUP BYs of an application: in its event log, and in its UI. */
object Reports {
  private val ledgers = new ConcurrentHashMap[SparkContext, Ledger]

  private val MaxWaitMillis = 5000L

  /** What queries of this JVM's applications took, as JSON: a list. */
  def savings: String = ledgers.asScala.headOption.fold("[]") { case (context, ledger) =>
    waitForEvents(context)
    ledger.json
  }

  /** Waits until the listeners know of the queries that have ended, but not for ever. */
  private def waitForEvents(context: SparkContext): Unit =
    try context.listenerBus.waitUntilEmpty(MaxWaitMillis) catch {
      case _: TimeoutException =>
    }

  /** Tells an event to the UI and the event log of an application that is followed. */
  def tell(context: SparkContext, event: SparkListenerEvent): Unit =
    if (ledgers.containsKey(context)) context.listenerBus.post(event)

  /** Begins with an application. It is asked each time that a plan is made. */
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
      // On a queue of its own it keeps nobody waiting.
      val groupBys = new GroupByListener(context, ledger)
      context.listenerBus.addToQueue(new GuardedListener("GroupByListener", groupBys), "saltwise")
      val store = context.statusStore.store.asInstanceOf[ElementTrackingStore]
      context.listenerBus.addToStatusQueue(ReportListener.guarded(context.conf, store))
      context.ui.foreach(new SaltwiseTab(new ReportStore(store), _))
    }
  }
}
