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
      boolean checked = column.nullable() && !wanted[i].nullable();
      if (wanted[i].dataType() instanceof StructType) column = FrazilTyped.of(column, wanted[i].dataType());
      if (checked) column = new AssertNotNull(column, Frazil.seq(Collections.singletonList(wanted[i].name())));
      else if (column.nullable() && !wanted[i].nullable()) column = new KnownNotNull(column);
      out.add(new Alias(column, wanted[i].name(), NamedExpression.newExprId(), NONE, scala.Option.apply(wanted[i].metadata()), NONE));
    }
    return org.apache.spark.sql.classic.Dataset.ofRows(rows.sparkSession(), new Project(Frazil.seq(out), plan));
  }
  /** Files in a folder, made by Spark's own writer in a session with settings of its own. The columns of `keyed` tell partitions apart. */
  public static void files(org.apache.spark.sql.classic.Dataset rows, org.apache.spark.sql.classic.Dataset keyed, String folder, String asked) throws Exception {
    Map how = (Map) Frazil.value(asked), options = (Map) how.get("options");
    Project keys = (Project) keyed.queryExecution().analyzed();
    org.apache.spark.sql.catalyst.expressions.package$AttributeSeq given = new org.apache.spark.sql.catalyst.expressions.package$AttributeSeq(keys.child().output());
    String name = UUID.randomUUID().toString();
    options.put("frazil.keys", name);
    FrazilPartitionedParquet.KEYS.put(name, BindReferences.bindReferences(keys.projectList(), given));
    org.apache.spark.sql.classic.SparkSession own = rows.sparkSession().cloneSession();
    Iterator settings = ((Map) how.get("settings")).entrySet().iterator();
    while (settings.hasNext()) {
      Map.Entry one = (Map.Entry) settings.next();
      own.conf().set((String) one.getKey(), (String) one.getValue());
    }
    try {
      org.apache.spark.sql.classic.Dataset.ofRows(own, rows.queryExecution().analyzed()).write()
        .format((keys.projectList().isEmpty() ? FrazilWrittenParquet.class : FrazilPartitionedParquet.class).getName()).mode("append").options(options).save(folder);
    } catch (RuntimeException error) { throw error;
    } catch (Exception error) { throw reason(error);
    } finally { FrazilPartitionedParquet.KEYS.remove(name); }
  }
  /** What was wrong with a row, as a query says it: writers say first that a task failed. */
  static Exception reason(Exception error) {
    Throwable found = Frazil.behind(error, RuntimeException.class);
    return found instanceof org.apache.spark.SparkThrowable ? (Exception) found : error; }
}
