#!/usr/bin/env bash
# Train on 1x4-h100-sxm: run this on each of 1 node(s), with the options of train.py.
#   MASTER_ADDR=first-node NODE_RANK=0 launch/torchrun.sh --steps 1000
set -euo pipefail
cd "$(dirname "$0")/.."
# A signal reaches the ranks at once; this is how long they have to finish their step.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-120}"
exec torchrun \
    --nnodes "${NNODES:-1}" \
    --nproc-per-node "${NPROC_PER_NODE:-4}" \
    --node-rank "${NODE_RANK:-0}" \
    --master-addr "${MASTER_ADDR:-127.0.0.1}" \
    --master-port "${MASTER_PORT:-29500}" \
    train.py "$@"
