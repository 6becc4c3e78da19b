# sys
