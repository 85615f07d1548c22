"""The fetching itself: where an archive cannot be reached there is a reason, and nothing half done is left."""
import os

import pytest

import nvidia_libraries


@pytest.mark.parametrize("says", ["apt-get: W: Failed to fetch the index", "dpkg-deb: not an archive"])
def test_what_cannot_be_fetched_has_a_reason_and_leaves_nothing(tmp_path, monkeypatch, says):
    program, text = says.split(": ", 1)
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / program
    # --print-uris asks apt for its sources, for which no network is needed.
    fake.write_text('#!/bin/sh\ncase "$*" in *--print-uris*) exec /usr/bin/apt-get "$@";; esac\n'
                    f'echo "{text}" >&2\nexit 100\n')
    fake.chmod(0o755)
    if program == "dpkg-deb":    # apt-get has fetched something
        (tmp_path / "bin/apt-get").write_text('#!/bin/sh\ncase "$*" in *--print-uris*) exec /usr/bin/apt-get "$@";; '
                                              '*download*) echo x > some.deb;; esac\n')
        (tmp_path / "bin/apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("RATION_CACHE", str(tmp_path / "cache"))
    with pytest.raises(nvidia_libraries.Unreachable, match=text):
        nvidia_libraries.driver("bookworm")
    assert [path.name for path in nvidia_libraries.cache().iterdir()] == ["lock"]


def test_what_is_cached_needs_no_network(driver, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError(args)
    monkeypatch.setattr(nvidia_libraries, "command", forbidden)
    assert nvidia_libraries.driver(driver.name).version == driver.version
