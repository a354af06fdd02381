"""Ahead of time: what a TPU's compiler says to a program, with no TPU."""
