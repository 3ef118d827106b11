use crate::runtime::call::unstopped;
use crate::text::page::BlockKind;
use crate::text::pieces::blocks::blocks;

fn headings(text: &str) -> Vec<(&str, u8)> {
    let blocks = blocks(text, &unstopped).unwrap();
    let headings = blocks.iter().filter(|block| block.kind == BlockKind::Heading);
    headings.map(|block| (block.span.of(text), block.level)).collect()
}

#[test]
fn headings_have_the_level_of_their_look() {
    let text = "The Mill\n\nPART ONE\n\n1 Introduction\nIt is old. It is high.\n1.1 Scope\nThis is all.\n2 History\nIt burned.\n\n\
                PART TWO\n\n3 Today\nIt is a museum.\n";
    let expected = [
        ("The Mill", 1),
        ("PART ONE", 2),
        ("1 Introduction", 3),
        ("1.1 Scope", 4),
        ("2 History", 3),
        ("PART TWO", 2),
        ("3 Today", 3),
    ];
    assert_eq!(headings(text), expected);
    let recipe = "\nIngredients\n- 2 eggs\n- salt\nBeat them.\n\n";
    let recipes = format!("Plum cake{recipe}Pancakes{recipe}");
    assert_eq!(headings(&recipes), [("Plum cake", 1), ("Pancakes", 1)]);
    let apart = recipes.replace("\nIngr", "\n\nIngr");
    let expected = [("Plum cake", 1), ("Ingredients", 2), ("Pancakes", 1), ("Ingredients", 2)];
    assert_eq!(headings(&apart), expected);
    assert_eq!(headings("# One\n\nText.\n\nNOTES\n\nMore text.\n"), [("# One", 1), ("NOTES", 7)]);
}

#[test]
fn what_names_nothing_is_no_heading() {
    for text in [
        "THE SOFTWARE IS PROVIDED AS IS, WITHOUT\nWARRANTY OF ANY KIND. IT IS FREE.\n",
        "Best regards,\nAnn Lee\nHead of Service\n\nThis message is confidential.\n",
        "Home\n\nAbout\n\nContact\n\nWelcome to the mill.\n",
        "1. Apples\n2. Pears\n\nText follows here.\n",
        "1.1 Open the lid\n1.2 Take it out\n\nText follows here.\n",
        "The fog comes\non little cat feet.\n",
        "Whose woods these are I think I know.\nHis house is in the village though;\nHe will not see me stopping here.\n",
        "12 Main Street\nSpringfield\n\nDear Ms Lee,\n",
        "Figure 2: The wheel\n\nIt turns.\n",
        "The river of the government\ngovernment a Paris the Paris\n4 Paris end.\n",
        "It was built by the\nUNESCO\nand it burned.\n",
        "You may leave if\n- you are done\n- it is late\n",
    ] {
        assert_eq!(headings(text), [], "{text:?}");
    }
}
