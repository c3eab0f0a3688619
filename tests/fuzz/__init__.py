"""Damaged inputs for everything that reads a file: ``make fuzz``, and a small part of it in ``make test``.

A case is a folder of files that were valid until something was done to them. It depends on its format and its number
alone, so ``case("npz", 17)`` is the same one tomorrow. Workers read cases as a user would; the driver watches them and
counts what came out: read or refused in a sentence, and everything that must not happen.
"""
