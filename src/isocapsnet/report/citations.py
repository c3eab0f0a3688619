"""BibTeX entries of the methods and statistics a report may mention."""

from collections.abc import Iterable

_ENTRIES = {
    "isocapsnet": """@article{zhang2022isocapsnet,
  title = {Iso-CapsNet: Isomorphic Capsule Network for Brain Graph Representation Learning},
  author = {Zhang, Jiawei},
  journal = {arXiv preprint arXiv:2206.13465},
  year = {2022}
}""",
    "isonn": """@article{meng2019isonn,
  title = {IsoNN: Isomorphic Neural Network for Graph Representation Learning and Classification},
  author = {Meng, Lin and Zhang, Jiawei},
  journal = {arXiv preprint arXiv:1907.09495},
  year = {2019}
}""",
    "capsnet": """@inproceedings{sabour2017dynamic,
  title = {Dynamic Routing Between Capsules},
  author = {Sabour, Sara and Frosst, Nicholas and Hinton, Geoffrey E.},
  booktitle = {Advances in Neural Information Processing Systems 30},
  pages = {3856--3866},
  year = {2017}
}""",
    "cnn": """@incollection{lecun1999object,
  title = {Object Recognition with Gradient-Based Learning},
  author = {LeCun, Yann and Haffner, Patrick and Bottou, L\\'eon and Bengio, Yoshua},
  booktitle = {Shape, Contour and Grouping in Computer Vision},
  publisher = {Springer},
  pages = {319--345},
  year = {1999}
}""",
    "sdbn": """@inproceedings{wang2017structural,
  title = {Structural Deep Brain Network Mining},
  author = {Wang, Shen and He, Lifang and Cao, Bokai and Lu, Chun-Ta and Yu, Philip S. and Ragin, Ann B.},
  booktitle = {Proceedings of the 23rd ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  pages = {475--484},
  year = {2017}
}""",
    "dgcnn": """@inproceedings{zhang2018end,
  title = {An End-to-End Deep Learning Architecture for Graph Classification},
  author = {Zhang, Muhan and Cui, Zhicheng and Neumann, Marion and Chen, Yixin},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2018}
}""",
    "autoencoder": """@article{vincent2010stacked,
  title = {Stacked Denoising Autoencoders: Learning Useful Representations in a Deep Network with a Local Denoising
           Criterion},
  author = {Vincent, Pascal and Larochelle, Hugo and Lajoie, Isabelle and Bengio, Yoshua and Manzagol, Pierre-Antoine},
  journal = {Journal of Machine Learning Research},
  volume = {11},
  pages = {3371--3408},
  year = {2010}
}""",
    "gcn": """@inproceedings{kipf2017semi,
  title = {Semi-Supervised Classification with Graph Convolutional Networks},
  author = {Kipf, Thomas N. and Welling, Max},
  booktitle = {International Conference on Learning Representations},
  year = {2017}
}""",
    "gin": """@inproceedings{xu2019powerful,
  title = {How Powerful are Graph Neural Networks?},
  author = {Xu, Keyulu and Hu, Weihua and Leskovec, Jure and Jegelka, Stefanie},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}""",
    "diffpool": """@inproceedings{ying2018hierarchical,
  title = {Hierarchical Graph Representation Learning with Differentiable Pooling},
  author = {Ying, Rex and You, Jiaxuan and Morris, Christopher and Ren, Xiang and Hamilton, William L. and
            Leskovec, Jure},
  booktitle = {Advances in Neural Information Processing Systems 31},
  year = {2018}
}""",
    "wl": """@inproceedings{shervashidze2009fast,
  title = {Fast Subtree Kernels on Graphs},
  author = {Shervashidze, Nino and Borgwardt, Karsten},
  booktitle = {Advances in Neural Information Processing Systems 22},
  year = {2009}
}""",
    "freq": """@inproceedings{yan2002gspan,
  title = {gSpan: Graph-Based Substructure Pattern Mining},
  author = {Yan, Xifeng and Han, Jiawei},
  booktitle = {Proceedings of the 2002 IEEE International Conference on Data Mining},
  pages = {721--724},
  year = {2002}
}""",
    "statistics": """@article{nadeau2003inference,
  title = {Inference for the Generalization Error},
  author = {Nadeau, Claude and Bengio, Yoshua},
  journal = {Machine Learning},
  volume = {52},
  number = {3},
  pages = {239--281},
  year = {2003}
}

@article{hanley1982meaning,
  title = {The Meaning and Use of the Area under a Receiver Operating Characteristic ({ROC}) Curve},
  author = {Hanley, James A. and McNeil, Barbara J.},
  journal = {Radiology},
  volume = {143},
  number = {1},
  pages = {29--36},
  year = {1982}
}

@article{holm1979simple,
  title = {A Simple Sequentially Rejective Multiple Test Procedure},
  author = {Holm, Sture},
  journal = {Scandinavian Journal of Statistics},
  volume = {6},
  number = {2},
  pages = {65--70},
  year = {1979}
}""",
}

_PAPER_OF = {"fastisonn": "isonn", "isocapsnet-released": "isocapsnet"}


def bibtex(methods: Iterable[str]) -> str:
    """Entries of these methods and of the statistics; some share a paper, and yardsticks have none."""
    names = [_PAPER_OF.get(name, name) for name in methods]
    wanted = [name for name in _ENTRIES if name in names or name == "statistics"]
    return "\n\n".join(_ENTRIES[name] for name in wanted)
