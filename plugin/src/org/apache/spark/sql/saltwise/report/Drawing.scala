package org.apache.spark.sql.saltwise.report

import java.util.Locale

import scala.xml.Node

/** Numbers and bars of the pages. The bars need neither a script nor a style sheet. */
private[report] object Drawing {

  def number(value: Long): String = String.format(Locale.US, "%,d", Long.box(value))

  def ratio(value: Double): String =
    if (value == 0) "" else String.format(Locale.US, "%.2f", Double.box(value))

  def countOf(count: Int, what: String): String =
    s"${number(count.toLong)} $what${if (count == 1) "" else "s"}"

  /**
   * The loads of workers as bars in one path, and a line at their mean.
   *
   * @param unit what a load counts
   * @param bars what has these loads
   */
  def bars(
      rows: Array[Long],
      width: Int,
      height: Int,
      unit: String,
      bars: String,
      mean: Double): Node =
    if (rows.isEmpty || rows.max == 0) <span></span> else {
      val step = width.toDouble / rows.length
      def at(value: Double): String = String.format(Locale.US, "%.1f", Double.box(value))
      val path = rows.indices.filter(rows(_) > 0).map { i =>
        val top = height - height.toDouble * rows(i) / rows.max
        s"M${at(i * step)} ${height}V${at(top)}h${at(math.max(0.5, step * 0.85))}V${height}z"
      }.mkString
      val line = at(height - height * mean / rows.max)
      <svg width={width.toString} viewBox={s"0 0 $width $height"} style="max-width: 100%" role="img"
           aria-label={s"$unit of $bars, at most ${number(rows.max)}"}>
        <path d={path} fill="#2a6f97"></path>
        <line x1="0" x2={width.toString} y1={line} y2={line} stroke="#c8553d"></line>
      </svg>
    }
}
