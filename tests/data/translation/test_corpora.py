"""Readers of parallel corpora: what is in their files, and what they refuse."""

import gzip

import pytest

from omegamax.data import DataError
from omegamax.data.translation import IWSLT, Multi30k, PairFiles, PairTable, TinyPairs
from omegamax.data.translation.tiny import ADJECTIVES

TAGS = "<url>http://example.org</url>\n<title>Eins</title>\n Guten Morgen. \nDanke.\n"
XML = """<?xml version="1.0" encoding="UTF-8"?>
<mteval>
<doc docid="{doc}" genre="lectures">
<title>Nr. 1</title>
<seg id="1"> {first} </seg>
<seg id="2">{second}</seg>
</doc>
</mteval>
"""


def write_pair(folder, name="a", source="eins\nzwei\n", target="one\ntwo\n"):
    (folder / f"{name}.de").write_text(source, encoding="utf-8")
    (folder / f"{name}.en").write_text(target, encoding="utf-8")
    return folder / f"{name}.de", folder / f"{name}.en"


def test_lines_of_two_files_belong_together(tmp_path):
    pairs = list(PairFiles(*write_pair(tmp_path, source="eins\r\n\nd\u2028rei\n", target="one\ntwo\nthree")))
    assert [(pair.source, pair.target) for pair in pairs] == [("eins", "one"), ("", "two"), ("d\u2028rei", "three")]
    assert len({pair.id for pair in pairs}) == 3


@pytest.mark.parametrize(("source", "target"), [("eins\n", "one\ntwo\n"), ("eins\nzwei\n", "one\n")])
def test_files_of_other_lengths_are_refused(tmp_path, source, target):
    with pytest.raises(DataError, match=r"1 lines and .* more"):
        list(PairFiles(*write_pair(tmp_path, source=source, target=target)))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.de does not exist"):
        PairFiles(tmp_path / "no.de", tmp_path / "no.en")


def test_held_out_pairs_are_in_one_part_only(tmp_path):
    lines = "\n".join(f"satz {i}" for i in range(300)) + "\n"
    files = write_pair(tmp_path, source=lines, target=lines)
    parts = [{pair.id for pair in PairFiles(*files, split, held_out=0.2)} for split in ("train", "val")]
    assert len(parts[0]) + len(parts[1]) == 300 and not parts[0] & parts[1] and 30 < len(parts[1]) < 90


def test_table_has_a_column_for_each_language(tmp_path):
    (tmp_path / "a.tsv").write_text('en\tde\nA "dog\tEin "Hund\n')
    assert [(p.source, p.target) for p in PairTable(tmp_path / "a.tsv", source="de", target="en")] == [
        ('Ein "Hund', 'A "dog')
    ]
    (tmp_path / "a.jsonl").write_text('{"source": "Ein\\nHund", "target": "A dog"}\n{"source": 1, "target": ""}\n')
    table = iter(PairTable(tmp_path / "a.jsonl"))
    assert next(table).source == "Ein Hund"
    with pytest.raises(DataError, match="line 2: 'source' must be a text"):
        next(table)


def test_multi30k_reads_compressed_files_in_both_directions(tmp_path):
    for part in ("train", "val", "test_2016_flickr"):
        for language, line in (("de", f"Ein {part}"), ("en", f"A {part}")):
            with gzip.open(tmp_path / f"{part}.{language}.gz", "wt") as file:
                file.write(line + "\n")
    assert [pair.target for pair in Multi30k(tmp_path, "test")] == ["A test_2016_flickr"]
    assert [pair.target for pair in Multi30k(tmp_path, "val", source="en", target="de")] == ["Ein val"]
    with pytest.raises(FileNotFoundError, match="test_2017_mscoco"):
        Multi30k(tmp_path, "test", test="test_2017_mscoco")


def test_iwslt_passes_over_tags_and_matches_segments(tmp_path):
    (tmp_path / "train.tags.de-en.de").write_text(TAGS)
    (tmp_path / "train.tags.de-en.en").write_text(
        TAGS.replace("Guten Morgen", "Good morning").replace("Danke", "Thanks")
    )
    assert [(p.source, p.target) for p in IWSLT(tmp_path)] == [
        ("Guten Morgen.", "Good morning."),
        ("Danke.", "Thanks."),
    ]
    name = "IWSLT17.TED.tst2015.de-en.{}.xml"
    (tmp_path / name.format("de")).write_text(XML.format(doc=7, first="Er &amp; sie", second="zwei"))
    (tmp_path / name.format("en")).write_text(XML.format(doc=7, first="He &amp; she", second="two"))
    assert [(p.source, p.target) for p in IWSLT(tmp_path, "test")] == [("Er & sie", "He & she"), ("zwei", "two")]
    (tmp_path / name.format("en")).write_text(XML.format(doc=8, first="He", second="two"))
    with pytest.raises(DataError, match="same segments"):
        list(IWSLT(tmp_path, "test"))
    with pytest.raises(FileNotFoundError, match="dev2010"):
        IWSLT(tmp_path, "val")


def test_iwslt_reads_every_segment_of_a_line(tmp_path):
    both = "".join(XML.format(doc=doc, first=f"{doc} a", second=f"{doc} b") for doc in (1, 2))
    for language in ("de", "en"):
        (tmp_path / f"I.tst2015.de-en.{language}.xml").write_text(both.replace("\n", ""))
    assert [(p.source, p.id.split(":", 1)[1]) for p in IWSLT(tmp_path, "test")] == [
        ("1 a", "1:1"),
        ("1 b", "1:2"),
        ("2 a", "2:1"),
        ("2 b", "2:2"),
    ]


@pytest.mark.parametrize(
    "change, message",
    [(('id="2"', 'id="1"'), "line 6 has segment 7:1 again"), (("</seg>", ""), "line 5 begins a segment")],
)
def test_iwslt_loses_no_segment_without_a_word(tmp_path, change, message):
    for language in ("de", "en"):
        text = XML.format(doc=7, first="a", second="b").replace(*change)
        (tmp_path / f"I.tst2015.de-en.{language}.xml").write_text(text)
    with pytest.raises(DataError, match=message):
        list(IWSLT(tmp_path, "test"))


def test_iwslt_expands_no_entity_of_a_file(tmp_path):
    bomb = '<!DOCTYPE d [<!ENTITY a "&b;&b;"><!ENTITY b "x">]>\n' + XML.format(doc=1, first="&a;", second="y")
    for language in ("de", "en"):
        (tmp_path / f"I.tst2015.de-en.{language}.xml").write_text(bomb)
    assert next(iter(IWSLT(tmp_path, "test"))).source == "&a;"


def test_tiny_pairs_are_the_same_each_time_and_align_what_belongs_together():
    pairs = list(TinyPairs(300, seed=1))
    assert pairs == list(TinyPairs(300, seed=1)) != list(TinyPairs(300, "val", seed=1))
    endings = {f"{word}{ending}": english for word, english in ADJECTIVES.items() for ending in ("e", "en")}
    moved = 0
    for pair in pairs:
        source, target = pair.source.split(), pair.target.split()
        assert {i for i, _ in pair.alignment} == set(range(len(source)))
        assert {j for _, j in pair.alignment} == set(range(len(target)))
        for i, j in pair.alignment:
            assert target[j] == endings.get(source[i], target[j])
        moved += any(i > k and j < m for i, j in pair.alignment for k, m in pair.alignment)
    assert moved > 290  # verbs and participles change places


def test_tiny_sentence_has_one_translation():
    seen = {}
    for pair in TinyPairs(2000):
        assert seen.setdefault(pair.source, pair.target) == pair.target
