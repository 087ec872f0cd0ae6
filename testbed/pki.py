"""The testbed's own certificates: one authority, short-lived, made with the openssl command line."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

from testbed.errors import Unsupported

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256", "-days", "30")


class Authority:
    """Issues certificates into one folder; what is there already is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self.key = folder / "ca.key"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if not self.certificate.exists():
            self._request("ca", "/CN=rayflight-testbed", ["-addext", "keyUsage=critical,keyCertSign,cRLSign"], [])
            # Service-account tokens are signed with a key of their own.
            self._openssl("genrsa", "-out", str(folder / "service-account.key"), "2048")

    @property
    def service_account_key(self) -> Path:
        return self.folder / "service-account.key"

    @property
    def bundle(self) -> str:
        """The authority's certificate as API objects carry it (base64)."""
        return _data(self.certificate)

    def issue(self, name: str, subject: str, hosts: tuple[str, ...] = ()) -> tuple[Path, Path]:
        """Certificate and key for a client (subject decides its rights) or for a server (hosts it may be called by)."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if not certificate.exists():
            alternatives = ",".join(("IP:" if host[0].isdigit() else "DNS:") + host for host in hosts)
            extensions = ["-addext", f"subjectAltName={alternatives}"] if hosts else []
            usage = ["-addext", "basicConstraints=critical,CA:FALSE"]
            usage += ["-addext", "extendedKeyUsage=clientAuth,serverAuth"]
            self._request(name, subject, usage + extensions, ["-CA", str(self.certificate), "-CAkey", str(self.key)])
        return certificate, key

    def kubeconfig(self, path: Path, server: str, name: str, subject: str) -> Path:
        """A kubeconfig (JSON is YAML) with everything inside, readable by its owner only."""
        certificate, key = self.issue(name, subject)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": server, "certificate-authority-data": _data(self.certificate)},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {"client-certificate-data": _data(certificate), "client-key-data": _data(key)},
                }
            ],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": name}}],
            "current-context": "testbed",
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(json.dumps(document, indent=1))
        return path

    def _request(self, name: str, subject: str, extensions: list[str], signer: list[str]) -> None:
        # The certificate is written last, so its presence says that the pair is complete.
        certificate = self.folder / f"{name}.crt"
        unfinished = certificate.with_suffix(".new")
        output = ["-keyout", str(self.folder / f"{name}.key"), "-out", str(unfinished)]
        self._openssl("req", "-x509", *_KEY, "-subj", subject, *extensions, *signer, *output)
        unfinished.rename(certificate)

    def _openssl(self, *arguments: str) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            raise Unsupported("the testbed makes its certificates with `openssl`, which is not here: install openssl")
        subprocess.run([openssl, *arguments], check=True, capture_output=True)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
