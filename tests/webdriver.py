"""A browser without a window, driven by the WebDriver protocol (W3C): only what the tests of a page need."""
import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "chromium and chromium-driver are not installed (lab/install-packages installs them)"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "PageUp": "\ue00e", "PageDown": "\ue00f", "End": "\ue010", "Home": "\ue011",
        "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Shift": "\ue008", "Control": "\ue009"}


def start_driver(scratch):
    """(its process, its port). It ends at once if the free port that it has found for IPv4 is taken for IPv6, so it has three tries."""
    said = []
    for _ in range(3):
        process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=scratch)
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"started successfully on port (\d+)", line):
                return process, int(found[1])
        process.wait()
        process.stdout.close()
    raise AssertionError(f"chromedriver does not start: {''.join(said)}")


class Browser:
    def __init__(self, scratch):
        self.process, port = start_driver(scratch)
        self.base = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,900",
                     "--enable-precise-memory-info", "--js-flags=--expose-gc", f"--user-data-dir={scratch}/profile"]
        session = self.call("", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"}, "timeouts": {"script": 120000, "pageLoad": 120000}}}})
        self.base += f"/{session['sessionId']}"

    def close(self):
        try:
            self.call("", method="DELETE")
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def call(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{path}: {e.read().decode()[:2000]}") from None

    def open(self, url):
        self.call("/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("/execute/sync", {"script": script, "args": arguments})

    def wait(self, script, *arguments, seconds=60):
        """Until the expression is true; its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {script}", *arguments)):
            assert time.monotonic() < end, f"never: {script}\n{self.run('return document.body.innerText')[:3000]}\n{self.messages()}"
            time.sleep(0.02)
        return value

    def devtools(self, command, **parameters):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def press(self, *keys):
        """Each key one after the other; "Shift+Tab"."""
        for key in keys:
            parts = [KEYS.get(part, part) for part in key.split("+")]
            actions = [{"type": "keyDown", "value": part} for part in parts] + [{"type": "keyUp", "value": part} for part in reversed(parts)]
            self.call("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector):
        found = self.call("/element", {"using": "css selector", "value": selector})
        self.call(f"/element/{found[ELEMENT]}/click", {})

    def picture(self):
        return base64.b64decode(self.call("/screenshot"))

    def messages(self):
        """What the browser complained about: scripts that failed, what the policy refused."""
        return [entry["message"] for entry in self.call("/se/log", {"type": "browser"})]
