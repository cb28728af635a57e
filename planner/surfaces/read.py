"""One reader for every way in which layouts are written, and one mesh to put them on."""

from __future__ import annotations

import re

from ..core.crossing import Holding
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.refine import refine
from ..core.scan import point
from ..errors import LayoutError, Place
from . import alias_layout, device_layout, dtensor, jax
from .alias_layout import AliasLayout
from .device_layout import DeviceLayout

_DTENSOR = re.compile(r"[\s\[(]*(?:\w+\.)*(?:Shard|Replicate|Partial|_StridedShard)\s*\(")
_JAX = re.compile(r"\s*(?:\w+\.)*(?:P|PartitionSpec)\s*\(")
_ALIAS = re.compile(r"\s*(?:\w+\.)*Layout\s*\(")


def read_layouts(
    texts: tuple[str, ...], mesh: DeviceMesh, shape: tuple[int, ...]
) -> tuple[DeviceMesh, tuple[Layout, ...]]:
    """Return the layouts of some texts, and the mesh that they are on.

    A text is a layout as printed, DTensor placements, a JAX partition spec, or a MindSpore layout by aliases or by
    matrix and map. MindSpore's forms bring a device matrix of their own; where its dims are finer than the mesh's axes,
    the axes are split, and all layouts are written on the finer mesh.

    Raises
    ------
    LayoutError
        What is wrong with a text, with its place where that is known.
    """
    forms = [_read(text, mesh, shape) for text in texts]
    finer = refine(mesh, *(form.matrix for form in forms if not isinstance(form, Layout)))
    return finer.mesh, tuple(finer.rename(f) if isinstance(f, Layout) else f.on(finer) for f in forms)


def read_layout(text: str, mesh: DeviceMesh, shape: tuple[int, ...]) -> Layout:
    """Return the layout of one text on this very mesh.

    Raises
    ------
    LayoutError
        `surface.mesh-split` if it can be written only on a finer mesh; else as `read_layouts`.
    """
    finer, (layout,) = read_layouts((text,), mesh, shape)
    if finer != mesh:
        raise LayoutError(
            "surface.mesh-split",
            f"{text!r} cuts axes of the mesh {mesh} in parts.",
            f"Use the mesh {finer}.",
        )
    return layout


def read_holding(text: str, mesh: DeviceMesh, shape: tuple[int, ...]) -> Holding:
    """Return what one text says is held, on the mesh or, where a device matrix cuts its axes, on a finer one.

    Raises
    ------
    LayoutError
        As `read_layouts`.
    """
    finer, (layout,) = read_layouts((text,), mesh, shape)
    return Holding(mesh=finer, shape=shape, layout=layout)


def _read(text: str, mesh: DeviceMesh, shape: tuple[int, ...]) -> Layout | DeviceLayout | AliasLayout:
    try:
        form = _form(text, mesh, shape)
        if isinstance(form, Layout):
            mesh.size_of(axis for dim in (*form.dims, form.partial) for axis in dim)
        dims = len(form.tensor_map if isinstance(form, DeviceLayout) else form.dims)
        if dims != len(shape):
            raise LayoutError(
                "layout.rank-mismatch",
                f"{text.strip()!r} has {dims} dims, the tensor has {len(shape)} (shape {shape}).",
                "Give one entry a dim.",
                place=Place(text, len(text) - len(text.lstrip()), len(text.rstrip())),
            )
    except LayoutError as error:
        reused = error.code in {"layout.axis-reused", "mindspore.alias-reused"}
        raise point(error, text, occurrence=1 if reused else 0) from None
    return form


def _form(text: str, mesh: DeviceMesh, shape: tuple[int, ...]) -> Layout | DeviceLayout | AliasLayout:
    if _DTENSOR.match(text):
        return dtensor.to_layout(dtensor.read(text), mesh, len(shape))
    if _JAX.match(text):
        return jax.to_layout(jax.read(text), mesh, len(shape))
    if _ALIAS.match(text):
        return alias_layout.read(text)
    if "|" in text:
        return device_layout.read(text, shape)
    return Layout.parse(text)
