package org.apache.spark.sql.connector.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.*;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;

/** Catalyst expressions as JSON. A column is {c: [names], t: type}, a literal {v: text, t: type}, all else [class, operands]. */
public class FrazilFilters {
  static final JsonNodeFactory make = JsonNodeFactory.instance;
  public static String text(List filters) {
    ArrayNode all = make.arrayNode();
    for (int i = 0; i < filters.size(); i++) all.add(tree((Expression) filters.get(i)));
    return all.toString(); }
  static JsonNode tree(Expression e) {
    ArrayList path = new ArrayList();
    if (path(e, path)) {
      ObjectNode column = make.objectNode();
      ArrayNode names = column.putArray("c");
      for (int i = 0; i < path.size(); i++) names.add((String) path.get(i));
      return column.put("t", e.dataType().catalogString()); }
    if (e instanceof Literal) return literal(((Literal) e).value(), e.dataType());
    ArrayNode node = make.arrayNode().add(e instanceof InSet ? "In" : (e instanceof StaticInvoke ? ((StaticInvoke) e).staticObject() : e.getClass()).getSimpleName());
    scala.collection.Iterator children = e.children().iterator();
    while (children.hasNext()) node.add(tree((Expression) children.next()));
    if (e instanceof InSet) {
      scala.collection.Iterator values = ((InSet) e).hset().iterator();
      while (values.hasNext()) node.add(literal(values.next(), ((InSet) e).child().dataType())); }
    return node; }
  static final Map CLASSES = Frazil.map(new Object[] {"AND", "And", "OR", "Or", "NOT", "Not", "=", "EqualTo", "<=>", "EqualNullSafe", "<", "LessThan",
    "<=", "LessThanOrEqual", ">", "GreaterThan", ">=", "GreaterThanOrEqual", "IN", "In", "IS_NULL", "IsNull", "IS_NOT_NULL", "IsNotNull", "STARTS_WITH", "StartsWith"});
  /** The same of predicates for data sources. Tables of ours have texts of one collation only. */
  static JsonNode tree(org.apache.spark.sql.connector.expressions.Expression e) {
    if (e instanceof org.apache.spark.sql.connector.expressions.NamedReference) {
      ObjectNode column = make.objectNode();
      ArrayNode names = column.putArray("c");
      String[] path = ((org.apache.spark.sql.connector.expressions.NamedReference) e).fieldNames();
      for (int i = 0; i < path.length; i++) names.add(path[i]);
      return column.put("t", "string"); }
    if (e instanceof org.apache.spark.sql.connector.expressions.Literal) {
      org.apache.spark.sql.connector.expressions.Literal literal = (org.apache.spark.sql.connector.expressions.Literal) e;
      return literal(literal.value(), literal.dataType()); }
    String name = e instanceof org.apache.spark.sql.connector.expressions.GeneralScalarExpression ? ((org.apache.spark.sql.connector.expressions.GeneralScalarExpression) e).name() : "?";
    if (name.equals("BOOLEAN_EXPRESSION")) return tree(e.children()[0]);
    boolean unequal = name.equals("<>") || name.equals("!=");
    ArrayNode node = make.arrayNode().add(unequal ? "EqualTo" : CLASSES.containsKey(name) ? (String) CLASSES.get(name) : e.toString());
    for (int i = 0; i < e.children().length; i++) node.add(tree(e.children()[i]));
    return unequal ? make.arrayNode().add("Not").add(node) : node; }
  public static String text(org.apache.spark.sql.connector.expressions.Expression[] filters) {
    ArrayNode all = make.arrayNode();
    for (int i = 0; i < filters.length; i++) all.add(tree(filters[i]));
    return all.toString(); }
  static boolean path(Expression e, List names) {
    if (e instanceof AttributeReference) { names.add(((AttributeReference) e).name()); return true; }
    if (!(e instanceof GetStructField)) return false;
    Expression child = ((GetStructField) e).child();
    if (!path(child, names)) return false;
    names.add(((StructType) child.dataType()).fields()[((GetStructField) e).ordinal()].name());
    return true; }
  static JsonNode literal(Object value, DataType type) {
    ObjectNode node = make.objectNode().put("t", type.catalogString());
    if (value == null) return node.putNull("v");
    return node.put("v", value instanceof byte[] ? new String(org.apache.commons.codec.binary.Hex.encodeHex((byte[]) value)) : value.toString()); }
}

/** Columns of one value per file, as Python packs them: see scan/files.py. */
public class FrazilColumns {
  final ByteBuffer in; final int n;
  public FrazilColumns(Object data) { in = ByteBuffer.wrap(data instanceof byte[] ? (byte[]) data : taken((String) data)); in.order(ByteOrder.LITTLE_ENDIAN); n = in.getInt(); }
  /** What is large comes in a file, since py4j would write it as text. */
  static byte[] taken(String file) {
    java.nio.file.Path path = java.nio.file.Paths.get(file, new String[0]);
    try { byte[] data = java.nio.file.Files.readAllBytes(path); java.nio.file.Files.delete(path); return data; }
    catch (java.io.IOException e) { throw new IllegalStateException(e); } }
  byte[] bytes(int length) { byte[] b = new byte[length]; in.get(b); return b; }
  byte[] valid() { return in.get() == 0 ? null : bytes(n); }
  /** The numbers of a column, after what `valid` tells of them. */
  long[] numbers(DataType t) {
    long[] out = new long[n];
    if (FrazilKeys.ints(t)) for (int i = 0; i < n; i++) out[i] = in.getInt();
    else { in.asLongBuffer().get(out); in.position(in.position() + 8 * n); }
    return out; }
  Object[] column(DataType t) {
    Object[] out = new Object[n];
    byte[] valid = valid();
    if (t instanceof StructType) {
      StructField[] fields = ((StructType) t).fields();
      Object[][] inner = new Object[fields.length][];
      for (int c = 0; c < fields.length; c++) inner[c] = column(fields[c].dataType());
      for (int i = 0; i < n; i++) out[i] = row(inner, i);
    } else if (t instanceof StringType || t instanceof BinaryType) {
      int[] ends = new int[n + 1];
      for (int i = 0; i <= n; i++) ends[i] = in.getInt();
      for (int i = 0; i < n; i++) { byte[] b = bytes(ends[i + 1] - ends[i]); out[i] = t instanceof StringType ? (Object) UTF8String.fromBytes(b) : b; }
    } else if (t instanceof DecimalType) {
      for (int i = 0; i < n; i++) {
        byte[] b = bytes(16);
        for (int k = 0; k < 8; k++) { byte x = b[k]; b[k] = b[15 - k]; b[15 - k] = x; }
        out[i] = Decimal.apply(new BigDecimal(new BigInteger(b), ((DecimalType) t).scale()), ((DecimalType) t).precision(), ((DecimalType) t).scale()); }
    } else if (t instanceof BooleanType) { for (int i = 0; i < n; i++) out[i] = Boolean.valueOf(in.get() != 0);
    } else if (t instanceof IntegerType || t instanceof DateType) { for (int i = 0; i < n; i++) out[i] = Integer.valueOf(in.getInt());
    } else if (t instanceof FloatType) { for (int i = 0; i < n; i++) out[i] = Float.valueOf(in.getFloat());
    } else if (t instanceof DoubleType) { for (int i = 0; i < n; i++) out[i] = Double.valueOf(in.getDouble());
    } else { for (int i = 0; i < n; i++) out[i] = Long.valueOf(in.getLong()); }
    if (valid != null) for (int i = 0; i < n; i++) if (valid[i] == 0) out[i] = null;
    return out; }
  static InternalRow row(Object[][] columns, int i) {
    Object[] values = new Object[columns.length];
    for (int c = 0; c < values.length; c++) values[c] = columns[c][i];
    return new GenericInternalRow(values); }
}

/** Sets of keys that executors fetch once. The newest are kept for the queries that follow: the deletes of a table are the same until the next commit. */
public class FrazilShared {
  static final long MOST = 64L << 20;
  static final LinkedHashMap kept = new LinkedHashMap(16, 0.75f, true);
  static long size = 0L;
  public static synchronized void clear() { kept.clear(); size = 0L; }
  public static synchronized Map kept() { return new LinkedHashMap(kept); }
  static synchronized Object get(String name, org.apache.spark.SparkContext context, StructType keys, byte[] packed) {
    Object[] found = (Object[]) kept.get(name);
    if (found == null) {
      FrazilKeys made = unpacked(new FrazilColumns(packed), keys);
      made.name = name;
      found = new Object[] {org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context).broadcast(made), Integer.valueOf(packed.length)};
      kept.put(name, found);
      size += packed.length;
      Iterator oldest = kept.values().iterator();
      while (size > MOST && kept.size() > 1) { size -= ((Integer) ((Object[]) oldest.next())[1]).intValue(); oldest.remove(); } }
    return found[0]; }
  /** A set is columns of its own: which of the key columns, their values, and the sequence numbers. */
  static FrazilKeys unpacked(FrazilColumns set, StructType keys) {
    int[] columns = new int[set.in.getInt()];
    DataType[] types = new DataType[columns.length];
    Object[][] values = new Object[columns.length][];
    byte[] valid = null;
    long[] numbers = null;
    for (int c = 0; c < columns.length; c++) {
      columns[c] = set.in.getInt();
      types[c] = keys.fields()[columns[c]].dataType();
      if (columns.length == 1 && FrazilKeys.exact(types)) { valid = set.valid(); numbers = set.numbers(types[c]); }
      else values[c] = set.column(types[c]); }
    set.valid();
    long[] sequences = set.numbers(DataTypes.LongType);
    return numbers == null ? FrazilKeys.of(columns, types, values, sequences) : FrazilKeys.of(columns, types, numbers, valid, sequences); }
}

/** Which files a relation has: asked of Python with the filters Spark pushed down. Equal keys mean equal rows, for ever. */
public class FrazilFiles implements FileIndex {
  final String bridge; final String key, root; final long size; final StructType constants, keys;
  final org.apache.spark.SparkContext context;
  public FrazilFiles(String bridge, String key, String root, long size, StructType constants, StructType keys, org.apache.spark.SparkContext context) {
    this.bridge = bridge; this.key = key; this.root = root; this.size = size; this.constants = constants; this.keys = keys; this.context = context; }
  public scala.collection.immutable.Seq rootPaths() { return Frazil.seq(Collections.singletonList(new Path(root))); }
  public scala.collection.immutable.Seq listFiles(scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    List parts = FrazilPlan.list(partitionFilters), all = new ArrayList(parts);
    all.addAll(FrazilPlan.list(dataFilters));
    FrazilColumns files = new FrazilColumns(Frazil.ask(bridge, "listFiles", key, FrazilFilters.text(all), null));
    boolean deletes = files.in.get() != 0;
    Object[] paths = files.column(DataTypes.StringType), sizes = files.column(DataTypes.LongType);
    Object[] deleted = deletes ? files.column(DataTypes.BinaryType) : null, sequence = deletes ? files.column(DataTypes.LongType) : null;
    Object[] sets = deletes ? files.column(DataTypes.BinaryType) : null, shared = deletes ? keySets(files) : null;
    Object[][] columns = new Object[constants.fields().length][];
    for (int c = 0; c < columns.length; c++) columns[c] = files.column(constants.fields()[c].dataType());
    BasePredicate wanted = parts.isEmpty() ? null : predicate(parts);   // Spark does not check these again
    ArrayList out = new ArrayList();
    for (int i = 0; i < files.n; i++) {
      InternalRow row = FrazilColumns.row(columns, i);
      if (wanted != null && !wanted.eval(row)) continue;
      FileStatus status = new FileStatus(((Long) sizes[i]).longValue(), false, 1, 128L << 20, 0L, new Path(paths[i].toString()));
      HashMap extra = new HashMap();
      if (deletes && deleted[i] != null) extra.put(FrazilParquet.DELETED, deleted[i]);
      if (deletes && sets[i] != null) {
        java.nio.IntBuffer numbers = ByteBuffer.wrap((byte[]) sets[i]).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
        Object[] mine = new Object[numbers.remaining()];
        for (int k = 0; k < mine.length; k++) mine[k] = shared[numbers.get(k)];
        extra.put(FrazilParquet.KEYS, mine);
        extra.put(FrazilParquet.SEQUENCE, sequence[i]); }
      out.add(PartitionDirectory.apply(row, Frazil.seq(Collections.singletonList(new FileStatusWithMetadata(status, FrazilPlan.map(extra)))))); }
    return Frazil.seq(out); }
  Object[] keySets(FrazilColumns files) {
    Object[] shared = new Object[files.in.getInt()];
    for (int s = 0; s < shared.length; s++) {
      String name = context.applicationId() + keys.json() + new BigInteger(files.bytes(16));
      shared[s] = FrazilShared.get(name, context, keys, files.bytes(files.in.getInt())); }
    return shared; }
  BasePredicate predicate(List filters) {
    HashMap used = new HashMap();
    Expression all = null;
    for (int i = 0; i < filters.size(); i++) {
      Expression f = (Expression) filters.get(i);
      all = all == null ? f : new And(all, f);
      scala.collection.Iterator refs = f.references().iterator();
      while (refs.hasNext()) { Attribute a = (Attribute) refs.next(); used.put(a.name(), a); } }
    ArrayList attributes = new ArrayList();
    for (int c = 0; c < constants.fields().length; c++) {
      Object a = used.get(constants.fields()[c].name());
      attributes.add(a != null ? a : FrazilPlan.attribute(constants.fields()[c])); }
    return Predicate.createInterpreted((Expression) BindReferences.bindReference(all, new org.apache.spark.sql.catalyst.expressions.package$AttributeSeq(Frazil.seq(attributes)), false)); }
  public String[] inputFiles() {
    FrazilColumns files = new FrazilColumns(Frazil.ask(bridge, "listFiles", key, "[]", null));
    files.in.get();
    Object[] paths = files.column(DataTypes.StringType);
    String[] out = new String[paths.length];
    for (int i = 0; i < out.length; i++) out[i] = new Path(paths[i].toString()).toUri().toString();
    return out; }
  public void refresh() {}
  public long sizeInBytes() { return size; }
  public StructType partitionSchema() { return constants; }
  public boolean equals(Object o) { return o instanceof FrazilFiles && ((FrazilFiles) o).key.equals(key); }
  public int hashCode() { return key.hashCode(); }
  public String toString() { return "Frazil " + root; }
}

/** Rows that Python workers read. Columns and filters arrive when the query is planned, as for files. */
public class FrazilRows extends BaseRelation implements CatalystScan {
  final String bridge; final String key; final long size; final StructType schema; final org.apache.spark.sql.SQLContext context;
  public FrazilRows(String bridge, String key, long size, StructType schema, org.apache.spark.sql.SQLContext context) {
    this.bridge = bridge; this.key = key; this.size = size; this.schema = schema; this.context = context; }
  public org.apache.spark.sql.SQLContext sqlContext() { return context; }
  public StructType schema() { return schema; }
  public long sizeInBytes() { return size; }
  public boolean needConversion() { return false; }
  public org.apache.spark.rdd.RDD buildScan(scala.collection.immutable.Seq columns, scala.collection.immutable.Seq filters) {
    ObjectNode asked = JsonNodeFactory.instance.objectNode().put("filters", FrazilFilters.text(FrazilPlan.list(filters)));
    ArrayNode names = asked.putArray("columns");
    scala.collection.Iterator i = columns.iterator();
    while (i.hasNext()) names.add(((Attribute) i.next()).name());
    return (org.apache.spark.rdd.RDD) Frazil.ask(bridge, "readRows", key, asked.toString(), context.sparkSession()); }
  public boolean equals(Object o) { return o instanceof FrazilRows && ((FrazilRows) o).key.equals(key); }
  public int hashCode() { return key.hashCode(); }
  public String toString() { return "Frazil by Arrow"; }
}

/** One plan for a scan, from one description in JSON: a union of relations, each projected to the columns of the table. */
public class FrazilPlan {
  public static scala.collection.immutable.Map map(Map m) { return (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(m)); }
  public static List list(scala.collection.immutable.Seq s) {
    ArrayList out = new ArrayList();
    scala.collection.Iterator i = s.iterator();
    while (i.hasNext()) out.add(i.next());
    return out; }
  static AttributeReference attribute(StructField f) {
    return new AttributeReference(f.name(), f.dataType(), f.nullable(), f.metadata(), NamedExpression.newExprId(), Frazil.seq(new ArrayList())); }
  static StructType struct(JsonNode n) { return (StructType) DataType.fromJson(n.toString()); }
  static String text(JsonNode n, String name) { return ((JsonNode) n.get(name)).asText(); }
  /** What a scan must know of its session. */
  public static Map facts(Object session) {
    return Frazil.map(new Object[] {"scan", ((org.apache.spark.sql.classic.SparkSession) session).conf().get("spark.frazil.scan", null),
      "byName", Boolean.valueOf(readsByName(session)), "columns", Boolean.valueOf(FrazilStatistics.ofColumns())}); }
  /** Whether Spark's reader of rows (not of batches) would go by names: it asks the session, not the relation. */
  public static boolean readsByName(Object session) {
    org.apache.spark.sql.RuntimeConfig conf = ((org.apache.spark.sql.classic.SparkSession) session).conf();
    return !"true".equals(conf.get(FrazilParquet.BY_ID, "false")) && !("true".equals(conf.get("spark.sql.parquet.enableVectorizedReader"))
      && "true".equals(conf.get("spark.sql.parquet.enableNestedColumnVectorizedReader"))); }
  public static boolean hasFileSystem(Object session, String scheme) {
    try { org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf()); return true;
    } catch (Throwable e) { return false; } }
  public static LogicalPlan plan(String bridge, Object session, String description) {
    JsonNode all = Frazil.parse(description), relations = (JsonNode) all.get("relations");   // Janino takes get() for the interface's
    ArrayList plans = new ArrayList();
    for (int i = 0; i < relations.size(); i++) plans.add(relation(bridge, (org.apache.spark.sql.classic.SparkSession) session, (JsonNode) relations.get(i)));
    if (plans.size() == 1) return (LogicalPlan) plans.get(0);
    if (plans.size() > 1) return new Union(Frazil.seq(plans), false, false);
    ArrayList attributes = new ArrayList();
    StructField[] fields = FrazilPlan.struct((JsonNode) all.get("schema")).fields();
    for (int c = 0; c < fields.length; c++) attributes.add(attribute(fields[c]));
    return new LocalRelation(Frazil.seq(attributes), Frazil.seq(new ArrayList()), false, scala.Option.empty()); }
  /** The bridge and the key of one of our relations, or null. */
  static String[] source(Object leaf) {
    Object r = ((LogicalRelation) leaf).relation();
    if (r instanceof FrazilRows) return new String[] {((FrazilRows) r).bridge, ((FrazilRows) r).key};
    if (!(r instanceof HadoopFsRelation) || !(((HadoopFsRelation) r).location() instanceof FrazilFiles)) return null;
    FrazilFiles files = (FrazilFiles) ((HadoopFsRelation) r).location();
    return new String[] {files.bridge, files.key}; }
  /** A session like this one with settings for one relation: split sizes and the reader's ways are asked of its session. */
  static org.apache.spark.sql.classic.SparkSession set(org.apache.spark.sql.classic.SparkSession session, JsonNode settings) {
    if (settings.size() == 0) return session;
    org.apache.spark.sql.classic.SparkSession own = session.cloneSession();
    Iterator names = settings.fieldNames();
    while (names.hasNext()) { String name = (String) names.next(); own.conf().set(name, ((JsonNode) settings.get(name)).asText()); }
    return own; }
  static Expression parsed(org.apache.spark.sql.classic.SparkSession session, String sql) {
    try { return session.sessionState().sqlParser().parseExpression(sql); }
    catch (org.apache.spark.sql.catalyst.parser.ParseException e) { throw new IllegalStateException(e); } }
  static LogicalPlan relation(String bridge, org.apache.spark.sql.classic.SparkSession session, JsonNode r) {
    String kind = text(r, "kind"), key = text(r, "key");
    JsonNode told = (JsonNode) r.get("statistics");
    long size = ((JsonNode) told.get("size")).asLong();
    if (kind.equals("arrow"))
      return FrazilStatistics.on(LogicalRelation$.MODULE$.apply(new FrazilRows(bridge, key, size, FrazilPlan.struct((JsonNode) r.get("data")), session.sqlContext()), false), text(r, "name"), told);
    StructType constants = FrazilPlan.struct((JsonNode) r.get("constants"));
    StructType keys = FrazilPlan.struct((JsonNode) r.get("keys"));
    HashMap options = new HashMap();
    options.put(FrazilParquet.BY_ID, "true");
    options.put("ignoreCorruptFiles", "false"); options.put("ignoreMissingFiles", "false");   // rows that are not read would be lost to whoever rewrites them
    options.put("datetimeRebaseMode", "CORRECTED"); options.put("int96RebaseMode", "CORRECTED");   // the format has one calendar, whatever the session wants
    boolean local = session.sparkContext().isLocal() && text(r, "root").startsWith("file:");   // where all our classes are, and files are on the disk
    FileFormat format = !kind.equals("parquet") ? (FileFormat) new FrazilParquet(keys, local)
      : local ? new FrazilLocalParquet() : new org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat();
    HadoopFsRelation files = new HadoopFsRelation(new FrazilFiles(bridge, key, text(r, "root"), size, constants, keys, session.sparkContext()), constants, FrazilPlan.struct((JsonNode) r.get("data")),
      scala.Option.empty(), format, map(options), set(session, (JsonNode) r.get("settings")));
    LogicalRelation leaf = FrazilStatistics.on(LogicalRelation$.MODULE$.apply(files, false), text(r, "name"), told);
    HashMap found = new HashMap();
    scala.collection.Iterator i = leaf.output().iterator();
    while (i.hasNext()) { Attribute a = (Attribute) i.next(); found.put(a.name(), a); }
    ArrayList out = new ArrayList();
    boolean resolved = true;
    JsonNode select = (JsonNode) r.get("select");
    for (int c = 0; c < select.size(); c++) {
      JsonNode s = (JsonNode) select.get(c);
      String name = ((JsonNode) s.get(0)).asText();
      boolean column = s.size() == 2;                       // [name, column] or [name, null, SQL text]
      Expression e = column ? (Expression) found.get(((JsonNode) s.get(1)).asText()) : parsed(session, ((JsonNode) s.get(2)).asText());
      resolved = resolved && column;
      out.add(new Alias(e, name, NamedExpression.newExprId(), Frazil.seq(new ArrayList()), scala.Option.empty(), Frazil.seq(new ArrayList()))); }
    LogicalPlan plan = new Project(Frazil.seq(out), leaf);
    return resolved ? plan : (LogicalPlan) session.sessionState().analyzer().execute(plan); }
}
