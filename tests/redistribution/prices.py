"""Prices for tests: seconds of a step of 4-byte elements under simple models of the links."""

from planner.collectives import COLLECTIVES
from planner.core.collective import Step
from planner.core.mesh import DeviceMesh
from planner.redistribution.prices import Price


def alpha_beta(mesh: DeviceMesh, alpha: float = 5e-6, beta: float = 1 / 100e9) -> Price:
    """Every round costs the same latency, every byte the same time."""

    def price(step: Step) -> float:
        definition = COLLECTIVES[step.kind]
        return definition.rounds(step, mesh) * alpha + definition.received_bytes(step, mesh, 4) * beta

    return price


def bandwidth(mesh: DeviceMesh) -> Price:
    """Only bytes count."""
    return alpha_beta(mesh, alpha=0.0)


def latency(mesh: DeviceMesh) -> Price:
    """Only rounds count."""
    return alpha_beta(mesh, beta=0.0)


def launches(mesh: DeviceMesh) -> Price:
    """Every collective costs one latency, whatever its group; bytes as ever."""
    plain = bandwidth(mesh)
    return lambda step: (0.0 if COLLECTIVES[step.kind].local else 20e-6) + plain(step)


def nodes(mesh: DeviceMesh) -> Price:
    """Groups over more than the last axis cross nodes, at a tenth of the bandwidth."""
    near, far = alpha_beta(mesh), alpha_beta(mesh, alpha=10e-6, beta=1 / 10e9)
    return lambda step: near(step) if set(step.axes) <= {mesh.names[-1]} else far(step)


PRICES = (alpha_beta, bandwidth, latency, launches, nodes)
