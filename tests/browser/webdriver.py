"""Chromium through ChromeDriver's HTTP protocol (W3C WebDriver), with nothing but Python's standard library."""
import base64
import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--force-device-scale-factor=1", "--window-size=1200,900"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the protocol names elements by


def programs():
    """Paths of Chromium and ChromeDriver, or None."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    return found if all(found) else None


class Browser:
    def __init__(self, url, chromium, profile):
        self._url = url
        options = {"binary": chromium, "args": FLAGS + [f"--user-data-dir={profile}"]}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self._session = f"/session/{answer['sessionId']}"
        # What the browser's own first page asks for is not ours.
        self._post("/url", {"url": "data:,"})
        self.log("performance")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is on this machine
        try:
            with opener.open(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode(errors='replace')[:500]}") from None

    def _post(self, path, body):
        return self._call("POST", self._session + path, body)

    def open(self, path):
        self._post("/url", {"url": pathlib.Path(path).resolve().as_uri()})

    def script(self, text, *args):
        return self._post("/execute/sync", {"script": text, "args": list(args)})

    def devtools(self, command, **params):
        return self._post("/goog/cdp/execute", {"cmd": command, "params": params})

    def prefer(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def find(self, selector):
        return self._post("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._post(f"/element/{self.find(selector)}/click", {})

    def keys(self, selector, text):
        self._post(f"/element/{self.find(selector)}/value", {"text": text})

    def point_at(self, selector, dx=0, dy=0):
        """Moves the pointer to the middle of an element and by so much on."""
        origin = {ELEMENT: self.find(selector)}
        self._post("/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            {"type": "pointerMove", "origin": origin, "x": dx, "y": dy, "duration": 0}]}]})

    def log(self, kind):
        """What was logged since the last call: "browser" (the console) or "performance" (events of the DevTools)."""
        return self._post("/se/log", {"type": kind})

    def screenshot(self, path):
        """The whole page."""
        image = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=self.script(
            "const e = document.documentElement;"
            "return {x: 0, y: 0, width: e.scrollWidth, height: Math.min(e.scrollHeight, 6000), scale: 1};"))
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))

    def quit(self):
        self._call("DELETE", self._session)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def browser():
    chromium, chromedriver = programs()
    port = free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen([chromedriver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            session = Browser(f"http://127.0.0.1:{port}", chromium, profile)
            try:
                yield session
            finally:
                session.quit()
        finally:
            driver.terminate()
            driver.wait(timeout=30)
