"""The files below assets/, each a model: a field that is missing, unknown or of another type is refused by its name.

    assets/datasets/<view>.yaml      columns and metrics of one SQL view; columns that are links or texts
    assets/charts/<name>.yaml        name, dataset, kind, params
    assets/dashboards/<name>.yaml    title, slug, rows of charts, filters
    assets/alerts/<name>.yaml        an alert or a report: SQL and a limit, or only a time; the chart it sends
    assets/filters.yaml              the native filters that dashboards refer to
    assets/retired.yaml              uuids of objects in earlier bundles, by kind

Other files refer to an object by the name of its file, from which its uuid follows. An object whose file was
renamed has the uuid of before in it: people's own charts and bookmarks know an object by its uuid.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from opscope.base.yaml_text import YamlError, read_yaml
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import ROOM
from opscope.dashboards.viz import KINDS, known_params

ASSETS = ROOM / "assets"
NAMESPACE = uuid.UUID("7b1e6c1e-4f0f-5c8e-9d63-0f5a0b6c2d11")
"""Namespace of the uuids that follow from a kind and a name."""
WIDTH = 12
"""Number of columns in Superset's grid."""
BELOW_HEIGHT = 44
"""Height of a chart that is below all others."""

Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class Asset(BaseModel):
    """Base of all that an asset file says."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(Asset):
    """A column of a dataset: of its view, or made of another column."""

    label: str
    type: Literal["time", "text", "number", "count", "flag"] = "text"
    text_of: str = ""
    """The column whose text it escapes for a table that renders HTML."""
    arrows: bool = False
    """Whether `->` is an arrow in that."""
    link: Literal["", "op", "artifact", "repro"] = ""
    """The column that it links to something, or whose command it shows."""
    without_number: str = ""
    """The column of stages whose number, by which they are sorted, it leaves out."""

    @property
    def made(self) -> bool:
        """Whether Superset computes it: its view does not have it."""
        return bool(self.text_of or self.link or self.without_number)


class Metric(Asset):
    """A metric of a dataset: an expression, or one value of a column, such as the log of one of the boards."""

    label: str
    expression: str = ""
    first_of: str = ""
    format: str | None = ",d"
    description: str | None = None


class Dataset(Asset):
    """One SQL view."""

    uuid: Uuid
    time: str | None = None
    """The column to which a filter of nights applies."""
    newest_only: bool = False
    totals: tuple[str, ...] = ()
    """Columns of models, empty in the rows of all models together; a query without any reads these alone."""
    columns: dict[str, Column]
    metrics: dict[str, Metric]

    @property
    def stored_columns(self) -> list[str]:
        """The columns that it takes from its view."""
        return [name for name, column in self.columns.items() if not column.made]


class Condition(Asset):
    """A condition of a chart's own on a column."""

    column: str
    operator: Literal["==", "!=", ">", "<", ">=", "<=", "IN", "NOT IN", "IS NULL", "IS NOT NULL"] = Field(alias="is")
    value: Any = None


class Chart(Asset):
    """One chart; `params` are those that differ from the usual ones of its kind (viz.py)."""

    uuid: Uuid
    name: str
    dataset: str
    kind: str
    description: str = ""
    rate: bool = False
    """Whether it shows a rate, to which a filter of statuses does not apply."""
    unfiltered: bool = False
    below: str = ""
    """The dashboard that shows it below all others, as wide as the window; empty if a dashboard's row names it."""
    only_wide: bool = False
    """Whether its words need more width than a telephone has."""
    where: tuple[Condition, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)

    @property
    def wide(self) -> bool:
        """Whether it is too wide for a telephone; what has a column, bar or line for each of many names is."""
        bars = self.kind == "echarts_timeseries_bar" and self.params.get("x_axis") != "date"
        return self.only_wide or bars or self.kind == "heatmap_v2" or "limit" in self.params

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.kind not in KINDS:
            raise ValueError(f"a kind of dashboards/viz.py ({', '.join(KINDS)})", self.kind)
        known = known_params(self.kind)
        for name in self.params.keys() - known:
            close = difflib.get_close_matches(name, known, 1)
            hint = close[0] if close else "one of dashboards/viz.py"
            raise ValueError(f"a parameter of {self.kind}", name, hint)
        return self


class Row(Asset):
    """A row of a dashboard."""

    height: int
    charts: dict[str, int]
    """Chart -> its width in columns of Superset's grid."""


class Dashboard(Asset):
    """One dashboard, with its place among all."""

    order: int
    uuid: Uuid
    title: str
    slug: str
    description: str
    text: str
    """Markdown at its top."""
    wall: bool = False
    """Whether it is for a screen on the wall."""
    rows: tuple[Row, ...]
    filters: tuple[str, ...]

    @property
    def charts(self) -> list[str]:
        """Its charts, from top to bottom."""
        return [chart for row in self.rows for chart in row.charts]


class Filter(Asset):
    """A native filter: of a column, or of the time of nights."""

    name: str
    description: str = ""
    dataset: str = ""
    """Whose column offers the values; empty for the filter of nights."""
    column: str = ""
    many: bool = False
    """Whether there are so many values that Superset has to search them."""
    one: bool = False
    first: bool = False
    """Whether the first value is chosen when the page opens."""
    sort: str = ""
    """The metric that sorts the values."""
    default: str = ""
    """The range of time that is chosen when the page opens."""


class Alert(Asset):
    """An alert, or without SQL a report."""

    name: str
    text: str
    dashboard: str
    chart: str
    crontab: str
    sql: str | None = None
    above: int | float = 0
    quiet_hours: float = 0


@dataclass(frozen=True)
class Assets:
    """Everything below assets/, by the names of the files."""

    datasets: Mapping[str, Dataset]
    charts: Mapping[str, Chart]
    dashboards: Mapping[str, Dashboard]
    filters: Mapping[str, Filter]
    retired: Mapping[str, list[str]]
    alerts: Mapping[str, Alert] = field(default_factory=dict)

    @property
    def wall(self) -> list[str]:
        """The slugs of the dashboards for a screen on the wall."""
        return [dashboard.slug for dashboard in self.dashboards.values() if dashboard.wall]

    @property
    def wide(self) -> list[str]:
        """The names of the charts that a telephone cannot show."""
        return [chart.name for chart in self.charts.values() if chart.wide]

    @property
    def slugs(self) -> list[str]:
        """The slugs of the dashboards, in order."""
        return [dashboard.slug for dashboard in self.dashboards.values()]


A = TypeVar("A", bound=Asset)


def read(folder: Path = ASSETS) -> Assets:
    """Reads the files of `folder`; dashboards are sorted by their order. Raises DashboardError for a bad one."""

    def of_kind(kind: type[A], plural: str) -> dict[str, A]:
        files = sorted((folder / plural).glob("*.yaml"))
        return {path.stem: parse(kind, _yaml(path), f"{plural}/{path.name}") for path in files}

    charts = of_kind(Chart, "charts")
    dashboards = of_kind(Dashboard, "dashboards")
    for name, chart in charts.items():
        if chart.below in dashboards:
            rows = (*dashboards[chart.below].rows, Row(height=BELOW_HEIGHT, charts={name: WIDTH}))
            dashboards[chart.below] = dashboards[chart.below].model_copy(update={"rows": rows})
    filters = _yaml(folder / "filters.yaml")
    return Assets(
        of_kind(Dataset, "datasets"),
        charts,
        dict(sorted(dashboards.items(), key=lambda item: item[1].order)),
        {name: parse(Filter, values, f"filters.yaml: {name}") for name, values in filters.items()},
        _yaml(folder / "retired.yaml"),
        of_kind(Alert, "alerts"),
    )


def parse(kind: type[A], values: Any, where: str) -> A:
    """The values of a file as a model. Raises DashboardError with the name of the field that is wrong."""
    if "uuid" in kind.model_fields and isinstance(values, dict):
        values = {"uuid": uuid_of(kind.__name__.lower(), Path(where).stem), **values}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        match first["type"]:
            case "missing":
                raise DashboardError(where, f"`{place}`", "none") from None
            case "extra_forbidden":
                raise DashboardError(where, f"only fields of asset_files.{kind.__name__}", f"`{place}`") from None
            case "value_error":
                raise DashboardError(where, *first.get("ctx", {})["error"].args) from None
            case _:
                raise DashboardError(f"{where}: {place}", first["msg"], repr(first["input"])[:80]) from None


def uuid_of(kind: str, name: str) -> str:
    """The uuid of an object of that kind and name."""
    return str(uuid.uuid5(NAMESPACE, f"{kind} {name}"))


def _yaml(path: Path) -> Any:
    try:
        return read_yaml(path)
    except YamlError as error:
        raise DashboardError(f"{path.parent.name}/{path.name}", "YAML", str(error)) from error
