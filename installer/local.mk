# installer
EXTRA_DIST += installer/quickstart.sh
