use super::*;
use crate::runtime::call::unstopped;

fn split(text: &str) -> Vec<(&str, BlockKind, bool)> {
    blocks(text, &unstopped).unwrap().iter().map(|block| (block.span.of(text), block.kind, block.continues)).collect()
}

#[test]
#[expect(clippy::type_complexity, reason = "a table of cases")]
fn layout_bounds_blocks() {
    use BlockKind::{Code, HeaderRow, Heading, Item, Prose, Row, Rule};
    let cases: [(&str, &[(&str, BlockKind, bool)]); 22] = [
        ("One\n\n \nTwo", &[("One", Prose, false), ("Two", Prose, false)]),
        ("# Title\nText", &[("# Title", Heading, false), ("Text", Prose, false)]),
        (
            "Intro.\nTitle\n===\nText",
            &[("Intro.", Prose, false), ("Title\n===", Heading, false), ("Text", Prose, false)],
        ),
        ("Usage\n~~~~~\nText", &[("Usage\n~~~~~", Heading, false), ("Text", Prose, false)]),
        ("Usage\n^^^^^\nText", &[("Usage\n^^^^^", Heading, false), ("Text", Prose, false)]),
        (
            "Send it::\n\n  a = 1\n\n  b = 2\n\nText",
            &[("Send it::", Prose, false), ("  a = 1", Code, false), ("  b = 2", Code, true), ("Text", Prose, false)],
        ),
        ("---\nText", &[("---", Rule, false), ("Text", Prose, false)]),
        (
            "```sh\nls\n\n# x\n```\nText",
            &[
                ("```sh", Code, false),
                ("ls", Code, true),
                ("# x", Code, true),
                ("```", Code, true),
                ("Text", Prose, false),
            ],
        ),
        (
            "| a |\n|---|\nx | y | z\n\n| b |",
            &[("| a |", HeaderRow, false), ("|---|", Row, true), ("x | y | z", Row, true), ("| b |", Row, false)],
        ),
        (
            " a | b | c\n---+---+---\n 1 | 2 | 3\n\n+--+--+\n|a |b |\n+==+==+\n|1 |2 |\n+--+--+",
            &[
                (" a | b | c", HeaderRow, false),
                ("---+---+---", Row, true),
                (" 1 | 2 | 3", Row, true),
                ("+--+--+", Row, false),
                ("|a |b |", HeaderRow, true),
                ("+==+==+", Row, true),
                ("|1 |2 |", Row, true),
                ("+--+--+", Row, true),
            ],
        ),
        (
            "Prices\nname,price,stock\ntea,3,yes. Always.\ncoffee,4,\n\nText.",
            &[
                ("Prices", Prose, false),
                ("name,price,stock", HeaderRow, false),
                ("tea,3,yes. Always.", Row, true),
                ("coffee,4,", Row, true),
                ("Text.", Prose, false),
            ],
        ),
        (
            "We need:\n- Apples\n  or Pears\n- Plums",
            &[("We need:", Prose, false), ("- Apples\n  or Pears", Item, false), ("- Plums", Item, false)],
        ),
        ("- One.\n\n  Two.\n", &[("- One.", Item, false), ("  Two.", Item, true)]),
        ("- One.\n\n   Two is\nthree.\n", &[("- One.", Item, false), ("   Two is\nthree.", Prose, false)]),
        ("- One.\n\nTwo.\n", &[("- One.", Item, false), ("Two.", Prose, false)]),
        (
            "A loaf\nIngredients for a tin\n- 250 g of flour\n- 20 g of salt",
            &[
                ("A loaf", Heading, false),
                ("Ingredients for a tin", Prose, false),
                ("- 250 g of flour", Item, false),
                ("- 20 g of salt", Item, false),
            ],
        ),
        ("1. One\r\n2. Two\r\n   More", &[("1. One", Item, false), ("2. Two\r\n   More", Item, false)]),
        (
            "John Smith\n12 Main Street\nSpringfield",
            &[("John Smith", Prose, false), ("12 Main Street", Prose, false), ("Springfield", Prose, false)],
        ),
        ("One\x0ctwo\u{2028}three", &[("One", Prose, false), ("two", Prose, false), ("three", Prose, false)]),
        ("> Quoted\n>\n> Again", &[("> Quoted", Prose, false), (">", Rule, false), ("> Again", Prose, false)]),
        (
            "EXIT STATUS\n   It is 0.\n\n   -c, --stdout\n\twrite there\n   -k\n\tkeep",
            &[
                ("EXIT STATUS", Heading, false),
                ("   It is 0.", Prose, false),
                ("   -c, --stdout", Heading, false),
                ("\twrite there", Prose, false),
                ("   -k", Heading, false),
                ("\tkeep", Prose, false),
            ],
        ),
        (
            "2.1. Terms\n\n   A byte has 8 bits.\n   A bit has none.\n\nOf man's first\n   Fruit, and of\nThat tree",
            &[
                ("2.1. Terms", Heading, false),
                ("   A byte has 8 bits.\n   A bit has none.", Prose, false),
                ("Of man's first", Prose, false),
                ("   Fruit, and of", Prose, false),
                ("That tree", Prose, false),
            ],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(split(text), expected, "{text:?}");
    }
}

#[test]
fn wrapped_lines_stay_together() {
    for text in [
        "The quick brown fox jumps over\nThe lazy dog.",
        "It was built in the last years of\n1984. Then it was sold to the man\n- or the woman - who had it.",
        "On the first day he went\nto town.",
        "The rule that the court has applied\n(a) was written long before it.",
        "Of the twelve ships that sailed No. 5\nNo. 5 alone came back, and on board 3.5\n12 men had died of scurvy.",
        "东西南北中发白东西南北中发白东西南北中发白东西南北中发白东西\n东西南北",
    ] {
        assert_eq!(split(text), [(text, BlockKind::Prose, false)]);
    }
}

#[test]
fn a_menu_is_not_wrapped_however_wide() {
    let text = "Download the latest version of Python\nDocumentation\nCommunity\nSuccess Stories";
    assert_eq!(split(text).len(), 4);
}

#[test]
fn a_bullet_alone_starts_the_item_below_it() {
    use BlockKind::{Heading, Item, Prose};
    let text = "We offer\n\n•\nfree days\n\n▪\n\n•\na flat for\ntwo\n\n—\n\nText.";
    let expected = [
        ("We offer", Heading, false),
        ("•\nfree days", Item, false),
        ("▪", Prose, false),
        ("•\na flat for\ntwo", Item, false),
        ("—", Prose, false),
        ("Text.", Prose, false),
    ];
    assert_eq!(split(text), expected);
}

#[test]
fn an_item_below_a_short_line_is_no_wrapped_dash() {
    let text = "muster 2.3 (12 May 2024)\n  * Breaking: the flag --quiet hides warnings, too. Errors are still\n    shown.\n  * Fixed: names.";
    let items: Vec<&str> =
        split(text).into_iter().filter(|(_, kind, _)| *kind == BlockKind::Item).map(|(text, ..)| text).collect();
    assert!(items[0].ends_with("shown.") && items.len() == 2, "{items:?}");
}

#[test]
fn fields_in_a_column_and_values_that_are_no_sentences_are_a_form() {
    use BlockKind::{Prose, Record, Turn};
    let kinds = |text: &str| -> Vec<(BlockKind, bool)> {
        split(text).into_iter().map(|(_, kind, continues)| (kind, continues)).collect()
    };
    let form = [(Record, false), (Record, true)];
    let expected = [&[(Prose, false)], &form[..], &[(Record, true)], &form, &[(Prose, false)]].concat();
    for column in ["     ", " "] {
        let fields = "Child\nName: Ann Lee\nBorn: 4 May\nSwims: yes\n\nDoctor\nName: Bob Roe\n\nText.";
        assert_eq!(kinds(&fields.replace(": ", &format!(":{column}"))), expected);
    }
    let said = "Ann: It is so.\nBob: Is it?\nCid: It may be.\n\nAnn: No.\nBob: Yes!\n";
    assert!(kinds(said).iter().all(|(kind, _)| *kind == Turn), "{:?}", kinds(said));
}

#[test]
fn a_table_that_a_command_printed_has_a_header() {
    let text = "$ kubectl get pods\nNAME     READY   STATUS    AGE\napi-1    1/1     Running   3d\nweb-2    0/1     Pending   2d\n";
    assert!(
        split(text).contains(&("NAME     READY   STATUS    AGE", BlockKind::HeaderRow, false)),
        "{:?}",
        split(text)
    );
}
