package org.apache.spark.sql.saltwise.compat

import java.lang.invoke.MethodType
import java.lang.reflect.{Executable, Method, Modifier}

import scala.collection.mutable
import scala.io.{Codec, Source}
import scala.util.Using

/**
 * The classes, methods and fields of Spark that the plugin uses, on the driver and in tasks. The
 * build reads them from the class files. If this Spark lacks one of them, a query that needs it
 * would fail.
 */
object SparkLinks {
  private val Resource = "/saltwise/links.txt"

  /**
   * The names and types of the methods and fields of a class.
   *
   * @param usable     those that can be called
   * @param unfinished methods without a body
   */
  private case class Members(usable: Set[String], unfinished: Set[String])

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
        val unfinished =
          if (Modifier.isAbstract(owner.getModifiers)) Set.empty else members.unfinished
        unfinished.headOption.map(method => s"use for $name without $method")
      } else if (kind != "either" && owner.isInterface != (kind == "interface")) {
        Some(s"$kind $name")
      } else {
        used.find(member => !members.usable(member) && !members.unfinished(member))
          .map(member => s"$name.$member")
      }
    } catch {
      case _: ClassNotFoundException => Some(name)
      case e: LinkageError if kind == "ours" => Some(s"use for $name: $e")
      // The class has a method with a type that is missing here, so its members cannot be listed.
      // Spark itself has such classes, where a library that few need is left out.
      case _: LinkageError => None
    }

  /** The members that a class has or inherits. */
  private def membersOf(owner: Class[_], known: mutable.Map[Class[_], Members]): Members =
    known.getOrElse(owner, {
      // An interface also has the methods of Object. Object has no parent.
      val parent: Class[_] = if (owner.isInterface) classOf[Object] else owner.getSuperclass
      val above = (parent +: owner.getInterfaces.toSeq).filter(_ != null).map(membersOf(_, known))
      val declared = membersIn(owner)
      val usable = above.foldLeft(declared.usable)(_ ++ _.usable)
      val unfinished = above.foldLeft(declared.unfinished)(_ ++ _.unfinished) -- usable
      val members = Members(usable, unfinished)
      known(owner) = members
      members
    })

  private def membersIn(owner: Class[_]): Members = {
    val (unfinished, finished) =
      owner.getDeclaredMethods.toSeq.partition(method => Modifier.isAbstract(method.getModifiers))
    val constructors = owner.getDeclaredConstructors.map("<init>" + typeOf(_, Void.TYPE))
    val fields = owner.getDeclaredFields.map(f =>
      f.getName + MethodType.methodType(f.getType).toMethodDescriptorString.drop(2))
    def named(methods: Seq[Method]): Set[String] =
      methods.map(m => m.getName + typeOf(m, m.getReturnType)).toSet
    Members(named(finished) ++ constructors ++ fields, named(unfinished))
  }

  private def typeOf(method: Executable, result: Class[_]): String =
    MethodType.methodType(result, method.getParameterTypes).toMethodDescriptorString
}
