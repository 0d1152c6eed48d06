package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.*;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table to which Spark's rules for row-level commands apply. Only when a command runs does it stand for its target: else those rules would
 * take the command before we see it.
 */
public class FrazilRowTable extends FrazilTable implements SupportsRowLevelOperations {
  /** The row as it was, which stands for where it is: of tables whose rows are changed by their keys. */
  public static final String OLD = "_old_row";
  final boolean old;
  public FrazilRowTable(FrazilTable table, boolean old) { super(table); this.old = old; }
  public MetadataColumn[] metadataColumns() { return old ? new MetadataColumn[] {new FrazilColumn(OLD, schema)} : hidden; }
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) { return new FrazilDelta(this, info.command(), old); }
}

/** What Spark's rules ask of a table whose rows they are to change: a row is known by its file and its position, or by itself. Nothing is written by it. */
public class FrazilDelta implements SupportsDelta, RowLevelOperationBuilder {
  final FrazilTable table; final RowLevelOperation.Command command; final boolean old;
  public FrazilDelta(FrazilTable table, RowLevelOperation.Command command, boolean old) { this.table = table; this.command = command; this.old = old; }
  public RowLevelOperation build() { return this; }
  public RowLevelOperation.Command command() { return command; }
  public NamedReference[] rowId() {
    if (old) return new NamedReference[] {Expressions.column(FrazilRowTable.OLD)};
    return new NamedReference[] {Expressions.column("_file"), Expressions.column("_pos")}; }
  public NamedReference[] requiredMetadataAttributes() {
    for (int i = 0; !old && i < table.hidden.length; i++) if (table.hidden[i].name().equals("_row_id")) return new NamedReference[] {Expressions.column("_row_id")};
    return new NamedReference[0]; }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) { throw new UnsupportedOperationException("rows of " + table + " are not changed this way"); }
}

/** DELETE, UPDATE and MERGE as queries, made by Spark's own rules. */
public class FrazilRowLevel {
  static final scala.collection.immutable.Seq NONE = Frazil.seq(Collections.EMPTY_LIST);
  /**
   * The rows that a command changes: `__row_operation` (1 delete, 2 update, 3 insert), the columns, `_file`, `_pos`, and `_row_id` where there is one.
   * A MERGE that only inserts has just the columns. Rows of the target for which `only` is not true (if there is one) are not looked at.
   */
  public static LogicalPlan changes(LogicalPlan command, Expression only) { return changes(command, only, false); }
  /** The same, with the row as it was (`_old_row`, a struct) in the place of `_file` and `_pos`. */
  public static LogicalPlan oldAndNew(LogicalPlan command, Expression only) { return (LogicalPlan) changes(command, only, true).transformUp(new FrazilOldRows()); }
  static LogicalPlan changes(LogicalPlan command, Expression only, boolean old) {
    command = (LogicalPlan) ResolveRowLevelCommandAssignments$.MODULE$.apply((LogicalPlan) prepared(command, old).transformExpressionsDown(new FrazilGiven()));
    command = (LogicalPlan) command.transformExpressionsDown(new FrazilAsserts());
    Rule rule = command instanceof DeleteFromTable ? (Rule) RewriteDeleteFromTable$.MODULE$ : command instanceof UpdateTable ? (Rule) RewriteUpdateTable$.MODULE$ : (Rule) RewriteMergeIntoTable$.MODULE$;
    LogicalPlan made = (LogicalPlan) rule.apply(command);
    if (!(made instanceof V2WriteCommand)) throw new IllegalStateException("Spark did not rewrite " + command.getClass().getSimpleName());
    // what is now is so for every query that looks at the changes
    LogicalPlan query = (LogicalPlan) org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$.MODULE$.apply(((V2WriteCommand) made).query());
    return only == null ? query : (LogicalPlan) query.transformUp(new FrazilOnly(only)); }
  static LogicalPlan prepared(LogicalPlan command, boolean old) {
    if (command instanceof DeleteFromTable) return new DeleteFromTable(open(((DeleteFromTable) command).table(), old), hidden(((DeleteFromTable) command).condition()));
    if (command instanceof UpdateTable) return new UpdateTable(open(((UpdateTable) command).table(), old), ((UpdateTable) command).assignments(), ((UpdateTable) command).condition());
    MergeIntoTable m = (MergeIntoTable) command;
    return new MergeIntoTable(open(m.targetTable(), old), m.sourceTable(), m.mergeCondition(), m.matchedActions(), m.notMatchedActions(), m.notMatchedBySourceActions(), m.withSchemaEvolution()); }
  /** Spark leaves a DELETE of all rows, said so, to tables that can be truncated: here it is said otherwise. */
  static Expression hidden(Expression condition) {
    Literal one = Literal.create(Integer.valueOf(1), DataTypes.IntegerType);
    return condition.equals(Literal.create(Boolean.TRUE, DataTypes.BooleanType)) ? new EqualTo(one, one) : condition; }
  static LogicalPlan open(LogicalPlan target, boolean old) {
    while (target instanceof SubqueryAlias) target = ((SubqueryAlias) target).child();
    return unnamed(with(target, 0, new FrazilRowTable(FrazilRule.table(target), old))); }
  /** A relation as it is here: Spark would look it up again by its name, and may not find columns that are yet to be committed. */
  static LogicalPlan unnamed(LogicalPlan relation) { return with(with(relation, 2, scala.Option.empty()), 3, scala.Option.empty()); }
  static LogicalPlan with(LogicalPlan relation, int place, Object part) {
    Object[] parts = new Object[((scala.Product) relation).productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = ((scala.Product) relation).productElement(i);
    parts[place] = part;
    return (LogicalPlan) relation.makeCopy(parts); }
  /** A command on another state of its table, wherever it reads it. */
  public static LogicalPlan moved(LogicalPlan command, String table) {
    FrazilTable old = FrazilRule.table(FrazilRule.target(command));
    return (LogicalPlan) command.transformDownWithSubqueries(new FrazilMoved(old, new FrazilTable(old.bridge, (Map) Frazil.value(table)))); }
  /** Whether an UPDATE gives the same rows whenever it is asked, and reads nothing but its table. */
  public static boolean isRepeatable(LogicalPlan command) {
    scala.collection.Iterator i = command.expressions().iterator();
    while (i.hasNext()) { Expression e = (Expression) i.next(); if (!e.deterministic() || SubqueryExpression.hasSubquery(e)) return false; }
    return true; }
  static void conjuncts(Expression e, List out) {
    if (e instanceof And) { conjuncts(((And) e).left(), out); conjuncts(((And) e).right(), out); } else out.add(e); }
  static Expression all(List conditions) {
    Expression all = null;
    for (int i = 0; i < conditions.size(); i++) all = all == null ? (Expression) conditions.get(i) : new And(all, (Expression) conditions.get(i));
    return all; }
  static boolean within(Expression e, LogicalPlan plan) { return e.references().subsetOf(plan.outputSet()); }
  static boolean ordered(DataType t) {
    return t instanceof IntegralType || t instanceof DecimalType || t instanceof DateType || t instanceof TimestampType || t instanceof TimestampNTZType || t.equals(DataTypes.StringType); }
  /** The columns of the target that rows of the source must equal, each with what it must equal; pairs. */
  static List keys(MergeIntoTable merge) {
    List found = new ArrayList(), conditions = new ArrayList();
    conjuncts(merge.mergeCondition(), conditions);
    for (int i = 0; i < conditions.size(); i++) {
      if (!(conditions.get(i) instanceof EqualTo)) continue;
      Expression a = ((EqualTo) conditions.get(i)).left(), b = ((EqualTo) conditions.get(i)).right();
      if (within(a, merge.sourceTable())) { Expression swap = a; a = b; b = swap; }
      boolean column = a instanceof AttributeReference && within(a, merge.targetTable()) && ordered(a.dataType());
      if (column && within(b, merge.sourceTable()) && b.deterministic() && !SubqueryExpression.hasSubquery(b)) { found.add(a); found.add(b); } }
    return found; }
  public static boolean hasKeys(LogicalPlan command) { return command instanceof MergeIntoTable && ((MergeIntoTable) command).notMatchedBySourceActions().isEmpty() && !keys((MergeIntoTable) command).isEmpty(); }
  /**
   * A MERGE from a source that was made, whose condition says too in which range the keys of the source are: files of the target without such
   * keys need not be read.
   */
  public static LogicalPlan narrowed(org.apache.spark.sql.classic.Dataset source, LogicalPlan command) {
    MergeIntoTable m = (MergeIntoTable) command;
    LogicalPlan made = source.queryExecution().analyzed();
    List keys = keys(m), asked = new ArrayList(), conditions = new ArrayList();
    for (int k = 0; k < keys.size(); k += 2) {
      asked.add(alias(new Min((Expression) keys.get(k + 1)), "least"));
      asked.add(alias(new Max((Expression) keys.get(k + 1)), "greatest")); }
    InternalRow row = org.apache.spark.sql.classic.Dataset.ofRows(source.sparkSession(), aggregate(asked, matchable(m.mergeCondition(), made))).queryExecution().executedPlan().executeCollect()[0];
    conditions.add(m.mergeCondition());
    for (int k = 0; k < keys.size(); k += 2) {
      Expression column = (Expression) keys.get(k), key = (Expression) keys.get(k + 1);
      conditions.add(new GreaterThanOrEqual(column, new Literal(row.copy().get(k, key.dataType()), key.dataType())));
      conditions.add(new LessThanOrEqual(column, new Literal(row.copy().get(k + 1, key.dataType()), key.dataType()))); }
    return new MergeIntoTable(m.targetTable(), made, all(conditions), m.matchedActions(), m.notMatchedActions(), m.notMatchedBySourceActions(), m.withSchemaEvolution()); }
  /** The rows of a source that the condition does not leave out by themselves: no others have keys that are looked for, or can be computed. */
  static LogicalPlan matchable(Expression condition, LogicalPlan source) {
    List all = new ArrayList(), own = new ArrayList();
    conjuncts(condition, all);
    for (int i = 0; i < all.size(); i++) if (within((Expression) all.get(i), source) && !SubqueryExpression.hasSubquery((Expression) all.get(i))) own.add(all.get(i));
    return own.isEmpty() ? source : new Filter(all(own), source); }
  static final long ITEMS = 4000000L;
  /** Whether a row of the target may have a key of the source, by a Bloom filter: a join would shuffle all rows that go further. */
  public static Expression mayMatch(LogicalPlan command) {
    List keys = keys((MergeIntoTable) command);
    List bloom = Collections.singletonList(alias(new BloomFilterAggregate(hash((Expression) keys.get(1)), ITEMS), "bloom"));
    return new BloomFilterMightContain(subquery(aggregate(bloom, matchable(((MergeIntoTable) command).mergeCondition(), ((MergeIntoTable) command).sourceTable()))), hash((Expression) keys.get(0))); }
  static Expression hash(Expression key) { return new XxHash64(Frazil.seq(Collections.singletonList(key))); }
  static Expression subquery(LogicalPlan plan) { return new ScalarSubquery(plan, NONE, NamedExpression.newExprId(), NONE, scala.Option.empty(), scala.Option.empty(), scala.Option.empty()); }
  static LogicalPlan aggregate(List asked, LogicalPlan child) { return new org.apache.spark.sql.catalyst.plans.logical.Aggregate(NONE, Frazil.seq(asked), child, scala.Option.empty()); }
  /** Let go of the rows that a local checkpoint made. */
  public static void forget(org.apache.spark.sql.classic.Dataset made) {
    ((org.apache.spark.sql.execution.LogicalRDD) made.queryExecution().analyzed()).rdd().unpersist(false); }
  static Alias alias(AggregateFunction f, String name) {
    return new Alias(f.toAggregateExpression(), name, NamedExpression.newExprId(), NONE, scala.Option.empty(), NONE); }
  static Alias counted(String name) { return alias(new Count(Frazil.seq(Collections.singletonList(Literal.create(Integer.valueOf(1), DataTypes.IntegerType)))), name); }
  /** By row of the target, how many rows of the source match it: the columns of the target that the condition looks at, and the number. */
  public static LogicalPlan matches(LogicalPlan command) {
    MergeIntoTable m = (MergeIntoTable) command;
    LogicalPlan target = m.targetTable();
    while (target instanceof SubqueryAlias) target = ((SubqueryAlias) target).child();
    target = unnamed(target);
    List row = new ArrayList(), out = new ArrayList();
    scala.collection.Iterator i = m.mergeCondition().references().iterator();
    while (i.hasNext()) { Attribute a = (Attribute) i.next(); if (target.outputSet().contains(a)) out.add(a); }
    List numbered = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(target.output()));
    Alias number = new Alias(new MonotonicallyIncreasingID(), "number", NamedExpression.newExprId(), NONE, scala.Option.empty(), NONE);
    numbered.add(number);
    row.addAll(out); row.add(number.toAttribute());
    out.add(counted("matches"));
    LogicalPlan joined = new Join(new Project(Frazil.seq(numbered), target), m.sourceTable(), org.apache.spark.sql.catalyst.plans.Inner$.MODULE$, scala.Option.apply(m.mergeCondition()), JoinHint$.MODULE$.NONE());
    return new org.apache.spark.sql.catalyst.plans.logical.Aggregate(Frazil.seq(row), Frazil.seq(out), joined, scala.Option.empty()); }
  /** The rows of the target that a command looks at, as a filter: all of them if rows that match nothing are changed too. */
  public static String looksAt(LogicalPlan command) {
    List kept = new ArrayList(), conditions = new ArrayList();
    LogicalPlan target = (LogicalPlan) FrazilRule.target(command);
    if (command instanceof DeleteFromTable) conditions.add(((DeleteFromTable) command).condition());
    if (command instanceof UpdateTable && ((UpdateTable) command).condition().isDefined()) conditions.add(((UpdateTable) command).condition().get());
    if (command instanceof MergeIntoTable && ((MergeIntoTable) command).notMatchedBySourceActions().isEmpty()) conditions.add(((MergeIntoTable) command).mergeCondition());
    for (int i = 0; i < conditions.size(); i++) conjuncts((Expression) conditions.get(i), kept);
    List own = new ArrayList();
    for (int i = 0; i < kept.size(); i++) if (within((Expression) kept.get(i), target) && !SubqueryExpression.hasSubquery((Expression) kept.get(i))) own.add(kept.get(i));
    return own.isEmpty() ? "[]" : FrazilRule.simplified(all(own), target); }
  /** Whether a MERGE inserts what it finds no match for, and may leave alone what it does find. */
  public static boolean mindsMatches(LogicalPlan command) {
    if (!(command instanceof MergeIntoTable) || ((MergeIntoTable) command).notMatchedActions().isEmpty()) return false;
    scala.collection.immutable.Seq matched = ((MergeIntoTable) command).matchedActions();
    return matched.isEmpty() || ((MergeAction) matched.last()).condition().isDefined(); }
  /** Whether a command reads its table more than once: the target is one place, others are in the source or in subqueries. */
  public static boolean readsItself(LogicalPlan command) { return reads(command, FrazilRule.table(FrazilRule.target(command))) > 1; }
  static int reads(LogicalPlan plan, FrazilTable wanted) {
    if (plan instanceof SubqueryAlias) return reads(((SubqueryAlias) plan).child(), wanted);
    FrazilTable table = FrazilRule.table(plan);
    int found = table != null && (wanted.id == null ? wanted.name.equals(table.name) : wanted.id.equals(table.id)) ? 1 : 0;
    scala.collection.Iterator i = plan.children().iterator();
    while (i.hasNext()) found += reads((LogicalPlan) i.next(), wanted);
    i = plan.subqueries().iterator();
    while (i.hasNext()) found += reads((LogicalPlan) i.next(), wanted);
    return found; }
  /** The condition of a DELETE, as a filter. */
  public static String deletes(LogicalPlan command) { return FrazilRule.simplified(((DeleteFromTable) command).condition(), ((DeleteFromTable) command).table()); }
  /** The same rows. Where they are is noted while they are read: their operation (if they tell one), file and position. */
  public static org.apache.spark.sql.classic.Dataset noted(org.apache.spark.sql.classic.Dataset changes, FrazilNotes notes) {
    if (!notes.isRegistered()) changes.sparkSession().sparkContext().register((org.apache.spark.util.AccumulatorV2) (Object) notes);
    LogicalPlan rows = changes.queryExecution().analyzed();
    Expression operation = told(rows) ? (Expression) rows.output().apply(0) : Literal.create(Integer.valueOf(0), DataTypes.IntegerType);
    // a function is not asked about numbers that are null: its answer would be
    Expression at = new Coalesce(Frazil.seq(Arrays.asList(new Object[] {find(rows, "_pos"), Literal.create(Long.valueOf(-1), DataTypes.LongType)})));
    List asked = Arrays.asList(new Object[] {operation, find(rows, "_file"), at});
    Expression note = V2ExpressionUtils$.MODULE$.resolveScalarFunction((org.apache.spark.sql.connector.catalog.functions.ScalarFunction) (Object) new FrazilNote(notes), Frazil.seq(asked));
    return org.apache.spark.sql.classic.Dataset.ofRows(changes.sparkSession(), new Filter(note, rows)); }
  static boolean told(LogicalPlan rows) { return ((Attribute) rows.output().apply(0)).name().equals("__row_operation"); }
  /** The rows that come, as the first columns of the table; with `lineage`, the id that a row keeps, and no number for when it was updated. */
  public static org.apache.spark.sql.classic.Dataset rows(org.apache.spark.sql.classic.Dataset changes, int columns, boolean lineage) {
    LogicalPlan rows = changes.queryExecution().analyzed();
    boolean told = told(rows);
    List out = new ArrayList();
    for (int i = 0; i < columns; i++) out.add(rows.output().apply(told ? i + 1 : i));
    if (lineage) {
      Expression none = new Literal(null, DataTypes.LongType);
      out.add(new Alias(told ? (Expression) find(rows, "_row_id") : none, "_row_id", NamedExpression.newExprId(), NONE, scala.Option.empty(), NONE));
      out.add(new Alias(none, "_last_updated_sequence_number", NamedExpression.newExprId(), NONE, scala.Option.empty(), NONE)); }
    if (told) rows = new Filter(new GreaterThan(find(rows, "__row_operation"), Literal.create(Integer.valueOf(1), DataTypes.IntegerType)), rows);
    return org.apache.spark.sql.classic.Dataset.ofRows(changes.sparkSession(), new Project(Frazil.seq(out), rows)); }
  static Attribute find(LogicalPlan plan, String name) {
    scala.collection.Iterator i = plan.output().iterator();
    while (i.hasNext()) { Attribute a = (Attribute) i.next(); if (a.name().equals(name)) return a; }
    throw new IllegalStateException("no column " + name); }
}

/** Puts a filter on the target of a row-level command. */
public class FrazilOnly extends scala.runtime.AbstractPartialFunction {
  final Expression only;
  public FrazilOnly(Expression only) { this.only = only; }
  public boolean isDefinedAt(Object node) {
    return FrazilRule.table(node) != null && !(node instanceof SubqueryAlias) && only.references().subsetOf(((LogicalPlan) node).outputSet()); }
  public Object applyOrElse(Object node, scala.Function1 otherwise) { return isDefinedAt(node) ? new Filter(only, (LogicalPlan) node) : otherwise.apply(node); }
}

/** Gives the target of a row-level command the column of its rows as they are. */
public class FrazilOldRows extends scala.runtime.AbstractPartialFunction {
  static Attribute old(Object node) {
    if (node instanceof SubqueryAlias || FrazilRule.table(node) == null) return null;
    Attribute last = (Attribute) ((LogicalPlan) node).output().last();
    return last.name().equals(FrazilRowTable.OLD) ? last : null; }
  public boolean isDefinedAt(Object node) { return old(node) != null; }
  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    Attribute old = old(node);
    if (old == null) return otherwise.apply(node);
    List columns = new ArrayList(), parts = new ArrayList(), out = new ArrayList();
    scala.collection.Iterator i = ((LogicalPlan) node).output().iterator();
    while (i.hasNext()) {
      Attribute a = (Attribute) i.next();
      if (a.exprId().equals(old.exprId())) continue;
      columns.add(a); out.add(a);
      parts.add(Literal.create(a.name(), DataTypes.StringType)); parts.add(a); }
    out.add(new Alias(new CreateNamedStruct(Frazil.seq(parts)), old.name(), old.exprId(), old.qualifier(), scala.Option.empty(), Frazil.seq(new ArrayList())));
    return new Project(Frazil.seq(out), FrazilRowLevel.with((LogicalPlan) node, 1, Frazil.seq(columns))); }
}

/** Puts another state of a table in the place of the one that a command was made for. */
public class FrazilMoved extends scala.runtime.AbstractPartialFunction {
  final FrazilTable from, to;
  public FrazilMoved(FrazilTable from, FrazilTable to) { this.from = from; this.to = to; }
  public boolean isDefinedAt(Object node) {
    return !(node instanceof SubqueryAlias) && FrazilRule.table(node) != null && FrazilRule.table(node).key.equals(from.key); }
  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    return isDefinedAt(node) ? FrazilRowLevel.with((LogicalPlan) node, 0, to) : otherwise.apply(node); }
}

/**
 * Values as they were given. Spark cast them like in any expression when it took the table for one that it cannot change, structs by position;
 * for one that it can, it goes by names, and refuses what INSERT refuses.
 */
public class FrazilGiven extends scala.runtime.AbstractPartialFunction {
  static boolean made(Expression e) { return e instanceof Cast && ((Cast) e).getTagValue(Cast$.MODULE$.BY_TABLE_INSERTION()).isDefined(); }
  public boolean isDefinedAt(Object e) { return e instanceof Assignment && made(((Assignment) e).value()); }
  public Object applyOrElse(Object e, scala.Function1 otherwise) {
    if (!isDefinedAt(e)) return otherwise.apply(e);
    Expression given = ((Cast) ((Assignment) e).value()).child();
    return new Assignment(((Assignment) e).key(), given instanceof AssertNotNull ? ((AssertNotNull) given).child() : given); }
}

/** Assertions that a value is not null say of which column: Spark names only fields of structs. */
public class FrazilAsserts extends scala.runtime.AbstractPartialFunction {
  final List path;
  public FrazilAsserts() { this(null); }
  public FrazilAsserts(List path) { this.path = path; }
  public boolean isDefinedAt(Object e) {
    if (path == null) return e instanceof Assignment && ((Assignment) e).key() instanceof NamedExpression;
    return e instanceof AssertNotNull && ((AssertNotNull) e).walkedTypePath().isEmpty(); }
  public Object applyOrElse(Object e, scala.Function1 otherwise) {
    if (!isDefinedAt(e)) return otherwise.apply(e);
    if (path != null) return new AssertNotNull(((AssertNotNull) e).child(), Frazil.seq(path));
    Expression key = ((Assignment) e).key(), value = ((Assignment) e).value();
    return new Assignment(key, (Expression) value.transformDown(new FrazilAsserts(Collections.singletonList(((NamedExpression) key).name())))); }
}
