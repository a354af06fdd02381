"""The process that compiles: ``python -m torch_tpu._fit.child LIBRARY TOPOLOGY FOLDER EFFORT``.

The folder holds ``module.mlir``; the compiler's notes come into its folder ``dump``. Prints one
JSON line, as `native().compile_ahead` gives it.
"""

import sys
from pathlib import Path

from torch_tpu._loader import native

_FLAGS = {"xla_dump_hlo_as_text": "true"}


def main(library: str, topology: str, folder: str, effort: str) -> None:
    module = (Path(folder) / "module.mlir").read_text()
    flags = list((_FLAGS | {"xla_dump_to": str(Path(folder) / "dump")}).items())
    print(native().compile_ahead(library, topology, module, flags, effort == "low"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
