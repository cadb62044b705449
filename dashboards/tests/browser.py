"""A headless Chromium on a dashboard: it reaches the server alone, and remembers what went wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Names of other machines lead nowhere. Playwright's own way to stop requests switches the browser's cache off.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
PATIENCE = 90_000
"""Milliseconds that the browser waits for what must come: a machine may be busy."""
HOLDER = ".dashboard-component-chart-holder:has([data-test-chart-name])"
BUSY_CHARTS = f"{HOLDER} .loading, {HOLDER} [data-test=loading-indicator]"
BUSY = f"{BUSY_CHARTS}, [aria-label=Loading]"
"""Charts that are not drawn yet; those, and filters without their values."""
ALERTS = f"{HOLDER} [role=alert], {HOLDER} .ant-alert-error"


PIXEL = "apachesuperset.gateway.scarf.sh"
"""Superset's menu has a telemetry pixel, which our content security policy blocks; the browser notes that."""


PERSON = "Object.defineProperty(navigator, 'webdriver', {get: () => false})"
"""For a browser that says it is automated, Superset draws all charts at once; for people it draws those near the
window."""


class Window:
    """One page of the browser, and every request of it that failed or was refused."""

    def __init__(self, page: Any, base: str) -> None:
        self.page, self.base = page, base
        self.failed: list[str] = []
        self.outside: list[str] = []
        self.errors: list[str] = []
        page.on("response", lambda r: self.failed.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._console)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    def _console(self, message: Any) -> None:
        if message.type == "error" and PIXEL not in message.text:
            self.errors.append(f"console: {message.text}")

    def _ended(self, request: Any) -> None:
        """Notes what our content security policy let leave this machine; ARGUMENTS see to it that nothing does."""
        here = request.url.startswith(("data:", "blob:", "about:")) or urlsplit(request.url).hostname == "127.0.0.1"
        if not here and request.failure != "csp":
            self.outside.append(request.url)

    def sign_in(self, name: str, password: str) -> bool:
        """Whether the server lets them in."""
        self.page.goto(f"{self.base}/login/")
        fields = {"#username, input[name=username]": name, "#password, input[name=password]": password}
        kept = False
        while not kept:  # what is typed before the form's script runs is lost; a busy network is never idle
            for field, text in fields.items():
                self.page.fill(field, text)
            self.page.wait_for_timeout(500)
            kept = all(self.page.input_value(field) == text for field, text in fields.items())
        with self.page.expect_navigation():
            self.page.click("button[type=submit], input[type=submit]")
        return "/login" not in self.page.url

    def go(self, path: str) -> None:
        """Leaves the page, which may still write to its address and so end the next navigation, and opens another."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.base}{path}", wait_until="domcontentloaded")

    def open(self, slug: str, query: str = "") -> int:
        """Opens a dashboard, scrolls through it and waits until every chart is drawn; how many there are."""
        self.go(f"/superset/dashboard/{slug}/{query}")
        self.page.wait_for_selector(HOLDER)
        return self.settle()

    def settle(self, seconds: int = 120) -> int:
        """Waits until nothing loads any more; how many charts there are. Charts below the window load when seen."""
        for place in range(self.page.locator(HOLDER).count()):
            self.page.evaluate("([what, n]) => document.querySelectorAll(what)[n].scrollIntoView()", [HOLDER, place])
            self.page.wait_for_timeout(150)
        self.page.evaluate("window.scrollTo(0, 0)")
        quiet = 0
        for _ in range(2 * seconds):
            self.page.wait_for_timeout(500)
            quiet = quiet + 1 if self.page.locator(BUSY).count() == 0 else 0
            if quiet == 4:
                return self.page.locator(HOLDER).count()
        raise AssertionError(f"still loading after {seconds} s: {self.page.url}")

    def of_a_person(self) -> Any:
        """Another page of the same user, for which Superset draws what it draws for people: charts near the window."""
        page = self.page.context.new_page()
        page.set_viewport_size(self.page.viewport_size)
        page.add_init_script(PERSON)
        return page

    def alerts(self) -> list[str]:
        """What charts complain of."""
        return self.page.locator(ALERTS).all_inner_texts()

    def chart(self, name: str) -> Any:
        """The chart of that name."""
        return self.page.locator(f'{HOLDER} [data-test-chart-name="{name}"]')

    def choose(self, key: str, value: str) -> None:
        """Picks a value of a filter with the mouse, and applies it."""
        self.page.locator(f"[data-test=NATIVE_FILTER-{key}] .ant-select-selector").click()
        self.page.locator(".ant-select-dropdown:visible .ant-select-item-option").get_by_text(value, exact=True).click()
        self.page.keyboard.press("Escape")
        self.page.locator("[data-test=filter-bar__apply-button]").click()
        self.settle()

    def shoot(self, path: Path) -> None:
        """A picture of the whole dashboard."""
        path.parent.mkdir(parents=True, exist_ok=True)
        height = self.page.evaluate(
            "() => Math.max(...[...document.querySelectorAll('.grid-container, .dashboard')]"
            ".map(e => e.scrollHeight + e.getBoundingClientRect().top))"
        )
        self.page.set_viewport_size({"width": 1600, "height": int(height) + 20})
        self.settle()
        self.page.screenshot(path=path)


@dataclass(frozen=True)
class Browser:
    """Chromium, and the telephones for which it can pass."""

    chromium: Any
    phones: Mapping[str, Any]
    """Name -> size, density, touch and name of the browser, as Playwright has them."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser itself: one at a time. The caller has checked that playwright and Chromium are there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        try:
            yield Browser(one, playwright.devices)
        finally:
            one.close()


@contextmanager
def window(browser: Browser, base: str, phone: str = "") -> Iterator[Window]:
    """A window that shares nothing with others, cookies neither; of a telephone, if one is named."""
    about = browser.phones[phone] if phone else {"viewport": {"width": 1600, "height": 1100}}
    context = browser.chromium.new_context(**about)
    context.set_default_timeout(PATIENCE)
    try:
        yield Window(context.new_page(), base)
    finally:
        context.close()
