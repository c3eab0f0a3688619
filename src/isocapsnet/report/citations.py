"""BibTeX entries of the methods and statistics of a report."""

from collections.abc import Iterable

_ARXIV = "arXiv preprint arXiv:"
_NEURIPS = "Advances in Neural Information Processing Systems"
_ICLR = "International Conference on Learning Representations"

#: Method to its references: kind, key, and fields in the order of the entry.
_REFERENCES: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "isocapsnet": [("article", "zhang2022isocapsnet", {
        "title": "Iso-CapsNet: Isomorphic Capsule Network for Brain Graph Representation Learning",
        "author": "Zhang, Jiawei", "journal": f"{_ARXIV}2206.13465", "year": "2022"})],
    "isonn": [("article", "meng2019isonn", {
        "title": "IsoNN: Isomorphic Neural Network for Graph Representation Learning and Classification",
        "author": "Meng, Lin and Zhang, Jiawei", "journal": f"{_ARXIV}1907.09495", "year": "2019"})],
    "capsnet": [("inproceedings", "sabour2017dynamic", {
        "title": "Dynamic Routing Between Capsules",
        "author": "Sabour, Sara and Frosst, Nicholas and Hinton, Geoffrey E.", "booktitle": f"{_NEURIPS} 30",
        "pages": "3856--3866", "year": "2017"})],
    "cnn": [("incollection", "lecun1999object", {
        "title": "Object Recognition with Gradient-Based Learning",
        "author": "LeCun, Yann and Haffner, Patrick and Bottou, L\\'eon and Bengio, Yoshua",
        "booktitle": "Shape, Contour and Grouping in Computer Vision", "publisher": "Springer", "pages": "319--345",
        "year": "1999"})],
    "sdbn": [("inproceedings", "wang2017structural", {
        "title": "Structural Deep Brain Network Mining",
        "author": "Wang, Shen and He, Lifang and Cao, Bokai and Lu, Chun-Ta and Yu, Philip S. and Ragin, Ann B.",
        "booktitle": "Proceedings of the 23rd ACM SIGKDD International Conference on Knowledge Discovery and Data "
                     "Mining",
        "pages": "475--484", "year": "2017"})],
    "dgcnn": [("inproceedings", "zhang2018end", {
        "title": "An End-to-End Deep Learning Architecture for Graph Classification",
        "author": "Zhang, Muhan and Cui, Zhicheng and Neumann, Marion and Chen, Yixin",
        "booktitle": "Proceedings of the AAAI Conference on Artificial Intelligence", "year": "2018"})],
    "autoencoder": [("article", "vincent2010stacked", {
        "title": "Stacked Denoising Autoencoders: Learning Useful Representations in a Deep Network with a Local "
                 "Denoising\n           Criterion",
        "author": "Vincent, Pascal and Larochelle, Hugo and Lajoie, Isabelle and Bengio, Yoshua and "
                  "Manzagol, Pierre-Antoine",
        "journal": "Journal of Machine Learning Research", "volume": "11", "pages": "3371--3408", "year": "2010"})],
    "gcn": [("inproceedings", "kipf2017semi", {
        "title": "Semi-Supervised Classification with Graph Convolutional Networks",
        "author": "Kipf, Thomas N. and Welling, Max", "booktitle": _ICLR, "year": "2017"})],
    "gin": [("inproceedings", "xu2019powerful", {
        "title": "How Powerful are Graph Neural Networks?",
        "author": "Xu, Keyulu and Hu, Weihua and Leskovec, Jure and Jegelka, Stefanie", "booktitle": _ICLR,
        "year": "2019"})],
    "diffpool": [("inproceedings", "ying2018hierarchical", {
        "title": "Hierarchical Graph Representation Learning with Differentiable Pooling",
        "author": "Ying, Rex and You, Jiaxuan and Morris, Christopher and Ren, Xiang and Hamilton, William L. and\n"
                  "            Leskovec, Jure",
        "booktitle": f"{_NEURIPS} 31", "year": "2018"})],
    "wl": [("inproceedings", "shervashidze2009fast", {
        "title": "Fast Subtree Kernels on Graphs", "author": "Shervashidze, Nino and Borgwardt, Karsten",
        "booktitle": f"{_NEURIPS} 22", "year": "2009"})],
    "freq": [("inproceedings", "yan2002gspan", {
        "title": "gSpan: Graph-Based Substructure Pattern Mining", "author": "Yan, Xifeng and Han, Jiawei",
        "booktitle": "Proceedings of the 2002 IEEE International Conference on Data Mining", "pages": "721--724",
        "year": "2002"})],
    "statistics": [
        ("article", "nadeau2003inference", {
            "title": "Inference for the Generalization Error", "author": "Nadeau, Claude and Bengio, Yoshua",
            "journal": "Machine Learning", "volume": "52", "number": "3", "pages": "239--281", "year": "2003"}),
        ("article", "hanley1982meaning", {
            "title": "The Meaning and Use of the Area under a Receiver Operating Characteristic ({ROC}) Curve",
            "author": "Hanley, James A. and McNeil, Barbara J.", "journal": "Radiology", "volume": "143", "number": "1",
            "pages": "29--36", "year": "1982"}),
        ("article", "holm1979simple", {
            "title": "A Simple Sequentially Rejective Multiple Test Procedure", "author": "Holm, Sture",
            "journal": "Scandinavian Journal of Statistics", "volume": "6", "number": "2", "pages": "65--70",
            "year": "1979"}),
    ],
}  # fmt: skip

_SAME_PAPER = {"fastisonn": "isonn", "isocapsnet-released": "isocapsnet"}


def bibtex(methods: Iterable[str]) -> str:
    """Entries of these methods, as far as they have a paper, and of the statistics."""
    names = {"statistics", *(_SAME_PAPER.get(name, name) for name in methods)}
    entries = [entry for name, references in _REFERENCES.items() if name in names for entry in references]
    return "\n\n".join(
        f"@{kind}{{{key},\n" + ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items()) + "\n}"
        for kind, key, fields in entries
    )
