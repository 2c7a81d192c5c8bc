"""Reports the gradients of a call without changing its graph.

    edges = edges_of(inputs)            # before the call, because an in-place call gives its input another edge
    watch_gradients(edges, outputs, lambda side, place, gradient: ...)      # side is "input" or "output" of the backward call

The inputs of the backward call are the gradients of the outputs of the call. Its outputs are the gradients of the inputs of the
call. If other calls use an input too, only the part of this call is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

Note = Callable[[str, int, torch.Tensor], None]
Edges = dict[tuple[Any, int], list[int]]
_MOST_NODES = 2000  # nodes of one call; with more nodes, gradients of its inputs are not reported


def edges_of(inputs: Sequence[torch.Tensor]) -> Edges:
    """The positions of the inputs. The key is the node that made an input, with the number of the node's output."""
    wanted: Edges = {}
    for place, each in enumerate(inputs):
        if each.requires_grad:
            edge = get_gradient_edge(each)
            wanted.setdefault((edge.node, edge.output_nr), []).append(place)
    return wanted


def watch_gradients(wanted: Edges, outputs: Sequence[torch.Tensor], note: Note) -> bool:
    """Calls `note` for each gradient of the call. Returns whether the call has a backward call."""
    differentiable = [(place, each) for place, each in enumerate(outputs) if each.requires_grad and each.grad_fn is not None]
    if not differentiable:
        return False
    for place, each in differentiable:
        each.register_hook(lambda gradient, place=place: note("input", place, gradient))
    _follow([each.grad_fn for _, each in differentiable], wanted, note)
    return True


def _follow(starts: list[Any], wanted: Edges, note: Note) -> None:
    ends = {node for node, _ in wanted}
    seen: set[Any] = set()
    found: list[tuple[Any, dict[int, list[int]]]] = []
    open_nodes = [node for node in starts if node not in ends]
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > _MOST_NODES:
            return
        places = {}
        for index, (next_node, number) in enumerate(node.next_functions):
            if next_node is None:
                continue
            if (next_node, number) in wanted:
                places[index] = wanted[next_node, number]
            elif next_node not in ends:
                open_nodes.append(next_node)
        if places:
            found.append((node, places))
    sums: dict[int, torch.Tensor] = {}
    for node, places in found:
        node.register_hook(_noting(places, sums, note))


def _noting(places: dict[int, list[int]], sums: dict[int, torch.Tensor], note: Note) -> Callable[[Any, Any], None]:
    def hook(gradients: Sequence[torch.Tensor | None], _: Any) -> None:
        for index, numbers in places.items():
            gradient = gradients[index] if index < len(gradients) else None
            if gradient is None:
                continue
            for number in numbers:
                sums[number] = sums[number] + gradient if number in sums else gradient
                note("output", number, sums[number])

    return hook
