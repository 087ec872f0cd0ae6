"""The places where clusters run: Kubernetes with KubeRay, and this machine. They create, observe, delete."""
