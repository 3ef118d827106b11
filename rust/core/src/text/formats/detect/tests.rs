use super::*;

#[test]
fn pages_and_fragments_are_html() {
    for source in [
        "<!DOCTYPE html>\n<title>A</title>",
        "\u{feff}  <!-- saved -->\n<?xml version=\"1.0\"?>\n<HTML lang=en>",
        "<html>",
        "<body class=a># A\n\n## B",
        "<p>One.</p>\n<p>Two <b>three</b>.</p>",
        "<h1>A</h1><p>Without an end, which is <b>optional</b>.",
        "<div class=\"a\"><ul><li>A</li><li>B</li></ul></div>\n",
        "Intro<br>The moon is far.<br>Bread is baked.",
        "<b>How far is it?</b><br>It is far.",
        "Hello,<br /><br />\nthanks for <i>all</i>.<BR/>\nAnn",
        "Name: <strong>Ann</strong><br clear=all>Town: Bern",
        "<a href=b>A</a>\n<div>\n<p>B</p>\n</div>\n<ul>\n<li>C</li>\n</ul>\n",
    ] {
        assert_eq!(format(source), Format::Html, "{source:?}");
    }
}

#[test]
fn structure_of_different_kinds_is_markdown() {
    for source in [
        "# Title\n\nSome words of prose here.\n\n## Part\n\n- one\n- two\n",
        "# Title\n\nText.",
        "\n# The moon\nIt is far away, and\nwhite. It is old.\n",
        "## Fees\n\nMembers pay 30 euros a year!\n\nfor i in range(3):\n\nOthers pay more.\n\nChildren pay nothing.",
        "# 月\n\n月は遠いです。",
        "# C\n\n*Note:* see below.",
        "Title\n===\n\nSee [the docs](https://a.b/c) and [more](d.md).\n\n```sh\nls\n```\n",
        "---\ntitle: A\n---\nText",
        "+++\ntitle = \"A\"\n+++\nText",
        "| a | b |\n|---|:-:|\n| 1 | 2 |\n\nA **strong** word, and **another** one.\n",
        "<div align=center>\n  <img src=a>\n</div>\n\n# Title\n\nWhat this is good for.\n\n## Use\n\n```\nx\n```\n",
        "# Title\n\n```python\n# comment\nimport a\n```\n\n```html\n<p>a</p>\n<div>b</div>\n```\n",
        "# 月の探査\n\n月は地球から約38万4400キロメートル離れている。\n\n## パン\n\nパンは小麦粉と水と塩から作られる。\n",
        "# 月球\n\n月球离地球约38万公里，很远。\n\n- 一\n- 二\n\n主食**面包**由[面粉](http://a.b)制成。\n",
        "# ดวงจันทร์\n\nดวงจันทร์อยู่ห่างจากโลก\n\n## ขนมปัง\n\nขนมปังทำจากแป้งและน้ำ\n",
    ] {
        assert_eq!(format(source), Format::Markdown, "{source:?}");
    }
}

#[test]
fn everything_else_is_text() {
    for source in [
        "",
        "Just words. And more of them.\n\nA second paragraph.",
        "A std::vector<int> holds ints; std::map<std::string, std::vector<p>> holds <p> and <div>.\nUse a < b && c > d.",
        "From: A <foo@bar>\nTo: B <b@c.d>\nSubject: hi\n\n> quoted\n\n- a\n- b\n\n-- \nA",
        "Network Working Group\nRequest for Comments: 1\n\n1.  Introduction\n\n   The key words [RFC2119] are\n   * one\n   * two\n\n   \
         +---+---+\n   | a | b |\n   +---+---+\n",
        "2024-01-01 [INFO] a - b\n2024-01-01 [WARN] c(d) <e>\n",
        "#!/bin/sh\n# Title\n\n## Part\n\necho a\n",
        "# Copyright A\n# Licence B\n\n# Read all of the files\nimport os\n\n# Write them out again\ndef main():\n    x = 1\n",
        "# Settings of the server\n\nname = \"a\"\n\n# How many there may be\n\nlimit = 3\n\n# Another one\n\npath = \"b\"\n",
        "def f(*args, **kwargs):\n    \"\"\"Return `a` and `b`.\n\n    - c\n    - d\n    \"\"\"\n    return g(*args, **kwargs)\n",
        "---\nkind: a\n---\nkind: b\n",
        "<?xml version=\"1.0\"?>\n<section><p>a</p><p>b</p></section>",
        "A <b>bold</b> word and an <i>italic</i> one.",
        "<p>a</p> is a paragraph, and <div>b</div> a division.",
        "Write <br> for a break, and <br> again.",
        "A `<br>` ends a line, as \"<br/>\" does.",
        "s += \"<b>a</b><br>\";\nt += \"b<br>\";\n",
        "One <br> alone is a word, and a<br>b is not.",
        "| a | b |\n|---|---|\n| c<br>d | e<br>f |",
        "# comment\nls -l\n",
        "# This is the backup.\n\nIt runs at night.\n",
        "# Backup of the server\n\nrsync -av src/ dest/ --delete.\n",
        "# Log of the night\n\nStarted the server\nStopped the server\n",
        "# Log of the night\n2024-01-01 12:00 Started.\n",
        "# hosts\n\n127.0.0.1 localhost\n",
        "# Names\n\nAnna\nBen\n",
        "# Copyright Ann\n# All rights reserved.\n\nThis is so.\n",
        "# User settings\n\nPort = 80.\n",
        "# mypy: strict\n\"\"\"This file exports it.\n\nFor all.\n\"\"\"\n",
        "#hashtag\n\nThe moon is far.",
        "auto f = [&](int a) { return v[i](a); };\n",
    ] {
        assert_eq!(format(source), Format::Text, "{source:?}");
    }
}

#[test]
fn only_the_start_decides() {
    let words = "é ".repeat(START);
    assert_eq!(format(&format!("{words}\n\n# A\n\n## B\n\nSome words of prose.")), Format::Text);
    assert_eq!(format(&format!("<html>{words}")), Format::Html);
    assert_eq!(format(&format!("<div><p>a</p>{words}</div>")), Format::Html);
}
