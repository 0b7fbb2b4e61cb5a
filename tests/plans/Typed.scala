package saltwise.test

import org.apache.spark.sql._
import org.apache.spark.sql.expressions.Aggregator
import org.apache.spark.sql.functions._

case class Event(k: String, v: Long)

case class TwoLongs(sum: Long, rows: Long)

/** Sums v, in a buffer that is a struct. */
object SumOfRows extends Aggregator[Row, TwoLongs, Long] {
  override def zero: TwoLongs = TwoLongs(0, 0)
  override def reduce(b: TwoLongs, row: Row): TwoLongs =
    TwoLongs(b.sum + row.getAs[Long]("v"), b.rows + 1)
  override def merge(a: TwoLongs, b: TwoLongs): TwoLongs = TwoLongs(a.sum + b.sum, a.rows + b.rows)
  override def finish(b: TwoLongs): Long = 1000 * b.sum + b.rows
  override def bufferEncoder: Encoder[TwoLongs] = Encoders.product
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/** The same of events. */
object SumOfEvents extends Aggregator[Event, TwoLongs, Long] {
  override def zero: TwoLongs = SumOfRows.zero
  override def reduce(b: TwoLongs, event: Event): TwoLongs =
    TwoLongs(b.sum + event.v, b.rows + 1)
  override def merge(a: TwoLongs, b: TwoLongs): TwoLongs = SumOfRows.merge(a, b)
  override def finish(b: TwoLongs): Long = SumOfRows.finish(b)
  override def bufferEncoder: Encoder[TwoLongs] = Encoders.product
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/** Sums v, in a buffer of one field. */
object Simple extends Aggregator[Event, Long, Long] {
  override def zero: Long = 0
  override def reduce(b: Long, event: Event): Long = b + event.v
  override def merge(a: Long, b: Long): Long = a + b
  override def finish(b: Long): Long = b
  override def bufferEncoder: Encoder[Long] = Encoders.scalaLong
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/** The values in order, in a buffer that Kryo writes. */
object Sorted extends Aggregator[Event, List[Long], String] {
  override def zero: List[Long] = Nil
  override def reduce(b: List[Long], event: Event): List[Long] = event.v :: b
  override def merge(a: List[Long], b: List[Long]): List[Long] = a ::: b
  override def finish(b: List[Long]): String = b.sorted.mkString(" ")
  override def bufferEncoder: Encoder[List[Long]] = Encoders.kryo[List[Long]]
  override def outputEncoder: Encoder[String] = Encoders.STRING
}

/** Queries over the table `events` (k string, v long), whose columns have types of the JVM. */
object Typed {
  private val queries: Seq[(String, SparkSession => DataFrame)] = Seq(
    "an aggregator of rows" -> (_.table("events").groupBy("k").agg(SumOfRows.toColumn.name("x"))),
    "an aggregator of rows beside a list" -> (_.table("events").groupBy("k")
      .agg(SumOfRows.toColumn.name("x"), sort_array(collect_list("v")))),
    "an aggregator of events" ->
      (events(_).groupByKey(_.k)(Encoders.STRING).agg(SumOfEvents.toColumn).toDF("k", "x")),
    "a buffer of one field" ->
      (events(_).groupByKey(_.k)(Encoders.STRING).agg(Simple.toColumn).toDF("k", "x")),
    "several aggregators" -> (events(_).groupByKey(_.k)(Encoders.STRING)
      .agg(Simple.toColumn, SumOfEvents.toColumn, Sorted.toColumn).toDF("k", "x", "y", "z")),
    "a buffer that Kryo writes" ->
      (events(_).groupByKey(_.k)(Encoders.STRING).agg(Sorted.toColumn).toDF("k", "x")),
    "reduceGroups" -> (events(_).groupByKey(_.k)(Encoders.STRING)
      .reduceGroups((a: Event, b: Event) => if (a.v >= b.v) a else b).toDF("k", "x")),
    "mapGroups" -> (events(_).groupByKey(_.k)(Encoders.STRING).mapGroups(
      (k: String, group: Iterator[Event]) => Event(k, group.map(_.v).sum))(Encoders.product).toDF),
    "count" -> (events(_).groupByKey(_.k)(Encoders.STRING).count().toDF("k", "n")))

  private def events(spark: SparkSession): Dataset[Event] =
    spark.table("events").as[Event](Encoders.product)

  /** A line for each query: its name, and its rows in order. */
  def answers(spark: SparkSession): String = queries.map { case (name, query) =>
    s"$name: ${query(spark).collect().map(_.toString).sorted.mkString(" ")}"
  }.mkString("\n")
}
