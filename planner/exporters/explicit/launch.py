"""Writes the files that start a bundle on its cluster: by torchrun, under Slurm, on Kubernetes."""

from __future__ import annotations

import re

from ...core.cluster import ClusterSpec

PORT = 29500
GRACE = 120
"""Seconds from the signal that ends training to the one that kills: a step and a last checkpoint fit in."""


def launch_files(name: str, cluster: ClusterSpec) -> dict[str, str]:
    """Return the launch files as path → text.

    Parameters
    ----------
    name
        Of the model; jobs are called after it.
    """
    # A Service's name begins with a letter.
    job = f"train-{re.sub(r'[^a-z0-9]+', '-', name.lower())}"[:40].rstrip("-")
    return {
        "launch/torchrun.sh": _torchrun(cluster),
        "launch/slurm.sbatch": _slurm(job, cluster),
        "launch/kubernetes.yaml": _kubernetes(job, cluster),
    }


def _torchrun(cluster: ClusterSpec) -> str:
    return (
        "#!/usr/bin/env bash\n"
        f"# Train on {cluster.name}: run this on each of {cluster.nodes} node(s), with the options of train.py.\n"
        "#   MASTER_ADDR=first-node NODE_RANK=0 launch/torchrun.sh --steps 1000\n"
        "set -euo pipefail\n"
        'cd "$(dirname "$0")/.."\n'
        "# A signal reaches the ranks at once; this is how long they have to finish their step.\n"
        f'export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${{TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-{GRACE}}}"\n'
        "exec torchrun \\\n"
        f'    --nnodes "${{NNODES:-{cluster.nodes}}}" \\\n'
        f'    --nproc-per-node "${{NPROC_PER_NODE:-{cluster.devices_per_node}}}" \\\n'
        '    --node-rank "${NODE_RANK:-0}" \\\n'
        '    --master-addr "${MASTER_ADDR:-127.0.0.1}" \\\n'
        f'    --master-port "${{MASTER_PORT:-{PORT}}}" \\\n'
        '    train.py "$@"\n'
    )


def _slurm(job: str, cluster: ClusterSpec) -> str:
    return (
        "#!/usr/bin/env bash\n"
        f"# Train on {cluster.name} under Slurm. Submit it in the bundle's folder, which every node must see:\n"
        "#   sbatch --partition=… --time=… launch/slurm.sbatch --steps 1000\n"
        f"#SBATCH --job-name={job}\n"
        f"#SBATCH --nodes={cluster.nodes}\n"
        "#SBATCH --ntasks-per-node=1\n"
        f"#SBATCH --gpus-per-node={cluster.devices_per_node}\n"
        "#SBATCH --exclusive\n"
        "#SBATCH --output=%x-%j.log\n"
        "# Before the time is over, ranks are told to finish their step.\n"
        f"#SBATCH --signal=TERM@{GRACE}\n"
        "set -euo pipefail\n"
        'cd "$SLURM_SUBMIT_DIR"\n'
        "# One torchrun a node; the first node of the list is where the ranks meet.\n"
        'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"\n'
        f'export MASTER_ADDR MASTER_PORT="${{MASTER_PORT:-{PORT}}}" NNODES="$SLURM_JOB_NUM_NODES"\n'
        'srun --kill-on-bad-exit=1 bash -c \'NODE_RANK="$SLURM_NODEID" exec launch/torchrun.sh "$@"\' train "$@"\n'
    )


def _kubernetes(job: str, cluster: ClusterSpec) -> str:
    return f"""\
# Train on {cluster.name} on Kubernetes, without any operator: a Job with an index for each node, and a Service that
# gives its pods names, so that all find the first one. Set `image` (PyTorch) and the claim of a volume that holds the
# bundle, then: kubectl apply -f launch/kubernetes.yaml
apiVersion: v1
kind: Service
metadata:
  name: {job}
spec:
  clusterIP: None
  # Pods find each other before they are ready.
  publishNotReadyAddresses: true
  selector:
    job-name: {job}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {job}
spec:
  completionMode: Indexed
  completions: {cluster.nodes}
  parallelism: {cluster.nodes}
  # A rank that fails ends all others; a new run is yours to start.
  backoffLimit: 0
  template:
    spec:
      subdomain: {job}
      restartPolicy: Never
      terminationGracePeriodSeconds: {GRACE + 30}
      containers:
        - name: train
          image: IMAGE-WITH-PYTORCH
          # The number of the pod in the Job is the number of its node. exec: signals reach torchrun.
          command: ["bash", "-c", 'NODE_RANK="$JOB_COMPLETION_INDEX" exec launch/torchrun.sh "$@"', "train"]
          args: ["--steps", "1000"]
          workingDir: /bundle
          env:
            - name: MASTER_ADDR
              value: {job}-0.{job}
          ports:
            - containerPort: {PORT}
          resources:
            limits:
              nvidia.com/gpu: {cluster.devices_per_node}
          volumeMounts:
            - name: bundle
              mountPath: /bundle
            - name: shared-memory
              mountPath: /dev/shm
      volumes:
        - name: bundle
          persistentVolumeClaim:
            claimName: CLAIM-WITH-THE-BUNDLE
        # NCCL passes data between processes of a node through it; the default of 64 MiB is too little.
        - name: shared-memory
          emptyDir:
            medium: Memory
"""
