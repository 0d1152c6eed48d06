package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.procedures.*;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** `spark.sql.catalog.<name>`: what Spark asks is passed on, identifiers as ["db", "t"]. */
public class FrazilCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  String name, bridge;
  public void initialize(String name, CaseInsensitiveStringMap options) { this.name = name; this.bridge = options.get("bridge"); }
  public String name() { return name; }
  Object ask(String op, Object a, Object b, Object c) { return Frazil.ask(bridge, op, a, b, c); }
  static String parts(Identifier i) {
    List all = new ArrayList(Arrays.asList(i.namespace()));
    all.add(i.name());
    return Frazil.json(all);
  }
  static Identifier[] identifiers(String[] ns, Object answer) {
    String[] names = Frazil.strings(Frazil.value(answer));
    Identifier[] result = new Identifier[names.length];
    for (int i = 0; i < names.length; i++) result[i] = Identifier.of(ns, names[i]);
    return result;
  }
  FrazilTable table(Object answer) { return new FrazilTable(bridge, (Map) Frazil.value(answer)); }

  public Set capabilities() { return Collections.singleton(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE); }
  public Identifier[] listTables(String[] ns) {
    return identifiers(ns, ask("listTables", Frazil.json(ns), null, null));
  }
  public Table loadTable(Identifier i) {
    Object[] asked = (Object[]) evolved.get();
    evolved.remove();
    return asked != null && i.equals(asked[0]) ? (Table) asked[1] : table(ask("loadTable", parts(i), null, null));
  }
  public Table loadTable(Identifier i, String version) { return table(ask("loadTable", parts(i), version, null)); }
  public Table loadTable(Identifier i, long micros) { return table(ask("loadTable", parts(i), null, Long.toString(micros))); }
  public boolean tableExists(Identifier i) { return ((Boolean) ask("tableExists", parts(i), null, null)).booleanValue(); }
  public void invalidateTable(Identifier i) { ask("invalidateTable", parts(i), null, null); }

  static String definition(Column[] columns, Transform[] partitions, Map properties, String how) {
    return Frazil.json(Frazil.map(new Object[] {"schema", Frazil.raw(CatalogV2Util.v2ColumnsToStructType(columns).json()),
      "partitioning", Frazil.trees(partitions), "properties", properties, "how", how}));
  }
  public Table createTable(Identifier i, Column[] c, Transform[] p, Map m) {
    return table(ask("createTable", parts(i), definition(c, p, m, "create"), null));
  }
  StagedTable stage(Identifier i, Column[] c, Transform[] p, Map m, String how) {
    return new FrazilStaged(bridge, (Map) Frazil.value(ask("stageTable", parts(i), definition(c, p, m, how), null)));
  }
  public StagedTable stageCreate(Identifier i, Column[] c, Transform[] p, Map m) { return stage(i, c, p, m, "create"); }
  public StagedTable stageReplace(Identifier i, Column[] c, Transform[] p, Map m) { return stage(i, c, p, m, "replace"); }
  public StagedTable stageCreateOrReplace(Identifier i, Column[] c, Transform[] p, Map m) { return stage(i, c, p, m, "either"); }

  public Table alterTable(Identifier i, TableChange[] changes) {
    List all = new ArrayList();
    for (int n = 0; n < changes.length; n++) all.add(FrazilChange.describe(changes[n]));
    boolean evolves = evolves();
    FrazilTable t = table(ask(evolves ? "evolveTable" : "alterTable", parts(i), Frazil.json(all), null));
    if (evolves) evolved.set(new Object[] {i, t});
    return t;
  }
  /** The table with columns that a write WITH SCHEMA EVOLUTION will commit: Spark's analysis alters it, then loads it. */
  final ThreadLocal evolved = new ThreadLocal();
  static boolean evolves() {
    StackTraceElement[] calls = Thread.currentThread().getStackTrace();
    for (int n = 0; n < calls.length; n++) if (calls[n].getClassName().contains("SchemaEvolution")) return true;
    return false;
  }
  public boolean dropTable(Identifier i) { return ((Boolean) ask("dropTable", parts(i), Boolean.FALSE, null)).booleanValue(); }
  public boolean purgeTable(Identifier i) { return ((Boolean) ask("dropTable", parts(i), Boolean.TRUE, null)).booleanValue(); }
  public void renameTable(Identifier i, Identifier to) { ask("renameTable", parts(i), parts(to), null); }

  public String[][] listNamespaces() { return listNamespaces(new String[0]); }
  public String[][] listNamespaces(String[] ns) {
    List found = (List) Frazil.value(ask("listNamespaces", Frazil.json(ns), null, null));
    String[][] result = new String[found.size()][];
    for (int i = 0; i < result.length; i++) result[i] = Frazil.strings(found.get(i));
    return result;
  }
  public Map loadNamespaceMetadata(String[] ns) { return (Map) Frazil.value(ask("loadNamespace", Frazil.json(ns), null, null)); }
  public void createNamespace(String[] ns, Map m) { ask("createNamespace", Frazil.json(ns), Frazil.json(m), null); }
  public void alterNamespace(String[] ns, NamespaceChange[] changes) {
    Map sets = new LinkedHashMap();
    List removes = new ArrayList();
    for (int i = 0; i < changes.length; i++) {
      if (changes[i] instanceof NamespaceChange.SetProperty)
        sets.put(((NamespaceChange.SetProperty) changes[i]).property(), ((NamespaceChange.SetProperty) changes[i]).value());
      else removes.add(((NamespaceChange.RemoveProperty) changes[i]).property());
    }
    ask("alterNamespace", Frazil.json(ns), Frazil.json(sets), Frazil.json(removes));
  }
  public boolean dropNamespace(String[] ns, boolean cascade) {
    return ((Boolean) ask("dropNamespace", Frazil.json(ns), Boolean.valueOf(cascade), null)).booleanValue();
  }

  public UnboundProcedure loadProcedure(Identifier i) { return new FrazilProcedure(bridge, (Map) Frazil.value(ask("loadProcedure", parts(i), null, null))); }
  public Identifier[] listProcedures(String[] ns) {
    return identifiers(new String[] {"system"}, ask("listProcedures", Frazil.json(ns), null, null));
  }

  /** Functions are in `system`; joins of partitioned tables look for them without a namespace. */
  static boolean hasFunctions(String[] ns) { return ns.length == 0 || ns.length == 1 && ns[0].equalsIgnoreCase("system"); }
  public Identifier[] listFunctions(String[] ns) {
    if (!hasFunctions(ns)) loadNamespaceMetadata(ns);
    return hasFunctions(ns) ? identifiers(ns, Frazil.json(FrazilFunction.NAMES)) : new Identifier[0];
  }
  public org.apache.spark.sql.connector.catalog.functions.UnboundFunction loadFunction(Identifier i) {
    String known = hasFunctions(i.namespace()) ? FrazilFunction.known(i.name()) : null;
    if (known == null) org.apache.spark.unsafe.Platform.throwException(new org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException(i));
    return new FrazilFunction(known, (String) ask("loadFunction", known, null, null));
  }
}

/** A change of ALTER TABLE as a map: its class, and what that one says. */
public class FrazilChange {
  static Object position(TableChange.ColumnPosition p) {
    return p == null ? null : p instanceof TableChange.After ? (Object) ((TableChange.After) p).column() : (Object) Boolean.TRUE;
  }
  public static Map describe(TableChange change) {
    Map m = new LinkedHashMap();
    m.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange) m.put("column", ((TableChange.ColumnChange) change).fieldNames());
    if (change instanceof TableChange.SetProperty) {
      m.put("property", ((TableChange.SetProperty) change).property());
      m.put("value", ((TableChange.SetProperty) change).value());
    } else if (change instanceof TableChange.RemoveProperty) m.put("property", ((TableChange.RemoveProperty) change).property());
    else if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn a = (TableChange.AddColumn) change;
      m.put("type", Frazil.raw(a.dataType().json()));
      m.put("nullable", Boolean.valueOf(a.isNullable()));
      m.put("comment", a.comment());
      m.put("position", position(a.position()));
      m.put("default", a.defaultValue() == null ? null : a.defaultValue().getSql());
    } else if (change instanceof TableChange.RenameColumn) m.put("name", ((TableChange.RenameColumn) change).newName());
    else if (change instanceof TableChange.UpdateColumnType) m.put("type", Frazil.raw(((TableChange.UpdateColumnType) change).newDataType().json()));
    else if (change instanceof TableChange.UpdateColumnNullability) m.put("nullable", Boolean.valueOf(((TableChange.UpdateColumnNullability) change).nullable()));
    else if (change instanceof TableChange.UpdateColumnComment) m.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    else if (change instanceof TableChange.UpdateColumnPosition) m.put("position", position(((TableChange.UpdateColumnPosition) change).position()));
    else if (change instanceof TableChange.UpdateColumnDefaultValue) m.put("default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
    else if (change instanceof TableChange.DeleteColumn) m.put("ifExists", ((TableChange.DeleteColumn) change).ifExists());
    return m;
  }
}

public class FrazilColumn implements MetadataColumn {
  final String name; final DataType type;
  public FrazilColumn(String name, DataType type) { this.name = name; this.type = type; }
  public String name() { return name; }
  public DataType dataType() { return type; }
  public boolean isNullable() { return !name.equals("_file") && !name.equals("_pos") && !name.equals(FrazilRowTable.OLD); }
}

/** A table, a snapshot of one, or a metadata table. The key finds it in Python; equal `rows`, equal rows. */
public class FrazilTable implements Table, SupportsRead, SupportsWrite, SupportsMetadataColumns, TruncatableTable {
  public final String bridge, key, rows, name, id, version;
  final StructType schema; final Transform[] partitioning; final Map properties; final MetadataColumn[] hidden;
  final Set capabilities = new HashSet();
  public FrazilTable(String bridge, Map t) {
    this.bridge = bridge; key = (String) t.get("key"); rows = (String) t.get("rows"); name = (String) t.get("name");
    id = (String) t.get("id"); version = (String) t.get("version");
    schema = Frazil.struct(t.get("schema")); properties = (Map) t.get("properties");
    List list = (List) t.get("partitioning");
    partitioning = new Transform[list.size()];
    for (int i = 0; i < list.size(); i++) partitioning[i] = transform((List) list.get(i));
    list = (List) t.get("hidden");
    hidden = new MetadataColumn[list.size()];
    for (int i = 0; i < list.size(); i++) {
      String[] column = Frazil.strings(list.get(i));
      hidden[i] = new FrazilColumn(column[0], DataType.fromJson(column[1]));
    }
    String[] names = Frazil.strings(t.get("capabilities"));
    for (int i = 0; i < names.length; i++) capabilities.add(TableCapability.valueOf(names[i]));
  }
  FrazilTable(FrazilTable t) {
    bridge = t.bridge; key = t.key; rows = t.rows; name = t.name; id = t.id; version = t.version;
    schema = t.schema; properties = t.properties; partitioning = t.partitioning; hidden = t.hidden; capabilities.addAll(t.capabilities);
  }
  /** ["days", "ts"], or with a size ["bucket", "id", 16]; the column is quoted where it must be. */
  static Transform transform(List t) {
    String name = (String) t.get(0), column = (String) t.get(1);
    if (name.equals("identity")) return Expressions.identity(column);
    if (name.equals("bucket")) return Expressions.bucket(((Integer) t.get(2)).intValue(), new String[] {column});
    List arguments = new ArrayList();
    if (t.size() > 2) arguments.add(Expressions.literal(t.get(2)));
    arguments.add(Expressions.column(column));
    return Expressions.apply(name, (org.apache.spark.sql.connector.expressions.Expression[])
      arguments.toArray(new org.apache.spark.sql.connector.expressions.Expression[0]));
  }
  public String name() { return name; }
  public String id() { return id; }
  public String version() { return version; }
  public StructType schema() { return schema; }
  public Transform[] partitioning() { return partitioning; }
  public Map properties() { return properties; }
  public MetadataColumn[] metadataColumns() { return hidden; }
  public Set capabilities() { return capabilities; }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new FrazilTableScan(this, options); }
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new FrazilWrite(this, info); }
  public boolean truncateTable() { Frazil.ask(bridge, "truncate", key, null, org.apache.spark.sql.classic.SparkSession.active()); return true; }
  public boolean equals(Object o) { return o instanceof FrazilTable && ((FrazilTable) o).rows.equals(rows) && ((FrazilTable) o).bridge.equals(bridge); }
  public int hashCode() { return rows.hashCode(); }
  public String toString() { return name; }
}

/** CREATE and REPLACE TABLE [AS SELECT], all or nothing. */
public class FrazilStaged extends FrazilTable implements StagedTable {
  public FrazilStaged(String bridge, Map t) { super(bridge, t); }
  public void commitStagedChanges() { Frazil.ask(bridge, "commitStaged", key, null, null); }
  public void abortStagedChanges() { Frazil.ask(bridge, "abortStaged", key, null, null); }
  // StagedTable and TruncatableTable both default these since 4.3; Janino lets it pass, the JVM would throw AbstractMethodError
  public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }
  public CustomMetric[] supportedCustomMetrics() { return new CustomMetric[0]; }
}

/** Never run on a table: the optimizer rule takes its place. Also the rows that a procedure gives. */
public class FrazilScan implements ScanBuilder, LocalScan {
  final StructType schema; final InternalRow[] rows;
  public FrazilScan(StructType schema) { this(schema, new InternalRow[0]); }
  public FrazilScan(StructType schema, InternalRow[] rows) { this.schema = schema; this.rows = rows; }
  public Scan build() { return this; }
  public StructType readSchema() { return schema; }
  public InternalRow[] rows() { return rows; }
}

/** INSERT, writeTo, CTAS: the rows reach Python as a DataFrame. */
public class FrazilWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite, V1Write, InsertableRelation {
  final FrazilTable table; final LogicalWriteInfo info;
  String mode = "append"; Predicate[] where = new Predicate[0];
  public FrazilWrite(FrazilTable table, LogicalWriteInfo info) { this.table = table; this.info = info; }
  public Write build() { return this; }
  public boolean canOverwrite(Predicate[] p) { return true; }
  public WriteBuilder truncate() { mode = "truncate"; return this; }
  public WriteBuilder overwrite(Predicate[] p) { mode = "overwrite"; where = p; return this; }
  public WriteBuilder overwriteDynamicPartitions() { mode = "dynamic"; return this; }
  public InsertableRelation toInsertableRelation() { return this; }
  public void insert(org.apache.spark.sql.Dataset data, boolean overwrite) {
    String how = Frazil.json(Frazil.map(new Object[] {"mode", mode, "where", FrazilFilters.text(where),
      "options", info.options().asCaseSensitiveMap()}));
    Frazil.ask(table.bridge, "insert", table.key, how, data);
  }
}

public class FrazilProcedure implements UnboundProcedure, BoundProcedure {
  final String bridge, name, description; final ProcedureParameter[] parameters; final StructType output;
  public FrazilProcedure(String bridge, Map p) {
    this.bridge = bridge; name = (String) p.get("name"); description = (String) p.get("description");
    output = Frazil.struct(p.get("output"));
    List list = (List) p.get("parameters");
    parameters = new ProcedureParameter[list.size()];
    for (int i = 0; i < list.size(); i++) {
      String[] one = Frazil.strings(list.get(i));
      ProcedureParameter.Builder b = ProcedureParameter.in(one[0], DataType.fromJson(one[1]));
      parameters[i] = one[2] == null ? b.build() : b.defaultValue(one[2]).build();
    }
  }
  public String name() { return name; }
  public String description() { return description; }
  public BoundProcedure bind(StructType in) { return this; }
  public ProcedureParameter[] parameters() { return parameters; }
  public boolean isDeterministic() { return false; }
  public Iterator call(InternalRow input) {
    List values = new ArrayList();
    for (int i = 0; i < parameters.length; i++) values.add(argument(input.get(i, parameters[i].dataType()), parameters[i].dataType()));
    Object rows = Frazil.ask(bridge, "callProcedure", name, Frazil.json(values), org.apache.spark.sql.classic.SparkSession.active());
    return Collections.singletonList(new FrazilScan(output, (InternalRow[]) rows)).iterator();
  }
  /** Arrays as lists, maps as lists of pairs. */
  static Object argument(Object value, DataType type) {
    if (value instanceof ArrayData) {
      ArrayData array = (ArrayData) value;
      DataType element = ((ArrayType) type).elementType();
      List all = new ArrayList();
      for (int i = 0; i < array.numElements(); i++) all.add(array.isNullAt(i) ? null : argument(array.get(i, element), element));
      return all;
    }
    if (value instanceof MapData) {
      List keys = (List) argument(((MapData) value).keyArray(), new ArrayType(((MapType) type).keyType(), false));
      List items = (List) argument(((MapData) value).valueArray(), new ArrayType(((MapType) type).valueType(), true));
      List pairs = new ArrayList();
      for (int i = 0; i < keys.size(); i++) pairs.add(new Object[] {keys.get(i), items.get(i)});
      return pairs;
    }
    return Frazil.plain(value);
  }
}
