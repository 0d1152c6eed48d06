package org.apache.spark.sql.connector.catalog;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.*;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of texts that Parquet has by a dictionary. Spark makes every row's text anew; here each word is one object, and with it what is
 * found out about it, such as its length. Tasks load the classes of this file, as those of Deletes.java.
 */
public class FrazilTexts extends ColumnVector {
  public static final int MOST = 1 << 16;                   // words that are kept of a dictionary: of larger ones each is seldom seen
  static final java.lang.reflect.Field OUTER = field(WritableColumnVector.class), INNER = field(parquet());
  final WritableColumnVector in; Object dictionary; UTF8String[] words; WritableColumnVector ids;
  public FrazilTexts(WritableColumnVector in) { super(in.dataType()); this.in = in; }
  static Class parquet() {
    try { return Class.forName("org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary"); } catch (ClassNotFoundException other) { return Object.class; } }
  static java.lang.reflect.Field field(Class c) {
    try {
      java.lang.reflect.Field field = c.getDeclaredField("dictionary");
      field.setAccessible(true);
      return field;
    } catch (Exception other) { return null; } }
  /** The dictionary of a column chunk, in which numbers mean the same words; null if there is none, or if this Spark is made otherwise. */
  public static Object dictionaryOf(WritableColumnVector v) {
    if (!v.hasDictionary() || OUTER == null || INNER == null) return null;
    try {
      Object found = OUTER.get(v);
      return INNER.getDeclaringClass().isInstance(found) ? INNER.get(found) : null;
    } catch (IllegalAccessException other) { return null; } }
  /** There is a new batch in the vector. */
  void turn() {
    Object now = dictionaryOf(in);
    if (now != dictionary) {
      int size = now == null ? MOST + 1 : ((org.apache.parquet.column.Dictionary) now).getMaxId() + 1;
      words = size > MOST ? null : new UTF8String[size];
      dictionary = now; }
    ids = words == null ? null : in.getDictionaryIds(); }
  public UTF8String getUTF8String(int i) {
    if (ids == null) return in.getUTF8String(i);
    if (in.isNullAt(i)) return null;
    int id = ids.getDictId(i);
    UTF8String word = words[id];
    return word != null ? word : (words[id] = in.getUTF8String(i)); }
  public void close() { in.close(); }
  public void closeIfFreeable() { in.closeIfFreeable(); }
  public boolean hasNull() { return in.hasNull(); }
  public int numNulls() { return in.numNulls(); }
  public boolean isNullAt(int i) { return in.isNullAt(i); }
  public byte[] getBinary(int i) { return in.getBinary(i); }
  public boolean getBoolean(int i) { return in.getBoolean(i); }
  public byte getByte(int i) { return in.getByte(i); }
  public short getShort(int i) { return in.getShort(i); }
  public int getInt(int i) { return in.getInt(i); }
  public long getLong(int i) { return in.getLong(i); }
  public float getFloat(int i) { return in.getFloat(i); }
  public double getDouble(int i) { return in.getDouble(i); }
  public ColumnarArray getArray(int i) { return in.getArray(i); }
  public ColumnarMap getMap(int i) { return in.getMap(i); }
  public Decimal getDecimal(int i, int precision, int scale) { return in.getDecimal(i, precision, scale); }
  public ColumnVector getChild(int i) { return in.getChild(i); }
}

/** Batches with such columns in the place of a file's texts; rows as they are. */
public class FrazilTextBatches extends scala.collection.AbstractIterator implements java.io.Closeable {
  final scala.collection.Iterator in; final StructType read; ColumnarBatch seen, shown; FrazilTexts[] texts;
  public FrazilTextBatches(Object in, StructType read) { this.in = (scala.collection.Iterator) in; this.read = read; }
  public boolean hasNext() { return in.hasNext(); }
  public Object next() {
    Object o = in.next();
    if (!(o instanceof ColumnarBatch)) return o;
    ColumnarBatch b = (ColumnarBatch) o;
    if (b != seen) {
      ColumnVector[] columns = new ColumnVector[b.numCols()];
      java.util.ArrayList found = new java.util.ArrayList();
      for (int c = 0; c < columns.length; c++) {
        columns[c] = b.column(c);
        if (FrazilTextBatches.isText(read, c)) { columns[c] = new FrazilTexts((WritableColumnVector) columns[c]); found.add(columns[c]); } }
      texts = (FrazilTexts[]) found.toArray(new FrazilTexts[0]);
      seen = b; shown = new ColumnarBatch(columns); }
    for (int t = 0; t < texts.length; t++) texts[t].turn();
    shown.setNumRows(b.numRows());
    return shown; }
  public void close() throws java.io.IOException { if (in instanceof java.io.Closeable) ((java.io.Closeable) in).close(); }
  static boolean isText(StructType read, int c) { return c < read.fields().length && read.fields()[c].dataType() instanceof StringType; }
  static boolean hasText(StructType read) {
    for (int c = 0; c < read.fields().length; c++) if (isText(read, c)) return true;
    return false; }
  /** The classes of the vectors as Spark's generated code may take them for. */
  static scala.Option types(scala.Option told, StructType read) {
    if (told.isEmpty()) return told;
    java.util.ArrayList names = new java.util.ArrayList();
    scala.collection.Iterator all = ((scala.collection.immutable.Seq) told.get()).iterator();
    for (int c = 0; all.hasNext(); c++) {
      Object name = all.next();
      names.add(isText(read, c) ? ColumnVector.class.getName() : name); }
    return scala.Option.apply(scala.jdk.javaapi.CollectionConverters.asScala(names).toSeq()); }
}

public class FrazilTextReader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final scala.Function1 files; final StructType read;
  public FrazilTextReader(scala.Function1 files, StructType read) { this.files = files; this.read = read; }
  public Object apply(Object file) { return (Object) new FrazilTextBatches(files.apply(file), read); }
  static scala.Function1 of(scala.Function1 files, StructType read) { return FrazilTextBatches.hasText(read) ? (scala.Function1) (Object) new FrazilTextReader(files, read) : files; }
}
