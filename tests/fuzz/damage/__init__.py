"""What can be done to the content of a file, by kind of file: ``damage(name, content, rng)``.

Half of the time a mutator that knows the format rewrites a part of it so that all around it stays valid: checksums are
made again and lengths fit, or the damage would be noticed before the code that it is meant for is reached.
"""

from random import Random

from tests.fuzz.damage import hdf5, mat5, npy, opcodes, plain, records, safetensors, text, trees, xml, zips


def damage(kind: str, content: bytes, rng: Random) -> tuple[bytes, bool]:
    """The damaged content, and whether any checksum in the file was left to notice it.

    ``kind`` is the suffix of a file that holds such content.
    """
    if not content or rng.random() < 0.35:
        return plain.damage_bytes(content, rng), True
    if kind == ".record" and rng.random() < 0.4:
        return trees.damage_json(content, rng), True
    return _KINDS[kind](content, rng), False


def _damage_mat(content: bytes, rng: Random) -> bytes:
    """MATLAB's files are HDF5 since version 7.3."""
    return (hdf5.damage_hdf5 if b"\x89HDF" in content[:520] else mat5.damage_mat5)(content, rng)


_KINDS = {
    ".npz": zips.damage_zip,
    ".npy": npy.damage_npy,
    ".csv": text.damage_text,
    ".tsv": text.damage_text,
    ".txt": text.damage_text,
    ".1D": text.damage_text,
    ".mat": _damage_mat,
    ".graphml": xml.damage_xml,
    ".json": trees.damage_json,
    ".record": records.damage_record,
    ".pickle": opcodes.damage_pickle,
    ".isocaps": safetensors.damage_model,
}
