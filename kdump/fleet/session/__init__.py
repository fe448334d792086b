"""Sessions of Spark.

environment  Environment variables that are set inside a block.
version      The check of the release of Spark.
java         The check of the Java version that Spark starts with.
signals      Signals that wait while an exception could be lost.
jvm          A JVM that ends with its session.
session      A session of Spark, started here or reached over Connect.
"""
