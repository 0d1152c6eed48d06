package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.*;

/** COUNT, MIN and MAX over all rows of a table, maybe filtered: what Python knows from metadata takes their places. */
public class FrazilAggregates extends scala.runtime.AbstractPartialFunction {
  static final String ENABLED = "spark.sql.frazil.aggregate-push-down.enabled", OPTION = "aggregate-push-down-enabled";
  final Aggregate node; final DataSourceV2Relation relation; final List filters;
  final Map columns = new HashMap();        // expression id below the aggregate -> attribute of the table
  final List asked = new ArrayList(), types = new ArrayList();
  final Map literals = new HashMap();       // expression id of an aggregate -> its number among those asked, then its answer
  FrazilAggregates(Aggregate node, scala.Tuple3 below) {
    this.node = node; relation = (DataSourceV2Relation) below._3(); filters = FrazilPlan.list((scala.collection.immutable.Seq) below._2());
    scala.collection.Iterator i = ((scala.collection.immutable.Seq) below._1()).iterator();
    while (i.hasNext()) {
      NamedExpression e = (NamedExpression) i.next();
      Object inner = e instanceof Alias ? ((Alias) e).child() : (Object) e;
      if (inner instanceof AttributeReference) columns.put(e.exprId(), inner); } }

  /** The question that an aggregate over one of our tables may be, or null. */
  static FrazilAggregates of(Object node) {
    if (!(node instanceof Aggregate) || !((Aggregate) node).groupingExpressions().isEmpty()) return null;
    scala.Option found = org.apache.spark.sql.catalyst.planning.PhysicalOperation$.MODULE$.unapply(((Aggregate) node).child());
    if (found.isEmpty() || FrazilRule.table(((scala.Tuple3) found.get())._3()) == null) return null;
    FrazilAggregates made = new FrazilAggregates((Aggregate) node, (scala.Tuple3) found.get());
    boolean usual = Boolean.parseBoolean(org.apache.spark.sql.internal.SQLConf.get().getConfString(ENABLED, "true"));
    if (!made.relation.options().getBoolean(OPTION, usual)) return null;
    scala.collection.Iterator i = ((Aggregate) node).aggregateExpressions().iterator();
    while (i.hasNext()) if (!made.gather((Expression) i.next())) return null;
    return made.asked.isEmpty() ? null : made; }

  boolean gather(Expression e) {
    if (e instanceof AggregateExpression) return add((AggregateExpression) e);
    scala.collection.Iterator i = e.children().iterator();
    while (i.hasNext()) if (!gather((Expression) i.next())) return false;
    return true; }

  boolean add(AggregateExpression e) {
    AggregateFunction f = e.aggregateFunction();
    String name = f.getClass().getSimpleName().toLowerCase();
    if (e.isDistinct() || e.filter().isDefined() || f.children().size() != 1 || !name.equals("count") && !name.equals("min") && !name.equals("max")) return false;
    Object of = f.children().apply(0);
    boolean rows = name.equals("count") && of instanceof Literal && ((Literal) of).value() != null;
    AttributeReference column = of instanceof AttributeReference ? (AttributeReference) columns.get(((AttributeReference) of).exprId()) : null;
    if (!rows && column == null) return false;
    literals.put(e.resultId(), Integer.valueOf(asked.size()));
    asked.add(new String[] {name, rows ? null : column.name()});
    types.add(f.dataType());
    return true; }

  /** One row with the answers; the aggregate itself if the rows must be read. */
  LogicalPlan answered() {
    FrazilTable t = FrazilRule.table(relation);
    String what = Frazil.json(Frazil.map(new Object[] {"aggregates", asked, "filters", FrazilFilters.text(filters), "options", relation.options().asCaseSensitiveMap()}));
    Object packed = Frazil.ask(t.bridge, "aggregate", t.key, what, null);
    if (packed == null) return node;
    FrazilColumns row = new FrazilColumns((byte[]) packed);
    List values = new ArrayList();
    for (int i = 0; i < types.size(); i++) values.add(new Literal(row.column((DataType) types.get(i))[0], (DataType) types.get(i)));
    Iterator i = literals.entrySet().iterator();
    while (i.hasNext()) { Map.Entry e = (Map.Entry) i.next(); e.setValue(values.get(((Integer) e.getValue()).intValue())); }
    List out = new ArrayList();
    scala.collection.Iterator expressions = node.aggregateExpressions().iterator();
    while (expressions.hasNext()) out.add(((Expression) expressions.next()).transform(this));
    return new Project(Frazil.seq(out), new OneRowRelation()); }

  public boolean isDefinedAt(Object e) { return e instanceof AggregateExpression; }
  public Object applyOrElse(Object e, scala.Function1 otherwise) {
    return isDefinedAt(e) ? literals.get(((AggregateExpression) e).resultId()) : otherwise.apply(e); }
}
