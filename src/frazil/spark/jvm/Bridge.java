package org.apache.spark.sql.connector.catalog;

import java.util.*;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;
import com.fasterxml.jackson.databind.ObjectMapper;
import scala.jdk.javaapi.CollectionConverters;

/** The one Python object that everything is asked of. What crosses is text (JSON) wherever it can be: one trip, no references. */
public interface FrazilBridge { Object call(String op, Object a, Object b, Object c); }

/** A Python exception on its way through the JVM: the token finds it again. */
public class FrazilError extends RuntimeException {
  public final String token;
  public FrazilError(String message, String token) { super(message); this.token = token; }
}

public class Frazil {
  public static final Map bridges = new java.util.concurrent.ConcurrentHashMap();
  /** The keys of those that are catalogs, oldest first; the others only have tables to scan. */
  public static final List catalogs = new java.util.concurrent.CopyOnWriteArrayList();
  static final ObjectMapper mapper = new ObjectMapper();
  static final Set extended = Collections.newSetFromMap(new WeakHashMap());

  /** Whether these extensions of sessions were not seen before. */
  public static synchronized boolean extend(Object extensions) { return extended.add(extensions); }

  static volatile py4j.PythonClient client;                 // of this JVM's Python
  public static void callbacks(Object client) { Frazil.client = (py4j.PythonClient) client; }

  /**
   * A class of another package beside Spark's. There is no open door for that, but Spark starts its JVMs with java.lang open; where it did
   * not, formats have no short names.
   */
  public static void define(byte[] code) throws Exception {
    java.lang.reflect.Method method = ClassLoader.class.getDeclaredMethod("defineClass", new Class[] {byte[].class, int.class, int.class});
    try { method.setAccessible(true); } catch (RuntimeException closed) { return; }
    method.invoke(Frazil.class.getClassLoader(), new Object[] {code, Integer.valueOf(0), Integer.valueOf(code.length)});
  }

  /** An error comes back as a value, and is thrown as itself. */
  public static Object ask(String bridge, String op, Object a, Object b, Object c) {
    FrazilBridge python = (FrazilBridge) bridges.get(bridge);
    if (python == null) throw new FrazilError("the lake is not attached to this session any more", "detached");
    boolean connects = connection() == null;
    Object answer;
    try { answer = python.call(op, a, b, c); }
    finally { if (connects) hangUp(); }
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
    return answer;
  }

  /** The open connection of this thread, or null: Python's, a question's around this one, or that of Spark's own call (foreachBatch). */
  static py4j.ClientServerConnection connection() {
    py4j.ClientServerConnection mine = client == null ? null : client.getPerThreadConnection();
    return mine == null || mine.getSocket() == null ? null : mine;
  }

  /**
   * A thread that Python did not start gets a connection for its question. Py4j would keep it for ever, and Spark makes hundreds of threads:
   * the question that opened it closes it, and no other.
   */
  static void hangUp() {
    py4j.ClientServerConnection mine = connection();
    if (mine == null) return;
    mine.shutdown(false);
    client.connectionStopped(mine);
  }

  /** The token of the Python exception behind an error, or null. */
  public static String token(Throwable error) {
    FrazilError found = (FrazilError) behind(error, FrazilError.class);
    return found == null ? null : found.token;
  }

  /** What a Python worker said of its exception, if one is behind an error, or null. */
  public static String worker(Throwable error) {
    Throwable found = behind(error, org.apache.spark.api.python.PythonException.class);
    return found == null ? null : found.getMessage();
  }

  static Throwable behind(Throwable error, Class kind) {
    for (int depth = 0; error != null && depth < 50; depth++, error = error.getCause()) if (kind.isInstance(error)) return error;
    return null;
  }

  public static String json(Object value) {
    try { return mapper.writeValueAsString(value); }
    catch (Exception e) { Platform.throwException(e); return null; }
  }

  public static com.fasterxml.jackson.databind.JsonNode parse(Object text) {
    try { return mapper.readTree((String) text); }
    catch (Exception e) { Platform.throwException(e); return null; }
  }

  /** As `parse`, but objects become maps and arrays lists. */
  public static Object value(Object text) {
    try { return mapper.readValue((String) text, Object.class); }
    catch (Exception e) { Platform.throwException(e); return null; }
  }

  public static Map map(Object[] pairs) {
    Map result = new LinkedHashMap();
    for (int i = 0; i < pairs.length; i += 2) result.put(pairs[i], pairs[i + 1]);
    return result;
  }

  public static String[] strings(Object list) { return (String[]) ((List) list).toArray(new String[0]); }

  public static scala.collection.immutable.Seq seq(List list) {
    return (scala.collection.immutable.Seq) CollectionConverters.asScala(list).toSeq();
  }

  public static StructType struct(Object schema) { return (StructType) DataType.fromJson((String) schema); }

  public static Object raw(String json) { return new com.fasterxml.jackson.databind.util.RawValue(json); }

  /** A connector expression as {"column": [...]}, {"type": ..., "value": ...} or {"name": ..., "args": [...]}. */
  public static Object tree(Object e) {
    if (e instanceof NamedReference) return map(new Object[] {"column", ((NamedReference) e).fieldNames()});
    if (e instanceof Literal)
      return map(new Object[] {"type", raw(((Literal) e).dataType().json()), "value", plain(((Literal) e).value())});
    if (e instanceof Transform)
      return map(new Object[] {"name", ((Transform) e).name(), "args", trees(((Transform) e).arguments())});
    return map(new Object[] {"name", "?", "text", String.valueOf(e)});
  }

  public static List trees(Object[] expressions) {
    List result = new ArrayList();
    for (int i = 0; i < expressions.length; i++) result.add(tree(expressions[i]));
    return result;
  }

  /** Numbers and booleans as they are, bytes (by Jackson) as base64, everything else as text. */
  static Object plain(Object value) {
    return value == null || value instanceof Number && !(value instanceof java.math.BigDecimal) && !(value instanceof Decimal)
      || value instanceof Boolean || value instanceof byte[] ? value : value.toString();
  }
}
