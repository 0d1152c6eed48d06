"""The engine: a lake of tables as a catalog of a classic Spark session, with no jar."""
