"""A gate as JUnit XML, the form in which build servers read test results.

The elements and attributes are those that both common schemas know: Ant's
(https://github.com/windyroad/JUnit-Schema) and Jenkins'
(https://github.com/jenkinsci/xunit-plugin).
"""

from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from voicesim.experiment.decide import UNMEASURED
from voicesim.experiment.gate import Gate
from voicesim.report import sides


def junit(answer: Gate, when: datetime | None = None) -> bytes:
    """One test case per metric; what failed carries the numbers, what was not measured is
    skipped.  when: default now."""
    stamp = (when or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S")
    skipped = [j for j in answer.judged if j.verdict == UNMEASURED]
    counts = {
        "tests": str(len(answer.judged)), "failures": str(len(answer.failed)), "errors": "0",
        "time": "0",
    }  # fmt: skip
    root = Xml.Element("testsuites", {"name": "voicesim gate", **counts})
    suite = Xml.SubElement(root, "testsuite", {
        "name": f"voicesim gate {answer.candidate.variant}", "package": "voicesim", "id": "0",
        "hostname": "localhost", "timestamp": stamp, "skipped": str(len(skipped)), **counts,
    })  # fmt: skip
    properties = Xml.SubElement(suite, "properties")
    for what, side in (("baseline", answer.baseline), ("candidate", answer.candidate)):
        for name, value in side.as_dict().items():
            Xml.SubElement(properties, "property", name=f"{what}.{name}", value=str(value))
    for j in answer.judged:
        case = Xml.SubElement(suite, "testcase", name=j.metric, classname="voicesim.gate", time="0")
        if j.failed:
            text = sides.reason(j)
            failure = Xml.SubElement(case, "failure", type=j.verdict, message=text)
            failure.text = f"{text}\n{j.how}, Holm p {j.p_holm:.3g}"
        elif j.verdict == UNMEASURED:
            Xml.SubElement(case, "skipped", message=UNMEASURED)
    Xml.SubElement(suite, "system-out").text = "\n".join([sides.decision(answer), *answer.notes])
    Xml.SubElement(suite, "system-err")
    Xml.indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root) + b"\n"
