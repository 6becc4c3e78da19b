# A family is one file here and one row in families.def.
libagent_la_SOURCES += agent/nic/nic.h agent/nic/families.def agent/nic/nic.c agent/nic/advice.c agent/nic/advice.h \
	agent/nic/erdma.c agent/nic/virtio.c agent/nic/ena.c agent/nic/efa.c agent/nic/gve.c agent/nic/idpf.c agent/nic/mana.c \
	agent/nic/netvsc.c agent/nic/mlx4.c agent/nic/mlx5.c agent/nic/ice.c agent/nic/i40e.c agent/nic/iavf.c agent/nic/ixgbe.c \
	agent/nic/ixgbevf.c agent/nic/e1000e.c agent/nic/hinic.c agent/nic/hinic3.c agent/nic/hns3.c agent/nic/vmxnet3.c
