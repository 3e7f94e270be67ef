"""MLflow: each run is an MLflow run, with a child for each candidate if they are asked for."""

from __future__ import annotations

import getpass
import logging
import os
import re
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cluster_setup.installation import install_line
from pipelines.errors import InputError, error_line, opt
from pipelines.run.tracking.logger import CandidateLog, RunEnd, RunLogger, RunStart
from pipelines.run.tracking.options import is_address
from pipelines.run_folder.rows import Metric
from pipelines.run_folder.schema import Scalar

EXPERIMENT = "pleasingly"  # where MLFLOW_EXPERIMENT_NAME names no other
DATABASE, ARTIFACTS = "mlflow.db", "artifacts"  # in a folder, as `mlflow ui` has them
STATUS = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
SECONDS_TO_ANSWER = 10
# Limits of MLflow: metrics and parameters of a batch, and letters of a value.
MOST_METRICS, MOST_PARAMETERS, LONGEST = 1000, 100, 500
NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")
PARENT, NOTE = "mlflow.parentRunId", "mlflow.note.content"
# MLflow opens an experiment of this kind with its runs, and any other with traces of agents.
KIND, MODELS = "mlflow.experimentKind", "custom_model_development"
CHILDREN = "pleasingly.candidates"  # a tag: whether they were logged


class MlflowLogger(RunLogger):
    """Logs to MLflow; the target is a tracking URI or a folder, by default MLflow's own.

    In a folder the database is ``mlflow.db``, of SQLite, as MLflow itself has it; a folder that is
    a file store stays one. If the program has an active MLflow run in the same store, the run
    becomes a child of it.
    """

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self._option = opt("mlflow") if target else opt("log_to", "mlflow")
        self._need("mlflow", "MLflow")
        import mlflow  # here, as two threads should not import at once

        # MLflow's own calls of SQLAlchemy warn, and nobody here can change them.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"mlflow\.")
        self._folder: Path | None = None
        self._parent = self._experiment = ""
        self._children = False
        if not target:
            target = mlflow.get_tracking_uri()
        if is_address(target):
            self._uri = target
            self._check_address()
        else:
            self._folder = Path(target)
            self._check_folder(self._folder)
        self._look_for_parent()

    def begin(self, start: RunStart) -> Mapping[str, Scalar]:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._client = MlflowClient(tracking_uri=self._uri)
        run_id = str(start.state.get("run_id", ""))
        run = self._run(run_id) if run_id else None
        if run is None:
            self._experiment = self._experiment or self._experiment_id()
            run = self._client.create_run(
                self._experiment, run_name=start.name, tags=self._tags(start)
            )
            self._log_data(run.info.run_id, start)
        else:
            self._client.update_run(run_id, status="RUNNING")
        self._experiment, self._run_id = run.info.experiment_id, run.info.run_id
        # MLflow refuses to change a parameter that was logged.
        logged_parameters = run.data.params
        new_parameters = {
            name: value for name, value in start.parameters.items() if name not in logged_parameters
        }
        parameters = [Param(name, str(value)[:LONGEST]) for name, value in new_parameters.items()]
        for first in range(0, len(parameters), MOST_PARAMETERS):
            batch = parameters[first : first + MOST_PARAMETERS]
            self._client.log_batch(self._run_id, params=batch)
        self._children = run.data.tags.get(CHILDREN) == "true"
        return {"run_id": self._run_id, "where": self._where()}

    def log(self, metrics: Sequence[Metric]) -> None:
        self._log(self._run_id, metrics)

    def finish(self, end: RunEnd) -> None:
        from mlflow.entities import Param

        now = time.time()
        self._log(
            self._run_id, [Metric(name, value, 0, "", now) for name, value in end.metrics.items()]
        )
        if end.parameters:
            logged_parameters = self._client.get_run(self._run_id).data.params
            new_parameters = {
                name: value
                for name, value in end.parameters.items()
                if name not in logged_parameters
            }
            parameters = [
                Param(name, str(value)[:LONGEST]) for name, value in new_parameters.items()
            ]
            self._client.log_batch(self._run_id, params=parameters[:MOST_PARAMETERS])
        if end.conclusion:
            self._client.set_tag(self._run_id, NOTE, end.conclusion)
        for folder, paths in end.artifacts.items():
            for path in paths:
                self._client.log_artifact(self._run_id, str(path), folder or None)
        if not self._children:
            for candidate in end.candidates:
                self._log_candidate(candidate)
            if end.candidates:
                self._client.set_tag(self._run_id, CHILDREN, "true")
        self._client.set_terminated(self._run_id, STATUS[end.status])

    def _log(self, run_id: str, metrics: Sequence[Metric]) -> None:
        from mlflow.entities import Metric as MlflowMetric

        logged = [
            MlflowMetric(_key(metric), metric.value, int(1000 * metric.time), metric.step)
            for metric in metrics
        ]
        for first in range(0, len(logged), MOST_METRICS):
            self._client.log_batch(run_id, metrics=logged[first : first + MOST_METRICS])

    def _log_candidate(self, candidate: CandidateLog) -> None:
        from mlflow.entities import Param

        child = self._client.create_run(
            self._experiment, run_name=candidate.name, tags={PARENT: self._run_id}
        ).info.run_id
        parameters = [
            Param(name, str(value)[:LONGEST]) for name, value in candidate.parameters.items()
        ]
        self._client.log_batch(child, params=parameters[:MOST_PARAMETERS])
        ended = max((metric.time for metric in candidate.metrics), default=time.time())
        means = [Metric(name, value, 0, "", ended) for name, value in candidate.means.items()]
        self._log(child, [*candidate.metrics, *means])
        self._client.set_terminated(child, "FINISHED" if candidate.means else "FAILED")

    def _tags(self, start: RunStart) -> dict[str, str]:
        tags = {f"pleasingly.{name}": text for name, text in start.tags.items()}
        tags |= {"mlflow.source.name": f"pleasingly {start.command}", "mlflow.source.type": "LOCAL"}
        if commit := start.tags.get("commit"):
            tags["mlflow.source.git.commit"] = commit.partition("+")[0]
        with suppress(Exception):  # a user without a name
            tags["mlflow.user"] = getpass.getuser()
        if self._parent:
            tags[PARENT] = self._parent
        return tags

    def _log_data(self, run_id: str, start: RunStart) -> None:
        from mlflow.entities import Dataset, DatasetInput

        name, fingerprint = start.data
        if name and fingerprint:
            data = Dataset(name[:LONGEST], fingerprint[:36], "local", "{}")
            self._client.log_inputs(run_id, [DatasetInput(data)])

    def _run(self, run_id: str) -> Any:
        """The MLflow run of an earlier session; None if it was deleted meanwhile."""
        from mlflow.exceptions import MlflowException

        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _experiment_id(self) -> str:
        if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return number
        from mlflow.exceptions import MlflowException

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        location = None
        if self._folder is not None and self._uri.startswith("sqlite:"):
            location = (self._folder / ARTIFACTS).as_uri()
        try:
            return str(self._client.create_experiment(name, location, {KIND: MODELS}))
        except MlflowException:  # another run has made it since
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)

    def _where(self) -> str:
        if self._uri.startswith(("http://", "https://")):
            base = self._uri.rstrip("/")
            return f"{base}/#/experiments/{self._experiment}/runs/{self._run_id}"
        return str(self._folder or self._uri)

    def _need(self, module: str, name: str) -> None:
        if find_spec(module) is None:
            raise InputError(
                f"{self._option} needs {name}, which is not installed; run {install_line('mlflow')}"
            )

    def _check_folder(self, folder: Path) -> None:
        existing_folder = next(
            path for path in (folder, *folder.absolute().parents) if path.exists()
        )
        if not existing_folder.is_dir() or not os.access(existing_folder, os.W_OK):
            raise InputError(
                f"{self._option} must be a folder that can be written, or an address with its "
                f"scheme, such as https://, got {str(folder)!r}; name another one"
            )
        if not (folder / DATABASE).exists() and any(folder.glob("*/meta.yaml")):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # the user has one
            self._uri = str(folder)
            return
        self._need_database()
        self._uri = f"sqlite:///{folder.absolute() / DATABASE}"

    def _need_database(self) -> None:
        for module, name in (("sqlalchemy", "SQLAlchemy"), ("alembic", "Alembic")):
            self._need(module, name)

    def _check_address(self) -> None:
        parts = urlsplit(self._uri)
        if parts.password or (parts.username and parts.scheme.startswith("http")):
            raise InputError(
                f"{self._option} must be an address without a password, as run.json keeps it, got "
                f"one for {parts.hostname}; put it into the environment: MLFLOW_TRACKING_USERNAME "
                "and MLFLOW_TRACKING_PASSWORD of a server, PGPASSWORD of PostgreSQL"
            )
        if parts.scheme == "sqlite":
            self._need_database()
            return
        if parts.scheme in ("http", "https"):
            # By default MLflow would retry for minutes on a server that is gone.
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
            os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
            self._check_server()
        elif not parts.scheme.startswith(("databricks", "uc")):
            self._need_database()
        try:
            from mlflow import MlflowClient

            MlflowClient(tracking_uri=self._uri).search_experiments(max_results=1)
        except Exception as error:  # of MLflow, or of a driver of a database
            raise InputError(
                f"{self._option} must be an address that MLflow can log to, got {self._uri} "
                f"({error_line(error).split('. ')[0]}); check the address, and what MLflow needs "
                "to log in"
            ) from None

    def _check_server(self) -> None:
        try:
            with urllib.request.urlopen(
                f"{self._uri.rstrip('/')}/health", timeout=SECONDS_TO_ANSWER
            ):
                pass
        except urllib.error.HTTPError:  # it answers; MLflow itself will say what is wrong
            pass
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise InputError(
                f"{self._option} must be the address of a server that answers, got {self._uri} "
                f"({getattr(reason, 'strerror', None) or reason}); start it, or name another one"
            ) from None

    def _look_for_parent(self) -> None:
        """Find the active MLflow run of this program; there is one for each thread."""
        for name in ("mlflow.store", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)  # each table that is made
        import mlflow

        active = mlflow.active_run()
        if active is not None and _same_store(mlflow.get_tracking_uri(), self._uri):
            self._parent = active.info.run_id
            self._experiment = active.info.experiment_id


def _key(metric: Metric) -> str:
    name = f"{metric.name}/{metric.series}" if metric.series else metric.name
    return NOT_IN_NAMES.sub("_", name)


def _same_store(first: str, second: str) -> bool:
    def normal(uri: str) -> str:
        return uri.removeprefix("file://").rstrip("/") if uri else uri

    sqlite = "sqlite:///"
    paths = [
        f"{sqlite}{os.path.abspath(uri.removeprefix(sqlite))}" if uri.startswith(sqlite) else uri
        for uri in (normal(first), normal(second))
    ]
    return paths[0] == paths[1]
