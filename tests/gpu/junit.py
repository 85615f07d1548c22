"""A report in the form that ./check reads: a test case for each row."""
import xml.etree.ElementTree as ET

import verdict


def write_junit(path, page):
    suite = ET.Element("testsuite", name="gpu")
    failures = skipped = 0
    for row in page.rows:
        case = ET.SubElement(suite, "testcase", classname=row.section, name=row.name)
        told = page.told(row)
        bad = [line for line in told if verdict.is_bad(line)]
        if bad:
            ET.SubElement(case, "failure", message="; ".join(" | ".join(line) for line in bad))
            failures += 1
        elif not told or all(line[3] == "not run" for line in told):
            ET.SubElement(case, "skipped", message=told[0][2] if told else "no time was left")
            skipped += 1
    for name, count in (("tests", len(page.rows)), ("failures", failures), ("skipped", skipped), ("errors", 0)):
        suite.set(name, str(count))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.ElementTree(root).write(path)
