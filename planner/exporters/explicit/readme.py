"""Writes a bundle's `README.md`."""

from __future__ import annotations

from ...core.assignment import TrainingGraph
from ...core.cluster import ClusterSpec
from ...core.plan import Decisions
from .script import step_text

TRIED = ("2.13.0",)
"""Versions of torch with which exported bundles were run."""

_STAGES = """\
| `stages.py` | the stages, what passes between them, and the ranks that hold copies of one parameter |
| `schedule.csv` | who does what when, a row a rank in PyTorch's format: `2F0` is the forward of stage 2, microbatch 0 |
"""
_RUN = """
**Stages.** Where `torch.distributed.pipelining` has the schedule, it runs the stages; else, and with `--pipelining
table`, each rank runs its row of `schedule.csv` by the loop in `parallel/pipeline.py`.
"""


def write_readme(training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec) -> str:
    """Return `README.md`: what the files are, how to start, what can be set, and what the bundle needs."""
    graph = training.assignment.graph
    stages, run = (_STAGES, _RUN) if decisions.pipeline else ("", "")
    return f"""\
# {graph.name} on {cluster.name}

Mesh `{decisions.mesh}`, {step_text(training, decisions)}. Needs PyTorch and nothing else; run with
torch {", ".join(TRIED)}. Names that other versions spell differently are in `parallel/names.py`.

```bash
launch/torchrun.sh --steps 20                                  # synthetic data
launch/torchrun.sh --steps 10000 --data tokens-*.bin --schedule cosine --warmup 500 --clip 1 --log-file log.jsonl
launch/torchrun.sh --steps 10000 --init model.safetensors --save run --save-every 500 --resume
python train.py --help                                         # every option
```

| file | what it is |
|---|---|
| `model.py` | the model on local shards; a comment above each `reshard` and `fan_out` names the plan's edge |
{stages}| `train.py` | the settings of the plan, and the start of training |
| `parallel/` | the runtime, plain `torch.distributed` |
| `launch/` | `torchrun.sh` for each node, `slurm.sbatch`, `kubernetes.yaml` |
| `plan.json` | the decisions that this was written from; `shardwright evaluate plan.json` opens it |
{run}
**Data.** `--data` takes files of raw tokens, `uint16` or `uint32` (`--data-type`), without a header. Samples do not
overlap, every epoch takes each of them once in a new order, and any mesh of any number of ranks gets the same global
batches. For other inputs, give `parallel.trainer.Training.step` a source of your own: a function from the step and the
number of samples before it to the whole batch.

**Precision.** `--dtype bfloat16` and `float16` keep a copy of the parameters in float32, in the optimizer's layout.
`float16` scales the loss, and leaves a step out when a gradient of any rank is not finite. `--dtype float64` is for
comparisons.

**Log.** Rank 0 prints a line every `--log-every` steps and appends it to `--log-file` as JSON: loss, norm of the
gradients, learning rate, seconds a step, samples and tokens a second, MFU (the model's FLOPs over the peak of the
planned devices, on GPUs), and the memory of the rank that needs the most. `--profile 10:3` writes a trace of steps 10
to 12 for each rank.

**Checkpoints.** `--save FOLDER --save-every 500 --keep 3 --resume` writes to a folder that all nodes share and goes on
from the latest checkpoint there, if there is one. It may have been written by another number of ranks, on another mesh,
by the bundle of another plan of this model: values and optimizer state are whole tensors by the names of the original
model, of which each rank reads its part. A checkpoint has its name only when all of it is on the disk. Reading one runs
nothing that is in it (`parallel/stored.py`); torch's own tools read the same files, but unpickle `.metadata` as it is.
`--init PATH` starts with the weights of the unsharded model: `.safetensors`, a folder of them, or a saved state dict.

**When something fails.** If a rank raises an error or is killed, all ranks end within half a minute with exit status 1
and one message that names it. After SIGTERM or SIGINT all ranks end after the same step, with exit status 128 + the
signal's number.
"""
