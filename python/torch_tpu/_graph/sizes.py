"""Sizes that only a run knows, as ``tpu-graph`` reads them."""

from __future__ import annotations

import sympy
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols
from torch.utils._sympy.functions import FloorDiv

# A size as JSON: a number, or numbers and linear expressions of symbols that are multiplied.
Extent = int | dict


class Sizes:
    """The symbols of one graph, numbered as they come.

    Attributes:
        exact: Why the graph has to be compiled for each size; empty where it need not be.
    """

    def __init__(self) -> None:
        self._symbols: dict[sympy.Symbol, int] = {}
        self.exact = ""

    @property
    def count(self) -> int:
        """How many symbols there are."""
        return len(self._symbols)

    def describe(self, name: str, value: object) -> dict:
        """What a node called ``name`` says of its sizes: ``sizes`` of a tensor, ``size`` of a
        number, or nothing."""
        if isinstance(value, torch.Tensor):
            return {"sizes": [self._extent(name, n) for n in value.shape]}
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            return {"size": self._extent(name, value)}
        return {}

    def _extent(self, name: str, n: int | torch.SymInt) -> Extent:
        if isinstance(n, int):
            return n
        factor, atoms = 1, []
        for part in _parts(n.node.expr):
            if part.is_Integer:
                factor *= int(part)
                continue
            atom = self._linear(part)
            if atom is None:
                self._refuse(f"`{name}` has the size {n.node.expr}")
                return 0
            atoms.append(atom)
        return {"factor": factor, "atoms": atoms} if atoms else factor

    def _linear(self, expression: sympy.Expr) -> list | None:
        """``[constant, [[symbol, coefficient], ...]]``; None for what is not linear."""
        constant, terms = 0, {}
        for term in sympy.Add.make_args(expression):
            coefficient, rest = term.as_coeff_Mul()
            if not coefficient.is_Integer or not (rest == 1 or rest.is_Symbol):
                return None
            if rest == 1:
                constant += int(coefficient)
            else:
                symbol = self._symbols.setdefault(rest, len(self._symbols))
                terms[symbol] = terms.get(symbol, 0) + int(coefficient)
        return [constant, sorted([s, k] for s, k in terms.items())]

    def _refuse(self, why: str) -> None:
        self.exact = self.exact or why


def _parts(expression: sympy.Expr) -> list[sympy.Expr]:
    """Factors, those that come several times as often as they do."""
    expression = expression.replace(FloorDiv, _quotient)
    if expression.is_Add:
        expression = sympy.factor(expression)
    parts: list[sympy.Expr] = []
    for part in sympy.Mul.make_args(expression):
        if part.is_Pow and part.exp.is_Integer and part.exp > 0:
            parts += [part.base] * int(part.exp)
        else:
            parts.append(part)
    return parts


def _quotient(over: sympy.Expr, under: sympy.Expr) -> sympy.Expr:
    """A division, without rounding where nothing is left over whatever the sizes are."""
    exact = sympy.cancel(over / under)
    return exact if exact.is_polynomial() else FloorDiv(over, under)


def depends_on_data(node: Node, value: torch.Tensor) -> bool:
    """Whether a size of a node's tensor is on an unbacked symbol that no input of its graph has."""
    unbacked = free_unbacked_symbols(value)
    if not unbacked:
        return False
    inputs = [n.meta.get("val") for n in node.graph.find_nodes(op="placeholder")]
    known = (torch.Tensor, torch.SymInt)
    return not unbacked <= {s for v in inputs if isinstance(v, known) for s in free_symbols(v)}
