"""The parameter ``client`` of estimators: copied as it is, and left behind by pickles."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any, Self

Client = Any  # of ``distributed``, which no task imports, though tasks know such estimators


class ClientHandle:
    """A client of this process: a copy of the handle is itself, a pickle of it holds none.

    Attributes
    ----------
    client : distributed.Client, or None once it was unpickled
    """

    def __init__(self, client: Client | None = None) -> None:
        self.client = client

    def __deepcopy__(self, memo: dict[int, Any]) -> ClientHandle:
        return self

    def __reduce__(self) -> tuple[type[ClientHandle], tuple[()]]:
        return ClientHandle, ()


class ClientMixin:
    """An estimator with a ``client``, which clones and copies share and pickles do not hold.

    Attributes
    ----------
    client : distributed.Client or None
        Kept by a handle, in the place that the parameter has among the estimator's attributes.
    """

    @property
    def client(self) -> Client | None:
        handle = vars(self).get("client")
        return None if handle is None else handle.client

    @client.setter
    def client(self, client: Client | None) -> None:
        vars(self)["client"] = None if client is None else ClientHandle(client)

    def __sklearn_clone__(self) -> Self:
        """An unfitted estimator of these parameters; ``clone`` would copy the client by itself."""
        alike: Any = copy(self)
        alike.client = None
        clone: Self = super(ClientMixin, alike).__sklearn_clone__()  # type: ignore[misc]
        vars(clone)["client"] = vars(self).get("client")
        return clone

    def _warn_without_client(self, stacklevel: int) -> None:
        """Warn that an unpickled estimator, which had a client, is fitted without it.

        Parameters
        ----------
        stacklevel : int
            Of the line that called ``fit``, as ``warnings.warn`` counts from here.
        """
        handle = vars(self).get("client")
        if handle is not None and handle.client is None:
            warnings.warn(
                f"this {type(self).__name__} had a client when it was pickled, which does not "
                "travel: it is fitted in this process; set_params(client=...) gives it another, "
                "or None for no warning",
                stacklevel=stacklevel,
            )
