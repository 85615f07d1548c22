"""What `ration doctor -o json` says."""
import json


def read(done):
    """(exit status, [(check, severity, where, what, mend)], {check: state})"""
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    findings = [tuple(f[key] for key in ("check", "severity", "where", "what", "mend")) for f in answer["findings"]]
    return done.returncode, findings, {check["name"]: check["state"] for check in answer["checks"]}


def assert_tells(report, check, severity, where, what, mend):
    """Of this check there is this finding and no other."""
    status, findings, states = report
    mine = [f for f in findings if f[0] == check]
    assert len(mine) == 1, findings
    assert mine[0][:3] == (check, severity, where)
    assert what in mine[0][3]
    assert mend in mine[0][4] and (mend or not mine[0][4])
    assert states[check] == ("ok" if severity == "note" else "findings")
    assert status == (0 if all(f[1] == "note" for f in findings) else 1)
