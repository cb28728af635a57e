#!/usr/bin/env bash
# Start on every node; NODE_RANK and MASTER_ADDR tell nodes apart (1x4-h100-sxm).
set -euo pipefail
cd "$(dirname "$0")"
exec torchrun \
    --nnodes "${NNODES:-1}" \
    --nproc-per-node "${NPROC_PER_NODE:-4}" \
    --node-rank "${NODE_RANK:-0}" \
    --master-addr "${MASTER_ADDR:-127.0.0.1}" \
    --master-port "${MASTER_PORT:-29500}" \
    train.py "$@"
