from __future__ import annotations

import pytest

from noetl.model.playbook import Playbook

from .nets import ALL


@pytest.fixture(params=ALL)
def any_playbook(request: pytest.FixtureRequest) -> Playbook:
    return ALL[request.param]
