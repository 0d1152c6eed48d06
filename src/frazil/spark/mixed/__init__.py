"""Mixed tables on Spark: two Iceberg tables that are read, and changed, as one."""
