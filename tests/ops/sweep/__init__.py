"""Every operator of PyTorch's own databases on the device, against the CPU.

`cases` says what there is to run, `forms` how an operator is called, `compare` when two results are
the same, `worker` runs in processes of their own, which `pool` starts and watches. `python -m tests.ops.sweep` runs a part and
writes the page that `table` makes of the results.
"""
