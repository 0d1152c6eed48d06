package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.types.*;

/** What a write asks of Spark, in as few calls as there are steps. */
public class FrazilFileWriter {
  static final scala.collection.immutable.Seq NONE = Frazil.seq(Collections.EMPTY_LIST);
  /** Rows as the columns of a struct, with its names and metadata. A null where it allows none ends the query. */
  public static org.apache.spark.sql.classic.Dataset columns(org.apache.spark.sql.classic.Dataset rows, String struct) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    StructField[] wanted = Frazil.struct(struct).fields();
    List out = new ArrayList();
    for (int i = 0; i < wanted.length; i++) {
      Expression column = (Expression) plan.output().apply(i);
      if (column.nullable() && !wanted[i].nullable())
        column = new AssertNotNull(column, Frazil.seq(Collections.singletonList(wanted[i].name())));
      if (wanted[i].dataType() instanceof StructType) column = Cast$.MODULE$.apply(column, wanted[i].dataType(), false);
      out.add(new Alias(column, wanted[i].name(), NamedExpression.newExprId(), NONE, scala.Option.apply(wanted[i].metadata()), NONE));
    }
    return org.apache.spark.sql.classic.Dataset.ofRows(rows.sparkSession(), new Project(Frazil.seq(out), plan));
  }
  /** Files in a folder, made by Spark's own writer in a session with settings of its own. */
  public static void files(org.apache.spark.sql.classic.Dataset rows, String folder, String asked) {
    Map how = (Map) Frazil.value(asked);
    org.apache.spark.sql.classic.SparkSession own = rows.sparkSession().cloneSession();
    Iterator settings = ((Map) how.get("settings")).entrySet().iterator();
    while (settings.hasNext()) {
      Map.Entry one = (Map.Entry) settings.next();
      own.conf().set((String) one.getKey(), (String) one.getValue());
    }
    org.apache.spark.sql.classic.Dataset.ofRows(own, rows.queryExecution().analyzed()).write().format("parquet").mode("append")
      .options((Map) how.get("options")).partitionBy(Frazil.seq((List) how.get("partition"))).save(folder);
  }
}
