"""Dashboard and alert rules: only metrics that there are, and each alert fires when it should (promtool test rules)."""
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHARTS = ROOT / "deploy/charts"
RULES = {chart: CHARTS / chart / "files/alerts.yaml" for chart in ("ack-ai-installer", "ack-co-scheduler")}
DASHBOARD = json.loads((CHARTS / "ack-ai-installer/files/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
CACHE = pathlib.Path(os.environ.get("RATION_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ration")
PROMTOOL = CACHE / "debian/prometheus/usr/bin/promtool"    # lab/install-packages


def rules(kind):
    return [rule for path in RULES.values() for group in yaml.safe_load(path.read_text())["groups"]
            for rule in group["rules"] if kind in rule]


def alerts():
    return rules("alert")


def expressions():
    return [rule["expr"] for rule in alerts() + rules("record")] + [target["expr"] for panel in PANELS for target in panel["targets"]]


def promtool(*argv):
    return subprocess.run([PROMTOOL, *map(str, argv)], capture_output=True, text=True, check=False)


def test_dashboard_and_alerts_use_only_documented_metrics():
    document = dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|",
                               (ROOT / "docs/internals/metrics.md").read_text(), re.M))
    names = {name for name, kind in document.items() if kind != "histogram"}
    names |= {f"{name}_{end}" for name, kind in document.items() if kind == "histogram"
              for end in ("bucket", "sum", "count")}
    used = {name for expr in expressions() for name in re.findall(r"\b(?:ration|process)_\w+", expr)}
    assert len(used) > 25 and used <= names, used - names


def test_counters_are_only_used_as_rates():
    for expr in expressions():
        for name in re.findall(r"\b\w+_total\b", expr):
            assert re.search(rf"\b(?:rate|increase)\({name}\b", expr), expr


def test_dashboard_has_panels_that_do_not_overlap_and_ids_of_their_own():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) > 20
    cells = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells, panel["title"]
        cells |= mine


def test_each_alert_says_what_it_is_and_what_to_do():
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    for rule in alerts():
        assert rule["alert"].startswith("Ration") and rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_guide_lists_the_alerts():
    guide = (ROOT / "docs/guide/monitoring.md").read_text()
    assert re.findall(r"^\| `(Ration\w+)` \|", guide, re.M) == [rule["alert"] for chart in reversed(list(RULES)) for rule in
                                                              yaml.safe_load(RULES[chart].read_text())["groups"][0]["rules"]]


def test_rules_are_understood_by_prometheus():
    done = promtool("check", "rules", *RULES.values())
    assert done.returncode == 0, done.stdout + done.stderr


AGENT = 'job="a", instance="10.0.0.1:39996", node="n1", pod="agent-x"'
CARD = AGENT + ', gpu="0", UUID="GPU-1", modelName="T4"'
POD = 'job="a", instance="10.0.0.1:39996", node="n1", namespace="ml", pod="train", container="main", gpu="2"'
LEDGER = {f'ration_ledger_owned{{instance="{i}"}}': "1x60" for i in (1, 2)} | {
    f'ration_ledger_may_bind{{instance="{i}"}}': "1x60" for i in (1, 2)}


# alert: chart, series that are well, what makes it fire, minutes after which it must be firing and before which not.
CASES = {
    "RationNoLedgerOwner": ({}, {**LEDGER, 'ration_ledger_may_bind{instance="1"}': "1 0x60",
                                 'ration_ledger_may_bind{instance="2"}': "1 0x60"}, 3, 1),
    "RationAgentsNotServing": ({"ration_nodes_not_serving": "0x60"}, {"ration_nodes_not_serving": "0 1x60"}, 4, 2),
    "RationUnplacedPods": ({"ration_memory_unplaced_bytes": "0x60"},
                           {"ration_memory_unplaced_bytes": "0 1073741824x60"}, 4, 2),
    "RationPodsWaiting": ({'ration_pods{state="waiting"}': "0 5x20 0x40", 'ration_pods{state="bound"}': "7x60"},
                          {'ration_pods{state="waiting"}': "5x60"}, 31, 29),
    "RationGPUOvercommitted": ({"ration_gpus_overcommitted": "0x60"}, {"ration_gpus_overcommitted": "0 1x60"}, 4, 2),
    "RationLedgerRepaired": ({"ration_ledger_repairs_total": "0x60"},
                             {"ration_ledger_repairs_total": "0 0 1x60"}, 4, 1),
    "RationClusterViewStale": ({'ration_watch_last_event_age_seconds{resource="pods"}': "0 60 0 90 0 170 30x60"},
                               {'ration_watch_last_event_age_seconds{resource="pods"}': "0+60x60"}, 7, 5),
    "RationSchedulingSlow": (
        {'ration_filter_duration_seconds_bucket{le="1"}': "0+60x60", 'ration_filter_duration_seconds_bucket{le="2.5"}':
         "0+60x60", 'ration_filter_duration_seconds_bucket{le="+Inf"}': "0+60x60"},
        {'ration_filter_duration_seconds_bucket{le="1"}': "0+54x60", 'ration_filter_duration_seconds_bucket{le="2.5"}':
         "0+60x60", 'ration_filter_duration_seconds_bucket{le="+Inf"}': "0+60x60"}, 15, 8),
    "RationKubeletNotWatching": (
        {f"ration_kubelet_watching{{{AGENT}}}": "0x60", f'ration_mode{{{AGENT}, mode="none"}}': "1x60",
         f'ration_mode{{{AGENT}, mode="share"}}': "0x60"},
        {f"ration_kubelet_watching{{{AGENT}}}": "0x60", f'ration_mode{{{AGENT}, mode="none"}}': "0x60",
         f'ration_mode{{{AGENT}, mode="share"}}': "1x60"}, 6, 4),
    "RationGPUUnhealthy": ({f"ration_gpu_healthy{{{CARD}}}": "1x60"},
                           {f"ration_gpu_healthy{{{CARD}}}": "1 0x60"}, 3, 1),
    "RationGPUBypass": ({f'ration_bypass_total{{{AGENT}, reason="no_grant"}}': "3x60"},
                        {f'ration_bypass_total{{{AGENT}, reason="no_grant"}}': "3 3 3 4x60"}, 4, 2),
    "RationContainerThrottled": ({f"ration_container_core_waited_seconds_total{{{POD}}}": "0+50x60"},
                                 {f"ration_container_core_waited_seconds_total{{{POD}}}": "0+58x60"}, 35, 15),
    "RationModeChangeWaits": ({f"ration_mode_open{{{AGENT}}}": "1x90"},
                              {f"ration_mode_open{{{AGENT}}}": "0x90"}, 61, 59),
    "RationAgentCrashes": ({f"ration_worker_respawns_total{{{AGENT}}}": "0 1 2x60"},
                           {f"ration_worker_respawns_total{{{AGENT}}}": "0 0 2 4x60"}, 5, 1),
    "RationContainerRefused": (
        {f'ration_answers_checked_total{{{AGENT}, result="{result}"}}': numbers for result, numbers in (
            ("corrected", "0 1 2x60"), ("own", "0+5x60"), ("refused", "3x60"))},
        {f'ration_answers_checked_total{{{AGENT}, result="refused"}}': "0 0 1x60"}, 5, 1),
}
SUMMARIES = {"RationGPUBypass": "A program on n1 uses a GPU past its limit or without a grant",
             "RationContainerThrottled": "ml/train waits for GPU 2 nearly always",
             "RationGPUUnhealthy": "GPU 0 of n1 is unhealthy", "RationAgentCrashes": "ration-agent of n1 crashes",
             "RationModeChangeWaits": "n1 waits for its GPU pods to end before it changes its mode",
             "RationKubeletNotWatching": "The kubelet of n1 does not listen to ration-agent",
             "RationAgentsNotServing": "1 GPU node(s) without a serving agent",
             "RationGPUOvercommitted": "1 GPU(s) with more granted than they have"}


def test_each_alert_has_a_case_here():
    assert sorted(CASES) == sorted(rule["alert"] for rule in alerts())


def run_tests(tmp_path, groups):
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rules) for rules in RULES.values()],
                                    "evaluation_interval": "15s", "tests": groups}))
    return promtool("test", "rules", path)


def group(series, **checks):
    listed = [{"series": name, "values": text} for name, text in series.items()]
    return {"interval": "1m", "input_series": listed, **checks}


def firing(minute, *names):
    """That these alerts fire after so many minutes, and no other."""
    return {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]}


@pytest.mark.parametrize("name", sorted(CASES))
def test_alert_fires_when_it_should_and_not_before_nor_when_all_is_well(tmp_path, name):
    well, wrong, when, before = CASES[name]
    owned = {} if name == "RationNoLedgerOwner" else LEDGER    # an alert of its own where nobody says that he owns it
    done = run_tests(tmp_path, [
        group({**LEDGER, **well}, promql_expr_test=[firing(minute) for minute in (before, when, 55)]),
        group({**owned, **wrong}, promql_expr_test=[firing(before), firing(when, name)])])
    assert done.returncode == 0, done.stdout + done.stderr


def test_gib_hours_are_summed_by_namespace_and_owner(tmp_path):
    """Two pods of 3 and 1 GiB, half used, for an hour; a pod of another owner that began in the middle of the hour."""
    def series(pod, owner, values, which):
        labels = f'namespace="ml", owner="{owner}", pod="{pod}", container="main", UUID="GPU-{pod}"'
        return {f"ration_container_{which}_byte_seconds_total{{{labels}}}": values}
    minute, given = 60 << 30, {}
    for which, part in (("granted", 1), ("used", 2)):
        given |= series("a", "Deployment/web", f"0+{3 * minute // part}x60", which)
        given |= series("b", "Deployment/web", f"0+{minute // part}x60", which)
        given |= series("c", "StatefulSet/db", "_x30 " + f"0+{2 * minute // part}x30", which)

    def hours(which, web, db):
        return {"expr": f"round(namespace_owner:ration_container_{which}_gib_hours:increase1h, 0.25)", "eval_time": "60m",
                "exp_samples": [{"labels": f'{{namespace="ml", owner="{owner}"}}', "value": value}
                                for owner, value in (("Deployment/web", web), ("StatefulSet/db", db))]}
    done = run_tests(tmp_path, [group(given, promql_expr_test=[hours("granted", 4, 1), hours("used", 2, 0.5)])])
    assert done.returncode == 0, done.stdout + done.stderr


def test_nobody_owns_the_ledger_where_no_scheduler_says_anything(tmp_path):
    done = run_tests(tmp_path, [group({"up": "1x60"}, promql_expr_test=[firing(3, "RationNoLedgerOwner")])])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(SUMMARIES))
def test_summary_of_an_alert_names_what_is_concerned(tmp_path, name):
    _, wrong, when, _ = CASES[name]
    done = run_tests(tmp_path, [group(wrong, alert_rule_test=[
        {"alertname": name, "eval_time": f"{when}m", "exp_alerts": []}])])    # promtool shows what there is instead
    assert f'summary="{SUMMARIES[name]}"' in done.stdout + done.stderr
