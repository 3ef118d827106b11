use super::*;
use crate::runtime::call::unstopped;
use crate::text::page::marked_level;
use proptest::prelude::*;

#[test]
fn headings_have_the_level_of_their_marks() {
    for (heading, level) in [
        ("# One", 1),
        ("> ### Quoted", 3),
        ("Two\n===", 1),
        ("Three\n---", 2),
        ("== Two ==", 2),
        ("= = Two = =", 2),
        ("2.1. Terms", 0),
        ("-k", 0),
        ("Usage\n~~~~~", 0),
        ("####### seven", 0),
    ] {
        assert_eq!(marked_level(heading), level, "{heading}");
    }
}

#[test]
fn breadcrumbs_are_nested_by_level() {
    let text = "# One\n\n## Two\n\nFirst.\n\n### Three\n\nSecond.\n\n## Four\n\nThird.\n\n\
                | a | b |\n|---|---|\n| c | d |\n\n# Five\n\nLast.";
    let units = Units::sentences(text, None, &[], &unstopped).unwrap();
    let breadcrumbs = |start: &str| -> Vec<&str> {
        let unit = units.spans.iter().position(|span| span.of(text).starts_with(start)).unwrap();
        units.breadcrumbs(&(unit..unit + 1)).iter().map(|span| span.of(text)).collect()
    };
    assert_eq!(breadcrumbs("First"), ["# One", "## Two"]);
    assert_eq!(breadcrumbs("Second"), ["# One", "## Two", "### Three"]);
    assert_eq!(breadcrumbs("Third"), ["# One", "## Four"]);
    assert_eq!(breadcrumbs("## Four"), ["# One"], "a passage that begins with a heading is below those around it");
    assert_eq!(breadcrumbs("| c")[..2], ["# One", "## Four"]);
    assert!(breadcrumbs("| c")[2].starts_with("| a | b |"));
    assert_eq!(breadcrumbs("Last"), ["# Five"]);
    assert!(breadcrumbs("# One").is_empty());
    let manual = "EXIT STATUS\n    Zero if it works.\n\nFILES\n    None is read.\n";
    let units = Units::sentences(manual, None, &[], &unstopped).unwrap();
    let named = units.headings.iter().map(|heading| units.span(heading).of(manual));
    assert_eq!(named.collect::<Vec<_>>(), ["EXIT STATUS", "FILES"]);
    let last = units.spans.len() - 1;
    let nearest = units.breadcrumbs(&(last..last + 1));
    assert_eq!(nearest.iter().map(|span| span.of(manual)).collect::<Vec<_>>(), ["FILES"]);
}

#[test]
fn an_introduction_ends_where_the_first_section_begins() {
    let introduction = |text: &str| -> String {
        let units = Units::sentences(text, None, &[], &unstopped).unwrap();
        let end = units.introduction();
        if end == 0 { String::new() } else { units.span(&(0..end)).of(text).to_owned() }
    };
    let begin = "# Club\n\nWe row. We sail.";
    let sections = "## Fees\n\nForty pounds.\n\n## Boats\n\nThere are six.";
    assert_eq!(introduction(&format!("{begin}\n\n{sections}")), begin);
    assert_eq!(introduction(&format!("We row.\n\nWe sail.\n\n{sections}")), "We row.\n\nWe sail.");
    assert_eq!(introduction(sections), "", "two sections");
    assert_eq!(introduction("We row.\n\nWe sail.\n\nIt is dear.\n\nWe meet.\n\nWe part."), "We row.");
    assert_eq!(introduction("We row.\n\nWe sail."), "");
}

#[test]
fn entries_of_contents_are_boilerplate() {
    let boilerplate = |text: &str, links: &[ByteSpan]| -> Vec<String> {
        let units = Units::sentences(text, None, links, &unstopped).unwrap();
        units.boilerplate.iter().map(|unit| units.spans[*unit].of(text).to_owned()).collect()
    };
    let text = "1. Install ........ 7\n2. Use . . . . . . 12\n\nThe rest is history ... 1999 was a year.";
    assert_eq!(boilerplate(text, &[]), ["1. Install ........ 7", "2. Use . . . . . . 12"]);
    let table = "version,name,series,date\n1.0,Otter,otter,2019\n2.0,Heron,heron,2021\n3.0,Stoat,stoat,2023";
    assert_eq!(boilerplate(table, &[]), ["version,name,series,date"]);
    let menu = "- [One](#one)\n- [Two](#two)\n- [Three](#three)\n- [Four](#four)\n\nText with [a link](#one).";
    let links = |text: &str| -> Vec<ByteSpan> {
        let starts = text.match_indices('[').map(|(start, _)| start);
        starts.map(|start| ByteSpan { start, end: start + text[start..].find(')').unwrap() + 1 }).collect()
    };
    assert_eq!(boilerplate(menu, &links(menu)).len(), 4);
    let outside = menu.replace("(#", "(https://example.com/");
    assert_eq!(boilerplate(&outside, &links(&outside)).len(), 0, "places elsewhere may be what is asked for");
}

#[test]
fn rules_and_page_numbers_are_boilerplate() {
    let text = "One.\n\n---\n\nTwo goes on\n\nPage 3 of 10\n\nand ends.";
    let units = Units::sentences(text, None, &[], &unstopped).unwrap();
    let boilerplate: Vec<&str> = units.boilerplate.iter().map(|unit| units.spans[*unit].of(text)).collect();
    assert_eq!(boilerplate, ["---", "Page 3 of 10"]);
    let marks = |text: &str| Units::sentences(text, None, &[], &unstopped).unwrap().boilerplate.len();
    assert_eq!((marks("It works.\n\n✅\n\nMore follows.\n\n```\nf(a, {\n})\n```"), marks("👍")), (4, 0));
}

#[test]
fn blank_lines_separate_paragraphs() {
    let text = "# One\n\nFirst. Second.\nThird.\n\n- a\n- b\n \nLast.";
    let units = Units::sentences(text, None, &[], &unstopped).unwrap();
    let paragraphs: Vec<&str> = units.paragraphs.iter().map(|run| units.span(run).of(text)).collect();
    assert_eq!(paragraphs, ["# One\n\nFirst. Second.\nThird.", "- a\n- b", "Last."]);
}

#[test]
fn numbers_of_lines_are_in_no_sentence() {
    let line = |(number, line): (usize, &str)| format!("{:>2}{line}\n", number + 1);
    let lines = [
        "      We met. He", "  came late", "  and left.", "      It rained", "  a lot. I", "  went too.", "      Bob",
        "  slept.",
    ];
    let text: String = lines.into_iter().enumerate().map(line).collect();
    let units = Units::sentences(&text, None, &[], &unstopped).unwrap();
    assert_eq!(units.spans[1].of(&text), "He\n 2  came late\n 3  and left.");
    assert_eq!(units.spans, crate::text::pieces::sentences(&text, &unstopped).unwrap());
}

#[test]
fn no_sentence_ends_inside_a_link() {
    let text = "See One. Two. Three here. Four.";
    let links = [ByteSpan { start: 4, end: 19 }];
    let units = Units::sentences(text, None, &links, &unstopped).unwrap();
    let sentences: Vec<&str> = units.spans.iter().map(|unit| unit.of(text)).collect();
    assert_eq!(sentences, ["See One. Two. Three here.", "Four."]);
}

proptest! {
    #[test]
    fn groups_and_paragraphs_cover_every_unit_once(text in "(\\PC{0,12}|# |\n|- |\\| a |```|\\. ){0,60}") {
        let units = Units::sentences(&text, None, &[], &unstopped).unwrap();
        for runs in [&units.groups, &units.paragraphs] {
            let covered: Vec<usize> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..units.spans.len()).collect::<Vec<_>>());
        }
        prop_assert_eq!(&units.spans, &super::super::sentences(&text, &unstopped).unwrap());
    }
}
