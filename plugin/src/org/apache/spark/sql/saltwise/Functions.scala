package org.apache.spark.sql.saltwise

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.report.Reports
import org.apache.spark.sql.saltwise.routing.SkewWorker
import org.apache.spark.sql.saltwise.sketch._
import org.apache.spark.sql.saltwise.state.StateStreams
import org.apache.spark.sql.types.StringType

/** The SQL functions. The manifest, sql/functions.json, has the texts of DESCRIBE FUNCTION. */
object Functions {
  private type Builder = Seq[Expression] => Expression
  private final case class Function(expression: Class[_], arity: Range, build: Builder)

  private val DefaultK = Literal(10)
  private def defaultCapacity =
    Literal(SkewOptions.resolve(Map.empty, SQLConf.get).parameters.capacity)

  private val functions: Map[String, Function] = Map(
    "heavy_hitters" -> Function(classOf[HeavyHitters], 1 to 3, arguments =>
      HeavyHitters(
        arguments.head,
        arguments.lift(1).getOrElse(DefaultK),
        arguments.lift(2).getOrElse(defaultCapacity))),
    "space_saving_agg" -> Function(classOf[SpaceSavingAgg], 1 to 3, arguments =>
      SpaceSavingAgg(
        arguments.head,
        arguments.lift(1).getOrElse(defaultCapacity),
        arguments.lift(2).getOrElse(SpaceSavingAgg.OneRow))),
    "space_saving_merge" -> Function(classOf[SpaceSavingMerge], 1 to 1, arguments =>
      SpaceSavingMerge(arguments.head)),
    "space_saving_top" -> Function(classOf[SpaceSavingTop], 1 to 3, arguments =>
      SpaceSavingTop(
        arguments.head,
        arguments.lift(1).getOrElse(DefaultK),
        arguments.lift(2).getOrElse(Literal(null, StringType)))),
    "space_saving_estimate" -> Function(classOf[SpaceSavingEstimate], 2 to 2, arguments =>
      SpaceSavingEstimate(arguments(0), arguments(1))),
    "skew_worker" -> Function(classOf[SkewWorker], 3 to Int.MaxValue - 1, skewWorker),
    "state_report" -> Function(classOf[Literal], 1 to 1, arguments => Literal.create(
      StateStreams.report(constant("run", "state_report", arguments.head)), StringType)),
    "skew_savings" -> Function(classOf[Literal], 0 to 0, _ => Literal(Reports.savings)),
    "saltwise_version" -> Function(classOf[Literal], 0 to 0, _ => Literal(version)))

  /** The functions that the extension injects. */
  def all: Seq[(FunctionIdentifier, ExpressionInfo, Builder)] = manifest.map { entry =>
    val function = functions(nameOf(entry))
    val checked: Builder = arguments => {
      checkArity(entry, arguments, function.arity)
      function.build(arguments)
    }
    (identifier(entry), info(entry, function.expression), checked)
  }

  private def nameOf(entry: JsonNode): String = entry.get("name").asText

  private def identifier(entry: JsonNode) = FunctionIdentifier(nameOf(entry))

  private def checkArity(entry: JsonNode, arguments: Seq[Expression], arity: Range): Unit =
    if (!arity.contains(arguments.length)) {
      throw new SaltwiseException(s"${nameOf(entry)} got ${arguments.length} arguments; call it " +
        s"as ${entry.get("signature").asText}.")
    }

  private def constant(name: String, function: String, argument: Expression): String =
    if (argument.foldable) String.valueOf(argument.eval()) else throw new SaltwiseException(
      s"$name of $function is ${argument.sql}; it must be a constant.")

  private def info(entry: JsonNode, expression: Class[_]): ExpressionInfo = {
    val text = (field: String) => entry.get(field).asText
    val examples = entry.get("examples").elements.asScala
      .map(e => s"      > ${e.get("sql").asText}\n       ${e.get("result").asText}\n").mkString
    val usage = s"${text("signature")} - ${text("usage")}"
    new ExpressionInfo(expression.getName, null, text("name"), usage, "",
      s"\n    Examples:\n$examples  ", "", text("group"), text("since"), "", "scala_udf")
  }

  private def manifest: Seq[JsonNode] =
    new ObjectMapper().readTree(resource("functions.json")).elements.asScala.toList

  private lazy val version: String = resource("version.txt").trim

  private def resource(name: String): String = {
    val in = getClass.getResourceAsStream(s"/saltwise/$name")
    try scala.io.Source.fromInputStream(in, "UTF-8").mkString finally in.close()
  }

  private def skewWorker(arguments: Seq[Expression]): Expression = {
    val strategy = Strategies.checkedName(
      constant("strategy", "skew_worker", arguments(1)), Strategies.routing)
    val n = constant("n", "skew_worker", arguments(0))
    val keys = arguments.drop(2)
    keys.find(key => GroupingKeys.hasMaps(key.dataType)).foreach(key => throw new SaltwiseException(
      s"key ${key.sql} of skew_worker is of type ${key.dataType.sql}; it must hold no maps, give " +
        "map_entries of them, sorted."))
    val options =
      SkewOptions.resolve(Map("partitions" -> n, "strategy" -> strategy), SQLConf.get)
    // Its rows need an order (OrderRowsOfSkewWorkers), in the first query of an application too.
    InUse.begin()
    SkewWorker(GroupingKeys.hash(keys), options.copy(hot = None))
  }
}
