# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A page in headless Chromium, driven over its DevTools protocol on pipes: the standard library only.

Usage: browser.py PAGE PICTURE [ELEMENT]: a picture (.png) of the page down to the end of ELEMENT, a CSS selector.
"""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 25


class Browser:
    """One process with one page. `problems` are what its console and network had to say."""

    def __init__(self, width=1280, height=1000):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, from_browser = os.pipe(), os.pipe()
        # The browser expects its pipes at 3 and 4, so ours must not lie there.
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser[0], from_browser[1])]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]} {theirs[0]}<&- {theirs[1]}>&-', "bash",
             CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", "--force-device-scale-factor=1",
             "--remote-debugging-pipe", f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}",
             "about:blank"],
            pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (*theirs, to_browser[0], from_browser[1]):
            os.close(fd)
        self.input, self.output = to_browser[1], from_browser[0]
        self.buffer, self.last, self.session = b"", 0, None
        self.problems, self.requests, self.loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        # Pictures must not depend on the machine's taste.
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.input)
        os.close(self.output)
        self.profile.cleanup()

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.output], [], [], left)[0]:
                raise TimeoutError(f"expected an answer of {CHROMIUM} in {SECONDS} s, got none")
            data = os.read(self.output, 1 << 16)
            if not data:
                raise RuntimeError(f"expected {CHROMIUM} to run, got exit status {self.process.wait()}")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(message)
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(str([a.get("value") for a in params["args"]]))
        return message

    def call(self, method, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.input, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            message = self.receive(deadline)
            if message.get("id") == self.last:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def open(self, path):
        self.problems, self.requests, self.loaded = [], [], False
        self.call("Page.navigate", url=path.absolute().as_uri())
        deadline = time.monotonic() + SECONDS
        while not self.loaded:
            self.receive(deadline)

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, count=1):
        for i in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=i)

    def find(self, script):
        """The middle of the element that `script` gives, scrolled into view.

        Two frames later the scrolled page is what the mouse hits: before, clicks are still tested
        against the frame that is on the screen."""
        return self.run(f"""(async () => {{ const node = {script}; node.scrollIntoView({{block: "center"}});
            for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
            const box = node.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2]; }})()""")

    def picture(self, path, element="html"):
        """Writes what stands above the end of the element, as wide as the window."""
        width = self.run("innerWidth")
        # All of it is on the screen then, and drawn.
        self.resize(width, self.run("document.documentElement.scrollHeight"))
        height = self.run(f"""Math.ceil(document.querySelector("{element}").getBoundingClientRect().bottom) + 12""")
        answer = self.call("Page.captureScreenshot", format="png",
                           clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        path.write_bytes(base64.b64decode(answer["data"]))


if __name__ == "__main__":
    browser = Browser()
    browser.open(pathlib.Path(sys.argv[1]))
    browser.picture(pathlib.Path(sys.argv[2]), *sys.argv[3:])
    browser.close()
