package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.*;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * `format("frazil")`, by path or by name. Reads find their table here. Writes do not say how they go on when Spark asks for the table with
 * their schema, so they get one that can nothing: then Spark hands over rows, mode and partitioning instead.
 */
public class FrazilSource implements TableProvider, CreatableRelationProvider, StreamSinkProvider, SchemaRelationProvider {
  FrazilTable table;
  static Object ask(String op, Object a, Object b) {
    Iterator keys = Frazil.catalogs.iterator();
    return Frazil.ask(keys.hasNext() ? (String) keys.next() : "", op, a, b, org.apache.spark.sql.classic.SparkSession.active());
  }
  static FrazilTable find(Map options, StructType schema) {
    Map found = (Map) Frazil.value(ask("source", Frazil.json(options), schema == null ? null : schema.json()));
    return found == null ? null : new FrazilTable((String) found.get("bridge"), (Map) found.get("table"));
  }
  public boolean supportsExternalMetadata() { return true; }
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    table = find(options.asCaseSensitiveMap(), null);
    return table.schema();
  }
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) { return table == null ? new Transform[0] : table.partitioning(); }
  public Table getTable(StructType schema, Transform[] partitioning, Map options) {
    FrazilTable found = table != null ? table : find(options, schema);
    return found != null ? (Table) found : new FrazilNoTable(schema);
  }
  public boolean supportsDataType(DataType type) { return true; }
  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset rows) {
    ask("save", Frazil.json(Frazil.map(new Object[] {"mode", mode.name().toLowerCase(Locale.ROOT), "options", java(options)})), rows);
    return new FrazilRows("", "", 0L, new StructType(), context);
  }
  /** Where a schema was given that is not the table's. */
  public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map options, StructType schema) {
    ask("refuseSchema", Frazil.json(java(options)), schema.json());
    return null;
  }
  public org.apache.spark.sql.execution.streaming.Sink createSink(
      SQLContext context, scala.collection.immutable.Map options, scala.collection.immutable.Seq partitions, OutputMode mode) {
    String[] place = Frazil.strings(Frazil.value(ask("sinkOf", Frazil.json(java(options)), mode.toString())));
    return new FrazilSink(place[0], place[1], FrazilPlan.list(partitions));
  }
  static Map java(scala.collection.immutable.Map m) { return scala.jdk.javaapi.CollectionConverters.asJava(m); }
}

/** What there is to write to, before anybody has looked. */
public class FrazilNoTable implements Table {
  final StructType schema;
  public FrazilNoTable(StructType schema) { this.schema = schema; }
  public String name() { return "frazil"; }
  public StructType schema() { return schema; }
  public Set capabilities() { return Collections.EMPTY_SET; }
}
