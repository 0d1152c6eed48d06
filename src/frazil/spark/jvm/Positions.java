package org.apache.spark.sql.connector.catalog;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.util.*;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.TaskCompletionListener;
import org.roaringbitmap.longlong.*;

/** The positions of rows, by operation and file, and how many rows there were. Positions that are noted twice are there once. */
public class FrazilNotes extends AccumulatorV2 implements java.io.Serializable {
  public static final long serialVersionUID = 1L;
  private HashMap found = new HashMap();
  public synchronized boolean isZero() { return found.isEmpty(); }
  public AccumulatorV2 copy() { FrazilNotes other = new FrazilNotes(); other.take(found); return other; }
  public synchronized void reset() { found = new HashMap(); }
  public void add(Object notes) { take((HashMap) notes); }
  public void merge(AccumulatorV2 other) { take(((FrazilNotes) other).found); }
  public Object value() { return this; }
  private synchronized void take(HashMap others) {
    Iterator i = others.entrySet().iterator();
    while (i.hasNext()) {
      Map.Entry e = (Map.Entry) i.next();
      FrazilPositions own = (FrazilPositions) found.get(e.getKey());
      if (own == null) found.put(e.getKey(), own = new FrazilPositions());
      own.add((FrazilPositions) e.getValue()); } }
  private synchronized void writeObject(java.io.ObjectOutputStream out) throws java.io.IOException { out.defaultWriteObject(); }
  /** All of it: for each operation and file their number, the path, the number of rows, and the bitmap in the form that deletion vectors have. */
  public synchronized byte[] told() throws java.io.IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    Iterator i = found.entrySet().iterator();
    while (i.hasNext()) {
      Map.Entry e = (Map.Entry) i.next();
      byte[] path = ((String) e.getKey()).substring(1).getBytes("UTF-8"), bitmap = ((FrazilPositions) e.getValue()).bytes();
      out.writeInt(((String) e.getKey()).charAt(0));
      out.writeInt(path.length); out.write(path);
      out.writeLong(((FrazilPositions) e.getValue()).rows);
      out.writeInt(bitmap.length); out.write(bitmap); }
    return bytes.toByteArray(); }
}

/** Positions in one file. */
public class FrazilPositions implements java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final Roaring64NavigableMap at = new Roaring64NavigableMap();
  long rows = 0;
  void add(FrazilPositions other) { at.or(other.at); rows += other.rows; }
  byte[] bytes() throws java.io.IOException {
    at.runOptimize();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    at.serializePortable(new DataOutputStream(bytes));
    return bytes.toByteArray(); }
}

/** A function that is true, and notes the rows that it is asked for: their operation, file and position. A task hands its notes over when it is done. */
public class FrazilNote implements ScalarFunction, TaskCompletionListener, java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final FrazilNotes notes;
  transient HashMap own; transient UTF8String file; transient int operation; transient FrazilPositions last;
  public FrazilNote(FrazilNotes notes) { this.notes = notes; }
  public DataType[] inputTypes() { return new DataType[] {DataTypes.IntegerType, DataTypes.StringType, DataTypes.LongType}; }
  public DataType resultType() { return DataTypes.BooleanType; }
  public boolean isResultNullable() { return false; }
  public boolean isDeterministic() { return false; }
  public String name() { return "note"; }
  public String canonicalName() { return "frazil.note"; }
  public boolean invoke(int operation, UTF8String file, long position) {
    if (last == null || operation != this.operation || !(file == null ? this.file == null : file.equals(this.file))) turn(operation, file);
    last.rows++;
    if (file != null) last.at.addLong(position);
    return true; }
  private void turn(int operation, UTF8String file) {
    if (own == null) { own = new HashMap(); TaskContext.get().addTaskCompletionListener((TaskCompletionListener) this); }
    this.operation = operation;
    this.file = file == null ? null : file.copy();
    String key = (char) operation + (file == null ? "" : file.toString());
    last = (FrazilPositions) own.get(key);
    if (last == null) own.put(key, last = new FrazilPositions()); }
  public void onTaskCompletion(TaskContext task) { notes.add(own); }
}
