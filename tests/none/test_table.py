"""The table of operators against the dispatcher's schemas."""

import torch

from torch_tpu import _C


def schemas():
    every = torch._C._jit_get_all_schemas()
    return [str(schema) for schema in every if schema.name.startswith("aten::")]


def test_the_table_agrees_with_the_dispatcher():
    """Each row's parameters are the schema's, and no row is for a form that is derived."""
    assert _C.table_disagreements(schemas()) == []


def test_a_disagreement_is_seen():
    wrong = [text for text in schemas() if not text.startswith("aten::mul.Tensor(")]
    wrong.append("aten::mul.Tensor(Tensor self, Tensor? other) -> Tensor")
    found = "\n".join(_C.table_disagreements(wrong))
    assert "mul.Tensor(Tensor self, Tensor? other): parameter 1 wants Tensor" in found
    assert "dispatcher has no such overload" in "\n".join(_C.table_disagreements([]))
