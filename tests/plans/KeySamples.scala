package org.apache.spark.sql.saltwise.local

import java.nio.{ByteBuffer, ByteOrder}

/** What a KeySample finds in a stream of hashes, for Python. */
object KeySamples {

  /** The share of rows that windows of each level combine, if `minRows` rows of a key do. */
  def combined(hashes: Array[Byte], minRows: Int): Array[Double] = {
    val sample = new KeySample
    sample.minRows = minRows
    val longs = ByteBuffer.wrap(hashes).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer()
    while (longs.hasRemaining) sample.see(longs.get())
    (0 until KeySample.Levels).flatMap(sample.of(_)).map(_.combined).toArray
  }
}
