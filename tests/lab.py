"""JupyterLab in a real browser: a server on the loopback, a page on one notebook, and what a reader does there."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOW_TO = (
    "pip install -r .ci/requirements.txt and install Chromium (on Debian: apt-get install chromium), then run pytest"
)

SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell is in the page, not only those on the screen
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}

TOKEN = secrets.token_hex(16)  # nobody else on this machine may talk to the server's kernels
# As root Chromium does not start with its sandbox.
SANDBOX = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
# Chromium looks for updates and the like; without a network each attempt would fail, slowly.
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def why_not():
    """Why the browser tests cannot run here, in a sentence that says how to run them; None when they can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return f"browser tests skipped, playwright is not installed: {HOW_TO}"
    if chromium() is None:
        return f"browser tests skipped, no Chromium was found: {HOW_TO}"
    return None


def chromium():
    """The path of an installed Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next((path for path in map(shutil.which, names) if path), None)


@contextlib.contextmanager
def server(folder):
    """A JupyterLab server on the loopback that serves `folder`; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = folder / ".lab-home"  # settings and workspaces of its own: nothing of the reader's is touched
    for name, settings in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True",
        f"--LabApp.workspaces_dir={home / 'workspaces'}", f"--LabApp.user_settings_dir={home / 'settings'}",
    ]  # fmt: skip
    environment = {**os.environ, "JUPYTER_NO_CONFIG": "1"}
    log_file = folder / "jupyterlab.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"JupyterLab did not start: {log_file.read_text()}") from None
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


@contextlib.contextmanager
def browser_page(width=1280, height=2400):
    """A page of a headless Chromium; yields it with a list that collects the page's errors."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--disable-gpu", "--disable-quic", "--no-first-run", *QUIET, *SANDBOX],
        )
        page = browser.new_page(viewport={"width": width, "height": height})
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page, errors
        browser.close()


class OpenNotebook:
    """A notebook open in JupyterLab."""

    def __init__(self, page, address, path):
        self.page = page
        page.goto(f"{address}/lab/tree/{path}?reset&token={TOKEN}")
        page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
        page.wait_for_function("() => window.jupyterapp !== undefined")
        # The sidebar takes a third of the page; a reader at work has it closed.
        page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
        page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            timeout=60_000,
        )

    def run_all(self, timeout=600):
        """Run all cells and wait until each has its number."""
        self._start("notebook:run-all-cells")
        self.wait_until_idle(timeout)

    def run_cell(self, text, source, timeout=60):
        """Replace the source of the one code cell that contains `text`, run it, and return its output's text."""
        at = self.page.evaluate(
            """([text, source]) => {
                const cells = window.jupyterapp.shell.currentWidget.content.widgets;
                const found = cells.map((cell, at) => [cell, at]).filter(
                    ([cell]) => cell.model.type === 'code' && cell.model.sharedModel.getSource().includes(text));
                if (found.length !== 1) { throw new Error(`${found.length} cells contain ${text}`); }
                const [cell, at] = found[0];
                cell.model.sharedModel.setSource(source);
                window.jupyterapp.shell.currentWidget.content.activeCellIndex = at;
                return at;
            }""",
            [text, source],
        )
        self._start("notebook:run-cell")
        self.wait_until_idle(timeout)
        return self.page.evaluate(
            "at => window.jupyterapp.shell.currentWidget.content.widgets[at].outputArea.node.innerText", at
        )

    def wait_until_idle(self, timeout):
        """Wait until every code cell with code in it has been run and the kernel rests."""
        self.page.wait_for_function(
            """() => {
                const panel = window.jupyterapp.shell.currentWidget;
                const written = panel.content.widgets.filter(
                    cell => cell.model.type === 'code' && cell.model.sharedModel.getSource().trim() !== '');
                return window.courseRunning === false && panel.sessionContext.session.kernel.status === 'idle'
                    && written.every(cell => cell.model.executionState === 'idle' && cell.model.executionCount > 0);
            }""",
            timeout=timeout * 1000,
        )

    def _start(self, command):
        """Begin a command; `courseRunning` is true in the page until it is done."""
        self.page.evaluate(
            """command => {
                window.courseRunning = true;
                window.jupyterapp.commands.execute(command).finally(() => { window.courseRunning = false; });
            }""",
            command,
        )

    def errors(self):
        """The text of every error output."""
        found = self.page.evaluate(
            """() => JSON.stringify(window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.flatMap(
                cell => (cell.outputs ?? []).filter(output => output.output_type === 'error')))"""
        )
        return [f"{error['ename']}: {error['evalue']}" for error in json.loads(found)]


def explorers(page):
    """The titles of the explorers on the page."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.jp-OutputArea .widget-vbox, .jp-OutputArea .widget-box')]
            .filter(box => box.querySelector(':scope > .widget-html img'))
            .map(box => box.querySelector(':scope > .widget-html img').alt)"""
    )


class ShownExplorer:
    """One explorer on a page, found by its title."""

    def __init__(self, page, title):
        self.page = page
        self.picture = page.locator(f'img[alt="{title}"]')
        self.box = page.locator(".widget-vbox", has=self.picture).last
        self.picture.scroll_into_view_if_needed()

    def source(self):
        """The picture that is shown now."""
        return self.picture.get_attribute("src")

    def sentence(self):
        """The sentence below it."""
        return self.box.locator("p[role=status]").inner_text()

    def moves(self):
        """What a reader can do here: for each control, something to call that moves it."""
        found = {}
        handles = self.box.locator(".noUi-handle:visible")  # a slider for a word that is not there is hidden
        for at in range(handles.count()):
            handle = handles.nth(at)
            found[f"slider {at + 1}"] = lambda handle=handle: (
                handle.focus(),
                self.page.keyboard.press(self._way(handle)),
            )
        for at in range(self.box.locator(".widget-toggle-buttons").count()):
            group = self.box.locator(".widget-toggle-buttons").nth(at)
            found[f"buttons {at + 1}"] = lambda group=group: group.locator("button:not(.mod-active)").first.click()
        for at in range(self.box.locator("select").count()):
            select = self.box.locator("select").nth(at)
            found[f"menu {at + 1}"] = lambda select=select: select.select_option(index=self._other(select))
        for at in range(self.box.locator(".widget-text input").count()):
            box = self.box.locator(".widget-text input").nth(at)
            # Without its first word it is still a sentence; what is typed counts once Enter is pressed.
            found[f"text {at + 1}"] = lambda box=box: (
                box.fill(box.input_value().partition(" ")[2]),
                box.press("Enter"),
            )
        if self.box.locator(".widget-hbox > .widget-toggle-button").count():
            found["grid"] = lambda: self.box.locator(".widget-hbox > .widget-toggle-button").last.click()
        return found

    @staticmethod
    def _way(handle):
        """The arrow key that moves a slider from where it stands."""
        at_the_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
        return "ArrowLeft" if at_the_end else "ArrowRight"

    @staticmethod
    def _other(select):
        return 1 if select.evaluate("box => box.selectedIndex") != 1 else 2

    def latency(self, move, timeout=10):
        """Move a control; the milliseconds from the move until another picture is on the page.

        The clock runs in the page, from the event of the key or button to the loaded picture.
        """
        self.picture.evaluate(
            """picture => {
                const begin = () => { window.courseBegan ??= performance.now(); };
                window.courseBegan = undefined;
                window.courseTook = undefined;
                for (const event of ['keydown', 'pointerdown', 'change']) {
                    document.addEventListener(event, begin, {capture: true, once: true});
                }
                const alt = picture.alt, before = picture.src;
                const look = () => {
                    const now = [...document.images].find(image => image.alt === alt);
                    if (now && now.src !== before && now.complete) {
                        window.courseTook = performance.now() - window.courseBegan;
                    } else {
                        requestAnimationFrame(look);
                    }
                };
                requestAnimationFrame(look);
            }"""
        )
        move()
        self.page.wait_for_function("() => window.courseTook !== undefined", timeout=timeout * 1000)
        return self.page.evaluate("() => window.courseTook")
