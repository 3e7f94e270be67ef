#!/bin/sh
# What `apptainer run IMAGE WORD …` does; the last line of the usage is the rule.
set -eu

usage() {
    cat <<'TEXT'
usage: apptainer run IMAGE WORD [OPTION …]
  worker ADDRESS   a Dask worker for the scheduler at ADDRESS, one per GPU
  lab              JupyterLab on this host's loopback address
  a command        of pleasingly, below
  anything else    is run as it stands
TEXT
    echo
    pleasingly --help
}

# What the image has compiled: numba writes beside it what this host's CPU or GPU needs anew.
compiled=${PLEASINGLY_COMPILED:-}
if [ -d "$compiled" ] && [ ! -e "$NUMBA_CACHE_DIR" ]; then
    own="$NUMBA_CACHE_DIR.$$"
    # Of several that begin together one is the first.
    { cp -r "$compiled" "$own" && mv -T "$own" "$NUMBA_CACHE_DIR"; } 2>/dev/null || rm -rf "$own"
fi

word=${1:-help}
case $word in
    help | --help | -h) usage ;;
    worker) shift; exec dask ${PLEASINGLY_WORKER:-worker} "$@" ;;
    lab) shift; exec jupyter lab --no-browser --ip=127.0.0.1 "$@" ;;
    *)
        if command -v "$word" >/dev/null; then exec "$@"; fi
        exec pleasingly "$@" ;;
esac
