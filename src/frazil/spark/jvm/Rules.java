package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.optimizer.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.command.ExternalCommandExecutor;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A statement that Python carries out when it is executed, not when it is analysed or explained. */
public class FrazilRunner implements org.apache.spark.sql.connector.ExternalCommandRunner {
  final String bridge; final Object a, b;
  public FrazilRunner(String bridge, Object a, Object b) { this.bridge = bridge; this.a = a; this.b = b; }
  public String[] executeCommand(String op, CaseInsensitiveStringMap options) {
    return Frazil.strings(Frazil.value(Frazil.ask(bridge, op, a, b, org.apache.spark.sql.classic.SparkSession.active())));
  }
  /** The key of the table that a statement is about, and its command, analysed and not run. */
  public static Object[] about(Object session, String sql) throws Exception {
    org.apache.spark.sql.classic.SparkSession own = (org.apache.spark.sql.classic.SparkSession) session;
    FrazilRunner runner = of(own, own.sessionState().sqlParser().parsePlan(sql));
    return new Object[] {runner.a, runner.b};
  }
  /** What carries out a plan that was parsed; null if Spark does. */
  static FrazilRunner of(org.apache.spark.sql.classic.SparkSession session, LogicalPlan parsed) {
    LogicalPlan plan = session.sessionState().executePlan(parsed, org.apache.spark.sql.execution.CommandExecutionMode$.MODULE$.SKIP()).analyzed();
    Object runner = plan instanceof ExternalCommandExecutor ? ((ExternalCommandExecutor) plan).runner() : null;
    return runner instanceof FrazilRunner ? (FrazilRunner) runner : null;
  }
  /** EXPLAIN of a row-level command: the plan of the rows that it changes. Spark tells what is wrong with others, and explains them. */
  static LogicalPlan explained(ExplainCommand explain) {
    org.apache.spark.sql.classic.SparkSession session = org.apache.spark.sql.classic.SparkSession.active();
    FrazilRunner runner;
    try { runner = of(session, explain.logicalPlan()); } catch (Exception e) { runner = null; }
    if (runner == null) return explain;
    Object told = Frazil.ask(runner.bridge, "explain", runner.a, new Object[] {runner.b, explain.mode().name()}, session);
    Expression text = new Alias(Literal.create(told, org.apache.spark.sql.types.DataTypes.StringType), "plan", NamedExpression.newExprId(), FrazilRowLevel.NONE, scala.Option.empty(), FrazilRowLevel.NONE);
    return new Project(Frazil.seq(Collections.singletonList(text)), new OneRowRelation());
  }
  public static LogicalPlan plan(String bridge, String op, Object a, Object b) {
    return new ExternalCommandExecutor(new FrazilRunner(bridge, a, b), op, scala.collection.immutable.Map$.MODULE$.empty());
  }
}

/** In the optimizer relations become the plan that Python makes of them, after the analysis commands that Spark has no way to run. */
public class FrazilRule extends Rule {
  final boolean commands;
  public FrazilRule(boolean commands) { this.commands = commands; }
  /** The rows of a write are planned by the write itself: what the optimizer sees of them here is never run. */
  public TreeNode apply(TreeNode plan) {
    if (!commands && plan instanceof V2WriteCommand && table(((scala.Product) plan).productElement(0)) != null) return plan;
    LogicalPlan made = (LogicalPlan) ((LogicalPlan) plan).transformDown(new FrazilCases(this, (LogicalPlan) plan));
    return commands || made == plan || !(plan instanceof V2WriteCommand) ? made : typed((V2WriteCommand) made, ((V2WriteCommand) plan).query().output());
  }
  /** A write to another catalog's table, which was resolved with columns that are never null. Spark reads files as if they might be. */
  static LogicalPlan typed(V2WriteCommand write, scala.collection.immutable.Seq told) {
    List out = new ArrayList();
    scala.collection.Iterator have = write.query().output().iterator(), want = told.iterator();
    while (have.hasNext()) {
      Attribute a = (Attribute) have.next(), b = (Attribute) want.next();
      Expression e = FrazilTyped.of(a, b.dataType());
      if (a.nullable() && !b.nullable()) e = new KnownNotNull(e);
      out.add(e == a ? (Object) a : new Alias(e, a.name(), a.exprId(), a.qualifier(), scala.Option.apply(a.metadata()), Frazil.seq(new ArrayList())));
    }
    return (LogicalPlan) write.withNewQuery(new Project(Frazil.seq(out), write.query()));
  }

  static FrazilTable table(Object plan) {
    if (plan instanceof SubqueryAlias) return table(((SubqueryAlias) plan).child());
    Object found = plan instanceof DataSourceV2Relation ? ((DataSourceV2Relation) plan).table() : null;
    if (found instanceof RowLevelOperationTable) found = ((RowLevelOperationTable) found).table();
    return found instanceof FrazilTable ? (FrazilTable) found : null;
  }
  static Object target(Object node) {
    if (node instanceof DeleteFromTable) return ((DeleteFromTable) node).table();
    if (node instanceof UpdateTable) return ((UpdateTable) node).table();
    if (node instanceof MergeIntoTable) return ((MergeIntoTable) node).targetTable();
    if (node instanceof OverwritePartitionsDynamic) return ((OverwritePartitionsDynamic) node).productElement(0);
    return null;
  }
  /** A view of our tables is no table: of these commands Spark says so in a way that nobody understands. */
  static void refuseView(Object target, Object node) {
    while (target instanceof SubqueryAlias) target = ((SubqueryAlias) target).child();
    if (!(target instanceof org.apache.spark.sql.catalyst.plans.logical.View)) return;
    scala.collection.Iterator leaves = ((LogicalPlan) target).collectLeaves().iterator();
    while (leaves.hasNext()) if (table(leaves.next()) != null) {
      Map told = new HashMap();
      told.put("viewName", ((org.apache.spark.sql.catalyst.plans.logical.View) target).desc().identifier().quotedString());
      told.put("operation", node instanceof DeleteFromTable ? "DELETE" : node instanceof UpdateTable ? "UPDATE" : "MERGE");
      scala.collection.immutable.Map parameters = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(told));
      org.apache.spark.unsafe.Platform.throwException(new org.apache.spark.sql.AnalysisException("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", parameters)); }
  }
  /** The table that a DROP PARTITION is about, if it is ours. */
  static FrazilTable partitioned(Object node) {
    LogicalPlan child = node instanceof DropPartitions ? ((DropPartitions) node).table() : null;
    Object found = child instanceof org.apache.spark.sql.catalyst.analysis.ResolvedTable ? ((org.apache.spark.sql.catalyst.analysis.ResolvedTable) child).table() : null;
    return found instanceof FrazilTable ? (FrazilTable) found : null;
  }
  /** Partitions as Spark's parser has them: Spark reads their values only for tables that manage partitions by its interfaces. */
  static String partitions(DropPartitions node) {
    List all = new ArrayList();
    scala.collection.Iterator i = node.parts().iterator();
    while (i.hasNext()) {
      Object part = i.next();
      all.add(scala.jdk.javaapi.CollectionConverters.asJava(((org.apache.spark.sql.catalyst.analysis.UnresolvedPartitionSpec) part).spec())); }
    return Frazil.json(Frazil.map(new Object[] {"partitions", all, "ifExists", Boolean.valueOf(node.ifExists())}));
  }
  static boolean isExplained(Object node) { return node instanceof ExplainCommand && target(((ExplainCommand) node).logicalPlan()) != null; }
  boolean matches(Object node) {
    if (commands && (partitioned(node) != null || isExplained(node))) return true;
    if (commands ? FrazilSink.is(node) : FrazilStream.is(node)) return true;
    if (!commands && node instanceof Aggregate) return FrazilAggregates.of(node) != null;
    Object target = commands ? target(node) : node;
    if (commands) refuseView(target, node);
    return target != null && table(target) != null && ((LogicalPlan) node).resolved()
      && (commands || node instanceof DataSourceV2Relation);
  }
  Object replace(Object node, LogicalPlan plan) {
    if (isExplained(node)) return FrazilRunner.explained((ExplainCommand) node);
    if (FrazilSink.is(node)) return FrazilSink.instead((org.apache.spark.sql.catalyst.streaming.WriteToStream) node);
    if (FrazilStream.is(node)) return FrazilStream.batch((StreamingDataSourceV2ScanRelation) node);
    if (node instanceof Aggregate) return FrazilAggregates.of(node).answered();
    return commands ? command((LogicalPlan) node) : scan((DataSourceV2Relation) node, plan);
  }

  LogicalPlan command(LogicalPlan node) {
    FrazilTable dropped = partitioned(node);
    if (dropped != null) return FrazilRunner.plan(dropped.bridge, "dropPartitions", dropped.key, partitions((DropPartitions) node));
    FrazilTable t = table(target(node));
    return FrazilRunner.plan(t.bridge, node instanceof OverwritePartitionsDynamic ? "overwriteDynamic" : "rowLevel", t.key, node);
  }

  /**
   * Python's plan below a projection that bears the relation's names and expression ids. A query that uses one hidden column has all of
   * them in its relations; reading row positions that nobody looks at costs, so those are null here.
   */
  LogicalPlan scan(DataSourceV2Relation relation, LogicalPlan plan) {
    FrazilTable t = table(relation);
    Set used = new HashSet(), names = new LinkedHashSet();
    if (relation.output().size() > t.schema.length()) references(plan, used);
    scala.collection.Iterator i = relation.output().iterator();
    for (int n = 0; i.hasNext(); n++) {
      AttributeReference a = (AttributeReference) i.next();
      if (n < t.schema.length() || used.contains(a.exprId())) names.add(a.name());
    }
    org.apache.spark.sql.classic.SparkSession session = org.apache.spark.sql.classic.SparkSession.active();
    Set compared = new HashSet(), filtered = new HashSet();
    conditions(plan, compared);
    i = relation.output().iterator();
    while (i.hasNext()) { AttributeReference a = (AttributeReference) i.next(); if (compared.contains(a.exprId())) filtered.add(a.name()); }
    String what = Frazil.json(Frazil.map(new Object[] {"columns", names, "filtered", filtered, "options", relation.options().asCaseSensitiveMap(), "session", FrazilPlan.facts(session)}));
    Object told = Frazil.ask(t.bridge, "scan", t.key, what, session);   // a description, or a plan that has the rows in it
    LogicalPlan inner = told instanceof String ? FrazilPlan.plan(t.bridge, session, (String) told) : (LogicalPlan) told;
    return project(inner, relation.output(), names, t.name);
  }

  static Set names(scala.collection.immutable.Seq output) {
    Set names = new LinkedHashSet();
    scala.collection.Iterator i = output.iterator();
    while (i.hasNext()) names.add(((Attribute) i.next()).name());
    return names;
  }

  /** A plan with the columns of `output`: those of `names` have its values, others are null. */
  static LogicalPlan project(LogicalPlan inner, scala.collection.immutable.Seq output, Set names, String table) {
    Map byName = new HashMap();
    scala.collection.Iterator i = inner.output().iterator();
    while (i.hasNext()) { Attribute a = (Attribute) i.next(); byName.put(a.name(), a); }
    List out = new ArrayList();
    i = output.iterator();
    while (i.hasNext()) {
      AttributeReference a = (AttributeReference) i.next();
      Expression e = (Expression) byName.get(a.name());
      if (e == null && names.contains(a.name())) throw new IllegalStateException("the scan of " + table + " lacks column " + a.name());
      if (e == null) e = new Literal(null, a.dataType());
      out.add(new Alias(e, a.name(), a.exprId(), a.qualifier(), scala.Option.apply(a.metadata()), Frazil.seq(new ArrayList())));
    }
    return new Project(Frazil.seq(out), inner);
  }

  /** What filters and joins look at: what files will be asked for by, when Spark has pushed it down. */
  static void conditions(LogicalPlan plan, Set ids) {
    Expression condition = plan instanceof Filter ? ((Filter) plan).condition() : null;
    if (plan instanceof Join && ((Join) plan).condition().isDefined()) condition = (Expression) ((Join) plan).condition().get();
    scala.collection.Iterator i = plan.children().iterator();
    while (i.hasNext()) conditions((LogicalPlan) i.next(), ids);
    if (condition == null) return;
    i = condition.references().iterator();
    while (i.hasNext()) ids.add(((Attribute) i.next()).exprId());
  }

  static void references(LogicalPlan plan, Set ids) {
    scala.collection.Iterator i = plan.references().iterator();
    while (i.hasNext()) ids.add(((Attribute) i.next()).exprId());
    i = plan.children().iterator();
    while (i.hasNext()) references((LogicalPlan) i.next(), ids);
  }

  /** The condition of a command as Spark would push it down, if commands were optimised: constants folded, casts of columns gone. */
  static String simplified(Expression condition, LogicalPlan target) {
    LogicalPlan plan = new Filter(condition, target);
    Rule[] rules = {ReplaceExpressions$.MODULE$, RewriteWithExpression$.MODULE$, ComputeCurrentTime$.MODULE$, ConstantFolding$.MODULE$,
      UnwrapCastInBinaryComparison$.MODULE$, LikeSimplification$.MODULE$, SimplifyCasts$.MODULE$, OptimizeIn$.MODULE$, BooleanSimplification$.MODULE$};
    for (int i = 0; i < 2 * rules.length; i++) plan = (LogicalPlan) rules[i % rules.length].apply(plan);
    return FrazilFilters.text(Collections.singletonList(plan instanceof Filter ? ((Filter) plan).condition() : Literal.TrueLiteral()));
  }
}

public class FrazilCases extends scala.runtime.AbstractPartialFunction {
  final FrazilRule rule; final LogicalPlan plan;
  public FrazilCases(FrazilRule rule, LogicalPlan plan) { this.rule = rule; this.plan = plan; }
  public boolean isDefinedAt(Object node) { return rule.matches(node); }
  public Object applyOrElse(Object node, scala.Function1 otherwise) { return rule.matches(node) ? rule.replace(node, plan) : otherwise.apply(node); }
}

public class FrazilRuleBuilder extends scala.runtime.AbstractFunction1 {
  final boolean commands;
  public FrazilRuleBuilder(boolean commands) { this.commands = commands; }
  public Object apply(Object session) { return new FrazilRule(commands); }
}
