package org.apache.spark.sql.saltwise.compat

import java.lang.invoke.MethodType
import java.lang.reflect.Executable

import scala.collection.mutable
import scala.io.{Codec, Source}
import scala.util.Using

/**
 * What the plugin uses of Spark, on the driver and in tasks. The build reads it from the class
 * files. Where this Spark lacks some of it, a query would fail when it gets there.
 */
object SparkLinks {
  private val Resource = "/saltwise/links.txt"
  private type Members = Set[String]

  /** The first class, method or field that this Spark lacks; None if it has all. */
  lazy val missing: Option[String] = {
    val known = mutable.Map.empty[Class[_], Members]
    val lines = Option(getClass.getResourceAsStream(Resource)).toSeq.flatMap { stream =>
      Using.resource(Source.fromInputStream(stream)(Codec.UTF8))(_.getLines().toList)
    }
    lines.iterator.flatMap(line => lacks(line.split('\t').toList, known)).find(_ => true)
  }

  private def lacks(used: List[String], known: mutable.Map[Class[_], Members]): Option[String] =
    try {
      val has = members(Class.forName(used.head, false, getClass.getClassLoader), known)
      used.tail.find(!has.contains(_)).map(member => s"${used.head}.$member")
    } catch {
      case _: ClassNotFoundException => Some(used.head)
      // It also has a method of a type that is not there, and cannot be looked into. Spark itself
      // lives with such classes, where a library is left out that few need.
      case _: LinkageError => None
    }

  /** The names and types of all that a class has and inherits. */
  private def members(owner: Class[_], known: mutable.Map[Class[_], Members]): Members =
    known.getOrElseUpdate(owner, {
      // What an interface does not declare, it has of Object. Object has no parent.
      val parent: Class[_] = if (owner.isInterface) classOf[Object] else owner.getSuperclass
      val above = (parent +: owner.getInterfaces.toSeq).filter(_ != null)
      above.foldLeft(own(owner))((all, each) => all ++ members(each, known))
    })

  private def own(owner: Class[_]): Members = {
    val methods = owner.getDeclaredMethods.map(m => m.getName + typeOf(m, m.getReturnType))
    val constructors = owner.getDeclaredConstructors.map("<init>" + typeOf(_, Void.TYPE))
    val fields = owner.getDeclaredFields.map(f =>
      f.getName + MethodType.methodType(f.getType).toMethodDescriptorString.drop(2))
    (methods ++ constructors ++ fields).toSet
  }

  private def typeOf(method: Executable, result: Class[_]): String =
    MethodType.methodType(result, method.getParameterTypes).toMethodDescriptorString
}
