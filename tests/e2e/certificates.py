"""A certificate authority of one's own, by the openssl command, as an operator would make one."""

import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Certificates for localhost, in a folder."""

    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.cert = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-days", "30", "-keyout", self._key, "-out", self.cert,
        )  # fmt: skip

    def issue(self, name, days=30):
        """The paths of a certificate and its key, signed by this authority."""
        key, request, cert = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self.folder / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", key, "-out", request,
        )  # fmt: skip
        openssl(
            "x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key,
            "-CAcreateserial", "-days", str(days), "-extfile", extensions, "-out", cert,
        )  # fmt: skip
        return cert, key
