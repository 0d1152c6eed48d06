package org.apache.spark.sql.connector.catalog;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.*;
import org.apache.spark.sql.types.*;
import org.roaringbitmap.RoaringBitmap;

/** Positions of rows as one bitmap, in the form that deletion vectors have: an aggregate function. Tasks load it, as the classes of Deletes.java. */
public class FrazilPositions extends TypedImperativeAggregate implements java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final Expression child; final int buffer, input;
  public FrazilPositions(Expression child, int buffer, int input) { this.child = child; this.buffer = buffer; this.input = input; }
  public int mutableAggBufferOffset() { return buffer; }
  public int inputAggBufferOffset() { return input; }
  public ImperativeAggregate withNewMutableAggBufferOffset(int at) { return (ImperativeAggregate) (Object) new FrazilPositions(child, at, input); }
  public ImperativeAggregate withNewInputAggBufferOffset(int at) { return (ImperativeAggregate) (Object) new FrazilPositions(child, buffer, at); }
  public Object createAggregationBuffer() { return new ArrayList(); }
  /** Bitmaps by the upper half of positions: there is one, unless a file has more than two thousand million rows. */
  static RoaringBitmap part(List parts, int number) {
    while (parts.size() <= number) parts.add(new RoaringBitmap());
    return (RoaringBitmap) parts.get(number); }
  public Object update(Object parts, InternalRow row) {
    Object position = child.eval(row);
    if (position == null) return parts;
    long at = ((Long) position).longValue();
    part((List) parts, (int) (at >>> 32)).add((int) at);
    return parts; }
  public Object merge(Object parts, Object others) {
    List from = (List) others;
    for (int i = 0; i < from.size(); i++) part((List) parts, i).or((RoaringBitmap) from.get(i));
    return parts; }
  public Object eval(Object parts) { return serialize(parts); }
  public byte[] serialize(Object given) {
    List parts = (List) given;
    int size = 8;
    for (int i = 0; i < parts.size(); i++) {
      ((RoaringBitmap) parts.get(i)).runOptimize();
      size += 4 + ((RoaringBitmap) parts.get(i)).serializedSizeInBytes(); }
    ByteBuffer out = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    out.putLong((long) parts.size());
    for (int i = 0; i < parts.size(); i++) { out.putInt(i); ((RoaringBitmap) parts.get(i)).serialize(out); }
    return out.array(); }
  public Object deserialize(byte[] bytes) {
    List parts = new ArrayList();
    ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    long count = in.getLong();
    for (long i = 0; i < count; i++) {
      RoaringBitmap one = part(parts, in.getInt());
      try { one.deserialize(in); } catch (java.io.IOException e) { throw new IllegalStateException(e); }
      ((java.nio.Buffer) in).position(((java.nio.Buffer) in).position() + one.serializedSizeInBytes()); }
    return parts; }
  public boolean nullable() { return false; }
  public DataType dataType() { return DataTypes.BinaryType; }
  public String prettyName() { return "frazil_positions"; }
  public scala.collection.immutable.Seq children() { return scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(child)).toSeq(); }
  public Expression withNewChildrenInternal(scala.collection.immutable.IndexedSeq fresh) { return (Expression) (Object) new FrazilPositions((Expression) fresh.apply(0), buffer, input); }
  public int productArity() { return 3; }
  public Object productElement(int i) { return i == 0 ? (Object) child : Integer.valueOf(i == 1 ? buffer : input); }
  public boolean canEqual(Object o) { return o instanceof FrazilPositions; }
  public boolean equals(Object o) { return o instanceof FrazilPositions && ((FrazilPositions) o).child.equals(child) && ((FrazilPositions) o).buffer == buffer && ((FrazilPositions) o).input == input; }
  public int hashCode() { return child.hashCode(); }
}
