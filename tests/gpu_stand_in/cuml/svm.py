from sklearn import svm


class SVC(svm.SVC):
    """With the parameters of cuML's that ours are called with."""

    def __init__(self, C=1.0, gamma="scale", **named):
        parameters = svm.SVC().get_params()
        super().__init__(C=C, gamma=gamma, **{k: v for k, v in named.items() if k in parameters})
