#!/bin/sh
# What `apptainer run IMAGE WORD …` does; the last line of the usage is the rule.
set -eu

usage() {
    cat <<'TEXT'
usage: apptainer run IMAGE WORD [OPTION …]
  svm_grid, nn_bagging, report   a command: python -m pipelines.WORD
  check, sbatch                  clusters: python -m cluster_setup WORD
  worker ADDRESS                 a Dask worker for the scheduler at ADDRESS, one per GPU
  lab                            JupyterLab on this host's loopback address
  anything else                  is run as it stands
TEXT
}

word=${1:-help}
[ $# -gt 0 ] && shift
case $word in
    help | --help | -h) usage ;;
    svm_grid | nn_bagging | report) exec python -m "pipelines.$word" "$@" ;;
    check | sbatch) exec python -m cluster_setup "$word" "$@" ;;
    worker) exec dask ${PLEASINGLY_WORKER:-worker} "$@" ;;
    lab) exec jupyter lab --no-browser --ip=127.0.0.1 "$@" ;;
    *) exec "$word" "$@" ;;
esac
