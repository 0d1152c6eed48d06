package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Parquet files, a new one whenever the partition of the rows changes or a file is full. Spark itself tells partitions apart by
 * columns that it leaves out of the files, and copies every row for that. Tasks load the classes of this file, as those of Deletes.java.
 */
public class FrazilPartitionedParquet extends org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat {
  /** Of writes that have begun, by name: the expressions of partitions, bound to the rows. */
  public static final Map KEYS = new java.util.concurrent.ConcurrentHashMap();
  public OutputWriterFactory prepareWrite(org.apache.spark.sql.SparkSession s, Job job, scala.collection.immutable.Map options, StructType schema) {
    // as Object: the JVM would look for the class below before it is defined
    return (OutputWriterFactory) (Object) new FrazilPartitionFiles(super.prepareWrite(s, job, options, schema), (scala.collection.immutable.Seq) KEYS.get(options.apply("frazil.keys")),
      Long.parseLong((String) options.apply("frazil.rows")), Boolean.parseBoolean((String) options.apply("frazil.fanout")));
  }
}

public class FrazilPartitionFiles extends OutputWriterFactory {
  final OutputWriterFactory files; final scala.collection.immutable.Seq keys; final long most; final boolean fanout;
  public FrazilPartitionFiles(OutputWriterFactory files, scala.collection.immutable.Seq keys, long most, boolean fanout) {
    this.files = files; this.keys = keys; this.most = most; this.fanout = fanout;
  }
  public String getFileExtension(TaskAttemptContext task) { return files.getFileExtension(task); }
  public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext task) {
    return (OutputWriter) (Object) new FrazilPartitionWriter(this, path, schema, task);
  }
}

/** The files of one task, the first at its path and the others beside it; with fanout one for every partition at once. */
public class FrazilPartitionWriter extends OutputWriter {
  final FrazilPartitionFiles how; final String path; final StructType schema; final TaskAttemptContext task;
  final UnsafeProjection keyOf;
  final Map open = new HashMap();                           // files and how many rows they have, by key
  UnsafeRow key; OutputWriter file; long[] rows; int made;
  public FrazilPartitionWriter(FrazilPartitionFiles how, String path, StructType schema, TaskAttemptContext task) {
    this.how = how; this.path = path; this.schema = schema; this.task = task;
    keyOf = UnsafeProjection$.MODULE$.create(how.keys);
  }
  public String path() { return path; }
  public void write(InternalRow row) {
    UnsafeRow found = keyOf.apply(row);
    if (key == null || !found.equals(key)) turn(found);
    if (rows[0] == how.most) { file.close(); fill(); }
    file.write(row);
    rows[0]++;
  }
  void turn(UnsafeRow found) {
    if (key != null && !how.fanout) close();
    Object[] known = (Object[]) open.get(found);
    key = known == null ? found.copy() : (UnsafeRow) known[2];
    if (known == null) { fill(); return; }
    file = (OutputWriter) known[0]; rows = (long[]) known[1];
  }
  void fill() {
    int slash = path.lastIndexOf('/') + 1;
    String place = made == 0 ? path : path.substring(0, slash) + made + "-" + path.substring(slash);
    made++;
    file = how.files.newInstance(place, schema, task); rows = new long[1];
    open.put(key, new Object[] {file, rows, key});
  }
  public void close() {
    Iterator all = open.values().iterator();
    while (all.hasNext()) ((OutputWriter) ((Object[]) all.next())[0]).close();
    open.clear();
  }
}
