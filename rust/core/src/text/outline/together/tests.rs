use crate::text::pieces::Units;

fn groups(text: &str) -> Vec<&str> {
    let units = Units::sentences(text, None, &[], &crate::runtime::call::unstopped).unwrap();
    units.groups.iter().map(|group| units.span(group).of(text)).collect()
}

#[test]
fn headings_items_tables_and_code_stay_together() {
    let cases: [(&str, &[&str]); 8] = [
        ("# One\n\nFirst. Second.", &["# One\n\nFirst.", "Second."]),
        ("# One\n## Two\nFirst. Second.", &["# One\n## Two\nFirst.", "Second."]),
        ("Intro.\n- A thing. And more.\n- Another.", &["Intro.\n- A thing. And more.\n- Another."]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", &["| a | b |\n|---|---|\n| 1 | 2 |", "Text."]),
        ("Run:\n\n```\nls\n\nps\n```\n\nDone.", &["Run:\n\n```\nls\n\nps\n```", "Done."]),
        (
            "It runs. It locks nothing. (But ALTER does.) More.",
            &["It runs.", "It locks nothing. (But ALTER does.)", "More."],
        ),
        (
            "To build, run\n\n```\nmake\n```\n\nfrom here. Done.",
            &["To build, run\n\n```\nmake\n```\n\nfrom here.", "Done."],
        ),
        ("EXIT STATUS\n   It is 0. Errors are 1.\n", &["EXIT STATUS\n   It is 0.", "Errors are 1."]),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
}

#[test]
fn a_line_with_a_colon_groups_with_the_text_after_it() {
    let cases: [(&str, &[&str]); 10] = [
        ("We need:\n- Apples\n- Pears\n\nDone.", &["We need:\n- Apples\n- Pears", "Done."]),
        (
            "Nothing here. It appears::\n\nMy name is one\nTwo is my name\n\nDone.",
            &["Nothing here.", "It appears::\n\nMy name is one\nTwo is my name", "Done."],
        ),
        ("Note:", &["Note:"]),
        ("**Which potatoes.** Old ones. New ones are wet.", &["**Which potatoes.** Old ones.", "New ones are wet."]),
        ("7. Is it free?\n\nYes, it is. More. And more.", &["7. Is it free?\n\nYes, it is. More.", "And more."]),
        ("Who knows? Nobody does.", &["Who knows?", "Nobody does."]),
        (
            "Text.\n\n(12) It got no smaller. Is this a bug?\n\nNo, this is how it works. More.",
            &["Text.", "(12) It got no smaller. Is this a bug?\n\nNo, this is how it works.", "More."],
        ),
        ("8. It is slow\n\nIndexes make it fast. More.", &["8. It is slow\n\nIndexes make it fast.", "More."]),
        ("1. One thing.\n\n2. Another.", &["1. One thing.", "2. Another."]),
        ("One: two.\n\nThree.", &["One: two.", "Three."]),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
    let list = format!("We need:\n{}", "- One thing of about fifty characters for this list.\n".repeat(30));
    assert_eq!(groups(&list).len(), 30, "the first item comes along");
}

#[test]
fn what_announces_is_never_the_end() {
    let cases: [(&str, &[&str]); 9] = [
        (
            "Is it dry?\nYes, in most of the cases seen. More.\n\nIs it old?\nNo, it is not.",
            &["Is it dry?\nYes, in most of the cases seen.", "More.", "Is it old?\nNo, it is not."],
        ),
        (
            "Q: Is it dry?\nA: Yes, it is.\nQ: Is it old?\nA: No, never.",
            &["Q: Is it dry?\nA: Yes, it is.", "Q: Is it old?\nA: No, never."],
        ),
        ("Is it dry?\nIs it old?\n\nText.", &["Is it dry?", "Is it old?\n\nText."]),
        (
            "- One plan\n  - Price: 2\n  - Users: 3\n- Two plan\n  - Price: 4",
            &["- One plan\n  - Price: 2\n  - Users: 3", "- Two plan\n  - Price: 4"],
        ),
        (
            "You may leave if\n\n- you are done\n- it is late\n\nText.",
            &["You may leave if\n\n- you are done\n- it is late", "Text."],
        ),
        ("Text. Use this command.\n\n```\nls\n```\n\nMore.", &["Text.", "Use this command.\n\n```\nls\n```", "More."]),
        (
            "Table 1: Prices.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nText.",
            &["Table 1: Prices.\n\n| a | b |\n|---|---|\n| 1 | 2 |", "Text."],
        ),
        ("All is well. It ends.\n— Ann Lee\n\nText.", &["All is well.", "It ends.\n— Ann Lee", "Text."]),
        (
            "The cost of it was\n\n7\n\nfive million. Then more.",
            &["The cost of it was\n\n7\n\nfive million.", "Then more."],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
}

#[test]
fn terms_stay_with_their_definitions() {
    use crate::text::formats::{Document, Format};
    let source = "<dl><dt>One<dt>Uno<dd><p>First. More.<p>Again.<dd>Other.<dt>Two<dd>Second.</dl><p>Text.";
    let page = Document::read(source, Format::Html, &crate::runtime::call::unstopped).unwrap();
    let units = Units::sentences(page.text(), page.blocks(), &[], &crate::runtime::call::unstopped).unwrap();
    let groups: Vec<&str> = units.groups.iter().map(|group| units.span(group).of(page.text())).collect();
    assert_eq!(groups, ["One\nUno\n\nFirst. More.\n\nAgain.\n\nOther.", "Two\nSecond.", "Text."]);
}

#[test]
fn long_tables_code_and_items_are_split() {
    let rows = "| 12345 | 67890 |\n".repeat(60);
    let table = format!("| a | b |\n|---|---|\n{rows}");
    let parts = groups(&table);
    assert_eq!((parts[0], parts.len()), ("| a | b |\n|---|---|\n| 12345 | 67890 |", 60));
    let part = "let total = one + two;\n".repeat(10);
    let code = format!("```\n{part}\n{part}\n{part}\n{part}```");
    let parts = groups(&code);
    assert_eq!(parts.len(), 4);
    assert!(parts[0].starts_with("```\nlet") && parts[3].ends_with("two;\n```"), "{parts:?}");
    let item = format!("- {}", "This is one more sentence of it. ".repeat(30));
    assert_eq!(groups(&item).len(), 30);
    assert_eq!(groups(&format!("```\n{}\n```", "x".repeat(5000))).len(), 5);
    assert!(groups(&"# A menu entry\n".repeat(1000)).len() > 50);
}
