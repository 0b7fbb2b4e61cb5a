package org.apache.spark.sql.saltwise

package object report {

  /** Spark 3.5 has Java EE's servlets, Spark 4 has Jakarta EE's. */
  type Request = javax.servlet.http.HttpServletRequest
}
