"""From a program of ATen calls, as torch.export writes them, to a `ModelGraph`; needs no torch.

```text
Program ─ strip ─ fold constants ─ fuse ─ lower ─ find layers ─ ModelGraph
```

Traced modules and `.pt2` archives both come here, so that what opens from one opens alike from the other.
"""
