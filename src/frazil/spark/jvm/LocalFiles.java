package org.apache.spark.sql.connector.catalog;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** The local disk, with the permissions that the umask gives: Hadoop starts a process for each file and folder to set just those. */
public class FrazilLocalFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
  public void setPermission(Path path, FsPermission permission) {}
}
