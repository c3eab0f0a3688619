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


def _damage_npy(content: bytes, rng: Random) -> bytes:
    """Objects in an array are pickled after its header."""
    if b"|O" not in content[:128]:
        return npy.damage_npy(content, rng)
    start = 10 + int.from_bytes(content[8:10], "little")
    if rng.random() < 0.2:
        return plain.damage_bytes(content[:start], rng) + content[start:]
    return content[:start] + opcodes.damage_pickle(content[start:], rng)


def _damage_cifti(content: bytes, rng: Random) -> bytes:
    """The header of 540 bytes, the XML after it, or the values, each of which keeps its length half of the time."""
    ends = [0, 540, content.find(b"</CIFTI>") + 8, len(content)]
    part = rng.randrange(3)
    old = content[ends[part] : ends[part + 1]]
    new = xml.damage_xml(old[12:], rng) if part == 1 and rng.random() < 0.5 else plain.damage_bytes(old, rng)
    new = old[:12] + new if part == 1 and len(new) < len(old) else new
    if rng.random() < 0.5:
        new = new[: len(old)].ljust(len(old), b"\0")
    return content[: ends[part]] + new + content[ends[part + 1] :]


_KINDS = {
    ".npz": zips.damage_zip,
    ".npy": _damage_npy,
    ".csv": text.damage_text,
    ".tsv": text.damage_text,
    ".txt": text.damage_text,
    ".1D": text.damage_text,
    ".nel": text.damage_text,
    ".nii": _damage_cifti,
    ".mat": _damage_mat,
    ".graphml": xml.damage_xml,
    ".json": trees.damage_json,
    ".record": records.damage_record,
    ".pickle": opcodes.damage_pickle,
    ".isocaps": safetensors.damage_model,
}
