package org.apache.spark.sql.connector.catalog;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** The local disk, with the permissions that the umask gives: Hadoop starts a process for each file and folder to set just those. */
public class FrazilLocalFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
  public void setPermission(Path path, FsPermission permission) {}
}

/** Spark's Parquet reader for local files: with the settings that somebody made. Spark broadcasts them with every scan, compressed one by one. */
public class FrazilLocalParquet extends org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat {
  public scala.Function1 buildReaderWithPartitionValues(org.apache.spark.sql.SparkSession s, org.apache.spark.sql.types.StructType data, org.apache.spark.sql.types.StructType part,
      org.apache.spark.sql.types.StructType required, scala.collection.immutable.Seq filters, scala.collection.immutable.Map options, Configuration conf) {
    return FrazilTextReader.of(super.buildReaderWithPartitionValues(s, data, part, required, filters, options, FrazilParquet.made(conf)), required); }
  public scala.Option vectorTypes(org.apache.spark.sql.types.StructType required, org.apache.spark.sql.types.StructType part, org.apache.spark.sql.internal.SQLConf conf) {
    return FrazilTextBatches.types(super.vectorTypes(required, part, conf), required); }
}
