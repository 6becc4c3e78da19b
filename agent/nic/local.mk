# nic
