"""`hydrant bench` as tests run it."""

import json
import subprocess

from server_process import BINARY


def bench_command(address, *flags):
    return [BINARY, "bench", f"--server={address}", *flags]


def bench(address, *flags, exit_code=0, seconds=300):
    done = subprocess.run(
        bench_command(address, *flags), capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done


def measure(address, folder, *flags, exit_code=0, seconds=300):
    """The report as JSON, beside what was printed."""
    path = folder / "report.json"
    done = bench(address, f"--json={path}", *flags, exit_code=exit_code, seconds=seconds)
    report = json.loads(path.read_text())
    assert report["schema"] == "hydrant-bench/1"
    counts = report["requests"]
    assert counts["sent"] == sum(
        counts[outcome]
        for outcome in ("completed", "refused", "cancelled", "failed", "interrupted")
    )
    assert counts["sent"] == sum(counts["by_status"].values())
    return report, done
