package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.*;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSourceV1;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Where a stream is in a table, as JSON that Python wrote. */
public class FrazilOffset extends Offset {
  final String json;
  public FrazilOffset(String json) { this.json = json; }
  public String json() { return json; }
}

public class FrazilTableScan extends FrazilScan {
  final FrazilTable table; final CaseInsensitiveStringMap options;
  public FrazilTableScan(FrazilTable table, CaseInsensitiveStringMap options) { super(table.schema); this.table = table; this.options = options; }
  public MicroBatchStream toMicroBatchStream(String checkpoint) { return new FrazilStream(table, options, checkpoint); }
}

/** Rows appended to a table, in batches. Spark asks it for offsets; the rows of a batch are a plan that the optimizer rule puts in. */
public class FrazilStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  static final String MAX_FILES = "streaming-max-files-per-micro-batch", MAX_ROWS = "streaming-max-rows-per-micro-batch";
  final FrazilTable table; final CaseInsensitiveStringMap options; final String checkpoint;
  Offset initial; String until;
  public FrazilStream(FrazilTable table, CaseInsensitiveStringMap options, String checkpoint) {
    this.table = table; this.options = options; this.checkpoint = checkpoint;
  }
  Object ask(String op, Object[] more, Object session) {
    Map asked = Frazil.map(more);
    asked.put("options", options.asCaseSensitiveMap());
    return Frazil.ask(table.bridge, op, table.key, Frazil.json(asked), session);
  }
  /** Kept in the checkpoint, where Iceberg keeps it: what is the beginning may have expired when the query starts again. */
  public Offset initialOffset() {
    try {
      if (initial == null) initial = new FrazilOffset(kept());
      return initial;
    } catch (java.io.IOException e) { throw new java.io.UncheckedIOException(e); }
  }
  String kept() throws java.io.IOException {
    Path file = new Path(checkpoint, "offsets/0");
    FileSystem files = file.getFileSystem(org.apache.spark.sql.classic.SparkSession.active().sparkContext().hadoopConfiguration());
    if (files.exists(file)) {
      FSDataInputStream in = files.open(file);
      try { return org.apache.commons.io.IOUtils.toString(in, "UTF-8"); } finally { in.close(); }
    }
    String json = (String) ask("streamStart", new Object[0], null);
    FSDataOutputStream out = files.create(file, true);
    try { out.write(json.getBytes("UTF-8")); } finally { out.close(); }
    return json;
  }
  public Offset deserializeOffset(String json) { return new FrazilOffset(json); }
  public Offset latestOffset() { throw new UnsupportedOperationException("asked for with a limit"); }
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Object found = ask("streamNext", new Object[] {"start", start.json(), "until", until, "limited", Boolean.valueOf(!(limit instanceof ReadAllAvailable))}, null);
    return found == null ? null : new FrazilOffset((String) found);
  }
  /** The numbers are in the options; Trigger.Once asks for everything. */
  public ReadLimit getDefaultReadLimit() {
    return options.containsKey(MAX_FILES) || options.containsKey(MAX_ROWS) ? ReadLimit.maxFiles(Integer.MAX_VALUE) : ReadLimit.allAvailable();
  }
  public void prepareForTriggerAvailableNow() { until = (String) ask("streamEnd", new Object[0], null); }
  public InputPartition[] planInputPartitions(Offset start, Offset end) { throw new UnsupportedOperationException("read by a plan"); }
  public PartitionReaderFactory createReaderFactory() { throw new UnsupportedOperationException("read by a plan"); }
  public void commit(Offset end) {}
  public void stop() {}
  public String toString() { return "Frazil " + table.name; }

  static boolean is(Object node) {
    return node instanceof StreamingDataSourceV2ScanRelation && ((StreamingDataSourceV2ScanRelation) node).stream() instanceof FrazilStream
      && ((StreamingDataSourceV2ScanRelation) node).endOffset().isDefined();
  }
  /** The rows between two offsets. */
  static LogicalPlan batch(StreamingDataSourceV2ScanRelation r) {
    FrazilStream stream = (FrazilStream) r.stream();
    Set names = FrazilRule.names(r.output());
    Object session = org.apache.spark.sql.classic.SparkSession.active();
    Object[] asked = {"columns", names, "start", ((Offset) r.startOffset().get()).json(), "end", ((Offset) r.endOffset().get()).json(), "session", FrazilPlan.facts(session)};
    LogicalPlan rows = FrazilPlan.plan(stream.table.bridge, session, (String) stream.ask("streamBatch", asked, session));
    return FrazilRule.project((LogicalPlan) rows.transformUp(new FrazilStreaming(stream)), r.output(), names, stream.table.name);
  }
}

/** Relations as those of a stream, which Spark counts the rows of. */
public class FrazilStreaming extends scala.runtime.AbstractPartialFunction {
  final FrazilStream stream;
  public FrazilStreaming(FrazilStream stream) { this.stream = stream; }
  public boolean isDefinedAt(Object node) { return node instanceof LogicalRelation || node instanceof LocalRelation; }
  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    scala.Option of = scala.Option.apply(stream);
    if (node instanceof LocalRelation) return new LocalRelation(((LocalRelation) node).output(), ((LocalRelation) node).data(), true, of);
    if (!(node instanceof LogicalRelation)) return otherwise.apply(node);
    LogicalRelation r = (LogicalRelation) node;
    return new LogicalRelation(r.relation(), r.output(), r.catalogTable(), true, of);
  }
}

/** Where a stream writes to. Spark's V2 writers run row by row on executors; as a V1 sink we get each batch whole. */
public class FrazilSink implements Sink {
  final String bridge, table; final List partitions;
  public FrazilSink(String bridge, String table, List partitions) { this.bridge = bridge; this.table = table; this.partitions = partitions; }
  public void addBatch(long number, Dataset batch) {
    org.apache.spark.sql.execution.QueryExecution execution = ((org.apache.spark.sql.classic.Dataset) batch).queryExecution();
    WriteToMicroBatchDataSourceV1 write = (WriteToMicroBatchDataSourceV1) execution.logical();
    String what = Frazil.json(Frazil.map(new Object[] {"table", table, "partitions", partitions, "batch", Long.valueOf(number),
      "query", write.queryId(), "mode", write.outputMode().toString(), "options", FrazilSource.java(write.writeOptions())}));
    Frazil.ask(bridge, "addBatch", what, ((org.apache.spark.sql.classic.SparkSession) batch.sparkSession()).internalCreateDataFrame(execution.toRdd(), batch.schema(), false), null);
  }
  public String toString() { return "Frazil " + table; }

  static boolean is(Object node) { return node instanceof WriteToStream && ((WriteToStream) node).sink() instanceof FrazilTable; }
  /** Its constructor has other members in each version. */
  static Object instead(WriteToStream write) {
    FrazilTable t = (FrazilTable) write.sink();
    String place = (String) Frazil.ask(t.bridge, "sink", t.key, write.outputMode().toString(), null);
    Object[] members = new Object[write.productArity()];
    for (int i = 0; i < members.length; i++)
      members[i] = write.productElement(i) == t ? new FrazilSink(t.bridge, place, new ArrayList()) : write.productElement(i);
    return write.makeCopy(members);
  }
}
