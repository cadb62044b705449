"""Superset's configuration, read from the file that `opscope dashboard up` writes (its path is in OPSCOPE_SERVED).

No broker, no cache server: caches are files, Superset's own database is SQLite.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(os.environ["OPSCOPE_NIGHT_GRID"])
import grouped_links
import pages
import query_limits
import series_colours
from answers import Answers
from event_log import EventLog
from sqlalchemy.pool import QueuePool
from superset.tasks.types import FixedExecutor

_SERVED_FILE = Path(os.environ["OPSCOPE_SERVED"])
_SERVED = json.loads(_SERVED_FILE.read_text(encoding="utf-8"))
_HOME = _SERVED_FILE.parent
_SECURE = _SERVED["public_url"].startswith("https://")

SECRET_KEY = (_HOME / "secret_key").read_text(encoding="utf-8")
SQLALCHEMY_DATABASE_URI = f"sqlite:///{_HOME / 'superset.sqlite'}?check_same_thread=false"
# A dashboard runs many queries at once: on a busy machine the default of 5 seconds ends in "database is locked".
# Connections stay open: the last one that closes a SQLite file writes its log back, for each request anew.
SQLALCHEMY_ENGINE_OPTIONS = {"connect_args": {"timeout": 60}, "poolclass": QueuePool, "pool_size": 8}
EVENT_LOGGER = EventLog()
DB_CONNECTION_MUTATOR = query_limits.limited
SQL_QUERY_MUTATOR = grouped_links.by_columns

# By default Superset refuses SQLite as a data source; ours is opened read-only.
PREVENT_UNSAFE_DB_CONNECTIONS = False
WTF_CSRF_ENABLED = True

# The browser contacts only this server: no telemetry pixel, no fonts or maps from elsewhere.
SCARF_ANALYTICS = False
TALISMAN_ENABLED = True
TALISMAN_CONFIG = {
    "content_security_policy": {
        "base-uri": ["'self'"],
        "default-src": ["'self'"],
        "img-src": ["'self'", "blob:", "data:"],
        "worker-src": ["'self'", "blob:"],
        "connect-src": ["'self'"],
        "object-src": "'none'",
        "style-src": ["'self'", "'unsafe-inline'"],
        "font-src": ["'self'", "data:"],
        "script-src": ["'self'", "'strict-dynamic'"],
    },
    "content_security_policy_nonce_in": ["script-src"],
    "force_https": False,  # the proxy in front does it
    "session_cookie_secure": _SECURE,
}
SESSION_COOKIE_SECURE = _SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
if _SERVED["public_url"]:
    ENABLE_PROXY_FIX = True
    PREFERRED_URL_SCHEME = "https" if _SECURE else "http"


def _cache(name: str, seconds: int) -> dict:
    """A folder each: one that is full deletes what it has, and a link to filters has to work for weeks."""
    return {
        "CACHE_TYPE": "FileSystemCache",
        "CACHE_DIR": str(_HOME / "cache" / name),
        "CACHE_THRESHOLD": 5000,
        "CACHE_DEFAULT_TIMEOUT": seconds,
    }


CACHE_CONFIG = _cache("meta", 300)
# An answer holds until something else is published; the time is for filters that say "Last month".
DATA_CACHE_CONFIG = _cache("data", 6 * 3600) | {
    "CACHE_TYPE": "data_cache.DataCache",
    "DATABASE": _SERVED["database_uri"],
}
FILTER_STATE_CACHE_CONFIG = _cache("filter", 90 * 86400)
EXPLORE_FORM_DATA_CACHE_CONFIG = _cache("explore", 7 * 86400)
RATELIMIT_STORAGE_URI = "memory://"

DEFAULT_RELATIVE_END_TIME = "now"  # `Last month` includes tonight; by default it ends at midnight

FEATURE_FLAGS = {
    "DASHBOARD_RBAC": True,
    "DASHBOARD_VIRTUALIZATION_DEFER_DATA": True,  # a chart asks for its data when it comes near the window, not before
    "ALERT_REPORTS": bool(_SERVED.get("mail")),
    "ENABLE_TEMPLATE_PROCESSING": True,  # the SQL of datasets with totals (bundle.py)
    "THUMBNAILS": False,
    "EMBEDDED_SUPERSET": bool(_SERVED.get("embed")),
}
if _SERVED.get("embed"):  # pages of these origins show dashboards in frames, with tokens of guests.py
    TALISMAN_CONFIG["content_security_policy"]["frame-ancestors"] = ["'self'", *_SERVED["embed"]]
    GUEST_ROLE_NAME = "opscope guest"
    GUEST_TOKEN_JWT_SECRET = hashlib.sha256(b"guests" + SECRET_KEY.encode()).hexdigest()
    GUEST_TOKEN_JWT_AUDIENCE = "opscope"
if _MAIL := _SERVED.get("mail"):  # alerts and reports, sent by alert_clock.py, which `up` starts beside this server
    SMTP_HOST, SMTP_PORT = _MAIL["host"], _MAIL["port"]
    SMTP_USER, SMTP_PASSWORD, SMTP_MAIL_FROM = _MAIL["user"], _MAIL["password"], _MAIL["sender"]
    SMTP_STARTTLS, SMTP_SSL = _MAIL["scheme"] == "smtp", _MAIL["scheme"] == "smtps"
    SMTP_SSL_SERVER_AUTH = True
    EMAIL_REPORTS_SUBJECT_PREFIX = "[opscope] "
    EMAIL_REPORTS_CTA = "The chart in Superset"
    WEBDRIVER_BASEURL = f"{_SERVED['local_url']}/"  # which asks the server for a chart's table
    WEBDRIVER_BASEURL_USER_FRIENDLY = f"{_SERVED['url']}/"
ALERT_REPORTS_EXECUTORS = [FixedExecutor("admin")]
if _SERVED["anonymous"]:
    PUBLIC_ROLE_LIKE = "Public"

APP_NAME = "opscope"
LOGO_TARGET_PATH = pages.START


def FLASK_APP_MUTATOR(app: object) -> None:  # noqa: N802 - Superset's name
    """Adds the pages of pages.py."""
    pages.install(app, _SERVED, Answers(_SERVED["database_uri"], f"sqlite:///{quote(str(_HOME / 'superset.sqlite'))}"))


# Red up to 70 %, yellow at 90 %, green at 100 % alone: in Superset's own schemes 83 % is as green as 100 %.
_PASS_RATE = ["#E53935"] * 6 + ["#F4511E", "#FB8C00", "#FFB300", "#FDD835", "#2E7D32"]
EXTRA_SEQUENTIAL_COLOR_SCHEMES = [
    {"id": "opscope_pass_rate", "description": "", "label": "Pass rate", "isDefault": False, "colors": _PASS_RATE}
]
EXTRA_CATEGORICAL_COLOR_SCHEMES = [
    {
        "id": series_colours.SCHEME,
        "description": "",
        "label": "Series",
        "isDefault": False,
        "colors": series_colours.COLOURS,
    }
]
LOG_LEVEL = "WARNING"
SQLLAB_TIMEOUT = 30
SUPERSET_WEBSERVER_TIMEOUT = 60
ROW_LIMIT = 50_000
