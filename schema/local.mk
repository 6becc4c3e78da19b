# JSON schemas of our documents: what other programs may rely on, and what the tests validate against.
schemadir = $(pkgdatadir)/schema
dist_schema_DATA = schema/capture.schema.json
