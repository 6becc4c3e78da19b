# JSON schemas of our documents: what other programs may rely on, and what the tests validate against. One file a document.
schemadir = $(pkgdatadir)/schema
dist_schema_DATA =
dist_schema_DATA += schema/bench-list.schema.json
dist_schema_DATA += schema/bench.schema.json
dist_schema_DATA += schema/capture.schema.json
dist_schema_DATA += schema/check.schema.json
dist_schema_DATA += schema/config.schema.json
dist_schema_DATA += schema/confirm.schema.json
dist_schema_DATA += schema/detect.schema.json
dist_schema_DATA += schema/driver.schema.json
dist_schema_DATA += schema/error.schema.json
dist_schema_DATA += schema/profile.schema.json
dist_schema_DATA += schema/ss-clear.schema.json
dist_schema_DATA += schema/ss.schema.json
dist_schema_DATA += schema/plan.schema.json
dist_schema_DATA += schema/status.schema.json
