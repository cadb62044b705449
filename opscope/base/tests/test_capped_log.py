"""The capped log: the file has the first bytes, memory the last."""

from __future__ import annotations

from opscope.base.children import child as capped_log
from opscope.base.children.child import CappedLog


def test_the_file_is_capped_and_the_tail_is_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(capped_log, "FILE_LIMIT", 100)
    log = CappedLog(tmp_path / "sub" / "log.txt")
    assert not (tmp_path / "sub").exists()
    for number in range(50):
        log.write(f"line {number}\n".encode())
    log.close()
    text = (tmp_path / "sub" / "log.txt").read_text()
    assert text.startswith("line 0\n")
    assert text.endswith("\n[output capped here]\n")
    assert text.count("capped") == 1
    assert log.last_line() == "line 49"
    assert log.tail(2) == "line 48\nline 49\n"


def test_the_tail_belongs_to_the_op_since_the_mark(tmp_path):
    log = CappedLog(None)
    log.write(b"before\n")
    log.mark()
    log.write(b"\xff after\n\n")
    assert "before" not in log.tail()
    assert log.last_line().endswith("after")


def test_a_disk_that_refuses_costs_the_file_only(tmp_path):
    (tmp_path / "file").write_text("")
    log = CappedLog(tmp_path / "file" / "log.txt")
    log.write(b"said\n")
    assert log.last_line() == "said"
