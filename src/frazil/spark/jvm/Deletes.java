package org.apache.spark.sql.connector.catalog;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.vectorized.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.*;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/** Spark's Parquet reader, less the rows that deletes took. Tasks load the classes of this file, from a jar on a cluster: public API only. */
public class FrazilParquet extends ParquetFileFormat {
  public static final String INDEX = "_tmp_metadata_row_index";
  static int find(StructType t, String name) {
    for (int i = 0; i < t.fields().length; i++) if (t.fields()[i].name().equals(name)) return i;
    return -1; }
  public scala.Function1 buildReaderWithPartitionValues(org.apache.spark.sql.SparkSession s, StructType data, StructType part, StructType required,
      scala.collection.immutable.Seq filters, scala.collection.immutable.Map options, org.apache.hadoop.conf.Configuration conf) {
    scala.Function1 plain = super.buildReaderWithPartitionValues(s, data, part, required, filters, options, conf), indexed = plain;
    StructType with = required;                             // what we need beyond the query's columns stands after them, before the constants
    if (find(with, INDEX) < 0) {
      with = with.add(INDEX, DataTypes.LongType, true);
      indexed = super.buildReaderWithPartitionValues(s, data, part, with, filters, options, conf); }
    ArrayList types = new ArrayList();
    for (int i = 0; i < required.fields().length; i++) types.add(required.fields()[i].dataType());
    for (int i = 0; i < part.fields().length; i++) types.add(part.fields()[i].dataType());
    return new FrazilReader(plain, indexed, required.fields().length, find(with, INDEX), filters.isEmpty(), (DataType[]) types.toArray(new DataType[0])); }
  public boolean equals(Object o) { return o instanceof FrazilParquet; }
  public int hashCode() { return FrazilParquet.class.getName().hashCode(); }
}

/** The rows of one file: as Spark reads them if nothing was deleted from it. */
public class FrazilReader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final scala.Function1 plain, indexed; final int cut, at; final boolean whole; final DataType[] types;
  public FrazilReader(scala.Function1 plain, scala.Function1 indexed, int cut, int at, boolean whole, DataType[] types) {
    this.plain = plain; this.indexed = indexed; this.cut = cut; this.at = at; this.whole = whole; this.types = types; }
  public Object apply(Object f) {
    PartitionedFile file = (PartitionedFile) f;
    scala.Option deleted = file.otherConstantMetadataColumnValues().get("frazil.deleted");
    if (deleted.isEmpty()) return plain.apply(f);
    boolean count = whole && file.start() == 0L;            // nothing is skipped before a row: positions are a running count
    scala.Function1 use = count ? plain : indexed;
    return new FrazilKept((scala.collection.Iterator) use.apply(f), new FrazilVector((byte[]) deleted.get()), count ? -1 : at, cut, use == plain ? 0 : 1, types); }
}

/** A deletion vector as an ascending cursor. */
public class FrazilVector {
  final RoaringBitmap[] maps; final long[] high; int k = -1; PeekableIntIterator it; long next = -1L;
  public FrazilVector(byte[] blob) {
    ByteBuffer b = ByteBuffer.wrap(blob);
    int size = b.getInt(0);
    java.util.zip.CRC32 crc = new java.util.zip.CRC32();
    if (size != blob.length - 8) throw new IllegalStateException("corrupt deletion vector");
    crc.update(blob, 4, size);
    if ((int) crc.getValue() != b.getInt(4 + size)) throw new IllegalStateException("corrupt deletion vector");
    b.order(ByteOrder.LITTLE_ENDIAN);
    if (b.getInt(4) != 1681511377) throw new IllegalStateException("not a deletion vector");
    int n = (int) b.getLong(8);
    maps = new RoaringBitmap[n]; high = new long[n];
    b.position(16);
    try {
      for (int i = 0; i < n; i++) {
        high[i] = ((long) b.getInt()) << 32;
        maps[i] = new RoaringBitmap();
        ByteBuffer rest = (ByteBuffer) b.slice();
        rest.order(ByteOrder.LITTLE_ENDIAN);
        maps[i].deserialize(rest);
        b.position(b.position() + maps[i].serializedSizeInBytes()); }
    } catch (java.io.IOException e) { throw new IllegalStateException(e); }
    step(); }
  void step() {
    while (it == null || !it.hasNext()) {
      if (++k >= maps.length) { k = maps.length; next = Long.MAX_VALUE; return; }
      it = maps[k].getIntIterator(); }
    next = high[k] | (it.next() & 0xFFFFFFFFL); }
  /** The smallest deleted position not below `to`. */
  long from(long to) {
    while (next < to) {
      if ((to & ~0xFFFFFFFFL) == high[k]) it.advanceIfNeeded((int) to);
      step(); }
    return next; }
}

/** What is left of a file's rows or batches. Columns from `cut` on, `extra` of them, are ours and are taken out. */
public class FrazilKept extends scala.collection.AbstractIterator implements java.io.Closeable {
  final scala.collection.Iterator in; final FrazilVector deleted; final int at, cut, extra; final DataType[] types;
  long count = 0L; Object ready; int[] keep = new int[4096]; UnsafeProjection shrink; ColumnarBatch seen, smaller;
  public FrazilKept(scala.collection.Iterator in, FrazilVector deleted, int at, int cut, int extra, DataType[] types) {
    this.in = in; this.deleted = deleted; this.at = at; this.cut = cut; this.extra = extra; this.types = types; }
  public boolean hasNext() {                                // the consumer is done with the last batch when it asks
    while (ready == null && in.hasNext()) {
      Object o = in.next();
      ready = o instanceof ColumnarBatch ? batch((ColumnarBatch) o) : row((InternalRow) o); }
    return ready != null; }
  public Object next() {
    if (!hasNext()) throw new NoSuchElementException();
    Object o = ready; ready = null; return o; }
  public void close() throws java.io.IOException { if (in instanceof java.io.Closeable) ((java.io.Closeable) in).close(); }
  Object row(InternalRow r) {
    long pos = at < 0 ? count++ : r.getLong(at);
    if (deleted.from(pos) == pos) return null;
    if (extra == 0) return r;
    if (shrink == null) {
      ArrayList refs = new ArrayList();
      for (int i = 0; i < types.length; i++) refs.add(new BoundReference(i < cut ? i : i + extra, types[i], true));
      shrink = UnsafeProjection.create((scala.collection.immutable.Seq) scala.jdk.javaapi.CollectionConverters.asScala(refs).toSeq()); }
    return shrink.apply(r); }
  Object batch(ColumnarBatch b) {
    int n = b.numRows(), m = n, same = n;                   // rows before `same` stay where they are
    if (n == 0) return null;
    if (keep.length < n) keep = new int[n];
    int[] keep = this.keep;
    ColumnVector index = at < 0 ? null : b.column(at);
    long first = at < 0 ? count : index.getLong(0), last = at < 0 ? first + n - 1 : index.getLong(n - 1);
    count += n;
    long d = deleted.from(first);
    if (d <= last) {
      m = 0;
      if (last - first == n - 1) {                          // contiguous: the runs between deleted positions
        same = (int) (d - first);
        int i = same;
        m = same;
        while (i < n) {
          if (d == first + i) { i++; d = deleted.from(first + i); continue; }
          int end = (int) Math.min(n, d - first);
          while (i < end) keep[m++] = i++; }
      } else {                                              // Parquet's column index left pages out
        same = 0;
        for (int i = 0; i < n; i++) { long p = index.getLong(i); if (deleted.from(p) != p) keep[m++] = i; } } }
    if (m == 0) return null;
    if (m < n) {
      for (int c = 0; c < b.numCols(); c++) if (c < cut || c >= cut + extra) FrazilPack.pack(b.column(c), keep, same, m);
      b.setNumRows(m); }                                    // the reader sets it anew for each batch
    if (extra == 0) return b;
    if (seen != b) {
      ColumnVector[] cols = new ColumnVector[b.numCols() - extra];
      for (int c = 0; c < cols.length; c++) cols[c] = b.column(c < cut ? c : c + extra);
      seen = b; smaller = new ColumnarBatch(cols); }
    smaller.setNumRows(m);
    return smaller; }
}

/** Moves rows keep[from..n) to from..n in place: the vectors stay Spark's own classes, as its generated code casts to them. */
public class FrazilPack {
  static void pack(ColumnVector any, int[] keep, int from, int n) {
    if (any instanceof ConstantColumnVector) return;
    WritableColumnVector v = (WritableColumnVector) any;
    if (v.isAllNull()) return;
    if (v.hasNull()) for (int j = from; j < n; j++) if (v.isNullAt(keep[j])) v.putNull(j); else v.putNotNull(j);
    DataType t = v.dataType();
    if (v.hasDictionary()) { ints(v.getDictionaryIds(), keep, from, n); return; }
    int digits = t instanceof DecimalType ? ((DecimalType) t).precision() : 99;
    if (t instanceof LongType || t instanceof TimestampType || t instanceof TimestampNTZType || t instanceof DayTimeIntervalType
        || t.typeName().startsWith("time(") || digits > 9 && digits <= 18) for (int j = from; j < n; j++) v.putLong(j, v.getLong(keep[j]));
    else if (t instanceof DoubleType) for (int j = from; j < n; j++) v.putDouble(j, v.getDouble(keep[j]));
    else if (t instanceof IntegerType || t instanceof DateType || t instanceof YearMonthIntervalType || digits <= 9) ints(v, keep, from, n);
    else if (t instanceof FloatType) for (int j = from; j < n; j++) v.putFloat(j, v.getFloat(keep[j]));
    else if (t instanceof BooleanType) for (int j = from; j < n; j++) v.putBoolean(j, v.getBoolean(keep[j]));
    else if (t instanceof ByteType) for (int j = from; j < n; j++) v.putByte(j, v.getByte(keep[j]));
    else if (t instanceof ShortType) for (int j = from; j < n; j++) v.putShort(j, v.getShort(keep[j]));
    else if (t instanceof StructType) for (int c = 0; c < ((StructType) t).fields().length; c++) pack(v.getChild(c), keep, from, n);
    else if (t instanceof VariantType) { pack(v.getChild(0), keep, from, n); pack(v.getChild(1), keep, from, n); }
    else if (v.arrayData() != null)                         // string, binary, wide decimal, array, map: the bytes stay where they are
      for (int j = from; j < n; j++) v.putArray(j, v.getArrayOffset(keep[j]), v.getArrayLength(keep[j]));
    else throw new UnsupportedOperationException("deletes in a file with a column of type " + t); }
  static void ints(WritableColumnVector v, int[] keep, int from, int n) { for (int j = from; j < n; j++) v.putInt(j, v.getInt(keep[j])); }
}
