//! The scale of an engine's model: from its configuration, from the user's cache, or measured. A model whose files are here
//! reads labelled pages when it is loaded, so that no call's deadline pays for them; a host or a function, only a few short
//! texts, in its first call, of whose work they are no part. So does a model that works in steps.

use serde_json::{from_slice, to_vec};

use super::comparison::{Comparison, score};
use super::context::CallContext;
use super::documents::read_documents;
use super::options::Options;
use super::prepared::prepare;
use super::short_texts::{encode, encode_queries};
use super::{Effort, Engine, Pairing, Question, Request};
use crate::encoder::user_cache;
use crate::error::Result;
use crate::ranking::cosine_scale::{CosineScale, Joining, PAIRS};
use crate::ranking::labelled_pages::{FirstPassage, Fit, LabelledPage, LabelledQuestion, fit, labelled_pages};
use crate::ranking::prediction::{Prediction, predict};
use crate::ranking::query_match::Matching;
use crate::ranking::ranked_seeds::{PageRanking, rank};
use crate::ranking::scored_windows::ScoredWindows;
use crate::ranking::selection::{Selection, WindowSelection};
use crate::runtime::call::Call;
use crate::text::formats::Format;
use crate::tokens::Role;

/// Changes with the labelled pages, and with what is measured of them.
const CONTEXT: &str = "pullquote 2026-11-28 scale and joining of a model's cosines";
/// Weights that fit all pages into two seconds of two cores; a larger model has fewer pages.
const SMALL_MODEL: u64 = 25_000_000;
/// The first pages are in as many scripts as there are.
const FEWEST_PAGES: u64 = 10;
const ALL_PAGES: u64 = 55;
/// What is tried of [`Joining::multilingual`].
const MULTILINGUAL: [f32; 3] = [0.0, 0.5, 1.0];
/// How much likelier the logits must be with another value of it than with 0.
const LEAST_GAIN: f64 = 2.0;

/// A question of a labelled page, for a page: its own, or another one.
struct Asked<'page> {
    question: &'page LabelledQuestion,
    page: &'page LabelledPage,
    is_own: bool,
}

impl Engine {
    /// The name under which the user's cache keeps the scale; `None` if the weights are unknown. A prompt or another type
    /// of computation changes cosines.
    fn scale_file(&self) -> Option<String> {
        let (id, prompts) = (self.model_id().ok()??, self.prompts());
        let all = format!("{id}\0{}\0{}\0{}\0{}", self.spec.dimension, self.spec.dtype, prompts.query, prompts.passage);
        let key = blake3::Hasher::new_derive_key(CONTEXT).update(all.as_bytes()).finalize().to_hex();
        Some(format!("cosine_scale-{}.json", &key[..32]))
    }

    /// The number of pages that measure this model.
    fn measured_pages(&self) -> usize {
        let number = |name: &str| self.model.as_ref()?.config[name].as_u64();
        let weights = number("num_hidden_layers").zip(number("hidden_size"));
        // Of a usual layer: four square matrices, and two that are four times as wide.
        let weights = weights.map_or(0, |(layers, width)| layers.saturating_mul(12).saturating_mul(width.pow(2)));
        let pages = (ALL_PAGES * SMALL_MODEL / weights.max(1)).clamp(FEWEST_PAGES, ALL_PAGES);
        usize::try_from(pages).unwrap_or(0)
    }

    /// Measures the scale of the model's cosines unless it is known, so that no call does. A model whose weights are unknown,
    /// or that works in its host's steps, is measured by its first call.
    ///
    /// # Errors
    /// Those of the encoder, and of [`Call::check`].
    pub fn measure(&self, call: &Call<'_>) -> Result<()> {
        if self.is_stepped || self.model.is_none() || self.cosine_scale.get().is_some() {
            return Ok(());
        }
        if let Some(scale) = self.kept_scale() {
            self.cosine_scale.get_or_init(|| scale);
            return Ok(());
        }
        let question = Question::new(&Options::default())?;
        let (queries, pages) = (Vec::new(), Vec::new());
        let request =
            Request::<&str> { queries, pages, formats: Vec::new(), titles: Vec::new(), pairing: Pairing::Each };
        let scheduler = self.scheduler()?;
        let measured = async {
            let call = &call.with_shutdown(&self.shutdown);
            cosine_scale(&CallContext::new(self, scheduler, &request, &question, call)).await
        };
        self.wait(call, measured).map(drop)
    }

    fn kept_scale(&self) -> Option<CosineScale> {
        CosineScale::from_numbers(from_slice(&user_cache::read(&self.scale_file()?)?).ok()?)
    }
}

/// The scale of the model's cosines.
pub(super) async fn cosine_scale(context: &CallContext<'_, '_>) -> Result<CosineScale> {
    let engine = context.engine;
    if let Some(scale) = engine.cosine_scale.get() {
        return Ok(*scale);
    }
    if engine.model.is_none() {
        let scale = measure_pairs(context).await?;
        return Ok(*engine.cosine_scale.get_or_init(|| scale));
    }
    let scale = if let Some(scale) = engine.kept_scale() {
        scale
    } else {
        let scale = measure(context).await?;
        if let Some((file, bytes)) = engine.scale_file().zip(to_vec(&scale.numbers()).ok()) {
            user_cache::write(&file, &bytes);
        }
        scale
    };
    Ok(*engine.cosine_scale.get_or_init(|| scale))
}

async fn measure_pairs(context: &CallContext<'_, '_>) -> Result<CosineScale> {
    let questions = PAIRS.iter().map(|(question, _)| (Role::Query, *question));
    let texts: Vec<(Role, &str)> = questions.chain(PAIRS.iter().map(|(_, answer)| (Role::Passage, *answer))).collect();
    let call = context.call.uncounted();
    let mut questions = encode(&mut context.for_call(&call), &texts).await?;
    let answers = questions.split_off(PAIRS.len());
    Ok(CosineScale::of_pairs(&questions, &answers))
}

/// Asks each labelled question of its own page and of another one.
async fn measure(context: &CallContext<'_, '_>) -> Result<CosineScale> {
    let engine = context.engine;
    let pages = labelled_pages(engine.measured_pages());
    let asked = questions(&pages);
    let mut options = Options { effort: Effort::Full, ..Options::default() };
    // Each sentence is encoded once, not three times.
    options.step_size = options.highlight_length;
    let question = Question::new(&options)?;
    let request = Request {
        queries: asked.iter().map(|asked| asked.question.q.as_str()).collect(),
        pages: asked.iter().map(|asked| asked.page.text.as_str()).collect(),
        formats: vec![Format::Text],
        titles: Vec::new(),
        pairing: Pairing::Each,
    };
    let call = context.call.uncounted();
    let scheduler = std::sync::Arc::clone(&context.scheduler);
    let context = &mut CallContext::new(engine, scheduler, &request, &question, &call);
    let read = read_documents(context)?;
    let prepared = prepare(context, &read)?;
    let queries = encode_queries(context, &prepared, CosineScale::MINILM, None).await?;
    let mut comparison = Comparison::new(&prepared, &read, &queries, context);
    let predictions = |context: &mut CallContext<'_, '_>, cosine_scale| {
        let (tokens, lexical_weight, expands) = (&engine.tokens, question.lexical_weight, question.expands());
        let matching = Matching { tokens, lexical_weight, expands, cosine_scale, static_vectors: None };
        context.ranking(|_| predict(&queries, &prepared, &matching, &engine.pool, &call))
    };

    let first = predictions(context, CosineScale::MINILM)?;
    let scored = score(context, &mut comparison, &first, all_windows(&first)).await?;
    let own = scored.iter().flatten().zip(&asked).filter(|(_, asked)| asked.is_own);
    let scale = CosineScale::of_windows(&own.map(|(scored, _)| &*scored.estimates).collect::<Vec<&[f32]>>());

    let mut best: Option<(CosineScale, f64)> = None;
    for multilingual in MULTILINGUAL {
        let scale = scale.with_joining(Joining { multilingual, ..scale.joining() });
        let again = predictions(context, scale)?;
        let scored: Vec<Vec<ScoredWindows>> = score(context, &mut comparison, &again, all_windows(&again)).await?;
        let rankings = context.ranking(|_| Ok(rank(scored)))?;
        let both = rankings.iter().flat_map(|ranking| &ranking.pages).zip(&asked);
        let passages: Vec<FirstPassage> = both.filter_map(|(ranking, asked)| first_passage(ranking, asked)).collect();
        let Fit { evidence, coverage, loss } = fit(&passages);
        let loss = if multilingual > 0.0 { loss + LEAST_GAIN } else { loss };
        if best.is_none_or(|(_, least)| loss < least) {
            best = Some((scale.with_evidence(evidence).with_joining(Joining { coverage, multilingual }), loss));
        }
    }
    Ok(best.map_or(scale, |(scale, _)| scale))
}

/// Each question with its own page, and then with the next page of its language, or the next at all.
fn questions(pages: &[LabelledPage]) -> Vec<Asked<'_>> {
    let mut asked = Vec::new();
    for (number, own) in pages.iter().enumerate() {
        let later = || pages[number + 1..].iter().chain(&pages[..number]);
        let other = later().find(|page| page.language == own.language).or_else(|| later().next());
        for question in &own.questions {
            asked.push(Asked { question, page: own, is_own: true });
            asked.extend(other.map(|page| Asked { question, page, is_own: false }));
        }
    }
    asked
}

fn all_windows(predictions: &[Vec<Prediction>]) -> Vec<Vec<Selection>> {
    let all = |_: &Prediction| Selection { windows: WindowSelection::All, sample: None, is_preview: false };
    predictions.iter().map(|pages| pages.iter().map(all).collect()).collect()
}

/// The evidence of the first seed in order; `None` on a page without seeds.
fn first_passage(ranking: &PageRanking, asked: &Asked) -> Option<FirstPassage> {
    let matched = &ranking.scored.prediction.matched;
    let first = matched.seeds().max_by(|a, b| ranking.seeds.order[*a].total_cmp(&ranking.seeds.order[*b]))?;
    let (cosine, _) = ranking.scored.best_scores(first);
    let (per_cosine, covered, rest) = matched.parts_of_logit(first, cosine);
    let units = &matched.page.parsed.units;
    let is_answered_around = |window: usize| {
        let span = units.span(&matched.page.parsed.windows[window]);
        asked.question.is_answered_in(&(span.start..span.end))
    };
    let is_answer = asked.is_own && matched.windows_around(first).any(is_answered_around);
    let is_left_open = asked.is_own && asked.question.is_left_open();
    let native = matched.calibration.native;
    Some(FirstPassage { cosine, per_cosine, covered, rest, is_answer, is_left_open, native })
}
