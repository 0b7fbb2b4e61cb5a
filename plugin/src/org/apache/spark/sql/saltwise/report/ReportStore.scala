package org.apache.spark.sql.saltwise.report

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.saltwise.GuardedListener
import org.apache.spark.status.{ElementTrackingStore, KVUtils}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.util.kvstore.{KVIndex, KVStore, KVStoreView}

/** A group as the UI stores it. The latest groups have the highest ids. */
private[report] final class StoredGroupBy(
    @KVIndexParam val id: Long,
    val event: GroupByEvent)

/** A batch of a stream. */
private[report] final class StoredBatch(
    @KVIndexParam val id: Long,
    val event: StreamBatchEvent)

/** The latest report of a balancer of state partitions, by the run of the query. */
private[report] final class StoredStates(
    @KVIndexParam val run: String,
    @KVIndexParam(StoredStates.Order) val order: Long,
    val event: StateBalanceEvent)

private[report] object StoredStates {
  /** The index by the order in which reports came. */
  final val Order = "order"
}

/** Stores the latest events for the UI, in a live application and in the History Server. */
private[report] final class ReportListener(conf: SparkConf, store: ElementTrackingStore)
  extends SparkListener {
  import ReportStore.inTime

  private var last = 0L

  // The number of SQL executions that Spark keeps. By name, because the entry's type differs by
  // line.
  private val maxEvents = conf.getInt("spark.sql.ui.retainedExecutions", 1000)

  Seq(classOf[StoredGroupBy], classOf[StoredBatch], classOf[StoredStates]).foreach { kind =>
    store.addTrigger(kind, maxEvents.toLong)(forget(kind, _))
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case damaged: ReportEvent if !damaged.isWhole =>
    case group: GroupByEvent => write(new StoredGroupBy(next(), group))
    case batch: StreamBatchEvent => write(new StoredBatch(next(), batch))
    case states: StateBalanceEvent => write(new StoredStates(states.run, next(), states))
    case _ =>
  }

  private def write(stored: Any): Unit = store.write(stored, checkTriggers = true)

  private def next(): Long = {
    last += 1
    last
  }

  private def forget[A](kind: Class[A], count: Long): Unit =
    if (count > maxEvents) {
      val old = KVUtils.viewToSeq(inTime(store, kind), (count - maxEvents).toInt)(_ => true)
      old.foreach {
        case group: StoredGroupBy => store.delete(classOf[StoredGroupBy], group.id)
        case batch: StoredBatch => store.delete(classOf[StoredBatch], batch.id)
        case states: StoredStates => store.delete(classOf[StoredStates], states.run)
      }
    }
}

private[report] object ReportListener {
  def guarded(conf: SparkConf, store: ElementTrackingStore): SparkListener =
    new GuardedListener("ReportListener", new ReportListener(conf, store))
}

/** The events that the UI shows. */
private[report] final class ReportStore(store: KVStore) {
  import ReportStore.inTime

  def isEmpty: Boolean = Seq(classOf[StoredGroupBy], classOf[StoredBatch], classOf[StoredStates])
    .forall(store.count(_) == 0)

  /** The latest first. */
  def groupBys: Seq[StoredGroupBy] = latestFirst(classOf[StoredGroupBy])

  def groupBy(id: Long): Option[StoredGroupBy] =
    try Some(store.read(classOf[StoredGroupBy], id)) catch {
      case _: NoSuchElementException => None
    }

  def batches: Seq[StreamBatchEvent] = latestFirst(classOf[StoredBatch]).map(_.event)

  def states: Seq[StateBalanceEvent] = latestFirst(classOf[StoredStates]).map(_.event)

  private def latestFirst[A](kind: Class[A]): Seq[A] =
    KVUtils.viewToSeq(inTime(store, kind).reverse())
}

private object ReportStore {
  def inTime[A](store: KVStore, kind: Class[A]): KVStoreView[A] = store.view(kind).index(
    if (kind == classOf[StoredStates]) StoredStates.Order else KVIndex.NATURAL_INDEX_NAME)
}
