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
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.roaringbitmap.Container;
import org.roaringbitmap.ContainerPointer;
import org.roaringbitmap.RoaringBitmap;

/** Spark's Parquet reader, less the rows that deletes took. Tasks load the classes of this file, from a jar on a cluster: public API only. */
public class FrazilParquet extends ParquetFileFormat {
  public static final String INDEX = "_tmp_metadata_row_index", DELETED = "frazil.deleted", KEYS = "frazil.keys", SEQUENCE = "frazil.sequence", ID = "parquet.field.id";
  public static final String BY_ID = "spark.sql.parquet.fieldId.read.enabled";
  final StructType keys;                                    // columns that equality deletes compare, read also if nobody asks for them
  final boolean local;
  public FrazilParquet(StructType keys, boolean local) { this.keys = keys; this.local = local; }
  static int find(StructType t, String name) {
    for (int i = 0; i < t.fields().length; i++) if (t.fields()[i].name().equals(name)) return i;
    return -1; }
  /** Filters less those on floating numbers: statistics may leave out NaN, Spark's greatest, and dictionaries tell -0.0 from 0.0. */
  static scala.collection.immutable.Seq exact(StructType data, scala.collection.immutable.Seq filters) {
    ArrayList kept = new ArrayList();
    scala.collection.Iterator all = filters.iterator();
    while (all.hasNext()) {
      org.apache.spark.sql.sources.Filter f = (org.apache.spark.sql.sources.Filter) all.next();
      boolean floats = false;
      for (int i = 0; i < f.references().length; i++) floats = floats || floating(data, f.references()[i]);
      if (!floats) kept.add(f); }
    return Frazil.seq(kept); }
  static boolean floating(StructType data, String column) {
    DataType t = data;
    scala.collection.Iterator names = org.apache.spark.sql.catalyst.parser.CatalystSqlParser$.MODULE$.parseMultipartIdentifier(column).iterator();
    while (names.hasNext()) {
      int at = t instanceof StructType ? find((StructType) t, (String) names.next()) : -1;
      if (at < 0) return false;
      t = ((StructType) t).fields()[at].dataType(); }
    return t instanceof FloatType || t instanceof DoubleType; }
  /** Settings without those of Hadoop's own files, which its code assumes for local files anyway. */
  static org.apache.hadoop.conf.Configuration made(org.apache.hadoop.conf.Configuration conf) {
    org.apache.hadoop.conf.Configuration out = new org.apache.hadoop.conf.Configuration(false);
    Iterator all = conf.iterator();
    while (all.hasNext()) {
      String name = (String) ((Map.Entry) all.next()).getKey();
      String[] sources = conf.getPropertySources(name);
      if (sources == null || sources.length == 0 || !sources[sources.length - 1].endsWith("-default.xml")) out.set(name, conf.get(name)); }
    return out; }
  public scala.Function1 buildReaderWithPartitionValues(org.apache.spark.sql.SparkSession s, StructType data, StructType part, StructType required,
      scala.collection.immutable.Seq pushed, scala.collection.immutable.Map options, org.apache.hadoop.conf.Configuration conf) {
    scala.collection.immutable.Seq filters = exact(data, pushed);
    int asked = required.fields().length, constants = part.fields().length;
    StructType keyed = required;                            // what we need beyond the query's columns stands after them, before the constants
    for (int k = 0; k < keys.fields().length; k++)
      if (find(required, keys.fields()[k].name()) < 0 && find(part, keys.fields()[k].name()) < 0) keyed = keyed.add(keys.fields()[k]);
    boolean index = find(required, INDEX) < 0;
    StructType[] wanted = {required, index ? required.add(INDEX, DataTypes.LongType, true) : required, keyed, index ? keyed.add(INDEX, DataTypes.LongType, true) : keyed};
    // plain, with positions, with keys, with both. Each writes its columns into its configuration, so each has one of its own
    scala.Function1[] readers = new scala.Function1[4];
    for (int r = 0; r < 4; r++)
      readers[r] = r == 1 && !index ? readers[0] : r > 1 && keyed == required ? readers[r - 2] : r == 3 && !index ? readers[2]
        : super.buildReaderWithPartitionValues(s, data, part, wanted[r], filters, options, local ? made(conf) : new org.apache.hadoop.conf.Configuration(conf));
    int[] keyAt = new int[keys.fields().length];            // constants count backwards from the end
    for (int k = 0; k < keyAt.length; k++) {
      int constant = find(part, keys.fields()[k].name());
      keyAt[k] = constant < 0 ? find(keyed, keys.fields()[k].name()) : constant - constants; }
    ArrayList types = new ArrayList();
    for (int i = 0; i < asked; i++) types.add(required.fields()[i].dataType());
    for (int i = 0; i < constants; i++) types.add(part.fields()[i].dataType());
    int[] indexAt = {0, find(wanted[1], INDEX), 0, find(wanted[3], INDEX)}, extra = new int[4];
    for (int r = 0; r < 4; r++) extra[r] = wanted[r].fields().length - asked;
    int[] pageIds = new int[keys.fields().length];          // of columns that only keys need, and whose pages are quicker to look at than to decode
    boolean pages = false;
    for (int k = 0; k < pageIds.length; k++) {
      StructField key = keys.fields()[k];
      boolean bytes = key.dataType() instanceof StringType || key.dataType() instanceof BinaryType;
      pageIds[k] = bytes && keyAt[k] >= asked && key.metadata().contains(ID) ? (int) key.metadata().getLong(ID) : -1;
      pages = pages || pageIds[k] >= 0; }
    org.apache.spark.broadcast.Broadcast settings = !pages || !filters.isEmpty() ? null : org.apache.spark.api.java.JavaSparkContext.fromSparkContext(s.sparkContext())
      .broadcast(new org.apache.spark.util.SerializableConfiguration(local ? made(conf) : conf));
    return FrazilTextReader.of(new FrazilReader(readers, asked, extra, indexAt, keyAt, pageIds, settings, filters.isEmpty(), (DataType[]) types.toArray(new DataType[0])), required); }
  public scala.Option vectorTypes(StructType required, StructType part, org.apache.spark.sql.internal.SQLConf conf) {
    return FrazilTextBatches.types(super.vectorTypes(required, part, conf), required); }
  public boolean equals(Object o) { return o instanceof FrazilParquet && ((FrazilParquet) o).keys.equals(keys); }
  public int hashCode() { return keys.hashCode(); }
}

/** The rows of one file: as Spark reads them if nothing was deleted from it. */
public class FrazilReader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final scala.Function1[] readers; final int cut; final int[] extra, indexAt, keyAt, pageIds; final org.apache.spark.broadcast.Broadcast settings; final boolean whole; final DataType[] types;
  public FrazilReader(scala.Function1[] readers, int cut, int[] extra, int[] indexAt, int[] keyAt, int[] pageIds, org.apache.spark.broadcast.Broadcast settings, boolean whole, DataType[] types) {
    this.readers = readers; this.cut = cut; this.extra = extra; this.indexAt = indexAt; this.keyAt = keyAt; this.pageIds = pageIds; this.settings = settings; this.whole = whole; this.types = types; }
  public Object apply(Object f) {
    PartitionedFile file = (PartitionedFile) f;
    // the reader of rows looks here whether columns go by id; without it a renamed column is null
    org.apache.spark.TaskContext.get().getLocalProperties().setProperty(FrazilParquet.BY_ID, "true");
    scala.collection.immutable.Map told = file.otherConstantMetadataColumnValues();
    scala.Option deleted = told.get(FrazilParquet.DELETED), sets = told.get(FrazilParquet.KEYS);
    if (deleted.isEmpty() && sets.isEmpty()) return readers[0].apply(f);
    boolean count = deleted.isEmpty() || whole && file.start() == 0L;   // nothing is skipped before a row: positions are a running count
    Object[] shared = sets.isEmpty() ? new Object[0] : (Object[]) sets.get();
    FrazilKeys[] keys = new FrazilKeys[shared.length];
    for (int m = 0; m < keys.length; m++) keys[m] = (FrazilKeys) ((org.apache.spark.broadcast.Broadcast) shared[m]).value();
    long sequence = sets.isEmpty() ? 0L : ((Long) told.get(FrazilParquet.SEQUENCE).get()).longValue();
    String name = whole && keys.length > 0 ? FrazilFound.name(file, keys, sequence) : null;
    RoaringBitmap known = name == null ? null : FrazilFound.get(name);
    for (int m = 0; m < keys.length && known == null; m++) keys[m].ready();
    FrazilVector vector = deleted.isEmpty() ? null : new FrazilVector((byte[]) deleted.get()), found = known != null ? new FrazilVector(known) : onPages(file, keys, sequence);
    int r = (count ? 0 : 1) + (keys.length == 0 || found != null ? 0 : 2), columns = types.length + extra[r];
    FrazilMatch[] matches = new FrazilMatch[found != null ? 0 : keys.length];
    for (int m = 0; m < matches.length; m++) {
      int[] at = new int[keys[m].columns.length];
      for (int k = 0; k < at.length; k++) { int p = keyAt[keys[m].columns[k]]; at[k] = p < 0 ? columns + p : p; }
      matches[m] = new FrazilMatch(keys[m], at, sequence); }
    return new FrazilKept((scala.collection.Iterator) readers[r].apply(f), vector, count ? -1 : indexAt[r], matches, found, known == null ? name : null, cut, extra[r], types); }
  /** What keys of one column take, found on its pages; null if it cannot be. */
  FrazilVector onPages(PartitionedFile file, FrazilKeys[] keys, long sequence) {
    if (settings == null || keys.length == 0) return null;
    int id = pageIds[keys[0].columns[0]];
    for (int m = 0; m < keys.length; m++) if (keys[m].columns.length > 1 || pageIds[keys[m].columns[0]] != id) return null;
    if (id < 0) return null;
    try { return (FrazilVector) (Object) FrazilKeyPages.open(file, ((org.apache.spark.util.SerializableConfiguration) settings.value()).value(), keys, id, sequence);
    } catch (java.io.IOException e) { Platform.throwException(e); return null; } }   // as it is: Spark knows a missing file by it
}

/** Which rows of what a task reads of a file have keys that are deleted. Neither files nor keys ever change: who reads them again need not look at keys. */
public class FrazilFound {
  static final long MOST = 64L << 20;
  static final LinkedHashMap kept = new LinkedHashMap(16, 0.75f, true);
  static long size = 0L;
  public static synchronized void clear() { kept.clear(); size = 0L; }
  public static synchronized Map kept() { return new LinkedHashMap(kept); }
  static String name(PartitionedFile file, FrazilKeys[] keys, long sequence) {
    StringBuilder name = new StringBuilder().append(file.filePath()).append(' ').append(file.start()).append(' ').append(file.length()).append(' ').append(sequence);
    for (int k = 0; k < keys.length; k++) name.append(' ').append(keys[k].name);
    return name.toString(); }
  static synchronized RoaringBitmap get(String name) { return (RoaringBitmap) kept.get(name); }
  static synchronized void put(String name, RoaringBitmap rows) {
    if (kept.put(name, rows) != null) return;               // another task was as far
    size += sizeOf(name, rows);
    Iterator oldest = kept.entrySet().iterator();
    while (size > MOST) { Map.Entry e = (Map.Entry) oldest.next(); size -= sizeOf((String) e.getKey(), (RoaringBitmap) e.getValue()); oldest.remove(); } }
  static long sizeOf(String name, RoaringBitmap rows) { return rows.getLongSizeInBytes() + name.length() + 200L; }
}

/**
 * Keys of equality deletes, each with the newest sequence number that deletes it. Null equals null. One bit of a hash tells most rows that stay.
 * Keys are sent one after the other, which is quick; whoever gets them puts them into a table.
 */
public class FrazilKeys implements java.io.Serializable {
  public static final long serialVersionUID = 3L, NULL = -7046029254386353131L;
  public final int[] columns; public final DataType[] types; final boolean exact;        // exact: a hash is of one value only, or of null
  final long[] hashes, sequences; final int[] ends; byte[] valid;   // where keys end that a hash does not tell; which numbers are there, null for all
  byte[] keys = new byte[0];
  String name;                                              // equal names are of equal keys
  transient long[] bits, table; transient int[] which; transient long nullSeq;   // a hash and its sequence number side by side: one look at memory
  FrazilKeys(int[] columns, DataType[] types, long[] sequences, boolean exact) {
    this.columns = columns; this.types = types; this.sequences = sequences; this.exact = exact;
    hashes = new long[sequences.length]; ends = new int[exact ? 0 : sequences.length + 1]; }
  public static boolean exact(DataType[] types) { return types.length == 1 && (ints(types[0]) || longs(types[0])); }
  /** Keys that are numbers. */
  public static FrazilKeys of(int[] columns, DataType[] types, long[] values, byte[] valid, long[] sequences) {
    FrazilKeys made = new FrazilKeys(columns, types, sequences, true);
    made.valid = valid;
    for (int i = 0; i < values.length; i++) made.hashes[i] = mix(0L, valid == null || valid[i] != 0 ? values[i] : NULL);
    return made; }
  /** Any keys, by columns. */
  public static FrazilKeys of(int[] columns, DataType[] types, Object[][] values, long[] sequences) {
    FrazilKeys made = new FrazilKeys(columns, types, sequences, false);
    UnsafeProjection project = UnsafeProjection.create(types);
    Object[] key = new Object[types.length];
    InternalRow row = new GenericInternalRow(key);
    for (int i = 0; i < sequences.length; i++) {
      long h = 0L;
      for (int c = 0; c < key.length; c++) { key[c] = values[c][i]; h = mix(h, of(key[c])); }
      made.hashes[i] = h;
      made.add(project.apply(row), i); }
    return made; }
  void add(UnsafeRow row, int number) {
    int from = ends[number], size = row.getSizeInBytes();
    if (keys.length < from + size) keys = Arrays.copyOf(keys, Math.max(2 * keys.length, from + size));
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), keys, Platform.BYTE_ARRAY_OFFSET + from, size);
    ends[number + 1] = from + size; }
  /** The table, made once in each process: open addressing; sequence numbers of deletes are above 0. */
  public synchronized FrazilKeys ready() {
    if (bits != null) return this;
    int n = hashes.length, size = Math.max(16, Integer.highestOneBit(Math.max(1, n)) * 4);
    long[] told = new long[size / 8];
    table = new long[2 * size]; which = new int[exact ? 0 : size];
    for (int i = 0; i < n; i++) {
      long h = hashes[i];
      told[(int) (h >>> 6) & told.length - 1] |= two(h);
      if (valid != null && valid[i] == 0) { nullSeq = Math.max(nullSeq, sequences[i]); continue; }
      int at = first(h);
      while (table[at + 1] != 0L && (table[at] != h || !exact && !same(which[at >> 1], keys, Platform.BYTE_ARRAY_OFFSET + ends[i], ends[i + 1] - ends[i]))) at = next(at);
      if (!exact && table[at + 1] == 0L) which[at >> 1] = i;
      table[at] = h; table[at + 1] = Math.max(table[at + 1], sequences[i]); }
    bits = told;
    return this; }
  static boolean ints(DataType t) { return t instanceof IntegerType || t instanceof DateType; }
  static boolean longs(DataType t) { return t instanceof LongType || t instanceof TimestampType || t instanceof TimestampNTZType; }
  public static long mix(long h, long value) { h = h * 31L + value; h = (h ^ h >>> 32) * NULL; return h ^ h >>> 29; }
  static long two(long h) { return 1L << h | 1L << (h >>> 58); }   // bits of one word that stand for a hash
  public boolean maybe(long h) { long wanted = two(h); return (bits[(int) (h >>> 6) & bits.length - 1] & wanted) == wanted; }
  /** The numbers of the hashes that may be here; how many those are. */
  int maybe(long[] h, int n, int[] found) {
    long[] bits = this.bits;
    int m = 0;
    for (int i = 0; i < n; i++) { long wanted = two(h[i]); found[m] = i; m += (bits[(int) (h[i] >>> 6) & bits.length - 1] & wanted) == wanted ? 1 : 0; }
    return m; }
  /** Look at where hashes would be, all at once: memory is slow, but may be asked for many things at a time. */
  long fetch(long[] h, int[] some, int n) {
    long[] table = this.table;
    long seen = 0L;
    if (exact) for (int x = 0; x < n; x++) seen ^= table[first(h[some[x]])];
    else for (int x = 0; x < n; x++) { int at = first(h[some[x]]); if (table[at + 1] != 0L) seen ^= keys[ends[which[at >> 1]]]; }
    return seen; }
  int first(long h) { return ((int) (h >>> 32) & (table.length >> 1) - 1) << 1; }
  int next(int at) { return at + 2 & table.length - 1; }
  /** The newest sequence number that deletes a key which its hash tells, 0 for none. */
  long newest(long h) {
    int at = first(h);
    while (table[at + 1] != 0L && table[at] != h) at = next(at);
    return table[at + 1]; }
  /** The same of any key: `key` takes it out of `row`, if there is one of its hash. */
  public long newest(long h, UnsafeProjection key, InternalRow row) {
    int at = first(h);
    while (table[at + 1] != 0L && (table[at] != h || !same(which[at >> 1], key.apply(row)))) at = next(at);
    return table[at + 1]; }
  boolean same(int number, UnsafeRow row) { return same(number, row.getBaseObject(), row.getBaseOffset(), row.getSizeInBytes()); }
  boolean same(int number, Object base, long offset, int size) {
    int from = ends[number];
    return ends[number + 1] - from == size && org.apache.spark.unsafe.array.ByteArrayMethods.arrayEquals(keys, Platform.BYTE_ARRAY_OFFSET + from, base, offset, size); }
  /** The hash of a value: equal values have equal ones. */
  static long of(Object v) {
    if (v == null) return NULL;
    if (v instanceof UTF8String) { UTF8String text = (UTF8String) v; return of(text.getBaseObject(), text.getBaseOffset(), text.numBytes()); }
    if (v instanceof byte[]) return of(v, Platform.BYTE_ARRAY_OFFSET, ((byte[]) v).length);
    if (v instanceof Double || v instanceof Float) { double d = ((Number) v).doubleValue(); return Double.doubleToLongBits(d == 0.0 ? 0.0 : d); }
    if (v instanceof Number) return ((Number) v).longValue();
    if (v instanceof Boolean) return ((Boolean) v).booleanValue() ? 1L : 0L;
    if (!(v instanceof Decimal)) return v.hashCode();
    return ((Decimal) v).precision() <= 18 ? ((Decimal) v).toUnscaledLong() : ((Decimal) v).toJavaBigDecimal().unscaledValue().hashCode(); }
  /** The same of bytes: eight at a time, the last eight once more if some are left. `mix` does the rest. */
  public static long of(Object base, long from, int n) {
    long h = n;
    if (n < 8) {
      for (int i = 0; i < n; i++) h = h << 8 | Platform.getByte(base, from + i) & 255;
      return h; }
    for (int i = 0; i < n - 8; i += 8) h = h * NULL + Platform.getLong(base, from + i);
    return h * NULL + Platform.getLong(base, from + n - 8); }
  static void hash(long[] values, long[] h) { for (int i = 0; i < values.length; i++) h[i] = mix(0L, values[i]); }
  /** Mix the values of a column into the hashes of rows. */
  static void hash(ColumnarBatch b, int column, DataType t, FrazilWords words, long[] h) {
    ColumnVector v = b.column(column);
    int digits = t instanceof DecimalType ? ((DecimalType) t).precision() : 99;
    if (ints(t) || digits <= 9) ints(v, h, b.numRows(), v.hasNull());
    else if (longs(t) || digits <= 18 || t.typeName().startsWith("time(")) longs(v, h, b.numRows(), v.hasNull());
    else if ((t instanceof StringType || t instanceof BinaryType) && v instanceof WritableColumnVector) bytes((WritableColumnVector) v, words, h, b.numRows(), v.hasNull());
    else for (int i = 0; i < b.numRows(); i++) h[i] = mix(h[i], v.isNullAt(i) ? NULL : of(b.getRow(i).get(column, t))); }
  static void ints(ColumnVector v, long[] h, int n, boolean nulls) { for (int i = 0; i < n; i++) h[i] = mix(h[i], nulls && v.isNullAt(i) ? NULL : v.getInt(i)); }
  static void longs(ColumnVector v, long[] h, int n, boolean nulls) { for (int i = 0; i < n; i++) h[i] = mix(h[i], nulls && v.isNullAt(i) ? NULL : v.getLong(i)); }
  /** No object is made for a row: the bytes of a batch are in one place, and a word of a dictionary is hashed once. */
  static void bytes(WritableColumnVector v, FrazilWords words, long[] h, int n, boolean nulls) {
    int first = 0;
    if (nulls) while (first < n && v.isNullAt(first)) first++;
    if (v.hasDictionary()) {
      words.turn(v);
      for (int i = 0; i < n; i++) h[i] = mix(h[i], nulls && v.isNullAt(i) ? NULL : words.hash(v, i));
    } else if (first == n) { for (int i = 0; i < n; i++) h[i] = mix(h[i], NULL);
    } else {
      UTF8String any = v.getUTF8String(first);
      Object base = any.getBaseObject();
      long start = any.getBaseOffset() - v.getArrayOffset(first);
      for (int i = 0; i < n; i++) h[i] = mix(h[i], nulls && v.isNullAt(i) ? NULL : of(base, start + v.getArrayOffset(i), v.getArrayLength(i))); } }
}

/** Hashes of the words of a dictionary. */
public class FrazilWords {
  Object dictionary; long[] hashes; boolean[] known;
  void turn(WritableColumnVector v) {
    Object now = FrazilTexts.dictionaryOf(v);
    if (now == dictionary && now != null) return;
    int size = now == null ? FrazilTexts.MOST + 1 : ((org.apache.parquet.column.Dictionary) now).getMaxId() + 1;
    dictionary = now; hashes = size > FrazilTexts.MOST ? null : new long[size]; known = hashes == null ? null : new boolean[size]; }
  long hash(WritableColumnVector v, int i) {
    if (hashes == null) return FrazilKeys.of(v.getUTF8String(i));
    int id = v.getDictionaryIds().getDictId(i);
    if (!known[id]) { hashes[id] = FrazilKeys.of(v.getUTF8String(i)); known[id] = true; }
    return hashes[id]; }
}

/** Keys applied to the rows of one file. */
public class FrazilMatch {
  final FrazilKeys keys; final int[] at; final long sequence; final UnsafeProjection project; final FrazilWords[] words; long[] hashes = new long[4096]; long seen = 0L;
  public FrazilMatch(FrazilKeys keys, int[] at, long sequence) {
    this.keys = keys; this.at = at; this.sequence = sequence; words = new FrazilWords[at.length];
    ArrayList refs = new ArrayList();
    for (int k = 0; k < at.length; k++) words[k] = new FrazilWords();
    for (int k = 0; k < at.length; k++) refs.add(new BoundReference(at[k], keys.types[k], true));
    project = keys.exact ? null : UnsafeProjection.create((scala.collection.immutable.Seq) scala.jdk.javaapi.CollectionConverters.asScala(refs).toSeq()); }
  boolean deletes(InternalRow row) {
    long h = 0L;
    for (int k = 0; k < at.length; k++) h = FrazilKeys.mix(h, FrazilKeys.of(row.get(at[k], keys.types[k])));
    return keys.maybe(h) && deletes(row, h); }
  boolean deletes(InternalRow row, long h) {
    return (!keys.exact ? keys.newest(h, project, row) : row.isNullAt(at[0]) ? keys.nullSeq : keys.newest(h)) > sequence; }
  boolean deletes(ColumnarBatch b, int i, long h) {
    if (!keys.exact) return keys.newest(h, project, b.getRow(i)) > sequence;
    ColumnVector v = b.column(at[0]);
    return (v.hasNull() && v.isNullAt(i) ? keys.nullSeq : keys.newest(h)) > sequence; }
  /** Mark the rows that are deleted. */
  void mark(ColumnarBatch b, long[] gone, int[] some) {
    long[] h = hashed(b);
    int maybe = keys.maybe(h, b.numRows(), some);
    seen ^= keys.fetch(h, some, maybe);
    for (int x = 0; x < maybe; x++) {
      int i = some[x];
      if (deletes(b, i, h[i])) gone[i >> 6] |= 1L << i; } }
  /** Hashes of the keys of all rows. */
  long[] hashed(ColumnarBatch b) {
    if (hashes.length < b.numRows()) hashes = new long[b.numRows()];
    if (keys.exact && keys.types[0] instanceof LongType && !b.column(at[0]).hasNull()) { FrazilKeys.hash(b.column(at[0]).getLongs(0, b.numRows()), hashes); return hashes; }
    Arrays.fill(hashes, 0L);
    for (int k = 0; k < at.length; k++) FrazilKeys.hash(b, at[k], keys.types[k], words[k], hashes);
    return hashes; }
}

/** A deletion vector: bits of deleted positions, of which it has a block of 65,536 at hand. */
public class FrazilVector {
  public static final long[] NONE = new long[1024];
  final HashMap blocks = new HashMap(); public long block = -1L; public long[] bits = NONE;
  public FrazilVector(byte[] blob) {
    ByteBuffer b = ByteBuffer.wrap(blob);
    int size = b.getInt(0);
    java.util.zip.CRC32 crc = new java.util.zip.CRC32();
    if (size != blob.length - 8) throw new IllegalStateException("corrupt deletion vector");
    crc.update(blob, 4, size);
    if ((int) crc.getValue() != b.getInt(4 + size)) throw new IllegalStateException("corrupt deletion vector");
    b.order(ByteOrder.LITTLE_ENDIAN);
    if (b.getInt(4) != 1681511377) throw new IllegalStateException("not a deletion vector");
    long maps = b.getLong(8);
    b.position(16);
    try {
      for (long m = 0L; m < maps; m++) {
        long high = ((long) b.getInt()) << 16;
        RoaringBitmap map = new RoaringBitmap();
        ByteBuffer rest = (ByteBuffer) b.slice();
        rest.order(ByteOrder.LITTLE_ENDIAN);
        map.deserialize(rest);
        b.position(b.position() + map.serializedSizeInBytes());
        add(high, map); }
    } catch (java.io.IOException e) { throw new IllegalStateException(e); } }
  public FrazilVector(RoaringBitmap map) { add(0L, map); }
  void add(long high, RoaringBitmap map) {
    for (ContainerPointer at = map.getContainerPointer(); at.getContainer() != null; at.advance()) blocks.put(Long.valueOf(high | at.key()), at.getContainer()); }
  /** The bits of 64 positions, which begin at a multiple of 64. */
  long word(long position) {
    if (position >>> 16 != block) turn(position >>> 16);
    return bits[(int) (position >>> 6) & 1023]; }
  /** Have another block at hand. */
  public void turn(long to) {
    block = to; bits = NONE;
    Container found = (Container) blocks.get(Long.valueOf(to));
    if (found == null) return;
    java.nio.LongBuffer all = found.toBitmapContainer().toLongBuffer();
    all.rewind();
    bits = new long[1024];
    all.get(bits); }
  boolean has(long position) { return (word(position & ~63L) >>> position & 1L) != 0L; }
  /** Mark rows that have consecutive positions; what is marked beyond them means nothing. */
  void mark(long first, int n, long[] gone) {
    long at = first & ~63L;
    int shift = (int) first & 63, last = n - 1 >> 6;
    long next = word(at);
    for (int w = 0; w <= last; w++) {
      long bits = next >>> shift;
      at += 64L;
      next = word(at);
      gone[w] |= shift == 0 ? bits : bits | next << 64 - shift; } }
}

/** What is left of a file's rows or batches. Columns from `cut` on, `extra` of them, are ours and are taken out. */
public class FrazilKept extends scala.collection.AbstractIterator implements java.io.Closeable {
  final scala.collection.Iterator in; final FrazilVector deleted, found; final FrazilMatch[] matches; final String name; final int at, cut, extra; final DataType[] types;
  long count = 0L; Object ready; int[] keep = new int[0]; long[] gone; UnsafeProjection shrink; ColumnarBatch seen, smaller; RoaringBitmap noted;
  /** `deleted` are positions in the file, which column `at` has; if there is none they are counted. `found` are what keys take, and counted; they are noted if they have a name. */
  public FrazilKept(scala.collection.Iterator in, FrazilVector deleted, int at, FrazilMatch[] matches, FrazilVector found, String name, int cut, int extra, DataType[] types) {
    this.in = in; this.deleted = deleted; this.at = at; this.matches = matches; this.found = found; this.name = name; this.cut = cut; this.extra = extra; this.types = types;
    noted = name == null ? null : new RoaringBitmap(); }
  public boolean hasNext() {                                // the consumer is done with the last batch when it asks
    while (ready == null && in.hasNext()) {
      Object o = in.next();
      ready = o instanceof ColumnarBatch ? batch((ColumnarBatch) o) : row((InternalRow) o); }
    if (ready == null && noted != null) { noted.runOptimize(); FrazilFound.put(name, noted); noted = null; }
    return ready != null; }
  public Object next() {
    if (!hasNext()) throw new NoSuchElementException();
    Object o = ready; ready = null; return o; }
  public void close() throws java.io.IOException { if (in instanceof java.io.Closeable) ((java.io.Closeable) in).close(); }
  void counted(int n) { count += n; if (count > Integer.MAX_VALUE) noted = null; }
  Object row(InternalRow r) {
    boolean taken = found != null && found.has(count);
    for (int k = 0; k < matches.length && !taken; k++) taken = matches[k].deletes(r);
    if (taken && noted != null) noted.add((int) count);
    boolean gone = taken || deleted != null && deleted.has(at < 0 ? count : r.getLong(at));
    counted(1);
    if (gone || extra == 0) return gone ? null : r;
    if (shrink == null) {
      ArrayList refs = new ArrayList();
      for (int i = 0; i < types.length; i++) refs.add(new BoundReference(i < cut ? i : i + extra, types[i], true));
      shrink = UnsafeProjection.create((scala.collection.immutable.Seq) scala.jdk.javaapi.CollectionConverters.asScala(refs).toSeq()); }
    return shrink.apply(r); }
  Object batch(ColumnarBatch b) {
    int n = b.numRows();
    if (n == 0) return null;
    if (keep.length < n + 8) { gone = new long[(n >> 6) + 1]; keep = new int[n + 8]; }
    for (int k = 0; k < matches.length; k++) matches[k].mark(b, gone, keep);
    if (found != null) found.mark(count, n, gone);
    if (noted != null) note(n);
    if (deleted != null) positions(b, n);
    counted(n);
    int same = first(gone, n), m = left(gone, keep, same, n);   // rows before the first that is gone stay where they are
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
  void note(int n) {
    for (int w = 0; w << 6 < n; w++) for (long bits = gone[w]; bits != 0L; bits &= bits - 1L) noted.add((int) count + (w << 6) + Long.numberOfTrailingZeros(bits)); }
  /** Mark the rows whose positions are deleted. */
  void positions(ColumnarBatch b, int n) {
    ColumnVector index = at < 0 ? null : b.column(at);
    long first = at < 0 ? count : index.getLong(0), last = at < 0 ? first + n - 1 : index.getLong(n - 1);
    if (last - first == n - 1) deleted.mark(first, n, gone);
    else for (int i = 0; i < n; i++) if (deleted.has(index.getLong(i))) gone[i >> 6] |= 1L << i; }   // Parquet's column index left pages out
  static int first(long[] gone, int n) {
    for (int w = 0; w << 6 < n; w++) if (gone[w] != 0L) return Math.min(n, (w << 6) + Long.numberOfTrailingZeros(gone[w]));
    return n; }
  static final int[] ZEROS = new int[256 * 8];              // of each byte, the places of the bits that are not set
  static {
    for (int b = 0; b < 256; b++) { int k = 8 * b; for (int i = 0; i < 8; i++) if ((b >> i & 1) == 0) ZEROS[k++] = i; } }
  /** The rows that stay, from the word of a row on, and no mark any more; how many rows there are then. Eight at a time: no branch is to be guessed. */
  static int left(long[] gone, int[] keep, int from, int n) {
    int m = from & ~63;
    if ((n & 63) != 0) gone[n >> 6] |= -1L << n;
    for (int i = m; i < n; i += 64) {
      long bits = gone[i >> 6];
      gone[i >> 6] = 0L;
      for (int b = 0; b < 64; b += 8) {
        int told = (int) (bits >>> b) & 255, at = told << 3, row = i + b;
        for (int k = 0; k < 8; k++) keep[m + k] = row + ZEROS[at + k];
        m += 8 - Integer.bitCount(told); } }
    return m; }
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
        || t.typeName().startsWith("time(") || digits > 9 && digits <= 18) longs(v, keep, from, n);
    else if (t instanceof DoubleType) doubles(v, keep, from, n);
    else if (t instanceof IntegerType || t instanceof DateType || t instanceof YearMonthIntervalType || digits <= 9) ints(v, keep, from, n);
    else if (t instanceof FloatType) for (int j = from; j < n; j++) v.putFloat(j, v.getFloat(keep[j]));
    else if (t instanceof BooleanType) for (int j = from; j < n; j++) v.putBoolean(j, v.getBoolean(keep[j]));
    else if (t instanceof ByteType) for (int j = from; j < n; j++) v.putByte(j, v.getByte(keep[j]));
    else if (t instanceof ShortType) for (int j = from; j < n; j++) v.putShort(j, v.getShort(keep[j]));
    else if (t instanceof StructType) for (int c = 0; c < ((StructType) t).fields().length; c++) pack(v.getChild(c), keep, from, n);
    else if (t instanceof VariantType) { pack(v.getChild(0), keep, from, n); pack(v.getChild(1), keep, from, n); }
    else if (v.arrayData() != null) arrays(v, keep, from, n);   // string, binary, wide decimal, array, map: the bytes stay where they are
    else throw new UnsupportedOperationException("deletes in a file with a column of type " + t); }
  // each loop that is often run is a method: it is compiled for itself, whatever columns came before
  static void longs(WritableColumnVector v, int[] keep, int from, int n) { for (int j = from; j < n; j++) v.putLong(j, v.getLong(keep[j])); }
  static void doubles(WritableColumnVector v, int[] keep, int from, int n) { for (int j = from; j < n; j++) v.putDouble(j, v.getDouble(keep[j])); }
  static void arrays(WritableColumnVector v, int[] keep, int from, int n) {
    for (int j = from; j < n; j++) v.putArray(j, v.getArrayOffset(keep[j]), v.getArrayLength(keep[j])); }
  static void ints(WritableColumnVector v, int[] keep, int from, int n) { for (int j = from; j < n; j++) v.putInt(j, v.getInt(keep[j])); }
}
