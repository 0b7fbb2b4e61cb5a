package org.apache.spark.sql.saltwise.state

import java.lang.ProcessBuilder.Redirect
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import org.apache.spark.api.python.{Py4JServer, PythonUtils}
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseConf

/**
 * The Python process that plans the moves of state partitions if the confs ask for them. It runs
 * beside the driver, and calls [[StateStreams]] like PySpark calls a driver that it did not start.
 */
object StateProcess {
  private val started = new AtomicBoolean

  /** Starts the process for the first stream that is planned while the confs ask for it. */
  def ensure(session: SparkSession, conf: SQLConf): Unit =
    conf.getConf(SaltwiseConf.StatePlanner).foreach { planner =>
      if (!session.sparkContext.isStopped && started.compareAndSet(false, true)) {
        try start(session, Seq(
          planner,
          conf.getConf(SaltwiseConf.StateMaxMigration),
          conf.getConf(SaltwiseConf.StateEvery).toString)) catch {
          case NonFatal(e) => warn("it could not be started", e)
        }
      }
    }

  private def start(session: SparkSession, arguments: Seq[String]): Unit = {
    StateStreams.of(session)
    val server = new Py4JServer(session.sparkContext.conf)
    // Its threads are daemons, like the thread that starts it, so they do not keep the driver
    // alive.
    val starting = daemon("saltwise-state-gateway")(server.start())
    starting.join()
    val command = Seq(python(session), "-m", "saltwise.spark.moving_state.process") ++ arguments
    val builder = new ProcessBuilder(command: _*)
      .redirectOutput(Redirect.INHERIT).redirectError(Redirect.INHERIT)
    val environment = builder.environment
    environment.put("PYSPARK_GATEWAY_PORT", server.getListeningPort.toString)
    environment.put("PYSPARK_GATEWAY_SECRET", server.secret)
    environment.put("PYTHONPATH", PythonUtils.mergePythonPaths(
      PythonUtils.sparkPythonPath, environment.getOrDefault("PYTHONPATH", "")))
    val process = try builder.start() catch {
      case NonFatal(e) =>
        server.shutdown()
        throw e
    }
    // The process ends when its input ends. The driver holds the input open as long as it lives.
    daemon("saltwise-state-process") {
      val status = process.waitFor()
      if (status != 0) warn(s"it ended with exit status $status", null)
      server.shutdown()
    }
    def end(): Unit = {
      process.getOutputStream.close()
      started.set(false)
    }
    session.sparkContext.addSparkListener(new SparkListener {
      override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = end()
    })
    // The context may have stopped before the listener was added.
    if (session.sparkContext.isStopped) end()
  }

  private def daemon(name: String)(body: => Unit): Thread = {
    val thread = new Thread(() => body, name)
    thread.setDaemon(true)
    thread.start()
    thread
  }

  private def python(session: SparkSession): String = {
    val conf = session.sparkContext.conf
    conf.getOption("spark.pyspark.driver.python")
      .orElse(conf.getOption("spark.pyspark.python"))
      .orElse(sys.env.get("PYSPARK_DRIVER_PYTHON"))
      .orElse(sys.env.get("PYSPARK_PYTHON"))
      .getOrElse("python3")
  }

  private def warn(why: String, cause: Throwable): Unit =
    org.slf4j.LoggerFactory.getLogger(getClass).warn(
      s"State partitions are not moved, because no process plans the moves: $why.",
      cause)
}

/** Starts the process with the first stream. The plan stays as it is. */
final case class BalanceStates(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (plan.isStreaming) StateProcess.ensure(session, conf)
    plan
  }
}
