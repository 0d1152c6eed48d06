package org.apache.spark.sql.connector.catalog;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.*;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.connector.catalog.functions.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `system.bucket(16, id)`, `system.days(ts)` and the like: the transforms of partitions, and versions. Generated code calls the static
 * `invoke` that has the arguments' types, with a null only where that is an object. Tasks load the classes of this file, as those of Deletes.java.
 */
public class FrazilFunction implements UnboundFunction {
  public static final List NAMES = Arrays.asList(new String[] {"bucket", "days", "frazil_version", "hours", "iceberg_version", "months", "truncate", "years", "zorder"});
  final String name, version;
  public FrazilFunction(String name, String version) { this.name = name; this.version = version; }
  /** The function's name in the plural, as Iceberg has it; null if there is none. */
  public static String known(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    return NAMES.contains(lower) ? lower : NAMES.contains(lower + "s") && !lower.endsWith("s") ? lower + "s" : null;
  }
  public String name() { return name; }
  public String description() {
    if (name.equals("frazil_version")) return "frazil_version() - the version of Frazil";
    if (name.equals("iceberg_version")) return "iceberg_version() - the version of Iceberg that Frazil follows";
    if (name.equals("zorder")) return "zorder(width, most, columns...) - bits of columns in turns, so that rows near in all of them are near; texts give width bytes";
    if (name.equals("bucket")) return "bucket(buckets, column) - the bucket that the partition transform gives a value";
    if (name.equals("truncate")) return "truncate(width, column) - a value cut as the partition transform does it";
    return name + "(column) - " + name + " since 1970, as the partition transform counts them";
  }
  public BoundFunction bind(StructType given) {
    StructField[] in = given.fields();
    if (name.equals("zorder")) return zorder(in);
    boolean sized = name.equals("bucket") || name.equals("truncate");
    int wanted = sized ? 2 : name.endsWith("_version") ? 0 : 1;
    if (in.length != wanted) throw refused("it takes " + wanted + " argument" + (wanted == 1 ? "" : "s") + ", not " + in.length);
    if (wanted == 0) return (BoundFunction) (Object) new FrazilVersion(name, version);
    if (sized && !(integral(in[0].dataType())))
      throw refused("its first argument is a number of type int, not " + in[0].dataType().catalogString());
    DataType type = in[in.length - 1].dataType();
    DataType[] inputs = sized ? new DataType[] {DataTypes.IntegerType, widened(type)} : new DataType[] {widened(type)};
    FrazilTransform bound = (FrazilTransform) bound(type);
    bound.name = name; bound.inputs = inputs;
    bound.result = name.equals("truncate") ? widened(type) : name.equals("days") ? DataTypes.DateType : DataTypes.IntegerType;
    return (BoundFunction) (Object) bound;
  }
  BoundFunction zorder(StructField[] in) {
    if (in.length < 3) throw refused("it takes two numbers and at least one column");
    DataType[] types = new DataType[in.length];
    for (int i = 0; i < types.length; i++) {
      types[i] = i < 2 ? DataTypes.IntegerType : in[i].dataType();
      if (i > 1 && !FrazilZOrder.takes(types[i])) throw refused("it takes no column of type " + types[i].catalogString()); }
    return (BoundFunction) (Object) new FrazilZOrder(types); }
  static boolean integral(DataType t) { return t instanceof ByteType || t instanceof ShortType || t instanceof IntegerType || t instanceof NullType; }
  static DataType widened(DataType t) { return integral(t) ? DataTypes.IntegerType : t; }
  /** As Object: the JVM would look for the classes below before they are defined. */
  Object bound(DataType t) {
    boolean number = integral(t) || t instanceof LongType || t instanceof DecimalType, text = t instanceof StringType || t instanceof BinaryType;
    boolean stamp = t instanceof TimestampType || t instanceof TimestampNTZType, date = t instanceof DateType || t instanceof NullType;
    if (name.equals("bucket") && (number || text || stamp || date)) return new FrazilBucket();
    if (name.equals("bucket") && t.typeName().startsWith("time(")) return new FrazilTimeBucket();
    if (name.equals("truncate") && (number || text)) return new FrazilTruncate();
    if (name.equals("hours") && stamp) return new FrazilHours();
    if (name.equals("days") && (stamp || date)) return new FrazilDays();
    if (name.equals("months") && (stamp || date)) return new FrazilMonths();
    if (name.equals("years") && (stamp || date)) return new FrazilYears();
    throw refused("there is no " + name + " of a value of type " + t.catalogString());
  }
  UnsupportedOperationException refused(String why) { return new UnsupportedOperationException(name + ": " + why); }
}

public class FrazilTransform implements ScalarFunction {
  public static final long MICROS_PER_DAY = 86400000000L;
  String name; DataType[] inputs; DataType result;
  public String name() { return name; }
  public DataType[] inputTypes() { return inputs; }
  public DataType resultType() { return result; }
  public String canonicalName() { return "frazil." + name + "(" + inputs[inputs.length - 1].catalogString() + ")"; }
  public boolean equals(Object o) { return o instanceof FrazilTransform && ((FrazilTransform) o).canonicalName().equals(canonicalName()); }
  public int hashCode() { return canonicalName().hashCode(); }
  static void check(String what, int size) { if (size <= 0) throw new IllegalArgumentException(what + " must be positive, not " + size); }
  static LocalDate date(long days) { return LocalDate.ofEpochDay(days); }
}

public class FrazilBucket extends FrazilTransform {
  static int bucket(int buckets, int hash) { check("the number of buckets", buckets); return (hash & Integer.MAX_VALUE) % buckets; }
  static int hash(Object base, long at, int length) { return Murmur3_x86_32.hashUnsafeBytes2(base, at, length, 0); }
  public static int invoke(int buckets, int value) { return invoke(buckets, (long) value); }
  public static int invoke(int buckets, long value) { return bucket(buckets, Murmur3_x86_32.hashLong(value, 0)); }
  public static Integer invoke(int buckets, UTF8String value) {
    return value == null ? null : Integer.valueOf(bucket(buckets, hash(value.getBaseObject(), value.getBaseOffset(), value.numBytes())));
  }
  public static Integer invoke(int buckets, byte[] value) {
    return value == null ? null : Integer.valueOf(bucket(buckets, hash(value, Platform.BYTE_ARRAY_OFFSET, value.length)));
  }
  public static Integer invoke(int buckets, Decimal value) {
    return value == null ? null : invoke(buckets, value.toJavaBigDecimal().unscaledValue().toByteArray());
  }
}

/** Spark counts nanoseconds of a day, tables microseconds. */
public class FrazilTimeBucket extends FrazilTransform {
  public static int invoke(int buckets, long nanos) { return FrazilBucket.invoke(buckets, nanos / 1000); }
}

public class FrazilTruncate extends FrazilTransform {
  public static int invoke(int width, int value) { check("the width", width); return value - Math.floorMod(value, width); }
  public static long invoke(int width, long value) { check("the width", width); return value - Math.floorMod(value, (long) width); }
  public static UTF8String invoke(int width, UTF8String value) { check("the width", width); return value == null ? null : value.substring(0, width); }
  public static byte[] invoke(int width, byte[] value) { check("the width", width); return value == null || value.length <= width ? value : Arrays.copyOf(value, width); }
  public static Decimal invoke(int width, Decimal value) {
    check("the width", width);
    if (value == null) return null;
    BigDecimal whole = value.toJavaBigDecimal();
    BigInteger number = whole.unscaledValue();
    return Decimal.apply(new BigDecimal(number.subtract(number.mod(BigInteger.valueOf((long) width))), whole.scale()));
  }
}

public class FrazilYears extends FrazilTransform {
  public static int invoke(int days) { return date(days).getYear() - 1970; }
  public static int invoke(long micros) { return invoke((int) Math.floorDiv(micros, MICROS_PER_DAY)); }
}

public class FrazilMonths extends FrazilTransform {
  public static int invoke(int days) { return (date(days).getYear() - 1970) * 12 + date(days).getMonthValue() - 1; }
  public static int invoke(long micros) { return invoke((int) Math.floorDiv(micros, MICROS_PER_DAY)); }
}

public class FrazilDays extends FrazilTransform {
  public static int invoke(int days) { return days; }
  public static int invoke(long micros) { return (int) Math.floorDiv(micros, MICROS_PER_DAY); }
}

public class FrazilHours extends FrazilTransform {
  public static int invoke(long micros) { return (int) Math.floorDiv(micros, 3600000000L); }
}

public class FrazilVersion implements ScalarFunction {
  final String name, version;
  public FrazilVersion(String name, String version) { this.name = name; this.version = version; }
  public String name() { return name; }
  public String canonicalName() { return "frazil." + name; }
  public DataType[] inputTypes() { return new DataType[0]; }
  public DataType resultType() { return DataTypes.StringType; }
  public Object produceResult(org.apache.spark.sql.catalyst.InternalRow none) { return UTF8String.fromString(version); }
}

/** Values of columns as one key: the first bits of all of them, then the second ones, and so on. Nulls come first. */
public class FrazilZOrder implements ScalarFunction, java.io.Serializable {
  public static final long serialVersionUID = 1L;
  final DataType[] types;
  public FrazilZOrder(DataType[] types) { this.types = types; }
  public static boolean takes(DataType t) {
    return t instanceof NumericType || t instanceof BooleanType || t instanceof DateType || t instanceof TimestampType || t instanceof TimestampNTZType || t instanceof StringType || t instanceof BinaryType; }
  public DataType[] inputTypes() { return types; }
  public DataType resultType() { return DataTypes.BinaryType; }
  public boolean isResultNullable() { return false; }
  public String name() { return "zorder"; }
  public String canonicalName() { return "frazil.zorder"; }
  static byte[] ordered(long value) {
    byte[] out = new byte[8];
    for (int i = 0; i < 8; i++) out[i] = (byte) ((value ^ Long.MIN_VALUE) >>> (56 - 8 * i));
    return out; }
  static byte[] ordered(double value) {
    long bits = Double.doubleToLongBits(value == 0.0 ? 0.0 : value);
    return ordered(bits < 0 ? ~bits ^ Long.MIN_VALUE : bits); }
  static byte[] part(org.apache.spark.sql.catalyst.InternalRow row, int i, DataType t, int width) {
    if (row.isNullAt(i)) return new byte[t instanceof StringType || t instanceof BinaryType ? width : 8];
    if (t instanceof StringType || t instanceof BinaryType) return Arrays.copyOf(t instanceof StringType ? row.getUTF8String(i).getBytes() : row.getBinary(i), width);
    if (t instanceof BooleanType) return ordered(row.getBoolean(i) ? 1L : 0L);
    if (t instanceof ByteType) return ordered((long) row.getByte(i));
    if (t instanceof ShortType) return ordered((long) row.getShort(i));
    if (t instanceof IntegerType || t instanceof DateType) return ordered((long) row.getInt(i));
    if (t instanceof FloatType) return ordered((double) row.getFloat(i));
    if (t instanceof DoubleType) return ordered(row.getDouble(i));
    if (t instanceof DecimalType) return ordered(row.getDecimal(i, ((DecimalType) t).precision(), ((DecimalType) t).scale()).toDouble());
    return ordered(row.getLong(i)); }
  public Object produceResult(org.apache.spark.sql.catalyst.InternalRow row) {
    int width = row.getInt(0), most = row.getInt(1), size = 0;
    byte[][] parts = new byte[types.length - 2][];
    for (int p = 0; p < parts.length; p++) { parts[p] = part(row, p + 2, types[p + 2], width); size += parts[p].length; }
    byte[] out = new byte[Math.min(size, most)];
    int at = 0;
    for (int bit = 0; at < out.length * 8 && bit < size * 8; bit++)
      for (int p = 0; p < parts.length && at < out.length * 8; p++) {
        if (bit >= parts[p].length * 8) continue;
        if ((parts[p][bit >> 3] >> (7 - (bit & 7)) & 1) != 0) out[at >> 3] |= (byte) (1 << (7 - (at & 7)));
        at++; }
    return out; }
}

/** A value of a type that differs only in names and in what may be null. */
public class FrazilTyped extends KnownNullable {
  final DataType type;
  static Expression of(Expression child, DataType type) {
    return child.dataType().equals(type) ? child : (Expression) new FrazilTyped(child, type);
  }
  public FrazilTyped(Expression child, DataType type) { super(child); this.type = type; }
  public DataType dataType() { return type; }
  public KnownNullable withNewChildInternal(Expression child) { return new FrazilTyped(child, type); }
}
