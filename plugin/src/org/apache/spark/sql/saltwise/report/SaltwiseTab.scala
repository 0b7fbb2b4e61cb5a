package org.apache.spark.sql.saltwise.report

import scala.util.Try
import scala.xml.{Node, NodeSeq}

import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.report.Drawing._
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

/** The tab "Saltwise" of Spark's UI. */
private[report] final class SaltwiseTab(val store: ReportStore, val parent: SparkUI)
  extends SparkUITab(parent, "saltwise") {

  override val name: String = "Saltwise"

  attachPage(new AllGroupsPage(this))
  attachPage(new OneGroupPage(this))
  parent.attachTab(this)

  def url(request: Request, path: String): String =
    UIUtils.prependBaseUri(request, basePath, path)

  def execution(request: Request, id: Long): Node =
    <a href={url(request, s"/SQL/execution/?id=$id")}>{id}</a>
}

/**
 * All groups, those with the most to gain first; then the batches of streams, and the states that
 * were moved.
 */
private[report] final class AllGroupsPage(tab: SaltwiseTab) extends WebUIPage("") {
  import AllGroupsPage._

  override def render(request: Request): Seq[Node] = {
    val content =
      <div>
        {groups(request, tab.store.groupBys)}
        {streams(tab.store.batches)}
        {states(tab.store.states)}
      </div>
    SparkCompat.page(request, "Saltwise", content, tab)
  }

  private def groups(request: Request, groups: Seq[StoredGroupBy]): NodeSeq = {
    val pages = math.max(1, (groups.length + OnPage - 1) / OnPage)
    val page = Option(request.getParameter("page")).flatMap(text => Try(text.toInt).toOption)
      .getOrElse(1).max(1).min(pages)
    // Where there is nothing to gain, the latest stay first.
    val shown = groups.sortBy(group => if (isSkewed(group.event)) -group.event.toGain else 0L)
      .slice((page - 1) * OnPage, page * OnPage)
    if (groups.isEmpty) <p>No group operator has run yet.</p> else
      <div>
        <p>{countOf(groups.length, "group operator")}: those with the most to gain first, then the
          latest. Each bar shows the rows of a worker, and the line shows the mean.</p>
        {pageLinks(request, page, pages)}
        {UIUtils.listingTable(Heads, row(request, _: StoredGroupBy), shown)}
      </div>
  }

  private def row(request: Request, stored: StoredGroupBy): Node = {
    val group = stored.event
    <tr>
      <td>{tab.execution(request, group.executionId)}</td>
      <td><a href={tab.url(request, s"/saltwise/group/?id=${stored.id}")}>{titleOf(group)}</a><br/>
        <small>{group.description}</small></td>
      <td><div style="min-width: 12rem">{verdict(group)}</div></td>
      <td><div style="min-width: 14rem">{ran(group)}</div></td>
      <td>{received(group)}</td>
      <td>{group.workers}</td>
      <td>{expected(group)}</td>
      <td>{ratio(group.maxToMean)}</td>
      <td>{bars(group.received, 160, 30, "rows", "workers", group.mean)}</td>
      <td>{duration(group)}</td>
    </tr>
  }

  private def pageLinks(request: Request, page: Int, pages: Int): NodeSeq =
    if (pages == 1) NodeSeq.Empty else
      <p>Page {page} of {pages}{(1 to pages).map { i =>
        <span> <a href={tab.url(request, s"/saltwise/?page=$i")}>{i}</a></span>
      }}</p>

  private def streams(batches: Seq[StreamBatchEvent]): NodeSeq =
    if (batches.isEmpty) NodeSeq.Empty else
      <div>
        <h4>Streams</h4>
        {UIUtils.listingTable(StreamHeads, batchRow, batches.take(OnPage))}
      </div>

  private def batchRow(batch: StreamBatchEvent): Node =
    <tr>
      <td>{if (batch.name.isEmpty) batch.run else batch.name}</td>
      <td>{batch.batch}</td>
      <td>{batch.strategy}, d = {batch.choices} of {batch.workers}</td>
      <td>{number(batch.rows)}</td>
      <td>{ratio(if (batch.rows == 0) 0 else batch.most.toDouble * batch.workers / batch.rows)}</td>
      <td>{batch.hotKeys.zip(batch.hotRows).map { case (key, rows) =>
        s"$key (${number(rows)})"
      }.mkString(", ")}</td>
    </tr>

  private def states(reports: Seq[StateBalanceEvent]): NodeSeq =
    if (reports.isEmpty) NodeSeq.Empty else
      <div>
        <h4>States of streams, by executor, the latest first</h4>
        {reports.take(OnPage).map { state =>
          <p>Run {state.run}, batch {state.batch}: max/mean {ratio(state.maxToMean)},
            {state.moved} partitions moved.</p>
          <p>{bars(state.millis, 320, 60, "milliseconds", "executors", state.mean)}</p>
          <p><small>{state.executors.zip(state.millis).map { case (id, millis) =>
            s"$id: $millis ms"
          }.mkString(", ")}</small></p>
        }}
      </div>
}

private[report] object AllGroupsPage {
  private val OnPage = 100
  private val Heads = Seq("SQL execution", "Group operator", "Verdict", "What ran", "Rows received",
    "Workers", "Max/mean expected by key", "Max/mean received", "Workers' rows", "Duration")
  private val StreamHeads =
    Seq("Stream", "Batch", "What ran", "Rows", "Max/mean received", "Hot keys")

  /** The plan that ran, and the reason for it. */
  def ran(group: GroupByEvent): String =
    if (group.strategy.nonEmpty) group.strategy + ways(group)
    else if (group.wouldRun.nonEmpty) s"Spark's own plan; with mode=on: ${group.wouldRun}"
    else if (group.reason.nonEmpty) s"Spark's own plan: ${group.reason}"
    else "Spark's own plan"

  def titleOf(group: GroupByEvent): String =
    group.operator +
      (if (group.keys.isEmpty) " over all rows" else group.keys.mkString(" by ", ", ", ""))

  /** Tasks that differ by less than so much are not worth a word. */
  private val Little = 500L

  def isSkewed(group: GroupByEvent): Boolean =
    group.toGain >= Little && group.toGain >= group.longest / 4

  /** Whether the tasks were even, and what there is to gain. */
  def verdict(group: GroupByEvent): String =
    if (group.tasks == 0 && group.failed) "cannot tell: it failed before a task ended"
    else if (group.tasks == 0) "it shares the tasks of what is below it"
    else if (isSkewed(group)) {
      s"skewed: one task has ${seconds(group.longest)} of ${seconds(group.work)}, about " +
        s"${seconds(group.toGain)} to gain"
    } else if (group.receivedStates) "even: Spark combines the rows of a key before"
    else if (group.longest < Little) s"short: its longest task took ${group.longest} ms"
    else if (group.toGain >= Little) s"nearly even, about ${seconds(group.toGain)} to gain"
    else "even"

  private def seconds(millis: Long): String = f"${millis / 1000.0}%.1f s"

  def received(group: GroupByEvent): String =
    if (group.receivedStates) s"${number(group.rows)} states of ${number(group.read)} rows"
    else number(if (group.workers == 0) math.max(0L, group.read) else group.rows)

  /** The fullest worker if rows went by key, as a multiple of the mean. */
  def expected(group: GroupByEvent): String =
    if (group.expected > 0) s"at least ${ratio(group.expected)}"
    else if (group.strategy.isEmpty) "keys are not counted"
    else "no key is hot"

  /** How long the query took, and whether it failed. */
  def duration(group: GroupByEvent): String =
    (if (group.failed) "failed after " else "") + UIUtils.formatDuration(group.millis)

  private def ways(group: GroupByEvent): String = {
    val ways = Seq("all keys" -> group.all, "hot keys" -> group.head, "no key" -> group.raw)
    val shares = ways.collect { case (keys, rows) if rows > 0 && group.read > 0 =>
      f"$keys combined in ${100.0 * rows / group.read}%.0f %% of the rows"
    }
    // What was received and is no state is a raw row.
    val combined = group.read - (group.rows - group.states)
    val gain =
      if (group.states <= 0) Nil
      else Seq(
        s"${number(math.round(combined.toDouble / group.states))} rows a state",
        f"${group.saved / 1048576.0}%.1f MB less to send")
    if (shares.isEmpty) "" else (shares ++ gain).mkString(": ", ", ", "")
  }
}

/** One group operator: its workers, its hot keys, its states. */
private[report] final class OneGroupPage(tab: SaltwiseTab) extends WebUIPage("group") {

  override def render(request: Request): Seq[Node] = {
    val group = Option(request.getParameter("id")).flatMap(text => Try(text.toLong).toOption)
      .flatMap(tab.store.groupBy)
    val content = group.map(stored => page(request, stored.event)).getOrElse(
      <p>The group is not stored any more: Spark keeps spark.sql.ui.retainedExecutions of them.</p>)
    SparkCompat.page(request, "Saltwise: a group operator", content, tab)
  }

  private def page(request: Request, group: GroupByEvent): NodeSeq = {
    val facts = Seq(
      "Operator" -> group.operator,
      "Keys" -> group.keys.mkString(", "),
      "Functions" -> group.functions.mkString(", "),
      "Verdict" -> AllGroupsPage.verdict(group),
      "What ran" -> AllGroupsPage.ran(group),
      "Rows that came in" -> (if (group.read < 0) "" else number(group.read)),
      "Rows and states that workers received" -> number(group.rows),
      "Fullest worker" -> s"${number(group.most)}, ${ratio(group.maxToMean)} times the mean",
      "Expected if each key had one worker" ->
        (AllGroupsPage.expected(group) + (if (group.expected > 0) " times the mean" else "")),
      "States sent" -> (if (group.states < 0) "" else number(group.states)),
      "Peak memory of states, all tasks together" ->
        (if (group.memory == 0) "" else f"${group.memory / 1048576.0}%.1f MB"),
      "Duration of the query" -> AllGroupsPage.duration(group),
      "Ended" -> UIUtils.formatDate(group.ended)).filter(_._2.nonEmpty)
    <div>
      <p>SQL execution {tab.execution(request, group.executionId)}: {group.description}</p>
      <table class={UIUtils.TABLE_CLASS_NOT_STRIPED} style="max-width: 60rem"><tbody>
        {facts.map { case (name, value) => <tr><th scope="row">{name}</th><td>{value}</td></tr> }}
      </tbody></table>
      <h4>Rows of the {group.workers} workers</h4>
      {bars(group.received, 900, 160, "rows", "workers", group.mean)}
      {hotKeys(group)}
    </div>
  }

  private def hotKeys(group: GroupByEvent): NodeSeq =
    if (group.hotKeys.isEmpty) NodeSeq.Empty else
      <div>
        <h4>Hot keys</h4>
        <p>Shown as hashes unless spark.saltwise.report.keys is true. Rows are estimates.</p>
        {UIUtils.listingTable(Seq("Key", "Rows", "Share"), keyRow(group), group.hotKeys.indices)}
      </div>

  private def keyRow(group: GroupByEvent)(i: Int): Node =
    <tr>
      <td>{group.hotKeys(i)}</td>
      <td>{number(group.hotRows(i))}</td>
      <td>{if (group.read <= 0) "" else f"${100.0 * group.hotRows(i) / group.read}%.1f %%"}</td>
    </tr>
}
