//! Irregular forms of English, which no stemmer reduces: froze and freeze, mice and mouse; months and days as logs write them.
//!
//! Forms that are words of their own are left out, such as saw, left, lay, wound, ground and rose, sat and sun.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The base of an irregular form in lower case.
pub(super) fn base(form: &str) -> Option<&'static str> {
    static BASES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let lines = FORMS.split(';').filter_map(|line| line.trim().split_once(' '));
        lines.flat_map(|(base, forms)| forms.split(' ').map(move |form| (form, base))).collect()
    });
    BASES.get(form).copied()
}

/// Each base with its forms.
const FORMS: &str = "\
    arise arose arisen; awake awoke awoken; bear bore borne; beat beaten; become became; begin began begun; \
    bend bent; bind bound; bite bit bitten; bleed bled; blow blew blown; break broke broken; breed bred; \
    bring brought; build built; burn burnt; buy bought; catch caught; choose chose chosen; cling clung; come came; \
    creep crept; deal dealt; dig dug; dive dove; draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; \
    dwell dwelt; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found; flee fled; fling flung; \
    fly flew flown; forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; \
    get got gotten; give gave given; go went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; \
    keep kept; kneel knelt; know knew known; lead led; leap leapt; learn learnt; lend lent; light lit; \
    lose lost; make made; mean meant; meet met; pay paid; prove proven; ride rode ridden; ring rang rung; \
    rise risen; run ran; say said; see seen; seek sought; sell sold; send sent; sew sewn; shake shook shaken; \
    shine shone; shoot shot; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; slay slew slain; \
    sleep slept; slide slid; sling slung; smell smelt; sow sown; speak spoke spoken; spend spent; spill spilt; spin spun; \
    spit spat; spoil spoilt; spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung; \
    stink stank stunk; stride strode; strike struck stricken; strive strove striven; swear swore sworn; sweep swept; \
    swell swollen; swim swam swum; swing swung; take took taken; teach taught; tear tore torn; tell told; think thought; \
    throw threw thrown; tread trod trodden; understand understood; undergo underwent undergone; undertake undertook \
    undertaken; wake woke woken; wear wore worn; weave wove woven; weep wept; win won; withdraw withdrew withdrawn; \
    withstand withstood; write wrote written; overcome overcame; override overrode overridden; rebuild rebuilt; \
    rewrite rewrote rewritten; foresee foresaw foreseen; mistake mistook mistaken; \
    child children; foot feet; goose geese; louse lice; man men; mouse mice; ox oxen; person people; tooth teeth; \
    woman women; wife wives; knife knives; life lives; wolf wolves; half halves; shelf shelves; thief thieves; calf calves; \
    loaf loaves; index indices; matrix matrices; vertex vertices; appendix appendices; criterion criteria; \
    phenomenon phenomena; analysis analyses; basis bases; crisis crises; hypothesis hypotheses; thesis theses; \
    diagnosis diagnoses; axis axes; bacterium bacteria; fungus fungi; nucleus nuclei; \
    cactus cacti; alumnus alumni; formula formulae; larva larvae; \
    die dying; lie lying; tie tying; \
    january jan; february feb; march mar; april apr; june jun; july jul; august aug; september sep sept; october oct; \
    november nov; december dec; monday mon; tuesday tue; wednesday wed; thursday thu; friday fri";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_their_base_and_no_base_is_a_form() {
        for (form, expected) in [("froze", "freeze"), ("mice", "mouse"), ("written", "write"), ("indices", "index")] {
            assert_eq!(base(form), Some(expected));
        }
        assert_eq!(base("freeze"), None);
        for line in FORMS.split(';') {
            let (verb, _) = line.trim().split_once(' ').expect("a base and a form");
            assert_eq!(base(verb), None, "{verb}");
        }
    }
}
