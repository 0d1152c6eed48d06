package org.apache.spark.sql.connector.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import org.apache.spark.sql.catalyst.catalog.*;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;

/** How large a relation is, for the optimizer: it rides, with the name for people, on a catalog table. */
public class FrazilStatistics {
  static final int STATS = 12;              // the place among the members of CatalogTable, whose last ones differ between versions
  static LogicalRelation on(LogicalRelation leaf, String name, JsonNode told) {
    try {
      Object companion = org.apache.spark.sql.catalyst.catalog.CatalogTable$.MODULE$;
      java.lang.reflect.Constructor make = CatalogTable.class.getConstructors()[0];
      Object[] members = new Object[make.getParameterCount()];
      Object[] first = {new org.apache.spark.sql.catalyst.TableIdentifier(name, scala.Option.empty(), scala.Option.empty()), CatalogTableType.EXTERNAL(),
        CatalogStorageFormat.empty(), leaf.schema(), scala.Option.apply("parquet")};
      for (int i = 0; i < members.length; i++)
        members[i] = leaf.catalogTable().isDefined() ? ((scala.Product) leaf.catalogTable().get()).productElement(i)
          : i < first.length ? first[i] : companion.getClass().getMethod("apply$default$" + (i + 1), new Class[0]).invoke(companion, new Object[0]);
      members[STATS] = scala.Option.apply(statistics(leaf.schema(), told));
      return new LogicalRelation(leaf.relation(), leaf.output(), scala.Option.apply(make.newInstance(members)), false, scala.Option.empty());
    } catch (ReflectiveOperationException e) { throw new IllegalStateException(e); } }

  static CatalogStatistics statistics(StructType schema, JsonNode told) {
    HashMap columns = new HashMap();
    JsonNode known = (JsonNode) told.get("columns");
    for (int i = 0; i < schema.fields().length; i++) {
      StructField f = schema.fields()[i];
      JsonNode c = (JsonNode) known.get(f.name());
      if (c != null) columns.put(f.name(), new CatalogColumnStat(number((JsonNode) c.get("distinct")), bound(f, (JsonNode) c.get("min")), bound(f, (JsonNode) c.get("max")),
        number((JsonNode) c.get("nulls")), scala.Option.empty(), scala.Option.empty(), scala.Option.empty(), CatalogColumnStat.VERSION())); }
    return new CatalogStatistics(scala.math.BigInt.apply(((JsonNode) told.get("size")).asLong()), number((JsonNode) told.get("rows")), FrazilPlan.map(columns)); }
  static scala.Option number(JsonNode n) { return n == null ? scala.Option.empty() : scala.Option.apply(scala.math.BigInt.apply(n.asLong())); }
  static scala.Option bound(StructField f, JsonNode n) {
    if (n == null) return scala.Option.empty();
    if (!n.isNumber()) return scala.Option.apply(n.asText());
    Object value = f.dataType() instanceof DateType ? (Object) Integer.valueOf(n.asInt()) : (Object) Long.valueOf(n.asLong());
    return scala.Option.apply(CatalogColumnStat.toExternalString(value, f.name(), f.dataType())); }

  /** Whether the optimizer looks at columns: it reckons with costs. */
  static boolean ofColumns() { return SQLConf.get().cboEnabled() || SQLConf.get().planStatsEnabled(); }
}

/** Before joins are chosen: filtered relations are as large as the files that their filters leave. */
public class FrazilSizes extends Rule {
  public TreeNode apply(TreeNode plan) {
    return joins((LogicalPlan) plan) ? ((LogicalPlan) plan).transformDown(new FrazilSize()) : plan; }
  static boolean joins(LogicalPlan plan) {
    if (plan instanceof Join) return true;
    scala.collection.Iterator i = plan.children().iterator();
    while (i.hasNext()) if (joins((LogicalPlan) i.next())) return true;
    return false; }
}

public class FrazilSize extends scala.runtime.AbstractPartialFunction {
  /** Filters stand right above the relation by now. What fits a broadcast as it is, is not asked about. */
  public boolean isDefinedAt(Object node) {
    return node instanceof Filter && ((Filter) node).child() instanceof LogicalRelation && FrazilPlan.source(((Filter) node).child()) != null
      && (FrazilStatistics.ofColumns() || ((Filter) node).child().stats().sizeInBytes().longValue() > SQLConf.get().autoBroadcastJoinThreshold()); }
  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    Filter filter = (Filter) node;
    LogicalRelation leaf = (LogicalRelation) filter.child();
    String[] source = FrazilPlan.source(leaf);
    Object told = Frazil.ask(source[0], "statistics", source[1], FrazilFilters.text(Collections.singletonList(filter.condition())), Boolean.valueOf(FrazilStatistics.ofColumns()));
    return filter.withNewChildren(Frazil.seq(Collections.singletonList(FrazilStatistics.on(leaf, "", Frazil.parse(told))))); }
}

public class FrazilSizesBuilder extends scala.runtime.AbstractFunction1 {
  public Object apply(Object session) { return new FrazilSizes(); }
}
