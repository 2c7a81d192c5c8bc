#!/bin/sh
# ./ms_fmk_transplt.sh -i INPUT -o OUTPUT
exec "${PYTHON:-python3}" "$(dirname "$(readlink -f "$0")")/ms_fmk_transplt.py" "$@"
