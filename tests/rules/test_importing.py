"""Files of rules, ids, columns, and hostile input; `tamis import` as a command."""

from __future__ import annotations

import json
import random

import pytest

from tamis import Details, InputError, Limits, Matcher
from tamis.cli import main
from tamis.rules import import_rules


def put(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


RULES = {
    "Rules": [
        {"Name": "stop", "Arn": "arn:1", "State": "ENABLED", "Description": "it stops",
         "EventBusName": "default", "EventPattern": '{"detail": {"state": ["stopped"]}}'},
        {"Name": "off", "State": "DISABLED", "EventPattern": '{"a": ["b"]}'},
        {"Name": "cron", "State": "ENABLED", "ScheduleExpression": "rate(5 minutes)"},
        {"Name": "broken", "EventPattern": "{"},
    ]
}  # fmt: skip


def test_what_the_aws_command_line_lists(tmp_path):
    imported = import_rules("eventbridge", put(tmp_path, "rules.json", RULES))
    (rule,) = imported.rules
    assert rule.id == "stop"
    assert rule.row()["title"] == "it stops"
    assert rule.row()["tags"] == ["bus:default"]
    assert rule.place.endswith("rules.json, item 1")
    assert [one.construct for one in imported.refused] == ["disabled", "no pattern", "JSON"]
    assert imported.summary().splitlines()[0] == "1 of 4 imported"


def test_a_folder_gives_each_rule_the_name_of_its_file(tmp_path):
    put(tmp_path, "b/two.json", {"a": [2]})
    put(tmp_path, "one.json", {"a": [1]})
    put(tmp_path, "b/notes.txt", "no rule")
    imported = import_rules("eventbridge", tmp_path)
    assert [rule.id for rule in imported.rules] == ["b/two", "one"]


def test_subscriptions_of_sns(tmp_path):
    scoped = {"SubscriptionArn": "arn:s", "Owner": "42", "TopicArn": "arn:t"}
    policy = {**scoped, "FilterPolicy": '{"a": {"b": ["x"]}}', "FilterPolicyScope": "MessageBody"}
    bad = {"Name": "n", "FilterPolicy": {"a": {"b": ["x"]}}, "FilterPolicyScope": "Everything"}
    none = {"Attributes": {"SubscriptionArn": "arn:u"}}
    imported = import_rules("sns", put(tmp_path, "s.json", [{"Attributes": policy}, bad, none]))
    (rule,) = imported.rules
    assert (rule.id, rule.about.owner, rule.about.tags) == ("arn:s", "42", ("topic:arn:t",))
    assert [one.construct for one in imported.refused] == ["FilterPolicyScope", "no policy"]


def test_ids_are_the_same_again_and_in_another_order(tmp_path):
    rules = [{"a": [i]} for i in range(20)]
    first = import_rules("eventbridge", put(tmp_path, "a.json", [*rules, {"a": [3]}]))
    again = import_rules("eventbridge", put(tmp_path, "b.json", [*rules[10:], *rules[:10]]))
    ids = {rule.selector: rule.id for rule in again.rules}
    assert all(ids[rule.selector] == rule.id for rule in first.rules[:-1])
    assert first.rules[-1].id == f"{first.rules[3].id}-2"


def test_an_id_is_given_once(tmp_path):
    rules = [{"Name": "n", "EventPattern": {"a": [i]}} for i in range(2)]
    imported = import_rules("eventbridge", put(tmp_path, "a.json", rules))
    assert [one.construct for one in imported.refused] == ["id used twice"]


def test_what_is_imported_can_be_read_with_the_same_limits(tmp_path):
    file = put(tmp_path, "a.json", {"a": ["x" * 60, "y" * 60]})
    imported = import_rules("eventbridge", file, limits=Limits(length=100))
    assert imported.refused[0].construct == "limit length"


@pytest.mark.parametrize(
    "content",
    ["", "[", "nul", '{"a": [NaN]}', '{"a": [1e400]}', '{"a": [%s]}' % ("9" * 5000),
     '{"a":' * 100_000, '{"a": %s}' % ("[" * 200 + "]" * 200), '{"$or":[' * 40, "\ud800",
     '{"a": {"b": ["\\u0000"]}}', "7", '"text"', '[[["a"]]]'],
)  # fmt: skip
def test_hostile_files_are_refused(tmp_path, content):
    file = tmp_path / "a.json"
    file.write_bytes(content.encode("utf-8", "surrogatepass"))
    for language in ("eventbridge", "sns"):
        imported = import_rules(language, file)
        assert imported.rules == []
        assert len(imported.refused) == 1


def test_noise_is_refused_or_imported(tmp_path):
    rng = random.Random(28)
    plain = json.dumps({"a": [{"anything-but": ["b"]}, "c", 1.5], "$or": [{"b": [1]}, {"c": [2]}]})
    file = tmp_path / "a.json"
    for _ in range(200):
        text = list(plain)
        for _ in range(rng.choice([1, 2, 4])):
            text[rng.randrange(len(text))] = rng.choice('{}[]",:0e-\\nul$ ')
        file.write_text("".join(text))
        imported = import_rules("eventbridge", file)
        assert imported.rules or imported.refused


def test_a_place_without_rules_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"holds no file that ends in \.json"):
        import_rules("eventbridge", tmp_path)
    with pytest.raises(InputError, match="no such file"):
        import_rules("eventbridge", tmp_path / "none")
    with pytest.raises(ValueError, match="no language 'basic'"):
        import_rules("basic", tmp_path)


def test_the_command_writes_subscriptions_that_a_match_carries(tmp_path, capfd):
    put(tmp_path, "in/rules.json", RULES)
    out, refused = tmp_path / "rules.jsonl", tmp_path / "refused.jsonl"
    arguments = ["eventbridge", str(tmp_path / "in"), "-o", str(out), "--refused", str(refused)]
    assert main(["import", *arguments]) == 0
    said = capfd.readouterr().err
    assert "1 of 4 imported" in said
    assert "refused: " in said
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(refused.read_text().splitlines()) == 3
    matcher = Matcher()
    matcher.add_many((row["id"], row["selector"]) for row in rows)
    event = {"detail": {"state": "stopped"}}
    details = Details(rows, carry=["title", "tags"])
    (found,) = matcher.match_batch([event], details=details).to_pylist()
    assert found == [{"id": "stop", "title": "it stops", "tags": ["bus:default"]}]
    assert main(["import", *arguments, "--strict-input"]) == 2
    assert main(["import", "eventbridge", str(tmp_path / "none")]) == 2
    assert main(["import", "sns", str(out), "--dialect", "jms"]) == 2
