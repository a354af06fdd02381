"""Prints what PyTorch's dispatcher knows about every `aten` overload, as one JSON list.

Each entry: `schema`; `backend`, whether a device has to bring a kernel for it; `pointwise`, whether
it works element by element; `decomposed`, whether PyTorch can express it by other operators.
"""

import json
import os
import re

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch
from torch._decomp import decomposition_table

has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
# Kernels for other layouts of memory, other vendors or tests: no dense device meets them.
FOREIGN = re.compile(
    r"sparse|quantize|qint|fbgemm|mkldnn|cudnn|miopen|_cuda|nested|_mps|nnpack|xnnpack|_test_|coo_|"
    r"_for_cpu|csr|_jagged|_fake_quant|choose_qparams|_wrapped_linear|_weight_int|_dyn_quant|_coalesce"
)


def is_backend(name):
    composite = any(has_kernel(name, key) for key in COMPOSITE)
    return has_kernel(name, "CPU") and not composite and not FOREIGN.search(name)


def entry(full_name):
    name, _, overload = full_name.removeprefix("aten::").partition(".")
    operator = getattr(getattr(torch.ops.aten, name), overload or "default")
    return {
        "schema": str(torch._C._get_schema(f"aten::{name}", overload)),
        "backend": is_backend(full_name),
        "pointwise": torch.Tag.pointwise in operator.tags,
        "decomposed": operator in decomposition_table,
    }


names = torch._C._dispatch_get_all_op_names()
print(json.dumps([entry(name) for name in sorted(names) if name.startswith("aten::")]))
