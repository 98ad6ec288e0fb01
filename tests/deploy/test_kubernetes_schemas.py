"""The manifest is what Kubernetes' own OpenAPI documents describe, without any other field."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.deploy.test_examples import DEPLOY

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
utils = pytest.importorskip("kubernetes_validate.utils")

OLDEST = (1, 29)
"""The first version with the access mode ReadWriteOncePod for everybody."""


def resources() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "quorum.yaml").read_text()))


def versions() -> list[str]:
    found = {tuple(map(int, version.split(".")[:2])) for version in utils.all_versions()}
    return [f"{major}.{minor}" for major, minor in sorted(found) if (major, minor) >= OLDEST]


@pytest.mark.parametrize("version", versions())
def test_the_manifest_fits_the_schemas(version: str) -> None:
    for resource in resources():
        kubernetes_validate.validate(resource, version, strict=True)


def test_a_wrong_field_and_a_wrong_value_are_found() -> None:
    by_kind = {resource["kind"]: resource for resource in resources()}
    pods = by_kind["StatefulSet"]["spec"]["template"]["spec"]
    pods["securityContext"]["runAsNonRoots"] = True
    with pytest.raises(kubernetes_validate.ValidationError, match="runAsNonRoots"):
        kubernetes_validate.validate(by_kind["StatefulSet"], versions()[-1], strict=True)
    by_kind["PodDisruptionBudget"]["spec"]["maxUnavailable"] = [1]
    with pytest.raises(kubernetes_validate.ValidationError, match=r"\[1\] is not valid"):
        kubernetes_validate.validate(by_kind["PodDisruptionBudget"], versions()[-1], strict=True)
