"""A real Superset that visitors may read: what they get, what they do not, and that nothing they send stops it."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from opscope.dashboards import viz
from opscope.dashboards.tests.assets import ASSETS
from opscope.dashboards.tests.installation import Installation

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

DATA = "/api/v1/chart/data"
HEAVY = {"expressionType": "SQL", "sqlExpression": "sum(length(hex(randomblob(15000000))))", "label": "x"}
"""A metric that takes a minute or more over the rows of some nights."""
Answer = tuple[int, dict[str, str], bytes]


class Server:
    """Requests without cookies."""

    def __init__(self, base: str) -> None:
        self.place = urlsplit(base).netloc

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Status, headers and body of one answer; a redirect is not followed."""
        connection = http.client.HTTPConnection(self.place, timeout=180)
        try:
            text = None if body is None else body if isinstance(body, str) else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def read(self, path: str, **headers: str) -> Any:
        """The `result` of an API."""
        status, _, text = self.ask("GET", path, **headers)
        assert status == 200, text
        return json.loads(text)["result"]

    def requests(self, slug: str, **headers: str) -> dict[str, dict[str, Any]]:
        """Name of each chart of a dashboard -> the request that its page sends."""
        number = self.read(f"/api/v1/dashboard/{slug}", **headers)["id"]
        made = {}
        for chart in self.read(f"/api/v1/dashboard/{slug}/charts", **headers):
            params = chart["form_data"]
            body = viz.query_context(params)
            body["datasource"]["id"] = int(params["datasource"].split("__")[0])
            body["form_data"] |= {"slice_id": chart["id"], "dashboardId": number}
            if params["viz_type"].startswith("big_number"):
                body["queries"][0].pop("row_limit")
            made[chart["slice_name"]] = body
        return made


@pytest.fixture(scope="module")
def visited(installation: Installation) -> Server:
    return Server(installation.up("--anonymous"))


@pytest.mark.parametrize("name", ASSETS.dashboards)
def test_every_stored_chart_answers_a_visitor(visited: Server, name: str) -> None:
    requests = visited.requests(ASSETS.dashboards[name].slug)
    assert len(requests) == len(ASSETS.dashboards[name].charts)
    for chart, body in requests.items():
        status, _, text = visited.ask("POST", DATA, body)
        assert status == 200, (chart, text)
        assert json.loads(text)["result"][0]["error"] is None


def test_a_filter_narrows_a_chart(visited: Server, installation: Installation) -> None:
    body = visited.requests("opscope-tonight")["Failing"]
    body["queries"][0]["filters"].append({"col": "model", "op": "IN", "val": ["resnet50"]})
    answer = json.loads(visited.ask("POST", DATA, body)[2])
    (row,) = answer["result"][0]["data"]
    failing = "SELECT COUNT(DISTINCT op_id) FROM dashboard_ops WHERE tonight = 1 AND supported = 'no'"
    assert list(row.values()) == [installation.ask(f"{failing} AND model = 'resnet50'")]


def test_ten_free_metrics_at_once_stop_nothing(visited: Server) -> None:
    requests = visited.requests("opscope-tonight")
    attacks = []
    for name in list(requests)[:10]:
        body = json.loads(json.dumps(requests[name]))
        body["queries"][0]["metrics"] = [HEAVY]
        attacks.append(body)
    assert len(attacks) == 10
    began = time.monotonic()
    with ThreadPoolExecutor(10) as threads:
        statuses = [future.result()[0] for future in [threads.submit(visited.ask, "POST", DATA, a) for a in attacks]]
    assert statuses == [403] * 10
    assert visited.ask("POST", DATA, requests["Failing"])[0] == 200
    assert time.monotonic() - began < 30


def test_sql_in_other_places_is_refused_in_one_line(visited: Server) -> None:
    honest = visited.requests("opscope-tonight")["Failing ops"]
    text = json.dumps(honest)
    for change in (
        {"columns": [HEAVY]},
        {"orderby": [[HEAVY, True]]},
        {"extras": {"where": "1 = 1"}},
        {"having": "1 = 1"},
        {"groupby": [HEAVY]},
        {"filters": [{"col": HEAVY, "op": "==", "val": 1}]},
        {"row_limit": 50_000},
    ):
        body = json.loads(text)
        body["queries"][0] |= change
        status, _, answer = visited.ask("POST", DATA, body)
        assert (status, list(json.loads(answer))) == (403, ["message"])
        assert "\n" not in json.loads(answer)["message"]
    for change in ({"result_type": "samples"}, {"result_type": "query"}, {"form_data": {"dashboardId": 1}}):
        assert visited.ask("POST", DATA, honest | change)[0] == 403
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert visited.ask("POST", DATA, f"form_data={text}", **form)[0] == 403
    assert visited.ask("POST", DATA, "[" * 100_000)[0] == 400
    for method, path in (
        ("POST", "/superset/explore_json/"),
        ("GET", "/api/v1/chart/1/data/"),
        ("GET", "/api/v1/me/"),
        ("GET", "/api/v1/form_data/?slice_id=1"),
        ("GET", "/api/v1/theme/"),
    ):
        assert visited.ask(method, path)[0] == 403
    for number in range(1, 20):  # the header of a program lets nobody in that the server does not know
        status, _, _ = visited.ask("GET", f"/api/v1/chart/{number}", Authorization="Bearer nonsense")
        assert status in (401, 422)


ODD = (
    "/lang/de",
    "/lang/en",
    "/api/v1/time_range/",
    "/api/v1/time_range/?q=((((",
    "/api/v1/time_range/?q=!(1,!n)",
    f"/api/v1/time_range/?q='{'(' * 150}'",
    "/api/v1/time_range/?q='Last%2099999999999%20years'",
    "/api/v1/time_range/?q='9999-12-31%20:%2010000-01-01'",
    "/api/v1/time_range/?q=!((timeRange:1))",
    "/api/v1/dashboard/99999999999999999999999",
    "/api/v1/dashboard/nothing",
    "/api/v1/dashboard/0/charts",
    "/api/v1/dashboard/opscope-start?q=((",
    "/api/v1/dashboard/opscope-start/charts?q=!(",
    "/api/v1/dashboard/%00",
    "/api/v1/dashboard/1/filter_state/abc",
    "/api/v1/dashboard/opscope-start/filter_state/abc",
    "/api/v1/dashboard/99999999999999999999999/filter_state/abc",
    "/api/v1/dashboard/_info?q=(keys:!(a))",
    "/superset/dashboard/nothing/",
    "/superset/dashboard/p/abc/",
    "/superset/dashboard/p/-/",
    "/superset/dashboard/%00/",
    "/superset/dashboard/99999999999999999999999/",
    "/superset/dashboard/opscope-start/?standalone=x&native_filters=((",
    "/superset/dashboard/opscope-start/?native_filters_key=x&permalink_key=((&form_data=((&edit=true",
    "/superset/slice/99999999999999999999999/",
    "/login/?next=http://[evil",
    "/logout/?next=//evil.example",
    "/static/%00",
    "/static/../x",
    "/api/v1/security/guest_token/",
    "/nothing",
    "/wall/",
    "/%ff",
)


@pytest.mark.parametrize("path", ODD)
def test_an_odd_request_is_no_error_of_the_server(visited: Server, path: str) -> None:
    status, headers, text = visited.ask("GET", path)
    assert status < 500, text
    assert "evil" not in headers.get("location", "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1@evil.example"])
def test_no_redirect_has_the_host_of_a_request(visited: Server, host: str) -> None:
    for path in ("/users/list/", "/superset/dashboard/nothing/", "/logout/", "/", "/superset/welcome/", "/login"):
        status, headers, _ = visited.ask("GET", path, Host=host)
        assert status in (301, 302, 308, 400), path
        assert "evil" not in headers.get("location", "")


def test_a_query_of_a_user_ends_in_time_and_wrong_passwords_are_counted(installation: Installation) -> None:
    try:
        _with_an_account(Server(installation.up()), installation)
    finally:
        installation.up("--anonymous")


def _with_an_account(server: Server, installation: Installation) -> None:
    login = "/api/v1/security/login"
    account = {"username": "admin", "password": installation.password, "provider": "db"}
    token = json.loads(server.ask("POST", login, account)[2])["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    body = server.requests("opscope-tonight", **bearer)["Failing ops"]
    body["queries"][0] |= {"metrics": [HEAVY], "columns": [], "orderby": [], "filters": []}
    began = time.monotonic()
    status, _, text = server.ask("POST", DATA, body, **bearer)
    assert status == 400
    assert b"the query took longer than 30 s, so it was stopped" in text
    assert 29 < time.monotonic() - began < 90
    assert server.ask("GET", "/users/list/", Host="evil.example")[1]["location"] == "/login/?next=%2Fusers%2Flist%2F"
    wrong = [server.ask("POST", login, account | {"password": f"wrong{n}"}) for n in range(14)]
    assert [status for status, _, _ in wrong] == [401] * 10 + [429] * 4
    assert 0 < int(wrong[-1][1]["retry-after"]) <= 300
    assert server.ask("POST", login, account)[0] == 429
