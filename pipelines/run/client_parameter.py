"""The parameter ``client`` of estimators: copies share the client, and pickles leave it out."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any, Self

Client = Any  # ``distributed.Client``; tasks know such estimators, and need not import distributed


class ClientHandle:
    """Holds a client of this process: its deep copy is the handle itself, its pickle has no client.

    Attributes
    ----------
    client : distributed.Client or None
        None after unpickling.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.client = client

    def __deepcopy__(self, memo: dict[int, Any]) -> ClientHandle:
        return self

    def __reduce__(self) -> tuple[type[ClientHandle], tuple[()]]:
        return ClientHandle, ()


class ClientMixin:
    """Gives an estimator a ``client``, which clones and copies share and pickles leave out.

    Attributes
    ----------
    client : distributed.Client or None
        Stored in a ``ClientHandle``, under the parameter's own name among the attributes.
    """

    @property
    def client(self) -> Client | None:
        handle = vars(self).get("client")
        return None if handle is None else handle.client

    @client.setter
    def client(self, client: Client | None) -> None:
        vars(self)["client"] = None if client is None else ClientHandle(client)

    def __sklearn_clone__(self) -> Self:
        """An unfitted estimator with the same parameters and the same client.

        Without this method scikit-learn's ``clone`` would make a deep copy of the client.
        """
        alike: Any = copy(self)
        alike.client = None
        clone: Self = super(ClientMixin, alike).__sklearn_clone__()  # type: ignore[misc]
        vars(clone)["client"] = vars(self).get("client")
        return clone

    def _warn_without_client(self, stacklevel: int) -> None:
        """Warn if an unpickled estimator that had a client is now fitted without it.

        Parameters
        ----------
        stacklevel : int
            Frames from here to the call of ``fit``, as ``warnings.warn`` counts them.
        """
        handle = vars(self).get("client")
        if handle is not None and handle.client is None:
            warnings.warn(
                f"this {type(self).__name__} had a client when it was pickled, which does not "
                "travel: it is fitted in this process; set_params(client=...) gives it another, "
                "or None for no warning",
                stacklevel=stacklevel,
            )
