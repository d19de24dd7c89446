"""A headless Chromium, driven over its debugging pipe (the DevTools protocol; no driver needed)."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

SECONDS = 120  # only bounds a failure


def _high(fd):
    """The same pipe under a number that does not get in the way of 3 and 4."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 16)
    os.close(fd)
    return copy


class Browser:
    def __init__(self):
        program = shutil.which("chromium")
        assert program, "these tests need Debian's package chromium"
        # Its helpers may outlive it for a moment and still write there.
        self._profile = tempfile.TemporaryDirectory(
            prefix="hydrant-chromium-", ignore_cleanup_errors=True
        )
        their_input, self._input = (_high(fd) for fd in os.pipe())
        self._output, their_output = (_high(fd) for fd in os.pipe())

        def connect():
            os.dup2(their_input, 3)
            os.dup2(their_output, 4)

        self._process = subprocess.Popen(
            [
                program,
                "--headless",
                "--no-sandbox",  # it would not start as root
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._profile.name}",
            ],
            preexec_fn=connect,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        self._received = b""
        self._last_id = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("Browser.close")
        try:
            self._process.wait(timeout=SECONDS)
        finally:
            self._process.kill()
        os.close(self._input)
        os.close(self._output)
        self._profile.cleanup()

    def _message(self):
        end = time.monotonic() + SECONDS
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._output], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._output, 1 << 16)
            assert data, "the browser has ended"
            self._received += data
        message, self._received = self._received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._input, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._last_id:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def wait_for(self, method, session):
        def found():
            return any(e["method"] == method and e.get("sessionId") == session for e in self.events)

        while not found():
            self.events.append(self._message())


class Page:
    """A tab with one document in it. `url`: a file: URL, or none for an empty one."""

    def __init__(self, browser, url="about:blank", width=1280, height=1000):
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call(
            "Target.attachToTarget", targetId=self._target, flatten=True
        )["sessionId"]
        self.resize(width, height)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        browser.wait_for("Page.loadEventFired", self._session)

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def screenshot(self):
        """PNG of what the window shows, in base64."""
        self.call("Page.bringToFront")  # a tab behind another may never be painted
        return self.call("Page.captureScreenshot", format="png")["data"]

    def _events(self, *methods):
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] in methods
        ]

    def requested_urls(self):
        return [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]

    def complaints(self):
        """What the console and the log got, and scripts that failed."""
        return self._events(
            "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"
        )


def grey_values(browser, png, points):
    """The luminance, 0 to 255, of a screenshot at each of the points [x, y]."""
    assert base64.b64decode(png).startswith(b"\x89PNG")
    page = Page(browser)
    greys = page.evaluate(
        f"""(async () => {{
          const data = await fetch('data:image/png;base64,{png}');
          const image = await createImageBitmap(await data.blob());
          const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
          context.drawImage(image, 0, 0);
          return {json.dumps(points)}.map(([x, y]) => {{
            const [r, g, b] = context.getImageData(x, y, 1, 1).data;
            return Math.round(0.2126 * r + 0.7152 * g + 0.0722 * b);
          }});
        }})()"""
    )
    page.close()
    return greys
