"""A real Prometheus that scrapes one server, and what it answers."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from server_process import free_port


class Prometheus:
    def __init__(self, folder, target, interval="1s", rules=()):
        config = {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": "hydrant", "static_configs": [{"targets": [target]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self._log = folder / "log"
        self.address = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={self.address}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=self._log.open("w"),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)

    def get(self, path, **parameters):
        """The answer's data; None while it does not answer yet."""
        url = f"http://{self.address}/api/v1/{path}?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                return None
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        except OSError:
            assert self.process.poll() is None, self._log.read_text()
            return None

    def samples(self, expression):
        """(labels, value) of each series."""
        data = self.get("query", query=expression)
        return [
            (sample["metric"], float(sample["value"][1])) for sample in (data or {}).get("result", [])
        ]

    def value(self, expression):
        """Of the only series; None when there is none."""
        samples = self.samples(expression)
        return samples[0][1] if samples else None
