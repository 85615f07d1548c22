"""docs/internals/metrics.md documents every metric of the source, and nothing else."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", re.M)
CALL = re.compile(r'metrics_(?:family|one)\(\s*&?\w+,\s*"(\w+)",\s*"(\w+)",\s*((?:"[^"]*"\s*)+)')


def in_source():
    """name -> (type, help)"""
    found = {}
    for path in (ROOT / "src").rglob("*.c"):
        for name, kind, text in CALL.findall(path.read_text()):
            assert found.setdefault(name, (kind, text)) == (kind, text), f"{name} is there twice, and not alike"
    return found


def test_every_metric_is_documented_with_its_type_and_no_other():
    source = {name: kind for name, (kind, _) in in_source().items()}
    document = dict(ROW.findall((ROOT / "docs/internals/metrics.md").read_text()))
    assert len(source) > 20
    assert source == document


def test_no_metric_hides_from_the_reader_of_the_source():
    for path in (ROOT / "src").rglob("*.c"):
        text = path.read_text()
        calls = len(re.findall(r"^\t+metrics_(?:family|one)\(", text, re.M))
        forwarded = path.relative_to(ROOT / "src") == pathlib.Path("base/metrics.c")    # metrics_one() itself
        assert calls == len(CALL.findall(text)) + forwarded, path


def test_names_follow_the_conventions_of_prometheus():
    for name, (kind, text) in in_source().items():
        assert re.fullmatch(r"(ration|process)(_[a-z0-9]+)+", name)
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith("_seconds"), name
        assert re.search(r"\.\"\s*$", text), f"{name}: help is no sentence"
