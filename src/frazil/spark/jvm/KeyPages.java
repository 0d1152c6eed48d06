package org.apache.spark.sql.connector.catalog;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.*;
import com.github.luben.zstd.Zstd;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.bytes.BytesInput;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.page.*;
import org.apache.parquet.column.values.rle.RunLengthBitPackingHybridDecoder;
import org.apache.parquet.compression.CompressionCodecFactory;
import org.apache.parquet.hadoop.CodecFactory;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.*;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.io.ParquetDecodingException;
import org.apache.parquet.schema.*;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The rows that keys of texts or bytes take of what a task reads of a file, found on Parquet's pages: hashed where they lie. Spark's reader would copy
 * each into a column that nobody asked for. Tasks load the classes of this file, as those of Deletes.java.
 */
public class FrazilKeyPages extends FrazilVector implements org.apache.spark.util.TaskCompletionListener {
  public static final java.util.concurrent.atomic.AtomicLong opened = new java.util.concurrent.atomic.AtomicLong();   // files of this process
  static final List KNOWN = Arrays.asList(new Encoding[] {Encoding.PLAIN, Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY, Encoding.RLE, Encoding.BIT_PACKED});
  final FrazilKeys[] sets; final long sequence; final boolean text, nullGone; final UnsafeProjection key; final ParquetFileReader file; final ColumnDescriptor column;
  PageReader pages; boolean[] words; byte[] bytes; int at, end, left; RunLengthBitPackingHybridDecoder levels, ids;   // of the row group; of the page
  long done = -1L; long[] last = NONE, prior = NONE;        // blocks are found one after the other; a look at the end of one may be at the next

  FrazilKeyPages(FrazilKeys[] sets, long sequence, ParquetFileReader file, ColumnDescriptor column) {
    super(new org.roaringbitmap.RoaringBitmap());
    this.sets = sets; this.sequence = sequence; this.file = file; this.column = column;
    text = sets[0].types[0] instanceof StringType;
    key = UnsafeProjection.create(sets[0].types);
    nullGone = deletes(FrazilKeys.mix(0L, FrazilKeys.NULL), null);
    TaskContext.get().addTaskCompletionListener((org.apache.spark.util.TaskCompletionListener) this); }

  /** Null if the keys are not of one column that has this id, or if the file has another kind of column or encoding. */
  public static FrazilKeyPages open(PartitionedFile part, Configuration conf, FrazilKeys[] sets, int id, long sequence) throws IOException {
    if (ByteOrder.nativeOrder() != ByteOrder.LITTLE_ENDIAN) return null;
    HadoopReadOptions.Builder options = HadoopReadOptions.builder(conf, part.toPath());
    options.withRange(part.start(), part.start() + part.length());   // the row groups that Spark's reader takes for the same part
    options.withCodecFactory(new FrazilPageCodecs(conf));
    ParquetFileReader file = new ParquetFileReader(HadoopInputFile.fromPath(part.toPath(), conf), options.build());
    FrazilKeyPages made = null;
    try {
      Type found = column(file.getFileMetaData().getSchema(), id);
      if (found != null && known(file.getRowGroups(), found.getName())) {
        MessageType asked = new MessageType("keys", new Type[] {found});
        file.setRequestedSchema(asked);
        made = new FrazilKeyPages(sets, sequence, file, (ColumnDescriptor) asked.getColumns().get(0));
        opened.incrementAndGet(); }
    } finally { if (made == null) file.close(); }
    return made; }
  static Type column(MessageType schema, int id) {
    Type found = null;
    for (int i = 0; i < schema.getFieldCount(); i++) {
      Type t = schema.getType(i);
      if (t.getId() == null || t.getId().intValue() != id) continue;
      if (found != null || !t.isPrimitive() || t.isRepetition(Type.Repetition.REPEATED) || t.asPrimitiveType().getPrimitiveTypeName() != PrimitiveType.PrimitiveTypeName.BINARY) return null;
      found = t; }
    return found; }
  static boolean known(List groups, String name) {
    for (int g = 0; g < groups.size(); g++) {
      List chunks = ((BlockMetaData) groups.get(g)).getColumns();
      for (int c = 0; c < chunks.size(); c++) {
        ColumnChunkMetaData chunk = (ColumnChunkMetaData) chunks.get(c);
        String[] path = chunk.getPath().toArray();
        if (path.length == 1 && path[0].equals(name) && !KNOWN.containsAll(chunk.getEncodings())) return false; } }
    return true; }
  public void onTaskCompletion(TaskContext context) {
    try { file.close(); } catch (IOException ignored) { } }

  public void turn(long to) {
    if (to < done - 1L) throw new IllegalStateException("keys are found in the order of rows");
    try {
      while (done < to) { prior = last; last = new long[1024]; done++; fill(last); }
    } catch (IOException e) { Platform.throwException(e); }
    block = to; bits = to == done ? last : prior; }
  void fill(long[] gone) throws IOException {
    for (int from = 0; from < 65536;) {
      if (left == 0 && !page()) return;
      int n = Math.min(left, 65536 - from);
      if (ids == null) plain(gone, from, n); else dictionary(gone, from, n);
      from += n; left -= n; } }

  /** The next page, if there is one. */
  boolean page() throws IOException {
    while (left == 0) {
      TaskContext.get().killTaskIfInterrupted();
      DataPage page = pages == null ? null : pages.readPage();
      if (page == null) {
        PageReadStore group = file.readNextRowGroup();
        if (group == null) { file.close(); return false; }
        pages = group.getPageReader(column);
        words = words(pages.readDictionaryPage());
      } else begin(page); }
    return true; }
  void begin(DataPage page) throws IOException {
    left = page.getValueCount();
    Encoding encoding;
    if (page instanceof DataPageV1) {
      DataPageV1 v1 = (DataPageV1) page;
      encoding = v1.getValueEncoding();
      take(v1.getBytes()); levels = null;
      if (column.getMaxDefinitionLevel() > 0) {
        if (v1.getDlEncoding() != Encoding.RLE) throw new ParquetDecodingException("definition levels are " + v1.getDlEncoding());
        int size = length();
        levels = levels(bytes, at, size);
        at += size; }
    } else {
      DataPageV2 v2 = (DataPageV2) page;
      encoding = v2.getDataEncoding();
      byte[] told = v2.getDefinitionLevels().toByteArray();
      levels = column.getMaxDefinitionLevel() > 0 ? levels(told, 0, told.length) : null;
      take(v2.getData()); }
    if (encoding == Encoding.PLAIN) ids = null;
    else if (!encoding.usesDictionary() || words == null) throw new ParquetDecodingException("a page of " + column + " is " + encoding);
    else ids = at == end ? new RunLengthBitPackingHybridDecoder(0, new ByteArrayInputStream(bytes, at, 0))   // all are null
      : new RunLengthBitPackingHybridDecoder(bytes[at] & 255, new ByteArrayInputStream(bytes, at + 1, end - at - 1)); }
  /** Have bytes at hand, where they are if they are in an array. */
  void take(BytesInput in) throws IOException {
    ByteBuffer b = in.toByteBuffer();
    bytes = b.hasArray() ? b.array() : in.toByteArray();
    at = b.hasArray() ? b.arrayOffset() + b.position() : 0;
    end = at + b.remaining(); }
  /** Which of the values of a page are there, null if they all are: that is one run, for which nothing need be asked by row. */
  RunLengthBitPackingHybridDecoder levels(byte[] told, int from, int size) {
    int run = 0, i = from, end = from + size;
    for (int shift = 0; shift < 32 && i < end; shift += 7) {
      run |= (told[i] & 127) << shift;
      if (told[i++] >= 0) break; }
    boolean all = (run & 1) == 0 && run >>> 1 >= left && i < end && told[i] == 1;
    return all ? null : new RunLengthBitPackingHybridDecoder(1, new ByteArrayInputStream(told, from, size)); }
  /** Which words of a dictionary are deleted. */
  boolean[] words(DictionaryPage page) throws IOException {
    if (page == null) return null;
    take(page.getBytes());
    boolean[] gone = new boolean[page.getDictionarySize()];
    for (int w = 0; w < gone.length; w++) gone[w] = value();
    return gone; }

  int length() {
    if (end - at < 4) throw new ParquetDecodingException("a page of " + column + " ends too soon");
    int n = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET + at);
    at += 4;
    if (n < 0 || n > end - at) throw new ParquetDecodingException("a page of " + column + " ends too soon");
    return n; }
  /** Whether the next value is deleted. */
  boolean value() {
    int n = length(), from = at;
    at += n;
    long h = FrazilKeys.mix(0L, FrazilKeys.of(bytes, Platform.BYTE_ARRAY_OFFSET + from, n));
    for (int s = 0; s < sets.length; s++)
      if (sets[s].maybe(h)) return deletes(h, text ? (Object) UTF8String.fromBytes(bytes, from, n) : Arrays.copyOfRange(bytes, from, from + n));
    return false; }
  boolean deletes(long h, Object value) {
    GenericInternalRow row = new GenericInternalRow(new Object[] {value});
    for (int s = 0; s < sets.length; s++) if (sets[s].maybe(h) && sets[s].newest(h, key, row) > sequence) return true;
    return false; }
  void plain(long[] gone, int from, int n) throws IOException {
    for (int i = from; i < from + n; i++)
      if (levels != null && levels.readInt() == 0 ? nullGone : value()) gone[i >> 6] |= 1L << i; }
  void dictionary(long[] gone, int from, int n) throws IOException {
    for (int i = from; i < from + n; i++)
      if (levels != null && levels.readInt() == 0 ? nullGone : words[ids.readInt()]) gone[i >> 6] |= 1L << i; }
}

/** Parquet's codecs, but pages of Zstandard at once and into one array: Parquet streams them through several. A page is done with when the next is asked for. */
public class FrazilPageCodecs implements CompressionCodecFactory, CompressionCodecFactory.BytesInputDecompressor {
  final CompressionCodecFactory others; byte[] page = new byte[0];
  public FrazilPageCodecs(Configuration conf) { others = (CompressionCodecFactory) new CodecFactory(conf, 0); }
  public CompressionCodecFactory.BytesInputCompressor getCompressor(CompressionCodecName name) { return others.getCompressor(name); }
  public CompressionCodecFactory.BytesInputDecompressor getDecompressor(CompressionCodecName name) {
    return name == CompressionCodecName.ZSTD ? (CompressionCodecFactory.BytesInputDecompressor) this : others.getDecompressor(name); }
  public void release() { others.release(); }
  public BytesInput decompress(BytesInput in, int size) throws IOException {
    ByteBuffer b = in.toByteBuffer();
    byte[] from = b.hasArray() ? b.array() : in.toByteArray();
    if (page.length < size) page = new byte[size];
    long made = Zstd.decompressByteArray(page, 0, size, from, b.hasArray() ? b.arrayOffset() + b.position() : 0, b.remaining());
    if (made != size) throw new IOException("a page has " + made + " bytes where " + size + " are told");
    return BytesInput.from(page, 0, size); }
  public void decompress(ByteBuffer in, int length, ByteBuffer out, int size) throws IOException {
    ByteBuffer some = (ByteBuffer) in.slice().limit(length);
    out.put(decompress(BytesInput.from(new ByteBuffer[] {some}), size).toByteBuffer()); }
}
