package org.apache.spark.sql.connector.catalog;

import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.ColumnWriteStore;
import org.apache.parquet.column.ColumnWriter;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Spark's Parquet files, whose rows get there by a shorter way. Tasks load the classes of this file, as those of Deletes.java. */
public class FrazilWrittenParquet extends org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat {
  public OutputWriterFactory prepareWrite(org.apache.spark.sql.SparkSession s, org.apache.hadoop.mapreduce.Job job, scala.collection.immutable.Map options, StructType schema) {
    OutputWriterFactory made = super.prepareWrite(s, job, options, schema);
    job.getConfiguration().set("parquet.write.support.class", "org.apache.spark.sql.connector.catalog.FrazilWriteSupport");
    return made; }
}

/**
 * Spark tells Parquet's assembly of records where each field begins and ends. Rows that consist of plain columns need none: their values go
 * to the writers of the columns as they are. All other rows, and a Parquet that is not made as we know it, are Spark's.
 */
public class FrazilWriteSupport extends WriteSupport {
  static final int OTHER = 0, BOOLEAN = 1, INT = 2, LONG = 3, FLOAT = 4, DOUBLE = 5, TEXT = 6, BYTES = 7, INT_DECIMAL = 8, LONG_DECIMAL = 9;
  final org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport spark = new org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport();
  int[] kinds, levels; DataType[] types; MessageType message; ColumnWriter[] columns; ColumnWriteStore store;
  public WriteSupport.WriteContext init(Configuration conf) {
    WriteSupport.WriteContext context = spark.init(conf);
    message = context.getSchema();
    StructField[] fields = ((StructType) DataType.fromJson(conf.get("org.apache.spark.sql.parquet.row.attributes"))).fields();
    if (fields.length != message.getFieldCount()) return context;
    kinds = new int[fields.length]; levels = new int[fields.length]; types = new DataType[fields.length];
    for (int i = 0; i < fields.length && kinds != null; i++) {
      org.apache.parquet.schema.Type stored = message.getType(i);
      types[i] = fields[i].dataType();
      int kind = stored.isPrimitive() ? kind(types[i], stored.asPrimitiveType().getPrimitiveTypeName().name()) : OTHER;
      if (kind == OTHER) { kinds = null; break; }
      kinds[i] = kind;
      levels[i] = stored.isRepetition(org.apache.parquet.schema.Type.Repetition.REQUIRED) ? 0 : 1; }
    return context; }
  static int kind(DataType t, String stored) {
    if (stored.equals("BOOLEAN")) return t instanceof BooleanType ? BOOLEAN : OTHER;
    if (stored.equals("FLOAT")) return t instanceof FloatType ? FLOAT : OTHER;
    if (stored.equals("DOUBLE")) return t instanceof DoubleType ? DOUBLE : OTHER;
    if (stored.equals("BINARY")) return t instanceof StringType ? TEXT : t instanceof BinaryType ? BYTES : OTHER;
    if (stored.equals("INT32")) return t instanceof IntegerType || t instanceof DateType ? INT : t instanceof DecimalType ? INT_DECIMAL : OTHER;
    if (stored.equals("INT64")) return t instanceof LongType || t instanceof TimestampType || t instanceof TimestampNTZType ? LONG : t instanceof DecimalType ? LONG_DECIMAL : OTHER;
    return OTHER; }
  /** Called anew for every row group. */
  public void prepareForWrite(RecordConsumer consumer) {
    spark.prepareForWrite(consumer);
    store = kinds == null ? null : storeOf(consumer);
    if (store == null) return;
    java.util.List paths = message.getColumns();
    columns = new ColumnWriter[kinds.length];
    for (int i = 0; i < columns.length; i++) columns[i] = store.getColumnWriter((ColumnDescriptor) paths.get(i)); }
  /** Where records are assembled into: no method tells. */
  static ColumnWriteStore storeOf(RecordConsumer consumer) {
    try {
      java.lang.reflect.Field field = consumer.getClass().getDeclaredField("columns");
      field.setAccessible(true);
      return (ColumnWriteStore) field.get(consumer);
    } catch (Exception other) { return null; } }
  public void write(Object o) {
    InternalRow row = (InternalRow) o;
    if (store == null) { spark.write(row); return; }
    for (int i = 0; i < kinds.length; i++) {
      ColumnWriter column = columns[i];
      int level = levels[i];
      if (level != 0 && row.isNullAt(i)) { column.writeNull(0, 0); continue; }
      switch (kinds[i]) {
        case BOOLEAN: column.write(row.getBoolean(i), 0, level); break;
        case INT: column.write(row.getInt(i), 0, level); break;
        case LONG: column.write(row.getLong(i), 0, level); break;
        case FLOAT: column.write(row.getFloat(i), 0, level); break;
        case DOUBLE: column.write(row.getDouble(i), 0, level); break;
        case TEXT: column.write(bytes(row.getUTF8String(i)), 0, level); break;
        case BYTES: column.write(Binary.fromReusedByteArray(row.getBinary(i)), 0, level); break;
        default:
          DecimalType t = (DecimalType) types[i];
          long unscaled = row.getDecimal(i, t.precision(), t.scale()).toUnscaledLong();
          if (kinds[i] == INT_DECIMAL) column.write((int) unscaled, 0, level); else column.write(unscaled, 0, level); } }
    store.endRecord(); }
  static Binary bytes(UTF8String text) {
    Object base = text.getBaseObject();
    return base instanceof byte[] ? Binary.fromReusedByteArray((byte[]) base, (int) (text.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET), text.numBytes())
      : Binary.fromReusedByteArray(text.getBytes()); }
}
