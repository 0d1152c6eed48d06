package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.UnsafeExternalRowSorter;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.collection.unsafe.sort.*;

/**
 * Spark's Parquet files, each of one partition, and new ones where they are full. Spark itself tells partitions apart by columns that it
 * leaves out of the files, and copies every row for that. Tasks load the classes of this file, as those of Deletes.java.
 */
public class FrazilPartitionedParquet extends FrazilWrittenParquet {
  /** Of writes that have begun, by name: the expressions of partitions, bound to the rows. */
  public static final Map KEYS = new java.util.concurrent.ConcurrentHashMap();
  public OutputWriterFactory prepareWrite(org.apache.spark.sql.SparkSession s, Job job, scala.collection.immutable.Map options, StructType schema) {
    // as Object: the JVM would look for the class below before it is defined
    return (OutputWriterFactory) (Object) new FrazilPartitionFiles(super.prepareWrite(s, job, options, schema), (scala.collection.immutable.Seq) KEYS.get(options.apply("frazil.keys")),
      Long.parseLong((String) options.apply("frazil.rows")), Integer.parseInt((String) options.apply("frazil.open")));
  }
}

public class FrazilPartitionFiles extends OutputWriterFactory {
  final OutputWriterFactory files; final scala.collection.immutable.Seq keys; final long most; final int atOnce;
  public FrazilPartitionFiles(OutputWriterFactory files, scala.collection.immutable.Seq keys, long most, int atOnce) {
    this.files = files; this.keys = keys; this.most = most; this.atOnce = atOnce;
  }
  public String getFileExtension(TaskAttemptContext task) { return files.getFileExtension(task); }
  public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext task) {
    return (OutputWriter) (Object) new FrazilPartitionWriter(this, path, schema, task);
  }
}

/** The files of one task, the first at its path and the others beside it. Rows of more partitions than may be open at once wait, and are sorted. */
public class FrazilPartitionWriter extends OutputWriter {
  final FrazilPartitionFiles how; final String path; final StructType schema; final TaskAttemptContext task;
  final UnsafeProjection keyOf;
  final Map open = new HashMap();                           // files and how many rows they have, by key
  UnsafeRow key; OutputWriter file; long[] rows; int made, atOnce; UnsafeExternalRowSorter waiting; UnsafeProjection unsafe;
  public FrazilPartitionWriter(FrazilPartitionFiles how, String path, StructType schema, TaskAttemptContext task) {
    this.how = how; this.path = path; this.schema = schema; this.task = task; atOnce = how.atOnce;
    keyOf = UnsafeProjection$.MODULE$.create(how.keys);
  }
  public String path() { return path; }
  public void write(InternalRow row) {
    UnsafeRow found = keyOf.apply(row);
    if (key == null || !found.equals(key)) {
      Object[] known = (Object[]) open.get(found);
      if (known == null && open.size() == atOnce) {
        if (atOnce > 1) { later(row); return; }
        closeAll(); }
      key = known == null ? found.copy() : (UnsafeRow) known[2];
      if (known == null) fill();
      else { file = (OutputWriter) known[0]; rows = (long[]) known[1]; } }
    if (rows[0] == how.most) { file.close(); fill(); }
    file.write(row);
    rows[0]++;
  }
  void fill() {
    int slash = path.lastIndexOf('/') + 1;
    String place = made == 0 ? path : path.substring(0, slash) + made + "-" + path.substring(slash);
    made++;
    file = how.files.newInstance(place, schema, task); rows = new long[1];
    open.put(key, new Object[] {file, rows, key});
  }
  void later(InternalRow row) {
    try {
      if (waiting == null) waiting = UnsafeExternalRowSorter.createWithRecordComparator(schema, (java.util.function.Supplier) (Object) new FrazilSame(), PrefixComparators.LONG,
        (UnsafeExternalRowSorter.PrefixComputer) (Object) new FrazilKeyHash(keyOf), org.apache.spark.TaskContext.get().taskMemoryManager().pageSizeBytes(), true);
      if (unsafe == null) unsafe = UnsafeProjection$.MODULE$.create(schema);
      waiting.insertRow(row instanceof UnsafeRow ? (UnsafeRow) row : unsafe.apply(row));
    } catch (java.io.IOException error) { throw new java.io.UncheckedIOException(error); }
  }
  void closeAll() {
    Iterator all = open.values().iterator();
    while (all.hasNext()) ((OutputWriter) ((Object[]) all.next())[0]).close();
    open.clear(); key = null;
  }
  public void close() {
    try {
      scala.collection.Iterator rest = waiting == null ? null : waiting.sort();
      closeAll();
      atOnce = 1;
      while (rest != null && rest.hasNext()) write((InternalRow) rest.next());
      closeAll();
    } catch (java.io.IOException error) { throw new java.io.UncheckedIOException(error);
    } finally { if (waiting != null) waiting.cleanupResources(); }
  }
}

/** Sorts rows so that those of a key are together, whatever the order of keys: by a hash, equal ones of several keys being so rare that files may be small for it. */
public class FrazilKeyHash extends UnsafeExternalRowSorter.PrefixComputer {
  final UnsafeProjection keyOf; final UnsafeExternalRowSorter.PrefixComputer.Prefix hash = new UnsafeExternalRowSorter.PrefixComputer.Prefix();
  public FrazilKeyHash(UnsafeProjection keyOf) { this.keyOf = keyOf; }
  public UnsafeExternalRowSorter.PrefixComputer.Prefix computePrefix(InternalRow row) {
    UnsafeRow key = keyOf.apply(row);
    hash.value = XXH64.hashUnsafeBytes(key.getBaseObject(), key.getBaseOffset(), key.getSizeInBytes(), 42L);
    return hash;
  }
}

public class FrazilSame extends RecordComparator implements java.util.function.Supplier {
  public Object get() { return this; }
  public int compare(Object a, long at, int length, Object b, long bAt, int bLength) { return 0; }
}
