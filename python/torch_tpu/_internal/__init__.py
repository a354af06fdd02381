"""Module paths of the original TorchTPU that released libraries import.

They are aliases; new code takes the public names, ``torch.tpu`` and ``torch_tpu``.
"""
