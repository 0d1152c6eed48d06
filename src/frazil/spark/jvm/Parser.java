package org.apache.spark.sql.connector.catalog;

import java.lang.reflect.*;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Ours first for ALTER TABLE, of whose forms Spark knows some, and other extensions take what is not theirs; all else is Spark's. A dynamic
 * proxy has whatever methods this Spark's ParserInterface has.
 */
public class FrazilParser implements InvocationHandler {
  static final Pattern ALTER = Pattern.compile("(\\s|--[^\\n]*\\n|/\\*.*?\\*/)*ALTER\\b.*", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
  static final Pattern KEYED = Pattern.compile(".*\\b(CREATE|REPLACE)\\b.*\\bPRIMARY\\s+KEY\\b.*", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
  final ParserInterface next;
  public FrazilParser(ParserInterface next) { this.next = next; }
  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    boolean plans = method.getName().startsWith("parsePlan");
    LogicalPlan plan = plans && ALTER.matcher((String) arguments[0]).matches() ? statement((String) arguments[0]) : null;
    if (plan != null) return plan;
    if (plans && KEYED.matcher((String) arguments[0]).matches()) arguments[0] = keyed((String) arguments[0]);
    try { return method.invoke(next, arguments); }
    catch (InvocationTargetException e) { throw e.getTargetException(); }
  }
  LogicalPlan statement(String text) {
    Iterator keys = Frazil.catalogs.iterator();
    while (keys.hasNext()) {
      String bridge = (String) keys.next();
      Object found = Frazil.ask(bridge, "statement", text, org.apache.spark.sql.classic.SparkSession.active(), null);
      if (found != null) return FrazilRunner.plan(bridge, "execute", found, null);
    }
    return null;
  }
  /** CREATE TABLE of a mixed table with its primary key as a property, which every Spark can parse. */
  String keyed(String text) {
    Iterator keys = Frazil.catalogs.iterator();
    while (keys.hasNext()) {
      Object found = Frazil.ask((String) keys.next(), "keyed", text, org.apache.spark.sql.classic.SparkSession.active(), null);
      if (found != null) return (String) found;
    }
    return text;
  }
  public static ParserInterface over(ParserInterface next) {
    return (ParserInterface) Proxy.newProxyInstance(ParserInterface.class.getClassLoader(), new Class[] {ParserInterface.class}, new FrazilParser(next));
  }
  public static boolean wraps(Object parser) {
    return Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof FrazilParser;
  }
  public static ParserInterface under(Object parser) { return ((FrazilParser) Proxy.getInvocationHandler(parser)).next; }
}

public class FrazilParserBuilder extends scala.runtime.AbstractFunction2 {
  public Object apply(Object session, Object parser) { return FrazilParser.over((ParserInterface) parser); }
}
