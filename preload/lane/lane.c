#include "preload/lane/lane.h"

const struct lane_ops *lane_active = &lane_shm;
