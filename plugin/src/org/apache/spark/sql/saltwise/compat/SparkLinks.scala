package org.apache.spark.sql.saltwise.compat

import java.lang.invoke.MethodType
import java.lang.reflect.{Executable, Method, Modifier}

import scala.collection.mutable
import scala.io.{Codec, Source}
import scala.util.Using

/**
 * What the plugin uses of Spark, on the driver and in tasks. The build reads it from the class
 * files. Where this Spark lacks some of it, a query would fail when it gets there.
 */
object SparkLinks {
  private val Resource = "/saltwise/links.txt"

  /** Names and types of methods and fields: those that can be called, and those without a body. */
  private case class Members(there: Set[String], open: Set[String])

  /** The first class, method, field or constructor that this Spark lacks; None if it has all. */
  lazy val missing: Option[String] = {
    val resource = Option(getClass.getResourceAsStream(Resource))
      .getOrElse(throw new NoSuchElementException(s"the plugin's jar has no $Resource"))
    val lines = Using.resource(Source.fromInputStream(resource)(Codec.UTF8))(_.getLines().toList)
    val known = mutable.Map.empty[Class[_], Members]
    lines.iterator.map(_.split('\t').toSeq)
      .flatMap(line => lacks(line.head, line(1), line.drop(2), known))
      .find(_ => true)
      .orElse(SparkCompat.lacking)
  }

  /**
   * @param kind "class" or "interface" of Spark, "either" where it does not matter, or "ours" for
   *             a class of the plugin, which must have all methods that Spark calls
   */
  private def lacks(
      kind: String, name: String, used: Seq[String],
      known: mutable.Map[Class[_], Members]): Option[String] =
    try {
      val owner = Class.forName(name, false, getClass.getClassLoader)
      lazy val members = membersOf(owner, known)
      if (kind == "ours") {
        val open = if (Modifier.isAbstract(owner.getModifiers)) Set.empty else members.open
        open.headOption.map(method => s"use for $name without $method")
      } else if (kind != "either" && owner.isInterface != (kind == "interface")) {
        Some(s"$kind $name")
      } else {
        used.find(each => !members.there(each) && !members.open(each))
          .map(member => s"$name.$member")
      }
    } catch {
      case _: ClassNotFoundException => Some(name)
      case e: LinkageError if kind == "ours" => Some(s"use for $name: $e")
      // It also has a method of a type that is not there, and cannot be looked into. Spark itself
      // lives with such classes, where a library is left out that few need.
      case _: LinkageError => None
    }

  /** All that a class has and inherits. */
  private def membersOf(owner: Class[_], known: mutable.Map[Class[_], Members]): Members =
    known.getOrElse(owner, {
      // What an interface does not declare, it has of Object. Object has no parent.
      val parent: Class[_] = if (owner.isInterface) classOf[Object] else owner.getSuperclass
      val above = (parent +: owner.getInterfaces.toSeq).filter(_ != null).map(membersOf(_, known))
      val mine = own(owner)
      val there = above.foldLeft(mine.there)(_ ++ _.there)
      val members = Members(there, above.foldLeft(mine.open)(_ ++ _.open) -- there)
      known(owner) = members
      members
    })

  private def own(owner: Class[_]): Members = {
    val (open, closed) =
      owner.getDeclaredMethods.toSeq.partition(method => Modifier.isAbstract(method.getModifiers))
    val constructors = owner.getDeclaredConstructors.map("<init>" + typeOf(_, Void.TYPE))
    val fields = owner.getDeclaredFields.map(f =>
      f.getName + MethodType.methodType(f.getType).toMethodDescriptorString.drop(2))
    def named(methods: Seq[Method]): Set[String] =
      methods.map(m => m.getName + typeOf(m, m.getReturnType)).toSet
    Members(named(closed) ++ constructors ++ fields, named(open))
  }

  private def typeOf(method: Executable, result: Class[_]): String =
    MethodType.methodType(result, method.getParameterTypes).toMethodDescriptorString
}
