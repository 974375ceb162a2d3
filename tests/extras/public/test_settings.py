"""What is said of the server in the environment: refused where it could never work, and told."""

import pytest

from heads.errors import LimitError
from heads.extras.public.settings import check_network, server_summary
from heads.settings import check_hosts

NAMES = ("HEADS_HOSTS", "HEADS_PROXIES", "HEADS_FRAMES", "HEADS_STORAGE", "SPACE_ID", "SPACE_HOST")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    for name in (*NAMES, "HEADS_PUBLIC"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variable", "values"),
    [
        ("HEADS_HOSTS", ["", "heads.example.org", "a.b, c.d", "192.0.2.1", "[::1]", "localhost"]),
        ("HEADS_PROXIES", ["", "*", "127.0.0.1", "10.0.0.0/8,::1", "10.0.0.0/8 ::1", "fd00::/8"]),
        ("HEADS_FRAMES", ["", "https://a.example", "http://a.example:8000 *.b.example", "a.b:*"]),
    ],
)
def test_what_can_work_is_taken(variable, values, monkeypatch):
    for value in values:
        monkeypatch.setenv(variable, value)
        check_hosts()
        check_network()


@pytest.mark.parametrize(
    ("variable", "value", "odd"),
    [
        ("HEADS_HOSTS", "a.b http://c.d", "http://c.d"),
        ("HEADS_HOSTS", "a.b:7860", "a.b:7860"),
        ("HEADS_HOSTS", "a.b/path", "a.b/path"),
        ("HEADS_PROXIES", "foo", "foo"),
        ("HEADS_PROXIES", "127.0.0.1,10.0.0.0/99", "10.0.0.0/99"),
        ("HEADS_PROXIES", "10.0.0.1/8", "10.0.0.1/8"),
        ("HEADS_PROXIES", "10.0.0.0/8,*", "*"),
        ("HEADS_FRAMES", "https://a.b; script-src *", "https://a.b;"),
        ("HEADS_FRAMES", "'self'", "'self'"),
        ("HEADS_FRAMES", "javascript:x", "javascript:x"),
    ],
)
def test_what_can_never_work_is_refused_by_its_name(variable, value, odd, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(LimitError) as refused:
        check_hosts() if variable == "HEADS_HOSTS" else check_network()
    assert variable in refused.value.what
    assert f"'{odd}'" in refused.value.what


def test_whoever_starts_a_server_reads_what_holds(monkeypatch, tmp_path):
    assert server_summary() == []
    monkeypatch.setenv("SPACE_ID", "someone/head-to-head")  # which needs no other setting
    monkeypatch.setenv("SPACE_HOST", "someone-head-to-head.hf.space")
    check_network()
    summary = "\n".join(server_summary())
    assert "someone-head-to-head.hf.space" in summary
    assert "https://huggingface.co" in summary
    monkeypatch.setenv("HEADS_STORAGE", str(tmp_path / "nowhere"))
    assert "nowhere takes no file" in "\n".join(server_summary())
    monkeypatch.setenv("HEADS_STORAGE", str(tmp_path))
    monkeypatch.setenv("HEADS_HOSTS", "heads.example.org")
    summary = "\n".join(server_summary())
    assert f"  {tmp_path}" in summary
    assert "  heads.example.org" in summary
