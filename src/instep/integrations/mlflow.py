"""MLflow: the curves and settings of a run, by MLflow's client, in any of its stores."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instep.integrations.kept_run import KeptRun, Points, new_numbers
from instep.integrations.packages import require_package
from instep.run.loggers import WallTimes, settings_of

ENDED = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
MOST_LETTERS = 6000  # of a parameter


class MLflow:
    """Logs to MLflow's tracking store: `tracking_uri`, else MLFLOW_TRACKING_URI, else what MLflow takes (`mlflow.db`, SQLite).

    The run keeps its id in `mlflow.json` of the run folder, and goes on under it.

        Trainer(…, loggers="mlflow")
        Trainer(…, loggers=MLflow(experiment="digits", tracking_uri="http://…"))
    """

    name = "mlflow"

    def __init__(
        self,
        experiment: str | None = None,
        *,
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self._experiment = experiment
        self._run_name = run_name
        self._tracking_uri = tracking_uri
        self._tags = dict(tags or {})
        self._kept = KeptRun("mlflow.json")
        self._client: Any = None
        self._walls: WallTimes
        self._run_id = ""
        self._points: Points = {}

    def require(self, folder: Path | None) -> None:
        require_package('loggers="mlflow"', "mlflow", extra="mlflow")

    def start(self, description: Mapping[str, Any]) -> int:
        from mlflow import MlflowClient

        self._client = MlflowClient(self._tracking_uri)
        self._walls = WallTimes(description)
        before = self._find_run(self._kept.find(description))
        self._points = {} if before is None else self._read_points(before)
        if before is not None and self._kept.fits(self._points, description):
            self._run_id = before.info.run_id
            self._client.update_run(self._run_id, status="RUNNING")
        else:
            self._points = {}
            self._run_id = self._make_run(description)
        self._kept.keep(self._run_id, description)
        return 0

    def log(self, row: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        wall_ms = int(1000 * self._walls.of(dict(row)))
        numbers = new_numbers(dict(row), self._points)
        if numbers:
            made = [Metric(name, value, wall_ms, row["step"]) for name, value in numbers.items()]
            self._client.log_batch(self._run_id, metrics=made)

    def finish(self, state: str) -> None:
        self._client.set_terminated(self._run_id, status=ENDED[state])

    def _find_run(self, run_id: str | None) -> Any:
        """The run of before; None where it was deleted, or is in another store."""
        from mlflow.exceptions import MlflowException

        if run_id is None:
            return None
        try:
            found = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return found if found.info.lifecycle_stage == "active" else None

    def _read_points(self, run: Any) -> Points:
        history = self._client.get_metric_history
        return {name: {one.step for one in history(run.info.run_id, name)} for name in run.data.metrics}

    def _make_run(self, description: Mapping[str, Any]) -> str:
        from mlflow.entities import Param

        tags = {"mlflow.source.git.commit": description["git"], "instep.folder": description["folder"], **self._tags}
        made = self._client.create_run(
            self._find_experiment(),
            run_name=self._run_name or description["name"],
            tags={name: value for name, value in tags.items() if value},
        )
        settings = settings_of(description)
        params = [Param(name, str(value)[:MOST_LETTERS]) for name, value in settings.items()]
        self._client.log_batch(made.info.run_id, params=params)
        return str(made.info.run_id)

    def _find_experiment(self) -> str:
        """Its id; it is made where there is none with this name."""
        name = self._experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if name is None:
            return os.environ.get("MLFLOW_EXPERIMENT_ID", "0")
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)
