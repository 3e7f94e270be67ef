"""Weights & Biases: each run is a run of a project, online or offline as W&B's settings say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from uuid import uuid4

from cluster_setup.installation import install_line
from pipelines.errors import InputError, opt
from pipelines.run.tracking.logger import RunEnd, RunLogger, RunStart
from pipelines.run_folder.rows import Metric
from pipelines.run_folder.schema import Scalar

PROJECT = "pleasingly"  # where neither the target nor WANDB_PROJECT names one
STEP = "step"
EXIT_CODES = {"finished": 0, "failed": 1, "killed": 255}


class WandbLogger(RunLogger):
    """Logs to Weights & Biases; the target is ``PROJECT`` or ``ENTITY/PROJECT``.

    Its files are in the folder of the run unless ``WANDB_DIR`` names another. Nothing about the
    environment, the code or the machine is sent.
    """

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        option = opt("log_to", "wandb")
        if find_spec("wandb") is None:
            raise InputError(
                f"{option} needs Weights & Biases, which is not installed; run "
                f"{install_line('wandb')}"
            )
        if target.count("/") > 1 or "://" in target:
            raise InputError(
                f"{option} must be followed by PROJECT or ENTITY/PROJECT, got {target!r}; its "
                "server is what WANDB_BASE_URL says"
            )
        import wandb  # here, as two threads should not import at once

        mode = wandb.setup().settings.mode
        if mode in ("online", "shared") and not _is_logged_in():
            raise InputError(
                f"{option} needs an account at Weights & Biases, and none is logged in; run wandb "
                "login, set WANDB_API_KEY, or keep the log on this machine with WANDB_MODE=offline"
            )

    def begin(self, start: RunStart) -> Mapping[str, Scalar]:
        import wandb

        entity, _, project = self.target.rpartition("/")
        project = project or os.environ.get("WANDB_PROJECT", PROJECT)
        run_id = str(start.state.get("run_id") or uuid4().hex[:8])
        self._run = wandb.init(
            entity=entity or None,
            project=project,
            id=run_id,
            resume="allow",
            name=start.name,
            job_type=start.command,
            dir=os.environ.get("WANDB_DIR") or str(start.folder.absolute()),
            config={**start.parameters, **{f"run.{name}": tag for name, tag in start.tags.items()}},
            reinit="create_new",  # beside a W&B run that the program may have
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_code=True,
                disable_git=True,
                disable_job_creation=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
            ),
        )
        self._run.define_metric("*", step_metric=STEP)
        where = self._run.settings.sync_dir if self._run.offline else self._run.url
        return {"run_id": run_id, "where": str(where)}

    def log(self, metrics: Sequence[Metric]) -> None:
        steps: dict[tuple[str, int], dict[str, float]] = {}
        for metric in metrics:
            name = f"{metric.name}/{metric.series}" if metric.series else metric.name
            steps.setdefault((metric.series, metric.step), {})[name] = metric.value
        for (_, step), values in steps.items():
            self._run.log({STEP: step, **values})

    def finish(self, end: RunEnd) -> None:
        import wandb

        self._run.summary.update(dict(end.metrics))
        self._run.config.update(dict(end.parameters), allow_val_change=True)
        if end.conclusion:
            self._run.notes = end.conclusion
        pictures = [path for path in end.artifacts.get("figures", ()) if path.suffix == ".png"]
        if pictures:
            images = {path.stem: wandb.Image(str(path)) for path in pictures}
            self._run.log({f"figures/{name}": image for name, image in images.items()})
        artifact = wandb.Artifact(f"run-{self._run.id}", type="run")
        for folder, paths in end.artifacts.items():
            for path in paths:
                artifact.add_file(str(path), name=f"{folder}/{path.name}".lstrip("/"))
        if end.artifacts:
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=EXIT_CODES[end.status])


def _is_logged_in() -> bool:
    """Whether there is an API key; W&B must not ask for one, as a run may have no terminal."""
    import wandb

    try:
        return bool(wandb.login(prompt=False, verify=False))
    except TypeError:  # of older versions
        return wandb.api.api_key is not None
    except wandb.errors.Error:
        return False
