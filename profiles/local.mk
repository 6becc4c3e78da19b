# A profile is one file here and one word below.
profilesdir = $(pkglibdir)/profiles
dist_profiles_DATA = profiles/balanced.yaml profiles/dpdk-noiommu.yaml profiles/dpdk.yaml profiles/erdma.yaml profiles/latency.yaml \
	profiles/memcached.yaml profiles/nginx.yaml profiles/packet-rate.yaml profiles/postgresql.yaml profiles/redis.yaml \
	profiles/throughput.yaml
