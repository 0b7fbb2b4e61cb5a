package org.apache.spark.sql.saltwise.report

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.sql.saltwise.compat.SparkLinks
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI

/** Lets the History Server show events of Saltwise. It finds this class by META-INF/services. */
final class ReportHistory extends AppHistoryServerPlugin {

  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    if (SparkLinks.missing.isEmpty) Seq(ReportListener.guarded(conf, store)) else Nil

  override def setupUI(ui: SparkUI): Unit = {
    lazy val store = new ReportStore(ui.store.store)
    if (SparkLinks.missing.isEmpty && !store.isEmpty) new SaltwiseTab(store, ui)
  }
}
