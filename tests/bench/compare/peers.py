"""Installs the peers: Debian's and Python's packages only, the versions that are named here."""

import pathlib
import shutil
import subprocess
import sys

from subjects import THREADS, Hydrant, LlamaCpp, Worker

LLAMA_CPP_PYTHON = "0.3.36"  # its source distribution carries llama.cpp
# g++ 12 takes the configuration that _tile_loadconfig reads for dead, and leaves most of it out; the
# AMX kernels of Q8_0 then end in SIGILL.
LLAMA_CPP_FLAGS = "-fno-tree-dse -fno-dse"
OPENVINO = ["openvino-genai==2026.4.1.0", "numpy==2.4.6"]
HUGGING_FACE = ["torch==2.15.0", "transformers==5.24.0", "gguf==0.19.0", "accelerate==1.15.0"]


def call(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)


class Peers:
    """`folder` keeps what was installed and is looked into first; `model` is the default one."""

    def __init__(self, folder, model, binary):
        self.folder = folder
        self.model = model
        self.binary = binary
        self.makers = {
            "llama.cpp-q8_0": lambda: self._llama_cpp("q8_0"),
            "llama.cpp-bf16": lambda: self._llama_cpp("bf16"),
            "llama.cpp-q4_0": lambda: self._llama_cpp("q4_0"),
            "openvino-q8_0": lambda: self._openvino("q8_0"),
            "openvino-f16": lambda: self._openvino("f16"),
            "hf-bf16": lambda: self._hugging_face("bfloat16"),
            "hf-f32": lambda: self._hugging_face("float32"),
            "hydrant-full": lambda: Hydrant(binary, model, "Hydrant, no eviction", evicts=False),
        }

    DEFAULT = (
        "llama.cpp-q8_0", "llama.cpp-bf16", "openvino-q8_0", "openvino-f16", "hf-bf16",
        "hydrant-full",
    )  # fmt: skip

    def select(self, names):
        """The peers called so, or the default ones that begin so; KeyError for an unknown name."""
        selected = []
        for name in names:
            family = [peer for peer in self.DEFAULT if peer.startswith(name)]
            if name not in self.makers and not family:
                raise KeyError(name)
            selected += [name] if name in self.makers else family
        return list(dict.fromkeys(selected))

    def make(self, name):
        return self.makers[name]()

    def _llama_cpp(self, precision):
        return LlamaCpp(self._llama_binaries, self._converted(precision), precision)

    def _openvino(self, precision):
        model = self._converted(precision)
        python = self._environment("openvino", OPENVINO)
        return Worker(
            f"OpenVINO GenAI {precision.upper()}", python, "openvino_worker.py", model,
            evicts=True,
        )  # fmt: skip

    def _hugging_face(self, dtype):
        python = self._environment("hf", HUGGING_FACE)
        return Worker(f"HF {dtype}", python, "hf_worker.py", self.model, dtype=dtype)

    def _environment(self, name, requirements):
        """A Python that has these."""
        venv = self.folder / name
        marker = venv / "installed.txt"
        wanted = "\n".join(requirements) + "\n"
        if not marker.exists() or marker.read_text() != wanted:
            shutil.rmtree(venv, ignore_errors=True)
            call(sys.executable, "-m", "venv", venv)
            call(venv / "bin" / "pip", "install", *requirements)
            marker.write_text(wanted)
        return venv / "bin" / "python"

    def _llama_binaries(self, isa=""):
        """The folder of the programs: for this machine, or with no more than `isa` ("avx2")."""
        source = self._llama_source()
        build = self.folder / "llama.cpp" / f"build{isa and '-' + isa}"
        marker = build / "bin" / "version"
        if marker.exists():
            return marker.parent
        # Not native is AVX2, FMA, F16C and BMI2.
        call("cmake", "-S", source, "-B", build, "-D", "CMAKE_BUILD_TYPE=Release",
             "-D", f"GGML_NATIVE={'OFF' if isa == 'avx2' else 'ON'}", "-D", "BUILD_SHARED_LIBS=OFF",
             "-D", "LLAMA_CURL=OFF", "-D", "LLAMA_OPENSSL=OFF",
             "-D", f"CMAKE_CXX_FLAGS={LLAMA_CPP_FLAGS}")  # fmt: skip
        call("cmake", "--build", build, "--parallel", THREADS, "--target",
             "llama-batched-bench", "llama-quantize")  # fmt: skip
        marker.write_text(LLAMA_CPP_PYTHON)
        return marker.parent

    def _llama_source(self):
        folder = self.folder / "llama.cpp"
        source = folder / f"llama_cpp_python-{LLAMA_CPP_PYTHON}" / "vendor" / "llama.cpp"
        if source.exists():
            return source
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        call(sys.executable, "-m", "venv", folder / "venv")  # not every python3 has pip
        call(folder / "venv" / "bin" / "pip", "download", "--no-deps", "--no-binary", ":all:",
             "--dest", folder, f"llama-cpp-python=={LLAMA_CPP_PYTHON}")  # fmt: skip
        call("tar", "-xzf", next(folder.glob("*.tar.gz")), "-C", folder)
        return source

    def _converted(self, precision):
        """The model with other weights, made of the same file."""
        path = self.folder / "models" / f"{self.model.stem}-{precision}.gguf"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = pathlib.Path(f"{path}.part")
            call(self._llama_binaries() / "llama-quantize", "--allow-requantize", self.model, part,
                 precision.upper())  # fmt: skip
            part.rename(path)
        return path
